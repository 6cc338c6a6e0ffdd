"""Columns of a trace about when jobs start and how long they run.

`after` and `after_any` name jobs (`job_id`) or arrays (`array`) of the trace, cut at `|`; they have to arrive before
the job that names them, so that nothing waits for itself. `array` is the name of the array that a job is in,
`array_limit` how many jobs of it may run at the same time, `time_limit_s` how long a job may run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.parsing import is_count
from rota.core.queue_columns import NAME_LISTS, QueueColumns, queue_columns
from rota.workloads import cells
from rota.workloads.rows import TraceRows
from rota.workloads.type_rules import SEPARATOR

COLUMNS = (*NAME_LISTS, "array", "array_limit", "time_limit_s")
TEXTS = (*NAME_LISTS, "array")
_MOST_AT_ONCE = 10**9


def read_queue(rows: TraceRows, names: Sequence[str], arrivals: FloatArray) -> QueueColumns | None:
    """What the rows say; None if nothing. What cannot be is told to the problems of the trace."""
    if not any(column in rows.cells for column in COLUMNS):
        return None
    array = [cell.strip() for cell in rows.filled("array", "").cells["array"]]
    limits = [_limit(rows, row, cell) for row, cell in enumerate(rows.filled("array_limit", "0").cells["array_limit"])]
    seconds = rows.optional("time_limit_s", "a time limit; give seconds > 0, or nothing")
    last = _last_arrivals(names, array, arrivals)
    named = {column: _named(rows, column, last, arrivals) for column in NAME_LISTS}
    return queue_columns(
        len(rows),
        **named,
        array=array,
        array_limit=limits,
        time_limit_s=np.where(np.isnan(seconds), np.inf, seconds),
    )


def _limit(rows: TraceRows, row: int, cell: str) -> int:
    text = cell.strip()
    if is_count(text) and int(text) <= _MOST_AT_ONCE:
        return int(text)
    rows.refuse(row, "array_limit", "a number of jobs; give a whole number, or nothing")
    return 0


def _last_arrivals(names: Sequence[str], array: Sequence[str], arrivals: FloatArray) -> dict[str, tuple[float, int]]:
    """When jobs arrive by name, and the last job of arrays; with the row, which decides between equals."""
    last = {name: (float(at), row) for row, (name, at) in enumerate(zip(names, arrivals, strict=True))}
    of_arrays: dict[str, tuple[float, int]] = {}
    for row, name in enumerate(array):
        if name:
            of_arrays[name] = max(of_arrays.get(name, (0.0, 0)), (float(arrivals[row]), row))
    return last | of_arrays


def _named(
    rows: TraceRows, column: str, last: Mapping[str, tuple[float, int]], arrivals: FloatArray
) -> list[tuple[str, ...]]:
    """Names of jobs and arrays before each job; those that are not before it are refused."""
    found: list[tuple[str, ...]] = []
    for row, cell in enumerate(rows.filled(column, "").cells[column]):
        names = tuple(dict.fromkeys(name.strip() for name in cell.split(SEPARATOR) if name.strip()))
        for name in names:
            if name not in last:
                what = f"{name!r} is no job_id and no array of this trace"
                rows.problems.error(rows.lines[row], what, "give one that is, or nothing", column, cell)
            elif last[name] >= (float(arrivals[row]), row):
                what = f"{name!r} does not arrive before this job"
                rows.problems.error(rows.lines[row], what, "a job can only wait for earlier ones", column, cell)
        found.append(names)
    return found


def queue_texts(queue: QueueColumns, line_ends: str) -> dict[str, list[str]]:
    """The cells of these columns; columns that say nothing are left out."""
    columns = {
        name: [cells.plain(SEPARATOR.join(cell), line_ends) for cell in getattr(queue, name)] for name in NAME_LISTS
    }
    columns["array"] = [cells.plain(name, line_ends) for name in queue.array]
    columns["array_limit"] = [str(limit) if limit else "" for limit in queue.array_limit.tolist()]
    columns["time_limit_s"] = [
        cells.whole_or_exact(seconds) if np.isfinite(seconds) else "" for seconds in queue.time_limit_s.tolist()
    ]
    return {name: column for name, column in columns.items() if any(column)}
