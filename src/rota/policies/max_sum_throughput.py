"""Most total throughput, by step or by money, with or without deadlines (Gavel, OSDI'20, section 4.2).

    maximise  sum_ij T_ij / c_j x_ij        c_j = 1, or the hourly price of type j

Steps of different models are added as they are, as in the published code. With SLOs, each job with a deadline must get
sum_j T_ij x_ij >= R_i / (deadline_i - now). Deadlines that a job could not meet even with its fastest type all the
time, or that have passed, are given up one by one; if the rest cannot be met together either, all are given up (the
published code gives up all at once, and does not run without deadlines). Variants without `slos` ignore deadlines.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import NO_OPTIONS, Allocation, Options, SolveReport, Traits
from rota.core.arrays import FloatArray
from rota.core.errors import InfeasibleError
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.chains import MOST_TYPES, climb
from rota.opt.columns import pair_source
from rota.opt.groups import by_class, by_class_and, usable_rate
from rota.opt.lp import Int32Array
from rota.opt.max_sum import most, most_with_needs
from rota.opt.pairs import Pairs, spread
from rota.opt.previous import recalled
from rota.opt.shares import Polytope
from rota.policies.registry import policies

_NAME = "max-sum-throughput-normalized-by-cost"


@policies.register(
    "max-sum-throughput-perf", by_cost=False, slos=False, packed=False, summary="Most steps per second in total."
)
@policies.register(f"{_NAME}-perf", by_cost=True, slos=False, packed=False, summary="Most steps per dollar in total.")
@policies.register(
    f"{_NAME}-perf-slos", by_cost=True, slos=True, packed=False, summary="Most steps per dollar, deadlines met."
)
@policies.register(
    f"{_NAME}-packed-slos",
    by_cost=True,
    slos=True,
    packed=True,
    summary="Most steps per dollar, deadlines met, two jobs on the same GPUs where that pays.",
)
class MaxSumThroughput:
    """Most total throughput, by step or by dollar, with or without deadlines and space sharing."""

    def __init__(self, by_cost: bool = False, slos: bool = False, packed: bool = False) -> None:
        self.by_cost = by_cost
        self.slos = slos
        self.packed = packed

    def allocate(self, view: View) -> Allocation:
        """Shares with the most total throughput."""
        if len(view) == 0:
            return self._answer(view, 0.0, np.zeros((0, len(view.types))))
        rate = usable_rate(view)
        value = 1 / view.prices if self.by_cost else np.ones(len(view.capacity))
        need = _needs(view, rate) if self.slos else np.zeros(len(view))
        if need.any() and not self.packed and len(view.capacity) <= MOST_TYPES:
            gpus = view.classes.gpus.astype(np.float64)
            capacity = view.capacity.astype(np.float64)
            answer = most_with_needs(climb(rate, view.job_class, gpus, capacity), need, rate * value)
            if answer is not None:
                worth, share = answer
                return self._answer(view, worth, share)
            need = np.zeros(len(view))
        try:
            return self._by_group(view, rate, value, need)
        except InfeasibleError:
            if not need.any():
                raise
            return self._by_group(view, rate, value, np.zeros(len(view)))

    def _by_group(self, view: View, rate: FloatArray, value: FloatArray, need: FloatArray) -> Allocation:
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
        return self._answer(view, solution.worth, share, extras, solution.basis)

    def _answer(
        self,
        view: View,
        worth: float,
        share: FloatArray,
        extras: Options = NO_OPTIONS,
        basis: Int32Array | None = None,
    ) -> Allocation:
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=share,
            extras=extras,
            traits=Traits(packs=self.packed, fills_by_speed=True),
            report=SolveReport(objective=worth, size=share.size),
            state={} if basis is None or self.packed else {"basis": basis},
        )


def _needs(view: View, rate: FloatArray) -> FloatArray:
    """[J] steps/s that meet the deadline; 0 without one, or where the job alone could not meet it."""
    left = view.deadline - view.now
    dated = np.isfinite(left) & (left > 0)
    need = np.divide(view.steps_left, left, out=np.zeros(len(view)), where=dated)
    return np.where(need <= rate.max(axis=1)[view.job_class], need, 0.0)
