"""Most total throughput, by step or by money, with or without deadlines (Gavel, OSDI'20, section 4.2).

    maximise  sum_ij T_ij / c_j x_ij        c_j = 1, or the hourly price of type j

Steps of different models are added as they are, as in the published code. Variants without `slos` ignore deadlines.
With them, deadlines that a job could not meet even with its fastest type all the time, or that have passed, are given
up one by one. What is done for the others is the rule `deadlines`:

- `kept`: jobs without slack run in every round, others get a pace with a margin, and where there are too many they take
  turns, earliest deadline first (deadlines.py). Looked at again before anybody's slack is used up.
- `paced`, as published: each job must get sum_j T_ij x_ij >= R_i / (deadline_i - now) until jobs change. If not all can
  have that together, all deadlines are given up (the published code gives up all at once, and does not run without
  deadlines).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rota.core.allocation import NO_OPTIONS, Allocation, Options, SolveReport, Traits
from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError, InfeasibleError, UnknownName
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.rules import DEADLINES
from rota.core.view import View
from rota.opt.chains import MOST_TYPES, climb
from rota.opt.columns import pair_source
from rota.opt.groups import by_class, by_class_and, usable_rate
from rota.opt.lp import Int32Array
from rota.opt.max_sum import most, most_with_needs
from rota.opt.pairs import Pairs, spread
from rota.opt.previous import recalled
from rota.opt.shares import Polytope
from rota.policies.deadlines import Deadlines, Seats
from rota.policies.registry import policies

_NAME = "max-sum-throughput-normalized-by-cost"
_FROM_RUN = ("deadlines", "round_s", "restart_s")


@dataclass(frozen=True, slots=True, eq=False)
class _Shares:
    """A solution: its worth, shares of jobs and then of pairs, and where the next solve may begin."""

    worth: float
    share: FloatArray
    extras: Options = field(default_factory=lambda: NO_OPTIONS)
    basis: Int32Array | None = None


@policies.register(
    "max-sum-throughput-perf", by_cost=False, slos=False, packed=False, summary="Most steps per second in total."
)
@policies.register(f"{_NAME}-perf", by_cost=True, slos=False, packed=False, summary="Most steps per dollar in total.")
@policies.register(
    f"{_NAME}-perf-slos",
    from_run=_FROM_RUN,
    by_cost=True,
    slos=True,
    packed=False,
    summary="Most steps per dollar, deadlines met where they can be.",
)
@policies.register(
    f"{_NAME}-packed-slos",
    from_run=_FROM_RUN,
    by_cost=True,
    slos=True,
    packed=True,
    summary="Most steps per dollar, deadlines met where they can be, two jobs on the same GPUs where that pays.",
)
class MaxSumThroughput:
    """Most total throughput, by step or by dollar, with or without deadlines and space sharing.

    Parameters: deadlines - kept or paced; round_s, restart_s - seconds of a round, and to start or move. All three
    follow from the rules unless they are given.
    """

    def __init__(
        self,
        by_cost: bool = False,
        slos: bool = False,
        packed: bool = False,
        deadlines: str = "kept",
        round_s: float = 360.0,
        restart_s: float = 0.0,
    ) -> None:
        if deadlines not in DEADLINES:
            raise UnknownName("value of deadlines:", deadlines, DEADLINES)
        self.by_cost = by_cost
        self.slos = slos
        self.packed = packed
        self.keeps = deadlines == "kept"
        self.round_s = round_s
        self.restart_s = restart_s

    def allocate(self, view: View) -> Allocation:
        """Shares with the most total throughput."""
        if len(view) == 0:
            return self._answer(view, _Shares(0.0, np.zeros((0, len(view.types)))))
        if self.slos and self.keeps:
            return self._keeping(view)
        need = _needs(view, usable_rate(view)) if self.slos else np.zeros(len(view))
        shares = self._shares(view, need) or self._shares(view, np.zeros(len(view)))
        assert shares is not None  # there are no needs
        return self._answer(view, shares)

    def _keeping(self, view: View) -> Allocation:
        """Deadlines first, then the most total throughput with the GPUs that are left."""
        rate = usable_rate(view)
        deadlines = Deadlines(view, rate, rate * self._value(view), self.round_s, self.restart_s)
        for attempt in deadlines.attempts():
            seats = attempt.seats
            rest = np.ones(len(view), dtype=np.bool_)
            rest[seats.jobs] = False
            others = rest.nonzero()[0]
            taken = np.bincount(seats.gpu_type, weights=view.gpus[seats.jobs], minlength=len(view.capacity))
            capacity = view.capacity - taken.astype(np.int64)
            shares = self._shares(view.part(others, capacity), attempt.need[others])
            if shares is not None:
                answer = self._answer(view, _with_seats(view, seats, others, shares))
                answer.pressing = view.jobs[seats.jobs] if len(seats.jobs) else None
                answer.horizon = UNTIL_JOBS_CHANGE.not_beyond(attempt.until)
                return answer
        raise InfeasibleError("no deadline can be given up any more")  # the last attempt has no needs

    def _value(self, view: View) -> FloatArray:
        """[T] what a step is worth."""
        return 1 / known_prices(view) if self.by_cost else np.ones(len(view.capacity))

    def _shares(self, view: View, need: FloatArray) -> _Shares | None:
        """The most worth with these needs [J] in steps/s; None if they cannot all be met."""
        if len(view) == 0:
            return _Shares(0.0, np.zeros((0, len(view.types))))
        rate = usable_rate(view)
        value = self._value(view)
        if need.any() and not self.packed and len(view.capacity) <= MOST_TYPES:
            gpus = view.classes.gpus.astype(np.float64)
            capacity = view.capacity.astype(np.float64)
            answer = most_with_needs(climb(rate, view.job_class, gpus, capacity), need, rate * value)
            return None if answer is None else _Shares(*answer)
        try:
            return self._by_group(view, rate, value, need)
        except InfeasibleError:
            if not need.any():
                raise
            return None

    def _by_group(self, view: View, rate: FloatArray, value: FloatArray, need: FloatArray) -> _Shares:
        if need.any():
            own_group = np.where(need > 0, np.arange(len(view)) + 1, 0)  # of jobs with a need of their own
            groups = by_class_and(view, own_group)
        else:
            groups = by_class(view)
        polytope = Polytope(
            groups=groups,
            capacity=view.capacity.astype(np.float64),
            rate=rate[groups.job_class],
            scale=np.ones(len(groups)),
            pairs=Pairs.none() if self.packed else None,
        )
        total = np.bincount(groups.member, weights=need, minlength=len(groups)).astype(np.float64)
        source = pair_source(view, groups) if self.packed else None
        solution = most(polytope, value, total, source, recalled(view, "basis"))
        share = solution.times.share(groups)
        extras = NO_OPTIONS
        if solution.pairs is not None:
            extras, together = spread(view, groups, solution.pairs, solution.times.paired)
            share = np.concatenate([share, together])
        return _Shares(solution.worth, share, extras, solution.basis)

    def _answer(self, view: View, shares: _Shares) -> Allocation:
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=shares.share,
            extras=shares.extras,
            traits=Traits(packs=self.packed, fills_by_speed=True),
            report=SolveReport(objective=shares.worth, size=shares.share.size),
            state={} if shares.basis is None or self.packed else {"basis": shares.basis},
        )


def known_prices(view: View) -> FloatArray:
    """[T] price of a GPU hour by type; raises ConfigError if one is missing or 0."""
    bad = ~(view.prices > 0)
    if not bad.any():
        return view.prices
    at = int(bad.argmax())
    gpu_type = view.types[at]
    said = "has no price" if np.isnan(view.prices[at]) else "costs 0 an hour"
    raise ConfigError(
        f"GPU type {gpu_type!r} {said}, and this policy weighs steps against money; give the price of a GPU hour as "
        f"{gpu_type}=8:price=2.5 in --cluster, or as hourly_price in an [[accelerator]] of a cluster file"
    )


def _with_seats(view: View, seats: Seats, others: IntArray, shares: _Shares) -> _Shares:
    """Shares of all jobs: who has a seat has all the time on its type."""
    count = len(others)
    share = np.zeros((len(view) + len(shares.extras), len(view.capacity)))
    share[others] = shares.share[:count]
    share[len(view) :] = shares.share[count:]
    share[seats.jobs, seats.gpu_type] = 1.0
    return _Shares(shares.worth, share, shares.extras)


def _needs(view: View, rate: FloatArray) -> FloatArray:
    """[J] steps/s that meet the deadline; 0 without one, or where the job alone could not meet it."""
    left = view.deadline - view.now
    dated = np.isfinite(left) & (left > 0)
    need = np.divide(view.steps_left, left, out=np.zeros(len(view)), where=dated)
    return np.where(need <= rate.max(axis=1)[view.job_class], need, 0.0)
