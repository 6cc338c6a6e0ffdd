"""Borrowed GPUs that are taken back from jobs which may not be preempted, for jobs within the quotas of their tenants.

A promise counts more than the wish of a borrower: otherwise a job that is never preempted keeps GPUs that others were
promised for as long as it likes. As little as possible is taken back, and only where it helps:

- A job that waits and fits into what its tenant does not hold of its quota finds GPUs that are free first, then those
  of borrowers that may be preempted anyway, and only then those of borrowers that may not.
- Of these, whole tasks give way: those that hold nothing of their own tenant's quota first, then those that have
  received the least GPU time. If all together were not enough, nobody does.

A tenant without a quota is promised nothing, so all that it holds is borrowed. GPUs are counted by type: labels, CPUs
and memory of single servers are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, IntArray, some
from rota.core.quotas import Quotas
from rota.core.view import View


def keeping_their_place(view: View, pinned: BoolArray, quotas: Quotas) -> BoolArray:
    """[J] those of the jobs that may not be preempted that keep their GPUs in the coming round.

    Tasks in the view's placement are those of jobs that are there.
    """
    placement = view.placement
    if placement is None or len(placement) == 0 or not quotas.limited or not some(pinned):
        return pinned
    books = _Books(view, pinned, quotas)
    if not books.somebody_could_give_way():
        return pinned
    refused: set[tuple[int, int]] = set()
    for position in books.waiting():
        kind = (int(view.tenant[position]), int(view.job_class[position]))
        if kind not in refused and not books.find_room(position):
            refused.add(kind)
    if not books.taken_back:
        return pinned
    keeps = pinned.copy()
    keeps[list(books.taken_back)] = False
    return keeps


@dataclass(frozen=True, slots=True)
class _Task:
    """What runs: jobs by position, their tenants, where, and whether it may not be preempted."""

    members: tuple[int, ...]
    tenants: frozenset[int]
    type: int
    gpus: int
    pinned: bool


class _Books:
    """Who holds what while GPUs are found for one job after the other."""

    def __init__(self, view: View, pinned: BoolArray, quotas: Quotas) -> None:
        self._view = view
        self._quotas = [quotas.of(name) for name in view.tenants]
        self._promised = np.array(
            [[quota.of_type(name) for name in view.types] for quota in self._quotas], dtype=np.int64
        )
        self._tasks = _tasks(view, pinned)
        self._held = np.zeros((len(view.tenants), len(view.types)), dtype=np.int64)
        self._free = view.capacity.tolist()
        for task in self._tasks:
            self._free[task.type] -= task.gpus
            for tenant in task.tenants:
                self._held[tenant, task.type] += task.gpus
        self.taken_back: set[int] = set()
        """Positions of jobs that may be stopped although they may not be preempted."""

    def somebody_could_give_way(self) -> bool:
        """Whether a task that may not be preempted holds borrowed GPUs."""
        return any(task.pinned and self._borrowed(self._held, task) for task in self._tasks)

    def waiting(self) -> list[int]:
        """Positions of the jobs that do not run and whose tenants have quotas, by priority, then the oldest first."""
        view = self._view
        promised = np.array([quota.total > 0 for quota in self._quotas], dtype=np.bool_)
        waits = promised[view.tenant]
        waits[[member for task in self._tasks for member in task.members]] = False
        positions = np.flatnonzero(waits)
        if view.priority is not None:
            positions = positions[np.argsort(-view.priority[positions], kind="stable")]
        found: list[int] = positions.tolist()
        return found

    def find_room(self, position: int) -> bool:
        """Give a waiting job GPUs within the quota of its tenant; whether there are any."""
        view = self._view
        tenant = int(view.tenant[position])
        gpus = int(view.gpus[position])
        able = np.flatnonzero(view.classes.runs_on[view.job_class[position]]).tolist()
        types = [gpu_type for gpu_type in able if self._unused(tenant, gpu_type) >= gpus]
        for pinned_too in (False, True):
            for gpu_type in types:
                leaving = self._leaving(gpu_type, gpus, pinned_too=pinned_too)
                if leaving is not None:
                    self._stop(leaving)
                    self._free[gpu_type] -= gpus
                    self._held[tenant, gpu_type] += gpus
                    return True
        return False

    def _unused(self, tenant: int, gpu_type: int) -> int:
        """GPUs of a type that a tenant may hold more within its quota."""
        quota = self._quotas[tenant]
        if quota.by_type is None:
            return quota.total - int(self._held[tenant].sum())
        return int(self._promised[tenant, gpu_type] - self._held[tenant, gpu_type])

    def _borrowed(self, held: IntArray, task: _Task) -> int:
        """How many GPUs of a task are borrowed, if tenants hold so many; those of two tenants only if both borrow."""

        def beyond(tenant: int) -> int:
            quota = self._quotas[tenant]
            if quota.by_type is None:
                return int(held[tenant].sum()) - quota.total
            return int(held[tenant, task.type] - self._promised[tenant, task.type])

        return min(task.gpus, *(max(0, beyond(tenant)) for tenant in task.tenants))

    def _leaving(self, gpu_type: int, gpus: int, *, pinned_too: bool) -> list[_Task] | None:
        """The tasks without which so many GPUs of a type are free; None if that cannot be."""
        free = self._free[gpu_type]
        if free >= gpus:
            return []
        held = self._held.copy()
        leaving: list[_Task] = []
        candidates = [task for task in self._tasks if task.type == gpu_type and (pinned_too or not task.pinned)]
        for task in sorted(candidates, key=lambda task: self._cost(held, task)):
            if free >= gpus:
                break
            if self._borrowed(held, task):
                leaving.append(task)
                free += task.gpus
                held[list(task.tenants), gpu_type] -= task.gpus
        return leaving if free >= gpus else None

    def _cost(self, held: IntArray, task: _Task) -> tuple[bool, int, float, int]:
        """What comes first gives way first."""
        received = float(sum(self._view.attained[member] for member in task.members))
        return task.pinned, task.gpus - self._borrowed(held, task), received, -max(task.members)

    def _stop(self, leaving: list[_Task]) -> None:
        for task in leaving:
            self._free[task.type] += task.gpus
            self._held[list(task.tenants), task.type] -= task.gpus
            if task.pinned:
                self.taken_back.update(task.members)
        self._tasks = [task for task in self._tasks if task not in leaving]


def _tasks(view: View, pinned: BoolArray) -> list[_Task]:
    placement = view.placement
    assert placement is not None  # the caller has looked
    first = view.position(placement.first).tolist()
    second = view.position(placement.second).tolist() if placement.shared else [-1] * len(placement)
    tasks = []
    for row, pair in enumerate(zip(first, second, strict=True)):
        members = tuple(member for member in pair if member >= 0)
        tasks.append(
            _Task(
                members=members,
                tenants=frozenset(view.tenant[list(members)].tolist()),
                type=int(placement.type[row]),
                gpus=int(placement.gpus[row]),
                pinned=bool(pinned[list(members)].any()),
            )
        )
    return tasks
