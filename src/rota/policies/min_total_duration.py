"""Minimum makespan: all active jobs done as early as possible (Gavel, OSDI'20, section 4.2).

    minimise D   subject to   sum_j T_ij x_ij >= R_i / D  for every job, R_i its steps left

Solved exactly (the published code bisects D to 5 %). Among the optima, the one with the most total normalised
throughput, where classes count by the longest time a job of theirs still needs (at least 30 % of the longest of all):
gangs and rounds cost time that the fluid model does not know, and it is the long jobs that cannot make up for it.
`min-total-duration` does not distinguish types: every T_ij is the throughput on the reference type (v100; where there
is none, the job's fastest), and what is left over goes to all jobs alike.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.arrays import FloatArray
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.groups import ratio, usable_rate
from rota.opt.requirements import Requirement, meet, meet_blindly, reference_rate
from rota.policies.registry import policies

_LEAST_FAVOUR = 0.3


@policies.register("min-total-duration", aware=False, summary="Least makespan, types not distinguished.")
@policies.register("min-total-duration-perf", aware=True, summary="Least makespan, throughputs by type known.")
class MinTotalDuration:
    """Least time until all active jobs are done."""

    def __init__(self, aware: bool = True) -> None:
        self.aware = aware

    def allocate(self, view: View) -> Allocation:
        """Shares with which the last job finishes as early as possible."""
        rate = usable_rate(view)
        if not self.aware:
            rate = reference_rate(view, rate)
        count = len(view)
        need = Requirement(steps=view.steps_left, slack=np.ones(count), age=np.zeros(count))
        solution = meet(view, rate, need, long_ones(view, rate)) if self.aware else meet_blindly(view, rate, need)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=solution.share,
            traits=Traits(aware=self.aware, fills_by_speed=self.aware, scatters_ties=not self.aware),
            report=SolveReport(objective=1 / solution.target if solution.target > 0 else 0.0, size=count),
            state=solution.state,
        )


def long_ones(view: View, rate: FloatArray) -> FloatArray:
    """[C] the longest time that a job of each class still needs at its fastest, not less than a part of the most."""
    time = ratio(view.steps_left, rate.max(axis=1, initial=0.0)[view.job_class])
    longest = np.zeros(len(rate))
    np.maximum.at(longest, view.job_class, time)
    floor = _LEAST_FAVOUR * float(longest.max(initial=0.0))
    return np.maximum(longest, max(floor, 1.0))
