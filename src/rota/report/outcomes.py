"""Finish-time fairness and deadlines of the jobs of a policy at a setting, as the page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.core.arrays import BoolArray, FloatArray
from rota.report.records import Columns, Record

POINTS = 160
"""Of a distribution; beyond, equal steps of probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """What became of jobs with a deadline."""

    met: int
    late: int
    """They finished after it."""
    unfinished: int
    """They were dropped, refused, or not done when the run ended."""
    late_by_s: FloatArray
    """Of those that finished late, finish minus deadline."""
    used: FloatArray
    """Of those that finished, their time from arrival to finish over that to the deadline."""

    @property
    def jobs(self) -> int:
        """How many had one."""
        return self.met + self.late + self.unfinished


def deadlines_of(jobs: Columns) -> Deadlines | None:
    """Deadlines of a table of jobs; None where nobody has one, or where the table does not say."""
    if "deadline_s" not in jobs:
        return None
    deadline = np.asarray(jobs["deadline_s"], dtype=np.float64)
    bound = np.isfinite(deadline)
    if not bound.any():
        return None
    finish = jobs["finish_s"] if "finish_s" in jobs else jobs["arrival_s"] + jobs["jct_s"]
    late_by = np.asarray(finish, dtype=np.float64) - deadline
    done = bound & np.isfinite(late_by)
    late = done & (late_by > 0)
    allowed = deadline - jobs["arrival_s"]
    fair = done & (allowed > 0)
    return Deadlines(
        met=_count(done & ~late),
        late=_count(late),
        unfinished=_count(bound & ~done),
        late_by_s=late_by[late],
        used=np.asarray(jobs["jct_s"], dtype=np.float64)[fair] / allowed[fair],
    )


def _count(mask: BoolArray) -> int:
    return int(np.count_nonzero(mask))


def fairness(tables: Sequence[Columns]) -> dict[str, Any] | None:
    """The distribution of rho over the jobs of all tables, and the part that is above 1."""
    known = [np.asarray(jobs["ftf"], dtype=np.float64) for jobs in tables if "ftf" in jobs]
    rho = np.concatenate(known) if known else np.zeros(0)
    rho = rho[np.isfinite(rho)]
    if not len(rho):
        return None
    return {
        "t": _rounded(_steps(rho)),
        "top": 1.0,
        "jobs": len(rho),
        "worse": int(np.count_nonzero(rho > 1.0)),
    }


def deadlines(records: Sequence[Record]) -> dict[str, Any] | None:
    """How many deadlines were met and missed, and by how much, over all runs.

    Of runs without a table of jobs only the counts of their metrics are known: who missed is not told
    apart then.
    """
    tables = [None if record.jobs is None else deadlines_of(record.jobs) for record in records]
    known = [table for table in tables if table is not None]
    told = [
        (int(record.run.metrics["slo_jobs"]), int(record.run.metrics["slo_violations"]))
        for record, table in zip(records, tables, strict=True)
        if table is None and record.run.metrics.get("slo_jobs")
    ]
    jobs = sum(table.jobs for table in known) + sum(bound for bound, _ in told)
    if not jobs:
        return None
    counts = {
        "met": sum(table.met for table in known) + sum(bound - missed for bound, missed in told),
        "late": sum(table.late for table in known),
        "unfinished": sum(table.unfinished for table in known),
        "missed": sum(missed for _, missed in told),
    }
    late = np.concatenate([table.late_by_s for table in known]) if known else np.zeros(0)
    return {
        "jobs": jobs,
        **counts,
        "mean_late_s": round(float(late.mean()), 1) if len(late) else None,
        "worst_late_s": round(float(late.max()), 1) if len(late) else None,
        "used": _used(known),
    }


def _used(known: Sequence[Deadlines]) -> dict[str, Any] | None:
    """The distribution of the time used over the time allowed."""
    used = np.concatenate([table.used for table in known]) if known else np.zeros(0)
    if not len(used):
        return None
    jobs = sum(table.jobs for table in known)
    return {"t": _rounded(_steps(used)), "top": round(len(used) / jobs, 5)}


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def _steps(values: FloatArray) -> FloatArray:
    ordered = np.sort(values)
    if len(ordered) <= POINTS:
        return ordered
    return np.quantile(ordered, np.arange(1, POINTS + 1) / POINTS)
