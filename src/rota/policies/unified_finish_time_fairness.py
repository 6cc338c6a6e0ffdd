"""Finish-time fairness over GPU types, CPUs and memory at once.

    minimise  max_i (a_i + R_i / sum_jq T_ij v_ijq x_ijq) / E_i        E_i = C_i + R_i / q_i

x_ijq is the share of time of job i on type j with configuration q of CPUs and memory, v_ijq its speed with it
relative to the proportional share, never below 1; GPUs, CPUs and memory of every type limit the shares
(opt/configured.py). a, R, C and q are those of `finish-time-fairness-perf`: what a job is compared with is an
isolated n-th of the cluster, CPUs and memory included, so q is the throughput with the proportional share. Among the
optima, the one with the most total throughput, every class relative to its full speed. Without profiles that know
about CPUs and memory this is `finish-time-fairness-perf`.
"""

from __future__ import annotations

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.groups import ratio, usable_rate
from rota.opt.requirements import Requirement, meet_configured
from rota.policies.finish_time_fairness import FinishTimeFairness, isolated_rate, isolated_state, isolated_time
from rota.policies.registry import policies


@policies.register("finish-time-fairness-unified")
class FinishTimeFairnessUnified:
    """Fair finish times; GPU type, CPUs and memory chosen together."""

    def allocate(self, view: View) -> Allocation:
        """Shares and configurations that minimise the worst finish-time ratio."""
        if len(view) == 0 or not view.classes.configurations.sensitive:
            return FinishTimeFairness().allocate(view)
        isolated = isolated_rate(view, usable_rate(view))
        spent = isolated_time(view)
        left = view.steps_left
        need = Requirement(steps=left, slack=spent + ratio(left, isolated), age=view.age)
        solution = meet_configured(view, need)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=solution.share,
            wish=solution.wish,
            traits=Traits(fills_by_speed=True),
            report=SolveReport(objective=1 / solution.target if solution.target > 0 else 0.0, size=len(view)),
            state={**solution.state, **isolated_state(view, spent, isolated)},
        )
