"""Minimum makespan: all active jobs done as early as possible (Gavel, OSDI'20, section 4.2).

    minimise D   subject to   sum_j T_ij x_ij >= R_i / D  for every job, R_i its steps left

Solved exactly (the published code bisects D to 5 %). Among the optima, the one with the most total normalised
throughput. `min-total-duration` does not distinguish types: every T_ij is the throughput on the reference type (v100;
where there is none, the job's fastest).
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.view import View
from rota.opt.groups import usable_rate
from rota.opt.requirements import Requirement, meet, reference_rate
from rota.policies.registry import policies


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
        found = meet(view, rate, need)
        return Allocation(
            jobs=view.jobs,
            types=view.types,
            share=found.share,
            traits=Traits(aware=self.aware),
            report=SolveReport(objective=1 / found.target if found.target > 0 else 0.0, size=count),
            memory=found.memory,
        )
