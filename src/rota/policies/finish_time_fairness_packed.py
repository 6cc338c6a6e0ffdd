"""Finish-time fairness with space sharing (Gavel, OSDI'20, sections 4.2 and 4.4).

    minimise  max_i (a_i + R_i w_i / (sum over options k of i and types j of T^i_kj x_kj)) / E_i

as in finish_time_fairness.py, with throughputs divided by the weight; E_i uses undivided ones.
"""

from __future__ import annotations

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.groups import ratio, usable_rate
from rota.opt.requirements import Requirement, meet_packed
from rota.policies.finish_time_fairness import isolated_rate, isolated_state, isolated_time
from rota.policies.registry import policies


@policies.register("finish-time-fairness-packed")
class FinishTimeFairnessPacked:
    """Fair finish times, with two jobs on the same GPUs where that pays."""

    def allocate(self, view: View) -> Allocation:
        """Shares of jobs and of pairs that minimise the worst finish-time ratio."""
        rate = usable_rate(view)
        isolated = isolated_rate(view, rate)
        spent = isolated_time(view)
        left = view.steps_left
        need = Requirement(steps=left, slack=spent + ratio(left, isolated), age=view.age)
        solution = meet_packed(view, rate, need, view.weight)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=solution.share,
            extras=solution.extras,
            traits=Traits(packs=True, fills_by_speed=True),
            report=SolveReport(objective=1 / solution.target if solution.target > 0 else 0.0, size=len(view)),
            state={**solution.state, **isolated_state(view, spent, isolated)},
        )
