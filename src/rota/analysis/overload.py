"""Is the cluster asked for more than it can do? Then the queue grows for ever, and a mean says nothing.

There are two tests. Both need enough to look at: arrivals that asked for ten times the GPUs of the cluster, at 200
moments at least (jobs that come at the same moment are one).

The first finds a large overload early. What is watched is the demand: the GPUs that all jobs present ask for, running
and waiting. From an empty cluster it rises to some level; at 95 % load that level is high and fluctuates wildly, so a
rise alone proves nothing. The test is made on the last two thirds of all arrivals so far, cut into twenty stretches of
as many arrivals each. A run is unstable when all of these hold:

1. the demand is at least three times the cluster, so that two jobs per GPU would not serve it either;
2. it was never below the size of the cluster in these two thirds;
3. arrivals asked for at least 3 % more GPUs than left;
4. the mean growth of a stretch is at least seven times its standard error.

The fourth is what tells a drift from a walk without one: of a queue that only fluctuates, the growth over any time
divided by its standard error is about normally distributed, reflection at zero included.

The second finds a slight overload, and one that only long jobs feel (backlog.py): since the demand was last below the
size of the cluster (twice its size if two jobs may share GPUs), the work that is left has risen so far that at a load
of 95 % the chance of it would be less than one in a million.

Only simulated events count, no clock of the machine, so the same run always ends in the same place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rota.analysis.backlog import Backlog, Rise
from rota.analysis.guard import Guard
from rota.core.arrays import FloatArray, IntArray
from rota.core.events import Allocated, Event, JobsDropped, JobsFinished, JobsRejected, JobsSubmitted
from rota.core.ports import Handler
from rota.engine.state import State

STRETCHES = 20
CHECK_EVERY = 50
MODES = ("auto", "on", "off")
"""When to look: at workloads without an end, at all, at none."""
_ALONE: IntArray = np.zeros(1, dtype=np.int64)
_NOT_SAVED = {"growth", "overhang", "_limits", "_backlog"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where a queue that grows is called unstable."""

    arrivals: int = 200
    """Moments at which jobs arrived; a batch is one."""
    turnover: float = 10.0
    """GPUs that arrivals asked for, in multiples of the cluster."""
    demand: float = 3.0
    """GPUs that present jobs ask for, in multiples of the cluster."""
    excess: float = 1.03
    """GPUs that arrived over GPUs that left."""
    errors: float = 7.0
    """Mean growth of a stretch over its standard error."""
    load: float = 0.95
    """A load that must not be called overload ..."""
    chance: float = 1e-6
    """... unless the work that is left rose as it would with this probability."""
    suspect: float = 1e-3
    """With this probability, a run that comes to its end is remarked on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What the test saw last."""

    arrivals: int
    demand_gpus: int
    cluster_gpus: int
    offered_over_served: float
    growth_in_standard_errors: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhang:
    """What the test of work saw last."""

    arrivals: int
    demand_gpus: int
    cluster_gpus: int
    work_left_gpu_h: float
    work_rise_gpu_h: float
    work_of_an_arrival_gpu_h: float
    dispersion: float
    log10_chance: float


