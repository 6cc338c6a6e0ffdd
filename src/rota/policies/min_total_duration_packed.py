"""Minimum makespan with space sharing: pairs of jobs may run on the same GPUs (Gavel, OSDI'20, sections 4.2 and 4.4).

    minimise D   subject to   sum over options k of i and types j of T^i_kj x_kj >= R_i / D   for every job

Solved exactly; pairs are found by column generation.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.groups import usable_rate
from rota.opt.requirements import Requirement, meet_packed
from rota.policies.registry import policies


@policies.register("min-total-duration-packed")
class MinTotalDurationPacked:
    """Least time until all active jobs are done, with two jobs on the same GPUs where that pays."""

    def allocate(self, view: View) -> Allocation:
        """Shares of jobs and of pairs with which the last job finishes as early as possible."""
        count = len(view)
        need = Requirement(steps=view.steps_left, slack=np.ones(count), age=np.zeros(count))
        solution = meet_packed(view, usable_rate(view), need, np.ones(count))
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=solution.share,
            extras=solution.extras,
            traits=Traits(packs=True, fills_by_speed=True),
            report=SolveReport(objective=1 / solution.target if solution.target > 0 else 0.0, size=count),
            state=solution.state,
        )
