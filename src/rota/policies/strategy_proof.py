"""Strategy-proof fairness: Nash welfare with a discount that makes lying about throughputs useless (Gavel's artifact).

    x = argmax  prod_i u_i,   u_i = sum_j T_ij s_i / (w_i p_i) x_ij        (p as in max_min_fairness.py)
    discount_i = prod over k != i of  u_k / (u_k in the optimum without job i)   <= 1

Every job gets x_i times its discount (the partial allocation mechanism of Cole, Gkatzelis and Goel, EC'13). Jobs of a
class are interchangeable, so there is one problem without a job per class, not per job.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, SolveReport
from rota.core.arrays import FloatArray
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.groups import by_class, proportional_rate, ratio, usable_rate
from rota.opt.nash import NashWelfare
from rota.policies.registry import policies


@policies.register("max-min-fairness-strategy-proof")
class StrategyProof:
    """Shares of largest Nash welfare, discounted so that no job gains by misreporting its throughputs."""

    by_weight = True
    """It shares out in proportion to weights, so it can be made fair between tenants (fair_by_tenant.py)."""

    def allocate(self, view: View) -> Allocation:
        """Discounted shares; the objective is the mean of log u before the discount."""
        groups = by_class(view)
        rate = usable_rate(view)
        scale = ratio(groups.gpus, proportional_rate(rate, view.capacity)) / groups.weight
        gain = rate * scale[:, None]
        count = np.where(gain.max(axis=1, initial=0.0) > 0, groups.count, 0.0)
        if not count.any():
            return Allocation(
                horizon=UNTIL_JOBS_CHANGE,
                jobs=view.jobs,
                types=view.types,
                share=np.zeros((len(view), len(view.capacity))),
            )
        problem = NashWelfare(gain, groups.gpus, view.capacity.astype(np.float64))
        best = problem.solve(count, keep=True)
        discount = _discounts(problem, count, best.utility)
        by_group = best.times * (discount / np.maximum(count, 1.0))[:, None]
        there = count > 0
        mean_log_utility = float(count[there] @ np.log(best.utility[there]) / count.sum())
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=by_group[groups.member],
            report=SolveReport(objective=mean_log_utility, gap=best.gap, size=gain.size),
            state={"discount": discount[groups.member]},
        )


def _discounts(problem: NashWelfare, count: FloatArray, utility: FloatArray) -> FloatArray:
    discount = np.ones(len(count))
    for g in np.flatnonzero(count).tolist():
        others = count.copy()
        others[g] -= 1
        there = others > 0
        without = problem.solve(others).utility
        discount[g] = np.exp(min(0.0, float(others[there] @ np.log(utility[there] / without[there]))))
    return discount
