"""Most total throughput over GPU types, CPUs and memory at once.

    maximise  sum_ijq T_ij v_ijq x_ijq

x_ijq is the share of time of job i on type j with configuration q of CPUs and memory, v_ijq its speed with it
relative to the proportional share, never below 1; GPUs, CPUs and memory of every type limit the shares
(opt/configured.py). Steps of different models are added as they are, as in `max-sum-throughput-perf`, which this is
if no profile knows about CPUs and memory.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.configured import Configured, columns, most
from rota.opt.groups import by_class
from rota.opt.previous import recalled
from rota.opt.wishes import shares, wishes
from rota.policies.max_sum_throughput import MaxSumThroughput
from rota.policies.registry import policies


@policies.register("max-sum-throughput-unified")
class MaxSumThroughputUnified:
    """Most steps per second in total; GPU type, CPUs and memory chosen together."""

    def allocate(self, view: View) -> Allocation:
        """Shares and configurations with the most total throughput."""
        if not view.classes.configurations.sensitive:
            return MaxSumThroughput().allocate(view)
        groups = by_class(view)
        ways = columns(view, groups)
        ones = np.ones(len(groups))
        problem = Configured(groups=groups, columns=ways, scale=ones)
        solution = most(problem, ones, {"basis": recalled(view, "basis")})
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=shares(groups, ways, solution.times, len(view.capacity)),
            wish=wishes(view, groups, ways, solution.times),
            traits=Traits(fills_by_speed=True),
            report=SolveReport(objective=solution.value, size=len(ways)),
            state=solution.state,
        )
