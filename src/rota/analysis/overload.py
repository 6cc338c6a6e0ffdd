"""Is the cluster asked for more than it can do? Then the queue grows for ever, and a mean says nothing.

What is watched is the demand: the GPUs that all jobs present ask for, running and waiting. From an empty cluster it
rises to some level; at 95 % load that level is high and fluctuates wildly, so a rise alone proves nothing. The test is
made on the last two thirds of all arrivals so far (jobs that come at the same moment are one), cut into twenty
stretches of as many arrivals each. A run is unstable when all of these hold:

1. enough was seen: arrivals asked for ten times the GPUs of the cluster, at 200 moments at least;
2. the demand is at least three times the cluster, so that two jobs per GPU would not serve it either;
3. it was never below the size of the cluster in these two thirds;
4. arrivals asked for at least 3 % more GPUs than left;
5. the mean growth of a stretch is at least seven times its standard error.

The fifth is what tells a drift from a walk without one: of a queue that only fluctuates, the growth over any time
divided by its standard error is about normally distributed, reflection at zero included. Only events count, no clock
of the machine, so the same run always ends in the same place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rota.core.arrays import IntArray
from rota.core.events import Event, JobsDropped, JobsFinished, JobsRejected, JobsSubmitted

STRETCHES = 20
CHECK_EVERY = 50
MODES = ("auto", "on", "off")
"""When to look: at workloads without an end, at all, at none."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What the test saw last."""

    arrivals: int
    demand_gpus: int
    cluster_gpus: int
    offered_over_served: float
    growth_in_standard_errors: float


class Overload:
    """Watches a run and says when it is unstable."""

    def __init__(self, mode: str = "auto", limits: Limits | None = None) -> None:
        self.growth: Growth | None = None
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

    def begin(self, capacity: int, *, endless: bool) -> None:
        """The run starts on so many GPUs."""
        self._capacity = capacity
        self._watching = self._mode == "on" or (self._mode == "auto" and endless)

    def saved(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {key: value for key, value in self.__dict__.items() if key not in {"growth", "_limits"}}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.__dict__.update(saved)

    def verdict(self) -> str | None:
        """Why the run is unstable; None as long as it is not."""
        return self._verdict

    def numbers(self) -> dict[str, float]:
        """What the verdict rests on."""
        return {} if self.growth is None else asdict(self.growth)

    def observe(self, event: Event) -> None:
        """Follow the demand."""
        if not self._watching:
            return
        if isinstance(event, JobsSubmitted):
            self._arrived(event)
        elif isinstance(event, JobsFinished | JobsDropped | JobsRejected):
            self._demand -= int(self._size_of(event.jobs).sum())

    def _arrived(self, event: JobsSubmitted) -> None:
        sizes = event.jobs.gpus
        self._gpus.append(sizes)
        self._jobs += len(sizes)
        _, first = np.unique(event.jobs.submitted, return_index=True)  # several moments may be told at once
        for total in np.add.reduceat(sizes, first).tolist():
            self._demand += total
            self._asked.append(total + (self._asked[-1] if self._asked else 0))
            self._after.append(self._demand)
        if len(self._after) >= self._next:
            self._next = len(self._after) + max(CHECK_EVERY, len(self._after) // 20)
            self._check()

    def _size_of(self, jobs: IntArray) -> IntArray:
        if self._gpus:
            self._sizes = np.concatenate([self._sizes, *self._gpus])
            self._gpus.clear()
        return self._sizes[jobs]

    def _check(self) -> None:
        limits, count = self._limits, len(self._after)
        if (
            count < limits.arrivals
            or self._asked[-1] < limits.turnover * self._capacity
            or self._demand < limits.demand * self._capacity
        ):
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


def standard_errors(demand: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Mean growth of a stretch, in standard errors."""
    ends = np.linspace(0, len(demand) - 1, STRETCHES + 1).astype(np.int64)
    growth = np.diff(demand[ends])
    spread = float(growth.std(ddof=1))
    mean = float(growth.mean())
    if spread == 0:
        return math.inf if mean > 0 else 0.0
    return mean * math.sqrt(STRETCHES) / spread
