"""Least mean completion time over GPU types, CPUs and memory at once.

    maximise  sum_ijq h_i T_ij v_ijq / F_i x_ijq        F_i = max_jq T_ij v_ijq

x_ijq is the share of time of job i on type j with configuration q of CPUs and memory, v_ijq its speed with it relative
to the proportional share, never below 1; GPUs, CPUs and memory of every type limit the shares (opt/configured.py). h_i
is how many jobs a second of work of job i delays, as in `min-mean-jct`, with the work left counted at the full speed
F_i. Without profiles that know about CPUs and memory this is `min-mean-jct`.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits, Wishes
from rota.core.arrays import FloatArray, IntArray
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.configured import Columns, Configured, columns, most
from rota.opt.delays import Dealt, deal, line_up
from rota.opt.groups import ratio, usable_rate
from rota.policies.min_mean_jct import AGEING, MinMeanJct, checked_ageing
from rota.policies.registry import policies


@policies.register("min-mean-jct-unified")
class MinMeanJctUnified:
    """Least mean completion time; GPU type, CPUs and memory chosen together.

    Parameters: ageing - how much time since arrival brings a job forward; 0: not at all.
    """

    def __init__(self, ageing: float = AGEING) -> None:
        self._ageing = checked_ageing(ageing)

    def allocate(self, view: View) -> Allocation:
        """Shares and configurations with the largest sum of delays that are saved."""
        known = view.classes.configurations
        if len(view) == 0 or not known.sensitive:
            return MinMeanJct(self._ageing).allocate(view)
        fastest = (usable_rate(view) * known.speed[known.full]).max(axis=1)
        line = line_up(view, fastest, self._ageing)
        groups = line.groups
        ways = columns(view, groups)
        problem = Configured(groups=groups, columns=ways, scale=np.ones(len(groups)))
        solution = most(problem, line.delay * ratio(np.ones(len(groups)), fastest[groups.job_class]), {})
        dealt = deal(line, ways.group, solution.times, ways.rate)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=_shares(view, ways, dealt),
            wish=_wishes(view, ways, dealt),
            traits=Traits(fills_by_speed=True),
            report=SolveReport(objective=solution.value, size=len(ways)),
        )


def _shares(view: View, ways: Columns, dealt: Dealt) -> FloatArray:
    """[J, T] time of each job on each type, whatever the configuration."""
    share = np.zeros((len(view), len(view.types)))
    np.add.at(share, (dealt.job, ways.type[dealt.way]), dealt.time)
    return share


def _wishes(view: View, ways: Columns, dealt: Dealt) -> Wishes:
    """What each job should hold on each type: what it has most time with; all that makes it fast where it has none."""
    known = view.classes.configurations
    wish: IntArray = known.full[view.job_class]
    by_time = dealt.time.argsort(kind="stable")
    way = dealt.way[by_time]
    wish[dealt.job[by_time], ways.type[way]] = ways.config[way]
    return Wishes(ways.menu.cpus, ways.menu.memory_gb, ways.menu.speed, wish)
