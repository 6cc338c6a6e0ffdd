"""Minimum makespan over GPU types, CPUs and memory at once.

    minimise D   subject to   sum_jq T_ij v_ijq x_ijq >= R_i / D  for every job, R_i its steps left

x_ijq is the share of time of job i on type j with configuration q of CPUs and memory, v_ijq its speed with it
relative to the proportional share, never below 1; GPUs, CPUs and memory of every type limit the shares
(opt/configured.py). Among the optima, the one with the most total throughput (every class relative to its full
speed), long jobs favoured, as in `min-total-duration-perf`, which this is if no profile knows about CPUs and memory.
Jobs have needs of their own, so the program has a row per job.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.groups import usable_rate
from rota.opt.requirements import Requirement, meet_configured
from rota.policies.min_total_duration import MinTotalDuration, long_ones
from rota.policies.registry import policies


@policies.register("min-total-duration-unified")
class MinTotalDurationUnified:
    """Least makespan; GPU type, CPUs and memory chosen together."""

    def allocate(self, view: View) -> Allocation:
        """Shares and configurations with which the last job finishes as early as possible."""
        if len(view) == 0 or not view.classes.configurations.sensitive:
            return MinTotalDuration().allocate(view)
        count = len(view)
        need = Requirement(steps=view.steps_left, slack=np.ones(count), age=np.zeros(count))
        solution = meet_configured(view, need, long_ones(view, usable_rate(view)))
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=solution.share,
            wish=solution.wish,
            traits=Traits(fills_by_speed=True),
            report=SolveReport(objective=1 / solution.target if solution.target > 0 else 0.0, size=count),
            state=solution.state,
        )
