"""The numbers of a run by tenant and by weight (priority).

Completion times, fairness and deadlines are those of the jobs that count, GPU-hours and cost those
of all jobs, so that they add up to the whole; two jobs that share GPUs are charged half each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota.analysis.fairness import fairness
from rota.analysis.job_table import FINISHED, JobTable
from rota.analysis.ledger import Ledger
from rota.core.arrays import BoolArray, FloatArray

Numbers = dict[str, int | float | None]
"""Metrics of one tenant or one weight, by name."""


def breakdown(
    table: JobTable, ledger: Ledger, rho: FloatArray, counted: BoolArray, now: float
) -> dict[str, dict[str, Numbers]]:
    """Tables by tenant and by weight: one group of numbers for each."""
    columns = _Columns(table, ledger, rho, counted, now)
    tenants = list(table.tenants.known)
    return {
        "by_tenant": columns.grouped(table.ints("tenant"), tenants.__getitem__),
        "by_weight": columns.grouped(table.floats("weight"), "{:g}".format),
    }


class _Columns:
    """What is summed up, one entry per job."""

    def __init__(
        self,
        table: JobTable,
        ledger: Ledger,
        rho: FloatArray,
        counted: BoolArray,
        now: float,
    ) -> None:
        self._rho = rho
        self._done = counted & (table.ints("status") == FINISHED)
        self._jct = table.floats("finish_s") - table.floats("arrival_s")
        self._bound, self._missed = table.deadlines(counted, now)
        self._gpu_h = ledger.gpu_s(len(table)) / 3600.0
        self._cost = ledger.price(len(table))
        self._there = table.submitted()

    def grouped(self, group: NDArray[Any], name: Callable[[Any], str]) -> dict[str, Numbers]:
        """The numbers of each group, by its name."""
        there = np.flatnonzero(self._there)
        groups, index = np.unique(group[there], return_inverse=True)
        order = np.argsort(index, kind="stable")
        ends = np.cumsum(np.bincount(index, minlength=len(groups)))
        rows = np.split(there[order], ends[:-1]) if len(groups) else []
        return {name(g): self._numbers(r) for g, r in zip(groups.tolist(), rows, strict=True)}

    def _numbers(self, rows: NDArray[np.int64]) -> Numbers:
        done = rows[self._done[rows]]
        jct = self._jct[done]
        p50, p99 = np.percentile(jct, [50, 99]).tolist() if len(jct) else (None, None)
        fair = fairness(self._rho[done])
        return {
            "jobs_measured": len(done),
            "mean_jct_s": float(jct.mean()) if len(jct) else None,
            "p50_jct_s": p50,
            "p99_jct_s": p99,
            "mean_ftf": fair.mean_ftf,
            "worst_ftf": fair.worst_ftf,
            "unfair_fraction": fair.unfair_fraction,
            "slo_jobs": int(np.count_nonzero(self._bound[rows])),
            "slo_violations": int(np.count_nonzero(self._missed[rows])),
            "gpu_hours": float(self._gpu_h[rows].sum()),
            "cost": _known(float(self._cost[rows].sum())),
        }


def _known(cost: float) -> float | None:
    """None for the cost of jobs that ran on a type without a price."""
    return None if math.isnan(cost) else cost
