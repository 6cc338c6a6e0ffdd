"""What a table of jobs says about when jobs start and how long they run: jobs before them, arrays, time limits.

Jobs are called by their names in the trace, so that rows can be taken out or put in another order. A name that is not
in the table is that of a job which is not simulated: nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota.core.arrays import FloatArray, IntArray

NAME_LISTS = ("after", "after_any")


@dataclass(frozen=True, kw_only=True, eq=False)
class QueueColumns:
    """One entry per job."""

    after: NDArray[np.object_]
    """Names of jobs and arrays that have to finish before, a tuple each."""
    after_any: NDArray[np.object_]
    """Names of jobs and arrays that have to be over before, however they ended."""
    array: NDArray[np.object_]
    """Name of the array that the job is in; empty: none."""
    array_limit: IntArray
    """Jobs of that array that may run at the same time; 0: any number."""
    time_limit_s: FloatArray
    """Seconds that the job may run; infinity: as long as it takes."""

    def take(self, which: IntArray | slice) -> QueueColumns:
        """Those of some of the jobs."""
        return QueueColumns(**{name: getattr(self, name)[which] for name in QUEUE_COLUMNS})

    def renamed(self, names: Mapping[str, str], arrays: Mapping[str, str]) -> QueueColumns:
        """With other names of jobs and arrays; those that have none any more are left out."""

        def other(cell: Sequence[str]) -> tuple[str, ...]:
            return tuple(arrays.get(name) or names[name] for name in cell if name in arrays or name in names)

        return QueueColumns(
            after=texts_or_tuples([other(cell) for cell in self.after]),
            after_any=texts_or_tuples([other(cell) for cell in self.after_any]),
            array=texts_or_tuples([arrays.get(name, "") for name in self.array]),
            array_limit=self.array_limit,
            time_limit_s=self.time_limit_s,
        )

    @property
    def says_something(self) -> bool:
        """Whether any job waits for another, is in an array or has a time limit."""
        named = any(any(getattr(self, name)) for name in (*NAME_LISTS, "array"))
        return named or bool(np.isfinite(self.time_limit_s).any())


QUEUE_COLUMNS = ("after", "after_any", "array", "array_limit", "time_limit_s")


def texts_or_tuples(values: Sequence[Any]) -> NDArray[np.object_]:
    """A column of texts, or of tuples of them, which NumPy must not take apart."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def queue_columns(
    count: int,
    *,
    after: Sequence[Sequence[str]] | None = None,
    after_any: Sequence[Sequence[str]] | None = None,
    array: Sequence[str] | None = None,
    array_limit: Sequence[int] | None = None,
    time_limit_s: Sequence[float] | FloatArray | None = None,
) -> QueueColumns | None:
    """Columns of so many jobs from plain values; None if they say nothing."""
    columns = QueueColumns(
        after=texts_or_tuples([tuple(cell) for cell in after or [()] * count]),
        after_any=texts_or_tuples([tuple(cell) for cell in after_any or [()] * count]),
        array=texts_or_tuples(list(array or [""] * count)),
        array_limit=np.array(array_limit or [0] * count, dtype=np.int64),
        time_limit_s=np.full(count, np.inf) if time_limit_s is None else np.array(time_limit_s, dtype=np.float64),
    )
    return columns if columns.says_something else None


def queue_fields(columns: QueueColumns) -> dict[str, list[Any]]:
    """As plain values, ready for JSON; what says nothing is left out."""
    fields: dict[str, list[Any]] = {name: [list(cell) for cell in getattr(columns, name)] for name in NAME_LISTS}
    fields["array"] = columns.array.tolist()
    fields["array_limit"] = columns.array_limit.tolist()
    fields["time_limit_s"] = [value if np.isfinite(value) else None for value in columns.time_limit_s.tolist()]
    return {name: column for name, column in fields.items() if any(column)}


def queue_from(count: int, fields: Mapping[str, Any]) -> QueueColumns | None:
    """The way back. Raises TypeError or ValueError if they are none."""
    given = {name: fields[name] for name in QUEUE_COLUMNS if name in fields}
    if not given:
        return None
    for name, column in given.items():
        if not isinstance(column, list) or len(column) != count:
            raise ValueError(f"{name} has not one entry for each of {count} jobs")
    for name in NAME_LISTS:
        if not all(isinstance(cell, list) and all(isinstance(n, str) for n in cell) for cell in given.get(name, [])):
            raise TypeError(f"{name} has an entry that is not a list of names")
    if not all(isinstance(name, str) for name in given.get("array", [])):
        raise TypeError("array has an entry that is not a name")
    limits = [np.inf if value is None else float(value) for value in given.pop("time_limit_s", [None] * count)]
    if not all(limit > 0 for limit in limits):
        raise ValueError("time_limit_s has an entry that is not above 0")
    return queue_columns(count, **given, time_limit_s=limits)
