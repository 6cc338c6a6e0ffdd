"""On which type the jobs of a ranking run, where there are several.

A ranking that knows types (`srtf-perf`): the order says who runs; then GPUs of each type go to those who lose most
without them, so that the sum of the jobs' speeds in the coming round, each relative to its own best type, is largest.
What a move costs is part of that: who moves stands still for `restart_s`. If GPUs of a faster type would stay idle, a
job moves there too when it ends sooner by that.

A ranking that does not (`srtf`): a job stays on the type that it runs on. One that starts takes a GPU that is drawn
among the free ones: every free GPU of a type with enough of them for the job is as likely. The draw belongs to the job
and the seed of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota import kernels
from rota.core.arrays import FloatArray, IntArray
from rota.core.classes import Classes
from rota.core.cluster import Cluster
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.core.view import View

_LARGEST_SEED = (1 << 63) - 1
_LOYALTY = 1e-6
"""Part of a round by which another type must be better even if a move costs nothing."""


@dataclass(slots=True)
class TypeChoice:
    """Who runs, and where."""

    jobs: IntArray
    """Positions in the view."""
    types: IntArray
    settled: bool = True
    """Whether the same order of the same jobs would be given the same types again. After an exchange there may be room
    for a gang that found none."""


class TypesByChance:
    """For rankings that do not distinguish types."""

    def __init__(self, seed: int) -> None:
        self._seed = seed & _LARGEST_SEED

    def choose(self, view: View, queue: IntArray) -> TypeChoice:
        """Who of the queue finds room, and on which type."""
        jobs = np.empty(len(queue), dtype=np.int64)
        types = np.empty(len(queue), dtype=np.int64)
        count = kernels.by_chance(
            queue,
            view.gpus,
            view.job_class,
            view.jobs,
            view.classes.runs_on,
            last_types(view),
            view.capacity.copy(),
            jobs,
            types,
            self._seed,
        )
        return TypeChoice(jobs[:count], types[:count])


class TypesBySpeed:
    """For rankings that know how fast jobs are on each type."""

    def __init__(self, rules: Rules) -> None:
        self._round_s = rules.round_s
        self._restart_s = rules.restart_s
        self._spread_costs = rules.spread_costs
        self._known: _Speeds | None = None

    def choose(self, view: View, queue: IntArray) -> TypeChoice:
        """Who of the queue finds room, and on which type."""
        speeds = self._speeds(view)
        jobs = np.empty(len(queue), dtype=np.int64)
        types = np.empty(len(queue), dtype=np.int64)
        free = view.capacity.copy()
        last = last_types(view)
        placed = np.zeros(speeds.value.shape, dtype=np.int64)
        sizes = np.zeros(speeds.value.shape[:2], dtype=np.int64)
        count, moved = kernels.by_speed(
            queue, view.gpus, view.job_class, speeds.wish, speeds.value, last, free, jobs, types, placed, sizes
        )
        jobs = jobs[:count]
        types = types[:count]
        if self._restart_s > 0 and free.any():
            moved |= self._move_to_idle(view, speeds.rate, jobs, types, free, last[jobs])
        if moved and free.any() and count < len(queue):
            jobs, types = _with_room(view, speeds.wish, queue, jobs, types, free)
        any_fits = view.single_gpu and bool(view.classes.runs_on.all())
        return TypeChoice(jobs, types, settled=any_fits or not moved)

    def _speeds(self, view: View) -> _Speeds:
        known = self._known
        if known is None or known.classes is not view.classes or known.cluster is not view.cluster:
            known = self._known = self._looked_up(view)
        return known

    def _looked_up(self, view: View) -> _Speeds:
        rate = rates_of_types(view.classes, view.cluster) if self._spread_costs else view.classes.throughput
        wish = (-rate).argsort(axis=1, kind="stable")
        wish = np.where(np.take_along_axis(rate, wish, axis=1) > 0, wish, -1)
        return _Speeds(view.classes, view.cluster, rate, wish, self._values(rate))

    def _values(self, rate: FloatArray) -> FloatArray:
        """[C, 1 + T, T] part of a round on its best type that a job does, by the type it ran on last and type."""
        types = rate.shape[1]
        best = rate.max(axis=1, keepdims=True)
        relative = np.divide(rate, best, out=np.zeros_like(rate), where=best > 0)
        value = np.repeat(relative[:, None, :] * (1 - self._restart_s / self._round_s), types + 1, axis=1)
        here = np.arange(types)
        value[:, here + 1, here] = relative + _LOYALTY
        return np.where((rate > 0)[:, None, :], value, -np.inf)

    def _move_to_idle(
        self, view: View, rate: FloatArray, jobs: IntArray, types: IntArray, free: IntArray, last: IntArray
    ) -> bool:
        """Jobs on slower types take GPUs that would stay idle, if that brings their end nearer; in place.

        Who moves leaves room for others, so this is done once per type. Returns whether anybody moved.
        """
        speed = rate[view.job_class[jobs]]
        left = view.steps_left[jobs] / np.maximum(view.speed[jobs], TOLERANCE)
        sizes = view.gpus[jobs]
        moved = False
        for _ in range(len(free)):
            here = speed[np.arange(len(jobs)), types]
            gain_s = left[:, None] * (1 / here[:, None] - 1 / np.maximum(speed, TOLERANCE))
            gain_s -= np.where(types == last, self._restart_s, TOLERANCE)[:, None]  # the others start anew anyway
            gain_s = np.where((sizes[:, None] <= free) & (speed > 0), gain_s, 0.0)
            movers = (gain_s.max(axis=1) > 0).nonzero()[0]
            if len(movers) == 0:
                return moved
            moved = True
            for job in movers.tolist():
                gain = np.where(free >= sizes[job], gain_s[job], 0.0)
                there = int(gain.argmax())
                if gain[there] > 0:
                    free[there] -= sizes[job]
                    free[types[job]] += sizes[job]
                    types[job] = there
        return moved


def _with_room(
    view: View, wish: IntArray, queue: IntArray, jobs: IntArray, types: IntArray, free: IntArray
) -> tuple[IntArray, IntArray]:
    """Who runs, with jobs of the queue that found no room before others had changed types."""
    waiting = queue[~np.isin(queue, jobs)]
    more_jobs: list[int] = []
    more_types: list[int] = []
    for job in waiting.tolist():
        size = view.gpus[job]
        there = next((t for t in wish[view.job_class[job]].tolist() if t >= 0 and free[t] >= size), None)
        if there is not None:
            free[there] -= size
            more_jobs.append(job)
            more_types.append(there)
    return np.append(jobs, more_jobs).astype(np.int64), np.append(types, more_types).astype(np.int64)


@dataclass(slots=True)
class _Speeds:
    """What follows from classes and cluster."""

    classes: Classes
    cluster: Cluster
    rate: FloatArray
    """[C, T] steps/s."""
    wish: IntArray
    """[C, T] types from fast to slow; -1 for those without speed."""
    value: FloatArray
    """[C, 1 + T, T] part of a round on its best type that a job does, by the type it ran on last (0: none) and type."""


def rates_of_types(classes: Classes, cluster: Cluster) -> FloatArray:
    """[C, T] steps/s: spread over servers where no server of the type has as many GPUs as a job needs."""
    largest = np.maximum.reduceat(cluster.server_gpus, cluster.server_bounds[:-1])
    return np.where(classes.gpus[:, None] <= largest, classes.throughput, classes.spread)


def last_types(view: View) -> IntArray:
    """[J] the type on which each job ran in the last round; -1 if it did not, or has no speed there."""
    last = _placed_types(view)
    runs_on = view.classes.runs_on
    if runs_on.all():
        return last
    return np.where(runs_on[view.job_class, last], last, -1)  # a profile may have changed since


def _placed_types(view: View) -> IntArray:
    placement = view.placement
    if placement is None or len(placement) == 0:
        return np.full(len(view), -1, dtype=np.int64)
    tasks = view.last_task
    if tasks is not None:
        return np.where(tasks >= 0, placement.type[tasks], -1)
    last = np.full(len(view), -1, dtype=np.int64)
    at = view.position(placement.first)
    here = at >= 0
    last[at[here]] = placement.type[here]
    return last
