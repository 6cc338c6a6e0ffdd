"""Jobs that come as a table, checked where they enter, as those of a file are by its reader."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.jobs import Jobs

Test = Callable[["FloatArray | IntArray"], BoolArray]

POSSIBLE: dict[str, tuple[Test, str]] = {
    "submitted": (lambda v: np.isfinite(v) & (v >= 0), "an arrival; give seconds >= 0"),
    "gpus": (lambda v: v >= 1, "a number of GPUs; give a whole number >= 1"),
    "total_steps": (lambda v: ~(v <= 0) & ~np.isinf(v), "a number of steps; give a number > 0"),
    "duration": (lambda v: ~(v <= 0) & ~np.isinf(v), "a duration; give seconds > 0, or nan for none"),
    "weight": (lambda v: np.isfinite(v) & (v > 0), "a weight; give a number > 0 (1 is normal)"),
    "slo": (lambda v: ~(v <= 0) & ~np.isinf(v), "a multiple of the duration; give a number > 0, or nan for none"),
}
"""What no job of a table may have; an unknown number is NaN."""


def checked(jobs: Jobs) -> Jobs:
    """The same jobs in order of arrival. Raises ConfigError with the row and the value that is not possible."""
    for name, (accept, wanted) in POSSIBLE.items():
        column: FloatArray | IntArray = getattr(jobs, name)
        bad = np.flatnonzero(~accept(column))
        if len(bad):
            row = int(bad[0])
            raise ConfigError(f"job {_called(jobs, row)}: {name} = {column[row]} is not {wanted}")
    unknown = np.flatnonzero(np.isnan(jobs.total_steps) & np.isnan(jobs.duration))
    if len(unknown):
        raise ConfigError(f"job {_called(jobs, int(unknown[0]))} has neither steps nor a duration; give one of them")
    _check_names(jobs)
    return jobs.by_arrival()


def _check_names(jobs: Jobs) -> None:
    seen: dict[object, int] = {}
    for row, name in enumerate([] if jobs.names is None else jobs.names.tolist()):
        if name in seen:
            raise ConfigError(f"two jobs are called {name!r}, in rows {seen[name]} and {row}; give each its own name")
        seen[name] = row


def _called(jobs: Jobs, row: int) -> str:
    return str(row) if jobs.names is None else f"{jobs.names[row]!r} (row {row})"
