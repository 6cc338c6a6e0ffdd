"""The work that is left: does it grow, however few jobs it belongs to.

A policy that prefers short jobs hides an overload: nearly all jobs end as ever, and the few that
never do are the long ones. Counted in jobs, or in the GPUs they ask for, that growth is slow;
counted in work it is not. Work is the GPU-seconds that a job still needs on the type on which it is
fastest.

As long as no GPU is idle, this work is a random walk: up by the work of every arrival, down at the
rate at which the cluster works. If that load were 95 %, the walk would go down on average, and the
chance that it is ever so far above its lowest point falls with the height (Kingman, 1964, for many
small steps):

    chance(rise) = exp(-2 (1 - load) rise / (m D)).

m is the mean work of an arrival. D says how uneven the arrivals are: the squared coefficients of
variation of work and of gaps, or the variance of the work that arrives in a fortieth of the time
over its mean and m if that is more, as it is for arrivals with a rhythm; at least 1. Both are taken
from the arrivals so far, so nothing must be known about the workload or the policy. A rise whose
chance is below one in a million is not that of a load of 95 % or less. What the cluster does in one
round does not count as a rise, because progress becomes known at the end of rounds only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.gpu_types import TypeSet
from rota.core.jobs import Jobs
from rota.engine.state import State

STRETCHES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """How far the work that is left is above its lowest point, and what arrives."""

    left_s: float
    """GPU-seconds that present jobs still need."""
    rise_s: float
    """The same, above its lowest point since a GPU was idle, by more than what one round can do."""
    mean_s: float
    """Of an arrival."""
    dispersion: float

    def evidence(self, load: float) -> float:
        """-ln of the chance of such a rise at that load."""
        scale = self.mean_s * max(self.dispersion, 1.0)
        return 2.0 * (1.0 - load) * self.rise_s / scale if scale > 0 else 0.0


class Backlog:
    """Follows the work that is left.

    It is looked at now and then, which costs nothing in between.
    """

    def __init__(self) -> None:
        self._state: State | None = None
        self._waiting: list[tuple[Jobs, IntArray]] = []
        self._best: dict[tuple[str, int, TypeSet], float] = {}
        self._classes = 0
        self._left = self._lowest = 0.0
        self._times: list[float] = []
        self._work: list[float] = []

    def follow(self, state: State) -> None:
        """Look at this state from now on; without one nothing is said."""
        self._state = state

    def saved(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {key: value for key, value in self.__dict__.items() if key != "_state"}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.__dict__.update(saved)

    def arrived(self, jobs: Jobs, first: IntArray) -> None:
        """Jobs came; `first` are the positions at which another moment begins."""
        if self._state is not None:
            self._waiting.append((jobs, first))

    def look(self, *, idle: bool) -> None:
        """Take the work that is left.

        `idle` says whether there were GPUs without a job since the last look.
        """
        if self._state is None:
            return
        rate = self._rates(self._state)
        for jobs, first in self._waiting:
            self._count(jobs, first)
        self._waiting.clear()
        view = self._state.view(self._state.now)
        speed = rate[view.job_class]
        steps = (view.total_steps - view.steps_done) * view.gpus
        self._left = float(np.divide(steps, speed, out=np.zeros(len(steps)), where=speed > 0).sum())
        self._lowest = self._left if idle else min(self._lowest, self._left)

    def rise(self) -> Rise | None:
        """What was seen; None if that is too little to say how uneven arrivals are."""
        if self._state is None or len(self._work) <= STRETCHES:
            return None
        work = np.array(self._work)
        round_s = self._state.rules.round_s * self._state.cluster.gpus
        return Rise(
            left_s=self._left,
            rise_s=max(0.0, self._left - self._lowest - round_s),
            mean_s=float(work.mean()),
            dispersion=dispersion(np.array(self._times), work),
        )

    def _rates(self, state: State) -> FloatArray:
        """[C] steps/s of each class where it is fastest, kept by profile, GPUs and types for arrivals."""
        classes = state.classes
        best: FloatArray = classes.value.throughput.max(axis=1)
        if len(classes) != self._classes:
            self._classes = len(classes)
            self._best = {}
            for key, rate in zip(classes.keys(), best.tolist(), strict=True):
                kind = (*key[:2], key[4])
                self._best[kind] = max(rate, self._best.get(kind, 0.0))
        return best

    def _count(self, jobs: Jobs, first: IntArray) -> None:
        """Work by moment; jobs that can run nowhere bring none."""
        names = jobs.profiles
        best = self._best
        columns = (jobs.profile.tolist(), jobs.gpus.tolist(), jobs.allowed_types(), jobs.total_steps.tolist())
        rows = zip(*columns, strict=True)
        rates = [(best.get((names[p], g, allowed), 0.0), g, steps) for p, g, allowed, steps in rows]
        work = [steps * g / rate if rate > 0 else 0.0 for rate, g, steps in rates]
        self._work += work if len(first) == len(work) else np.add.reduceat(work, first).tolist()
        self._times += jobs.submitted[first].tolist()


def dispersion(times: FloatArray, work: FloatArray) -> float:
    """How uneven the work that arrives is.

    1 + 1 for exponential gaps and works, 0 for a conveyor belt.
    """
    span = float(times[-1] - times[0])
    total = float(work.sum())
    if span <= 0 or total <= 0:
        return math.inf
    gaps = np.diff(times)
    singly = float(work.var() / work.mean() ** 2 + gaps.var() / gaps.mean() ** 2)
    ends = np.searchsorted(times, np.linspace(times[0], times[-1], STRETCHES + 1)[1:-1])
    so_far = np.concatenate(([0.0], np.cumsum(work)))
    bounds = np.concatenate(([0], ends, [len(work)]))
    sums = np.diff(so_far[bounds])
    together = float(sums.var(ddof=1) / sums.mean() / work.mean())
    return max(singly, together)