class Overload(Guard):
    """Watches a run and says when it is unstable."""

    def __init__(self, mode: str = "auto", limits: Limits | None = None) -> None:
        self.growth: Growth | None = None
        self.overhang: Overhang | None = None
        self._mode = mode
        self._limits = limits or Limits()
        self._watching = False
        self._verdict: str | None = None
        self._capacity = 0
        self._gpus: list[IntArray] = []
        self._sizes: IntArray = np.zeros(0, dtype=np.int64)
        self._demand = 0
        self._jobs = 0
        self._after: list[int] = []
        self._asked: list[int] = []
        self._next = CHECK_EVERY
        self._next_look = CHECK_EVERY
        self._backlog = Backlog()
        self._jobs_per_gpu = 1
        self._idle = True

    def begin(self, capacity: int, *, endless: bool) -> None:
        """The run starts on so many GPUs."""
        self._capacity = capacity
        self._watching = self._mode == "on" or (self._mode == "auto" and endless)

    def follow(self, state: State) -> None:
        """Look at this state for how far jobs are; without it only GPUs are counted."""
        self._backlog.follow(state)

    def saved(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        own = {key: value for key, value in self.__dict__.items() if key not in _NOT_SAVED}
        return {**own, "backlog": self._backlog.saved()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        own = dict(saved)
        self._backlog.restore(own.pop("backlog"))
        self.__dict__.update(own)

    def verdict(self) -> str | None:
        """Why the run is unstable; None as long as it is not."""
        return self._verdict

    def remark(self) -> str | None:
        """What to know about a run that came to its end before an overload was proved."""
        if not self._watching or self._verdict is not None:
            return None
        self._backlog.look(idle=self._idle)
        limits, rise = self._limits, self._backlog.rise()
        if not self._enough() or rise is None or rise.evidence(limits.load) < -math.log(limits.suspect):
            return None
        left, rose = rise.left_s / 3600.0, rise.rise_s / 3600.0
        return (
            f"the load was at the limit of the cluster or beyond: at the end {left:,.0f} GPU hours of work were left, "
            f"{rose:,.0f} of them added since GPUs were last idle (at {limits.load:.0%} load the chance of that is "
            f"below {limits.suspect:g}), so completion times depend on the length of the run"
        )

    def numbers(self) -> dict[str, float]:
        """What the verdict rests on."""
        seen = self.overhang or self.growth
        return {} if seen is None else asdict(seen)

    def observe(self, event: Event) -> None:
        """Follow the demand."""
        handler = self.handler(type(event))
        if handler is not None:
            handler(event)

    def handler(self, kind: type[Event]) -> Handler | None:
        """The part of `observe` for events of a kind."""
        if not self._watching:
            return None
        if kind is JobsSubmitted:
            return self._arrived
        if kind is Allocated:
            return self._allocated
        return self._left if kind in (JobsFinished, JobsDropped, JobsRejected) else None

    def _left(self, event: JobsFinished | JobsDropped | JobsRejected) -> None:
        self._demand -= int(self._size_of(event.jobs).sum())
        self._idle = self._idle or self._demand < self._jobs_per_gpu * self._capacity

    def _allocated(self, event: Allocated) -> None:
        self._jobs_per_gpu = 2 if event.allocation.traits.packs else 1

    def _arrived(self, event: JobsSubmitted) -> None:
        sizes = event.jobs.gpus
        self._gpus.append(sizes)
        self._jobs += len(sizes)
        first = _ALONE if len(sizes) == 1 else _moments(event.jobs.submitted)
        for total in sizes.tolist() if first is _ALONE else np.add.reduceat(sizes, first).tolist():
            self._demand += total
            self._asked.append(total + (self._asked[-1] if self._asked else 0))
            self._after.append(self._demand)
        self._backlog.arrived(event.jobs, first)
        count = len(self._after)
        if count >= self._next_look:
            self._next_look = count + CHECK_EVERY
            self._backlog.look(idle=self._idle)
            self._idle = self._demand < self._jobs_per_gpu * self._capacity
        if count >= self._next:
            self._next = count + max(CHECK_EVERY, count // 20)
            if self._enough():
                self._check_demand()
                self._check_work()

    def _size_of(self, jobs: IntArray) -> IntArray:
        if self._gpus:
            self._sizes = np.concatenate([self._sizes, *self._gpus])
            self._gpus.clear()
        return self._sizes[jobs]

    def _enough(self) -> bool:
        limits = self._limits
        return len(self._after) >= limits.arrivals and self._asked[-1] >= limits.turnover * self._capacity

    def _check_demand(self) -> None:
        limits, count = self._limits, len(self._after)
        if self._demand < limits.demand * self._capacity:
            return
        first = count // 3
        demand = np.array(self._after[first:], dtype=np.float64)
        if demand.min() < self._capacity:
            return
        arrived = self._asked[-1] - self._asked[first]
        served = arrived - (demand[-1] - demand[0])
        excess = arrived / served if served > 0 else math.inf
        errors = standard_errors(demand)
        self.growth = Growth(
            arrivals=self._jobs,
            demand_gpus=self._demand,
            cluster_gpus=self._capacity,
            offered_over_served=excess,
            growth_in_standard_errors=errors,
        )
        if excess >= limits.excess and errors >= limits.errors:
            self._verdict = (
                f"overload: after {self._jobs:,} arrivals jobs ask for {self._demand:,} GPUs of {self._capacity:,} and "
                f"the queue keeps growing (arrivals ask for {excess:.2f} times what is served)"
            )

    def _check_work(self) -> None:
        limits, rise = self._limits, self._backlog.rise()
        if self._verdict is not None or rise is None or rise.evidence(limits.load) < -math.log(limits.chance):
            return
        self.overhang = seen = self._overhang(rise)
        self._verdict = (
            f"overload: after {self._jobs:,} arrivals jobs need {seen.work_left_gpu_h:,.0f} more GPU hours, "
            f"{seen.work_rise_gpu_h:,.0f} of them added since GPUs were last idle (at {limits.load:.0%} load the "
            f"chance of that is below {limits.chance:g})"
        )

    def _overhang(self, rise: Rise) -> Overhang:
        return Overhang(
            arrivals=self._jobs,
            demand_gpus=self._demand,
            cluster_gpus=self._capacity,
            work_left_gpu_h=rise.left_s / 3600.0,
            work_rise_gpu_h=rise.rise_s / 3600.0,
            work_of_an_arrival_gpu_h=rise.mean_s / 3600.0,
            dispersion=rise.dispersion,
            log10_chance=-rise.evidence(self._limits.load) / math.log(10.0),
        )


def _moments(submitted: FloatArray) -> IntArray:
    """Where another moment begins: several may be told at once."""
    return np.unique(submitted, return_index=True)[1]


def standard_errors(demand: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Mean growth of a stretch, in standard errors."""
    ends = np.linspace(0, len(demand) - 1, STRETCHES + 1).astype(np.int64)
    growth = np.diff(demand[ends])
    spread = float(growth.std(ddof=1))
    mean = float(growth.mean())
    if spread == 0:
        return math.inf if mean > 0 else 0.0
    return mean * math.sqrt(STRETCHES) / spread
