"""Policies and mechanisms made fit for a service: never late, and at home in a cluster that changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any

import numpy as np

from rota.core.allocation import Allocation
from rota.core.cluster import Cluster
from rota.core.errors import ConfigError, SolveError
from rota.core.placement import Placement
from rota.core.ports import Policy
from rota.core.view import View
from rota.mechanisms.registry import Halves


class Punctual:
    """Asks a policy in a thread of its own and does not wait longer than the budget.

    A late answer is used in the next round, for the jobs it knows; the others get nothing until the one after it.
    """

    def __init__(self, policy: Policy, budget_s: float) -> None:
        self._policy, self._budget_s = policy, budget_s
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="policy")
        self._running: Future[Allocation] | None = None
        self.late = 0
        self.unfinished = False
        """Whether the last answer did not cover all jobs, so that the policy has to be asked again."""

    def allocate(self, view: View) -> Allocation:
        """The answer of the policy, or SolveError if there is none in time."""
        if self._running is None:
            self._running = self._pool.submit(self._policy.allocate, _still(view))
        try:
            found = self._running.result(timeout=self._budget_s)
        except NotYet:
            self.late += 1
            self.unfinished = True
            raise SolveError(f"the policy has not answered within {self._budget_s:g} s; the last shares stay") from None
        except ConfigError as error:
            self._running = None
            raise SolveError(str(error)) from error
        except BaseException:
            self._running = None
            raise
        self._running = None
        self.unfinished = not np.array_equal(found.jobs, view.jobs) or found.types != view.types
        return adapted(found, view) if self.unfinished else found


def adapted(allocation: Allocation, view: View) -> Allocation:
    """An answer for other jobs or types, as far as it goes for those of now."""
    if allocation.order is not None:
        rank = {int(job): at for at, job in enumerate(allocation.jobs[allocation.order].tolist())}
        order = sorted(range(len(view)), key=lambda at: (rank.get(int(view.jobs[at]), len(rank)), at))
        given = np.array(order, dtype=np.int64)
        none = np.zeros((len(view), len(view.types)))
        return dataclasses.replace(allocation, jobs=view.jobs.copy(), types=view.types, share=none, order=given)
    share = np.zeros((len(view), len(view.types)))
    where = {int(job): row for row, job in enumerate(allocation.jobs.tolist())}
    kinds = [allocation.types.index(t) if t in allocation.types else -1 for t in view.types]
    for at, job in enumerate(view.jobs.tolist()):
        row = where.get(int(job))
        if row is not None:
            share[at] = [allocation.share[row, kind] if kind >= 0 else 0.0 for kind in kinds]
    return Allocation(
        jobs=view.jobs.copy(), types=view.types, share=share, traits=allocation.traits, report=allocation.report
    )


def _still(view: View) -> View:
    """A copy that does not change while the round goes on."""
    columns: dict[str, Any] = {
        f.name: value.copy() for f in dataclasses.fields(view) if isinstance(value := getattr(view, f.name), np.ndarray)
    }
    return dataclasses.replace(view, **columns)


class Renewing:
    """A mechanism that is made anew when the cluster changes: what it remembers of servers is out of date then."""

    def __init__(self, make: Callable[[], Halves]) -> None:
        self._make = make
        self._cluster: Cluster | None = None
        self._inner = make()
        self.by_need = self._inner.by_need
        """Whether CPUs and memory are divided by need."""

    def _for(self, view: View) -> Halves:
        if view.cluster is not self._cluster:
            if self._cluster is not None:
                self._inner = self._make()
            self._cluster = view.cluster
        return self._inner

    def place(self, view: View, allocation: Allocation) -> Placement:
        """Which options run in the coming round, and where."""
        return self._for(view).place(view, allocation)

    def unmoved(self, view: View, allocation: Allocation) -> bool:
        """Whether the last placement would be made again."""
        return self._for(view).unmoved(view, allocation)
