"""Least mean completion time on several GPU types: shortest remaining time first with the right type for everybody.

    maximise  sum_ij h_i T_ij / max_j T_ij x_ij        h_i = w_i + s_i / N  sum of w_k over the jobs k behind i

x_ij is the share of time of job i on type j; rows limit the time of a job and the GPUs of a type. T, s, w, N as in
`max-min-fairness-perf`. h_i is how many jobs a second of work of job i delays (opt/delays.py): itself, and all that
come later, as far as its GPUs are a part of the cluster. Jobs come in the order of R_i s_i / w_i (Smith's rule), R_i
seconds left on the fastest type, which counts as R_i / (1 + a A_i / R_i) for a job that arrived A_i seconds ago, so
that long ones do not wait for ever; a is the parameter `ageing`. With one type and without ageing this is `srtf` (of
jobs with several GPUs: least GPU time left first). With several, a short job takes a fast GPU from a long one only if
it does not cost more than it saves: a type is worth to a job what the job's speed loses on the next best. An optimum
gives all but a few jobs a whole type or nothing, so hardly anybody is moved to and fro. CPUs and memory are not looked
at; `min-mean-jct-unified` does.
"""

from __future__ import annotations

import math

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.errors import ConfigError
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.delays import deal, line_up
from rota.opt.groups import ratio, usable_rate
from rota.opt.max_sum import most
from rota.opt.shares import Polytope
from rota.policies.registry import policies

AGEING = 1.0


@policies.register("min-mean-jct")
class MinMeanJct:
    """Least mean completion time: short jobs first, each on the type that shortens all completion times most.

    Parameters: ageing - how much time since arrival brings a job forward; 0: not at all.
    """

    def __init__(self, ageing: float = AGEING) -> None:
        self._ageing = checked_ageing(ageing)

    def allocate(self, view: View) -> Allocation:
        """Shares with the largest sum of delays that are saved."""
        types = len(view.types)
        share = np.zeros((len(view), types))
        if len(view) == 0:
            return _answer(view, share, 0.0)
        rate = usable_rate(view)
        fastest = rate.max(axis=1)
        line = line_up(view, fastest, self._ageing)
        groups = line.groups
        speed = ratio(rate, np.broadcast_to(fastest[:, None], rate.shape))[groups.job_class]
        polytope = Polytope(
            groups=groups,
            capacity=view.capacity.astype(np.float64),
            rate=speed,
            scale=np.ones(len(groups)),
        )
        worth = np.broadcast_to(line.delay[:, None], speed.shape)
        solution = most(polytope, worth, np.zeros(len(groups)))
        group = np.repeat(np.arange(len(groups)), types)
        dealt = deal(line, group, solution.times.alone.ravel(), speed.ravel())
        np.add.at(share, (dealt.job, dealt.way % types), dealt.time)
        return _answer(view, share, solution.worth)


def _answer(view: View, share: np.ndarray, worth: float) -> Allocation:
    return Allocation(
        horizon=UNTIL_JOBS_CHANGE,
        jobs=view.jobs,
        types=view.types,
        share=share,
        traits=Traits(fills_by_speed=True),
        report=SolveReport(objective=worth, size=share.size),
    )


def checked_ageing(ageing: float) -> float:
    """The parameter `ageing`, checked."""
    if not 0 <= ageing < math.inf:
        raise ConfigError(f"ageing={ageing} is not possible; give 0 (none) or a positive number")
    return ageing
