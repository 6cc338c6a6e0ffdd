"""The policy of a deployment, asked in a thread of its own, so that a slow one never holds up the round."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet

import numpy as np

from rota.assembly import Settings, make_policy
from rota.core.allocation import Allocation
from rota.core.errors import SolveLate
from rota.core.horizon import EVERY_ROUND
from rota.core.ports import Policy
from rota.core.rules import Rules
from rota.core.view import View
from rota.policies.fair_by_tenant import fair_between
from rota.policies.levels import ByPriority


def deployed_policy(
    name: str, settings: Settings, seed: int, rules: Rules, *, weights: Mapping[str, float] | None
) -> Policy:
    """The policy of that name; fair between tenants first if their `weights` are given and it goes by weights."""
    policy = make_policy(name, settings, seed, rules)
    return ByPriority(policy if weights is None else fair_between(policy, name, weights))


class TimeLimitedPolicy:
    """Asks a policy and does not wait longer than the budget.

    A late answer is used in the next round, for the jobs it knows; the others get nothing until the one after it.
    """

    def __init__(self, policy: Policy, budget_s: float, late: int = 0) -> None:
        """`late` goes on counting from a policy before."""
        self._policy = policy
        self._budget_s = budget_s
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="policy")
        self._running: Future[Allocation] | None = None
        self.late = late
        """How often there was no answer in time."""
        self._solve_s = 0.0

    def allocate(self, view: View) -> Allocation:
        """The answer of the policy, or SolveLate if there is none in time."""
        began = time.perf_counter()
        try:
            return self._within_budget(view)
        finally:
            self._solve_s += time.perf_counter() - began

    def take_solve_s(self) -> float:
        """Wall seconds that the policy was waited for since this was asked last."""
        solve_s = self._solve_s
        self._solve_s = 0.0
        return solve_s

    def _within_budget(self, view: View) -> Allocation:
        if self._running is None:
            self._running = self._pool.submit(self._policy.allocate, view)
        try:
            allocation = self._running.result(timeout=self._budget_s)
        except NotYet:
            self.late += 1
            raise SolveLate(f"the policy has not answered within {self._budget_s:g} s; the last shares stay") from None
        except BaseException:
            self._running = None
            raise
        self._running = None
        asked_for = np.array_equal(allocation.jobs, view.jobs) and allocation.types == view.types
        return allocation if asked_for else adapted(allocation, view)

    def close(self) -> None:
        """Nobody asks it any more; a solve under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def adapted(allocation: Allocation, view: View) -> Allocation:
    """An answer for other jobs or types, as far as it goes for those of now; the policy is asked again soon."""
    if allocation.order is not None:
        rank = {int(job): at for at, job in enumerate(allocation.jobs[allocation.order].tolist())}
        order = sorted(range(len(view)), key=lambda at: (rank.get(int(view.jobs[at]), len(rank)), at))
        return dataclasses.replace(
            allocation,
            jobs=view.jobs,
            types=view.types,
            share=np.zeros((len(view), len(view.types))),
            order=np.array(order, dtype=np.int64),
            horizon=EVERY_ROUND,
            linear_key=None,
            wish=None,
        )
    share = np.zeros((len(view), len(view.types)))
    row_of = {int(job): row for row, job in enumerate(allocation.jobs.tolist())}
    columns = [allocation.types.index(t) if t in allocation.types else -1 for t in view.types]
    for at, job in enumerate(view.jobs.tolist()):
        row = row_of.get(int(job))
        if row is not None:
            share[at] = [allocation.share[row, column] if column >= 0 else 0.0 for column in columns]
    return Allocation(jobs=view.jobs, types=view.types, share=share, traits=allocation.traits, report=allocation.report)
