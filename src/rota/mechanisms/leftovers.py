"""Who takes GPUs that nobody who was chosen can use, although CPUs and memory are there for somebody else.

Jobs are chosen by numbers of GPUs. One that asks for CPUs, memory or labels may then find none on the type for which it
was chosen, and its GPUs are left. They are offered to all that wait, in the policy's order and on every type on which
they can run: who asks for something is put on servers, who does not has GPUs kept for it, which the mechanism gives
out. Room only shrinks, so jobs alike are tried once: the steps are no more than GPUs that are left and kinds of jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import BoolArray, FloatArray, IntArray, some
from rota.core.view import View
from rota.mechanisms.merging import BoundTask
from rota.mechanisms.server_room import ServerRoom

Put: TypeAlias = "Callable[[int, int], BoundTask | None]"
"""A job (position) on servers of a type; None if there is no room."""
Limits: TypeAlias = "Callable[[View, IntArray], FloatArray | None]"
"""[N, T] GPUs that tenants may have beyond those they hold ([N, T]); None: any number."""

_DIGITS = 6
"""Of debts in seconds: sums of fractions must not tell equals apart."""


@dataclass(slots=True)
class Claims:
    """What those who were chosen claim."""

    kept: IntArray
    """[T] GPUs with a proportional share that have to be left."""
    held: IntArray
    """[N, T] GPUs by tenant."""
    waits: BoolArray
    """[J] who has no place and no claim."""
    chosen: BoolArray
    """[J] who was chosen."""


def offered(
    view: View, allocation: Allocation, room: ServerRoom, claims: Claims, put: Put, limits: Limits
) -> list[BoundTask]:
    """Bound jobs that take what is left; their tasks hold it in `room`."""
    bound = view.classes.bound
    assert bound is not None  # otherwise nobody would ask
    if allocation.order is None and not allocation.traits.fills:
        return []
    if not some(claims.waits & bound[view.job_class].any(axis=1)):
        return []
    left = [room.usable_of(gpu_type) - int(claims.kept[gpu_type]) for gpu_type in range(len(view.types))]
    if max(left) <= 0:
        return []
    queue = _queue(view, allocation, claims)
    return _Walk(view, room, claims, put, limits, aware=allocation.traits.aware).down(queue)


def _queue(view: View, allocation: Allocation, claims: Claims) -> IntArray:
    """Who waits, in the policy's order; of those with shares, who was chosen, then who is furthest behind."""
    queue: IntArray
    if allocation.order is not None:
        queue = view.position(allocation.jobs[allocation.order])
        queue = queue[queue >= 0]
    elif view.accounts is None:
        queue = np.argsort(~claims.chosen, kind="stable")
    else:
        accounts = view.accounts
        debt = accounts.owed + accounts.share * (view.now - view.solved_at) - accounts.received
        queue = np.lexsort((-debt.sum(axis=0).round(_DIGITS), ~claims.chosen))
    queue = queue[claims.waits[queue]]
    priority = view.priority
    return queue if priority is None else queue[np.argsort(-priority[queue], kind="stable")]


class _Walk:
    """One walk down those who wait."""

    def __init__(self, view: View, room: ServerRoom, claims: Claims, put: Put, limits: Limits, *, aware: bool) -> None:
        self._view = view
        self._room = room
        self._claims = claims
        self._put = put
        self._limits = limits
        self._aware = aware

    def down(self, queue: IntArray) -> list[BoundTask]:
        """The tasks of bound jobs that find room."""
        view = self._view
        kind = (view.job_class * len(view.tenants) + view.tenant)[queue]
        kinds, of = np.unique(kind, return_inverse=True)
        of = of.reshape(-1)
        hopeless = np.zeros(len(kinds), dtype=np.bool_)
        tasks: list[BoundTask] = []
        at = 0
        while True:
            later = np.flatnonzero(~hopeless[of[at:]])
            if len(later) == 0 or not self._is_left():
                return tasks
            at += int(later[0])
            found, task = self._served(int(queue[at]))
            if task is not None:
                tasks.append(task)
            hopeless[of[at]] = not found
            at += 1

    def _is_left(self) -> bool:
        """Whether GPUs are there that nobody claims."""
        kept = self._claims.kept.tolist()
        return any(self._room.usable_of(gpu_type) > kept[gpu_type] for gpu_type in range(len(kept)))

    def _served(self, job: int) -> tuple[bool, BoundTask | None]:
        """Whether there is room for a job, and its task if it is bound there."""
        view = self._view
        bound = view.classes.bound
        assert bound is not None
        size = int(view.gpus[job])
        tenant = int(view.tenant[job])
        allowed = self._limits(view, self._claims.held)
        for gpu_type in self._wish(job):
            if allowed is not None and size > allowed[tenant, gpu_type]:
                continue
            task = None
            if bound[view.job_class[job], gpu_type]:
                task = self._on_servers(job, gpu_type)
                if task is None:
                    continue
            elif self._room.usable_of(gpu_type) - int(self._claims.kept[gpu_type]) < size:
                continue
            else:
                self._claims.kept[gpu_type] += size
            self._claims.held[tenant, gpu_type] += size
            return True, task
        return False, None

    def _on_servers(self, job: int, gpu_type: int) -> BoundTask | None:
        """A bound job where it leaves all GPUs that are claimed; None if there is no such place."""
        task = self._put(job, gpu_type)
        if task is None:
            return None
        self._room.take(task.slots, task.beside)
        if self._room.usable_of(gpu_type) >= self._claims.kept[gpu_type]:
            return task
        self._room.give_back(task.slots, task.beside)
        return None

    def _wish(self, job: int) -> list[int]:
        """Types on which a job can run: the fastest first, or where it ran and then where most GPUs are left."""
        view = self._view
        rate = view.classes.throughput[view.job_class[job]]
        if self._aware:
            order = np.argsort(-rate, kind="stable").tolist()
        else:
            last = view.placement
            row = -1 if last is None or view.last_task is None else int(view.last_task[job])
            ran_on = int(last.type[row]) if last is not None and row >= 0 else -1
            free = [self._room.usable_of(gpu_type) for gpu_type in range(len(rate))]
            order = sorted(range(len(rate)), key=lambda gpu_type: (gpu_type != ran_on, -free[gpu_type]))
        return [gpu_type for gpu_type in order if rate[gpu_type] > 0]
