"""Finish-time fairness: how much later a job ended than with a share of the cluster of its own.

    rho_i = (finish_i - arrival_i) / (steps_i / q_i)        q_i = sum_j T_ij y_ij

q_i is the speed of the job in an isolated n-th of the cluster: y_ij = n_j / (n s_i) of its time on
each type j (n_j GPUs of the type, s_i GPUs of the job), scaled down where that is more than all of
its time; T_ij is its speed alone, 0 on types where it may not run or that have fewer GPUs than it
asks for. That is the share of Gavel's finish-time-fairness policy (OSDI'20, section 4.2) after Themis
(NSDI'20). n is the number of jobs in the system, averaged over the time that the job itself was
there; refused jobs never were. A job with rho above 1 + tolerance was treated unfairly. The tolerance
is 0.05, as in the evaluation of Shockwave (NSDI'23): rounds and the time to start make almost every
job a little later than in theory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.analysis.job_table import FINISHED, REJECTED, JobTable
from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.cluster import Cluster
from rota.core.errors import RotaError
from rota.core.gpu_types import TypeSet, permits
from rota.core.ports import Throughputs, on_servers

UNFAIR_BEYOND = 0.05
"""How far rho may be above 1 before a job counts as treated unfairly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """The distribution of rho in a few numbers; None without a job."""

    mean_ftf: float | None = None
    p50_ftf: float | None = None
    p99_ftf: float | None = None
    worst_ftf: float | None = None
    unfair_fraction: float | None = None


def fairness(rho: FloatArray, tolerance: float = UNFAIR_BEYOND) -> Fairness:
    """What is said about the jobs whose rho is known."""
    known = rho[np.isfinite(rho)]
    if not len(known):
        return Fairness()
    return Fairness(
        mean_ftf=float(known.mean()),
        p50_ftf=float(np.percentile(known, 50)),
        p99_ftf=float(np.percentile(known, 99)),
        worst_ftf=float(known.max()),
        unfair_fraction=float(np.mean(known > 1.0 + tolerance)),
    )


def finish_time_fairness(
    table: JobTable,
    cluster: Cluster,
    speeds: Throughputs | None,
) -> FloatArray:
    """[N] rho of every job; NaN where it did not finish or its speed is not known."""
    rho = np.full(len(table), np.nan)
    status = table.ints("status")
    done = np.flatnonzero(status == FINISHED)
    if speeds is None or not len(done):
        return rho
    arrival = table.floats("arrival_s")
    finish = table.floats("finish_s")
    there = status != REJECTED
    left = table.floats("left_s")
    company = mean_present(arrival[there], left[there], arrival[done], finish[done])
    gpus = table.ints("gpus")[done]
    profile = table.ints("profile")[done]
    names = list(table.profiles.known)
    rate = _rates(profile, gpus, names, cluster, on_servers(speeds, cluster))
    rate *= _may_run_on(table.type_sets, cluster)[table.ints("allowed")[done]]
    rate *= gpus[:, None] <= cluster.capacity
    part = cluster.capacity / (company * gpus)[:, None]
    part /= np.maximum(1.0, part.sum(axis=1))[:, None]
    isolated = (rate * part).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (finish - arrival)[done] * isolated / table.floats("steps")[done]
    rho[done] = np.where((isolated > 0) & np.isfinite(ratio), ratio, np.nan)
    return rho


def mean_present(
    arrival: FloatArray,
    left: FloatArray,
    start: FloatArray,
    end: FloatArray,
) -> FloatArray:
    """How many jobs were there on average between each start and end; at least one."""
    moments = np.concatenate([arrival, left[np.isfinite(left)]])
    change = np.ones(len(moments))
    change[len(arrival) :] = -1.0
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    count = np.cumsum(change[order])
    area = np.concatenate([[0.0], np.cumsum(count[:-1] * np.diff(moments))])
    lasted = end - start
    spent = np.interp(end, moments, area) - np.interp(start, moments, area)
    mean = np.divide(spent, lasted, out=np.ones(len(spent)), where=lasted > 0)
    at_least_one: FloatArray = np.maximum(mean, 1.0)
    return at_least_one


def _rates(
    profile: IntArray,
    gpus: IntArray,
    names: list[str],
    cluster: Cluster,
    speeds: Throughputs,
) -> FloatArray:
    """[N, T] speeds of jobs alone, looked up once per kind of job."""
    most = int(gpus.max()) + 1
    codes, which = np.unique(profile * most + gpus, return_inverse=True)
    rates = [[_rate(speeds, names[c // most], c % most, t) for t in cluster.types] for c in codes.tolist()]
    return np.array(rates, dtype=np.float64)[which]


def _may_run_on(sets: list[TypeSet], cluster: Cluster) -> BoolArray:
    """[set, T] whether the types of the cluster are among those on which a job may run."""
    return np.array([[permits(types, t) for t in cluster.types] for types in sets], dtype=np.bool_)


def _rate(speeds: Throughputs, profile: str, gpus: int, type_: str) -> float:
    """Speed alone; 0 where it was not measured, as for a type on which the job cannot run."""
    try:
        return speeds.rate(profile, gpus, type_)
    except RotaError:
        return 0.0
