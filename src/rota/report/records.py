"""One run as the page needs it, wherever it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota.analysis.timeline import Series
from rota.experiments.store import Run
from rota.report.schedule import ScheduleChart

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """A run, and what is known of it beyond its metrics."""

    run: Run
    name: str | None = None
    """Given by the user; stands in the legend."""
    jobs: Columns | None = None
    """Jobs that count: job_id, arrival_s, jct_s (NaN: not finished), and profile, tenant, gpus
    where known."""
    every_job: Columns | None = None
    """All jobs of the log, for the Gantt chart."""
    series: Series | None = None
    schedule: ScheduleChart | None = None
    again: bool = False
    """Whether it was run again for the page, because a store keeps no placements."""


def counted(jobs: Columns, measure: Any) -> Columns:
    """The jobs that metrics count: those of `measure`.

    Without it those marked as measured, if only some are.
    """
    if isinstance(measure, list | tuple) and len(measure) == 2:
        chosen = (jobs["job_id"] >= measure[0]) & (jobs["job_id"] < measure[1])
    elif "measured" in jobs:
        chosen = np.asarray(jobs["measured"], dtype=np.bool_)
        if not (np.isfinite(jobs["jct_s"]) & ~chosen).any():
            return jobs
    else:
        return jobs
    return {name: column[chosen] for name, column in jobs.items()}
