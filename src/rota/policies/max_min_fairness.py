"""Max-min fairness over accelerator types (heterogeneity-aware least attained service; Gavel, OSDI'20, section 4.1).

    maximise  min_i  sum_j T_ij s_i / (w_i p_i) x_ij        p_i = sum_j T_ij N_j / sum_j N_j

T throughput, s GPUs, w weight, x share of time, N GPUs by type: every job is compared with what it would get if its
time were divided over the types in proportion to their GPUs. Among the optima, the one with the most total normalised
throughput sum_ij T_ij s_i / p_i x_ij. `max-min-fairness` does not know throughputs: all T_ij = 1.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.groups import by_class, can_run, usable_rate, worth_of_a_step
from rota.opt.max_min import max_min
from rota.opt.one_type import fill, over_types
from rota.opt.shares import Polytope
from rota.policies.registry import policies


@policies.register("max-min-fairness", aware=False, summary="Max-min fair shares of GPU time, types not distinguished.")
@policies.register("max-min-fairness-perf", aware=True, summary="Max-min fair shares of normalised throughput.")
class MaxMinFairness:
    """Max-min fair shares of normalised throughput."""

    by_weight = True
    """It shares out in proportion to weights, so it can be made fair between tenants (fair_by_tenant.py)."""

    def __init__(self, aware: bool = True) -> None:
        self.aware = aware

    def allocate(self, view: View) -> Allocation:
        """Shares that maximise the worst normalised throughput, then the total."""
        if not self.aware:
            return self._blindly(view)
        groups = by_class(view)
        rate = usable_rate(view)
        worth = worth_of_a_step(rate, groups.gpus, view.capacity)
        polytope = Polytope(
            groups=groups,
            capacity=view.capacity.astype(np.float64),
            rate=rate,
            scale=worth / groups.weight,
        )
        solution = max_min(polytope, worth, view)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=solution.times.share(groups),
            traits=Traits(fills_by_speed=True),
            report=SolveReport(objective=solution.level, size=polytope.size),
            state=solution.state,
        )

    def _blindly(self, view: View) -> Allocation:
        """All types alike: time in proportion to weight / GPUs, as far as the GPUs go."""
        groups = by_class(view)
        counts = can_run(usable_rate(view)) & (groups.count > 0)
        size = np.where(counts, groups.count * groups.gpus, 0.0)
        speed = np.where(counts, groups.weight / groups.gpus, 0.0)
        time, _ = fill(np.zeros(len(groups)), speed, size, float(view.capacity.sum()))
        level = (time * groups.gpus / groups.weight)[counts].min(initial=np.inf)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=over_types(time[groups.member], view.capacity),
            traits=Traits(aware=False, scatters_ties=True),
            report=SolveReport(objective=float(level) if counts.any() else 0.0, size=len(groups)),
        )
