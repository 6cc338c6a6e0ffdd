"""Finish-time fairness (Themis, NSDI'20, as in Gavel, OSDI'20, section 4.2).

    minimise  max_i (a_i + R_i / sum_j T_ij x_ij) / E_i        E_i = C_i + R_i / q_i

a age, R steps left, q_i the job's throughput with an isolated n-th of the cluster (y_ij = N_j / (n s_i), rows scaled to
at most 1) and C_i the time that its steps so far would have taken at the isolated throughputs of their moments. Weights
are ignored. Among the optima, the one with the most total normalised throughput. `finish-time-fairness` does not
distinguish types: every T_ij is the throughput on the reference type (v100; where there is none, the job's fastest).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rota.core.allocation import Allocation, SolveReport, Traits
from rota.core.arrays import FloatArray
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.groups import ratio, usable_rate
from rota.opt.requirements import Requirement, meet, meet_blindly, reference_rate
from rota.policies.registry import policies


@policies.register("finish-time-fairness", aware=False, summary="Fair finish times, types not distinguished.")
@policies.register("finish-time-fairness-perf", aware=True, summary="Fair finish times, throughputs by type known.")
class FinishTimeFairness:
    """Least worst ratio of a job's finish time to the one in an isolated n-th of the cluster."""

    def __init__(self, aware: bool = True) -> None:
        self.aware = aware

    def allocate(self, view: View) -> Allocation:
        """Shares that minimise the worst finish-time ratio."""
        rate = usable_rate(view)
        if not self.aware:
            rate = reference_rate(view, rate)
        isolated = isolated_rate(view, rate)
        spent = isolated_time(view)
        left = view.steps_left
        need = Requirement(steps=left, slack=spent + ratio(left, isolated), age=view.age)
        solution = meet(view, rate, need) if self.aware else meet_blindly(view, rate, need)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=solution.share,
            traits=Traits(aware=self.aware, fills_by_speed=self.aware, scatters_ties=not self.aware),
            report=SolveReport(objective=1 / solution.target if solution.target > 0 else 0.0, size=len(view)),
            state={**solution.state, **isolated_state(view, spent, isolated)},
        )


def isolated_rate(view: View, rate: FloatArray) -> FloatArray:
    """[J] throughput with an equal part of every type: q_i = sum_j T_ij y_ij."""
    gpus = view.classes.gpus.astype(np.float64)
    part = view.capacity / (max(1, len(view)) * gpus[:, None])
    part /= np.maximum(1.0, part.sum(axis=1))[:, None]
    by_class: FloatArray = (rate * part).sum(axis=1)
    return by_class[view.job_class]


def isolated_time(view: View) -> FloatArray:
    """[J] seconds that the steps done so far would have taken in isolation, as counted up to the last call."""
    spent = np.zeros(len(view))
    state: Mapping[str, Any] = {} if view.previous is None else view.previous.state
    if "isolated_jobs" not in state or len(view) == 0:
        return spent
    known = state["isolated_jobs"]
    before = np.asarray(state["isolated_time"])
    if len(known) == 0:
        return spent
    at = np.minimum(np.searchsorted(known, view.jobs), len(known) - 1)
    old = np.asarray(known)[at] == view.jobs
    done = np.asarray(state["isolated_steps"])[at] - view.steps_left
    spent[old] = (before[at] + ratio(done, np.asarray(state["isolated_rate"])[at]))[old]
    return spent


def isolated_state(view: View, spent: FloatArray, isolated: FloatArray) -> dict[str, Any]:
    """What the next call needs to go on counting the isolated time."""
    return {
        "isolated_jobs": view.jobs.copy(),
        "isolated_time": spent,
        "isolated_steps": view.steps_left,
        "isolated_rate": isolated,
    }
