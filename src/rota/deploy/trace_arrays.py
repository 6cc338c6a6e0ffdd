"""Arrays of a trace as a live cluster takes them: rows that are alike and arrive together become one job array.

An array of a trace that is not like that (its jobs differ, or come at different times, or some job waits for one of
them alone) is submitted job by job, without its limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rota.core.job_arrays import MOST_JOBS_OF_AN_ARRAY
from rota.core.job_spec import JobSpec
from rota.core.jobs import Jobs
from rota.core.queue_columns import QueueColumns

_ALIKE = ("profile", "gpus", "total_steps", "submitted", "weight", "deadline", "tenant")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOrder:
    """Who comes after whom in a trace, by row, and which rows are submitted together."""

    before: Sequence[Mapping[str, Sequence[int]]]
    """Rows of the jobs that each job comes after, by field of `JobSpec`; empty: none does."""
    arrays: Mapping[int, int]
    """Arrays that are submitted as such: their first row, and how many rows there are."""
    limits: Mapping[int, int]
    """Jobs of these arrays at the same time, by first row."""
    head_of: Mapping[int, int]
    """First row of the array of each of their rows."""

    def end(self, row: int) -> int:
        """The row behind an entry that begins here."""
        return row + self.arrays.get(row, 1)

    def entries(self, specs: Sequence[JobSpec], first: int, last: int, numbers: Sequence[int]) -> list[JobSpec]:
        """What is submitted for rows from `first` up to `last`; `numbers` are those that the rows before got."""
        entries: list[JobSpec] = []
        places: dict[int, int] = {}
        row = first
        while row < last:
            places[row] = len(entries) + 1
            spec = self._after(specs[row], row, first, numbers, places)
            if row in self.arrays:
                spec = replace(spec, array=f"0-{self.arrays[row] - 1}%{self.limits[row]}")
            entries.append(spec)
            row = self.end(row)
        return entries

    def _after(self, spec: JobSpec, row: int, first: int, numbers: Sequence[int], places: Mapping[int, int]) -> JobSpec:
        if not self.before or not any(self.before[row].values()):
            return spec
        named: dict[str, tuple[int, ...]] = {}
        for field, rows in self.before[row].items():
            heads = dict.fromkeys(self.head_of.get(other, other) for other in rows)
            named[field] = tuple(numbers[head] if head < first else -places[head] for head in heads)
        return replace(spec, after=named["after"], after_any=named["after_any"])


def order_of(jobs: Jobs) -> TraceOrder:
    """The order of a trace."""
    queue = jobs.queue
    if queue is None:
        return TraceOrder(before=(), arrays={}, limits={}, head_of={})
    names = [str(row) for row in range(len(jobs))] if jobs.names is None else jobs.names.tolist()
    members = _members(queue)
    arrays = {rows[0]: len(rows) for rows in members.values() if _is_whole(jobs, queue, names, rows)}
    return TraceOrder(
        before=_rows_before(queue, names, members),
        arrays=arrays,
        limits={head: int(queue.array_limit[head]) for head in arrays},
        head_of={row: head for head, size in arrays.items() for row in range(head, head + size)},
    )


def time_limit_of(jobs: Jobs, row: int) -> float:
    """Seconds that a job may run; 0: as long as it takes."""
    limit_s = np.inf if jobs.queue is None else float(jobs.queue.time_limit_s[row])
    return float(limit_s) if np.isfinite(limit_s) else 0.0


def without_limits(jobs: Jobs) -> int:
    """How many jobs are in arrays whose limit is not kept on a live cluster."""
    if jobs.queue is None:
        return 0
    return int(np.count_nonzero(jobs.queue.array_limit)) - len(order_of(jobs).head_of)


def _members(queue: QueueColumns) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for row, name in enumerate(queue.array):
        if name:
            members.setdefault(name, []).append(row)
    return members


def _rows_before(
    queue: QueueColumns, names: Sequence[str], members: Mapping[str, list[int]]
) -> list[dict[str, list[int]]]:
    rows = {**{name: [row] for row, name in enumerate(names)}, **members}
    columns: dict[str, Any] = {"after": queue.after, "after_any": queue.after_any}
    return [
        {field: [other for name in column[row] for other in rows.get(name, ())] for field, column in columns.items()}
        for row in range(len(names))
    ]


def _is_whole(jobs: Jobs, queue: QueueColumns, names: Sequence[str], rows: Sequence[int]) -> bool:
    """Whether rows can be submitted as one array."""
    if not queue.array_limit[rows[0]] or len(rows) > MOST_JOBS_OF_AN_ARRAY or rows[-1] - rows[0] + 1 != len(rows):
        return False
    columns = jobs.columns()
    alike = all(len(set(columns[name][rows].tolist())) == 1 for name in _ALIKE)
    own = (queue.after, queue.after_any, queue.array_limit, queue.time_limit_s)
    same_terms = all(len({column[row] for row in rows}) == 1 for column in own)
    alone = {names[row] for row in rows} - {queue.array[rows[0]]}
    named = {name for column in (queue.after, queue.after_any) for cell in column for name in cell}
    return alike and same_terms and not (alone & named)
