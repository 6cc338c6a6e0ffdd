"""Max-min fairness over GPU types, CPUs and memory at once.

    maximise  min_i  sum_jq T_ij v_ijq s_i / (w_i p_i) x_ijq        p_i = sum_j T_ij N_j / sum_j N_j

x_ijq is the share of time that job i spends on type j holding configuration q of CPUs and memory, with which it is
v_ijq times as fast as with its proportional share; T, s, w, p, N as in `max-min-fairness-perf`. Beside time and GPUs,
the CPUs and the memory of every type limit the shares (opt/configured.py). Configurations slower than the
proportional share are not offered: what is fair with GPUs alone stays the floor. Among the optima, the one with the
most total throughput, every class relative to its full speed. The mechanism gets the shares of time by type and, for
every job and type, the configuration to aim at; `tune` honours it. Jobs of a class get equal time, and where their
class is to mix configurations, some of them get one and some the other. If no profile knows about CPUs and memory,
this is `max-min-fairness-perf`.
"""

from __future__ import annotations

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.configured import Configured, columns, fairest, total_worth
from rota.opt.groups import by_class, proportional_rate, ratio, usable_rate
from rota.opt.previous import recalled
from rota.opt.wishes import shares, wishes
from rota.policies.max_min_fairness import MaxMinFairness
from rota.policies.registry import policies


@policies.register("max-min-fairness-unified")
class MaxMinFairnessUnified:
    """Max-min fair normalised throughput; GPU type, CPUs and memory chosen together."""

    by_weight = True
    """It shares out in proportion to weights, so it can be made fair between tenants (fair_by_tenant.py)."""

    def allocate(self, view: View) -> Allocation:
        """Shares and configurations that maximise the worst normalised throughput, then the total."""
        if not view.classes.configurations.sensitive:
            return MaxMinFairness().allocate(view)
        groups = by_class(view)
        scale = groups.gpus * ratio(1 / groups.weight, proportional_rate(usable_rate(view), view.capacity))
        ways = columns(view, groups)
        problem = Configured(groups=groups, columns=ways, scale=scale)
        bases = {name: recalled(view, name) for name in ("basis", "second_basis")}
        solution = fairest(problem, total_worth(view), bases)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=shares(groups, ways, solution.times, len(view.capacity)),
            wish=wishes(view, groups, ways, solution.times),
            traits=Traits(fills_by_speed=True),
            report=SolveReport(objective=solution.value, size=len(ways) + 1),
            state=solution.state,
        )
