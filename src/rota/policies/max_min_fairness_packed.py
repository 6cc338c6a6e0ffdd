"""Max-min fairness with space sharing: pairs of jobs may run on the same GPUs (Gavel, OSDI'20, section 4.4).

    maximise  min_i  sum over options k of i (alone, or with a partner) and types j of T^i_kj s_i / (w_i p_i) x_kj

Solved by class: a column per pair of classes with equal GPUs, spread equally over the jobs of the two classes.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.groups import by_class, usable_rate, worth_of_a_step
from rota.opt.max_min import max_min
from rota.opt.pairs import spread, useful_pairs
from rota.opt.shares import Polytope
from rota.policies.registry import policies


@policies.register("max-min-fairness-packed")
class MaxMinFairnessPacked:
    """Max-min fair shares of normalised throughput, with two jobs on the same GPUs where that pays."""

    by_weight = True
    """It shares out in proportion to weights, so it can be made fair between tenants (fair_by_tenant.py)."""

    def allocate(self, view: View) -> Allocation:
        """Shares of jobs and of pairs that maximise the worst normalised throughput, then the total."""
        groups = by_class(view)
        rate = usable_rate(view)
        worth = worth_of_a_step(rate, groups.gpus, view.capacity)
        pairs = useful_pairs(view, groups)
        polytope = Polytope(
            groups=groups,
            capacity=view.capacity.astype(np.float64),
            rate=rate,
            scale=worth / groups.weight,
            pairs=pairs,
        )
        solution = max_min(polytope, worth, view)
        extras, together = spread(view, groups, pairs, solution.times.paired)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=np.concatenate([solution.times.share(groups), together]),
            extras=extras,
            traits=Traits(packs=True, fills_by_speed=True),
            report=SolveReport(objective=solution.level, size=polytope.size),
            state=solution.state,
        )
