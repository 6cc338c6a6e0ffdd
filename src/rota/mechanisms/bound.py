"""Jobs that not every server can hold: those that need more CPUs or memory than a proportional share, or labels.

They are put on servers first, in the order in which they were chosen, each with what it needs (`core/needs.py`). All
others are placed by the mechanism itself on what is left: servers with fewer GPUs, CPUs and memory, where every GPU
that is left has its proportional share. So no mechanism goes below a floor, and nobody goes below the proportional
share because somebody else asked for more. GPUs beside which nothing is left stay idle.

A job that needs so much that jobs before it would find too few GPUs waits, as it would if it had come for GPUs. What is
left by that is offered to all that wait, on every type (`leftovers.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import BoolArray, IntArray, every, frozen
from rota.core.classes import Classes
from rota.core.cluster import Cluster
from rota.core.errors import ConfigError
from rota.core.needs import labelled
from rota.core.placement import Placement
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.dividing import Abilities
from rota.mechanisms.going_on import keep_tasks
from rota.mechanisms.leftovers import Claims, Limits, offered
from rota.mechanisms.merging import BoundTask, merged, slots_of
from rota.mechanisms.repeated import Question, question_of
from rota.mechanisms.rest_of_cluster import RestOfCluster
from rota.mechanisms.server_room import PerGpu, ServerRoom

Place: TypeAlias = "Callable[[View, Allocation, list[BoundTask]], Placement]"
Choose: TypeAlias = "Callable[[View, Allocation], Choice]"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Who was chosen, in order."""

    position: IntArray
    type: IntArray
    partner: IntArray | None
    """Who shares the GPUs of each; -1 or None: nobody."""
    bound: BoolArray
    """Whether the job needs more on that type than a proportional share, or certain servers."""


class AroundBound:
    """Places jobs with needs, and lets a mechanism place the others around them."""

    def __init__(self, abilities: Abilities, limits: Limits, *, counts: bool = False) -> None:
        """`limits` of tenants; `counts`: whether decisions are counted, so that the mechanism is asked for each."""
        self._limits = limits
        self._counts = counts
        self._by_need = abilities.by_need
        self._walks = abilities.walks
        self._unbound: tuple[Classes, Classes] | None = None
        self._rest: RestOfCluster | None = None
        self._settled: Question | None = None
        """The last question, if its answer was that everything stays as it is."""

    def place(self, view: View, allocation: Allocation, choose: Choose, place: Place) -> Placement:
        """A placement of everybody; `choose` says who may run, `place` places those who need nothing special."""
        question = None if self._counts else question_of(view, allocation)
        if question is not None and self._settled is not None and question.is_again(self._settled):
            return question.placement
        placement = self._placed(view, allocation, choose, place)
        self._settled = question if placement is view.placement else None
        return placement

    def _placed(self, view: View, allocation: Allocation, choose: Choose, place: Place) -> Placement:
        """The same, worked out."""
        wanted = self._wanted(view, choose(view, allocation))
        room = ServerRoom(view.cluster)
        tasks = self._staying(view, room)
        tasks += self._starting(view, wanted, room, {task.position for task in tasks})
        tasks += self._finding_room(view, allocation, wanted, room, tasks)
        if self._by_need:
            tasks = [self._with_more(view, task, room) for task in tasks]
        rest = self._rest_of(view.cluster, tasks)
        others = self._others(view, wanted, {task.position for task in tasks}, rest.cluster)
        placement = place(others, allocation, tasks)
        if len(placement) and not len(placement.slot_server):
            raise ConfigError(
                "jobs ask for CPUs, memory or labels, and the mechanism leaves out servers (its setting slots); "
                "leave the setting out, or give --set-rules enforce_requests=no"
            )
        return merged(view, tasks, placement, rest.cluster)

    def _wanted(self, view: View, choice: Choice) -> Wanted:
        """Who was chosen; of a queue that the mechanism walks down itself, those for whom there are GPUs."""
        rows = np.arange(len(choice)) if choice.wasted is None else np.flatnonzero(~choice.wasted)
        if self._walks:
            rows = _while_gpus_last(view, choice, rows)
        position = choice.first[rows]
        gpu_type = choice.type[rows]
        bound = view.classes.bound
        assert bound is not None  # otherwise nobody would ask
        partner = None if choice.second is None else choice.second[rows]
        return Wanted(position, gpu_type, partner, bound[view.job_class[position], gpu_type])

    # Who has to stay where it is

    def _staying(self, view: View, room: ServerRoom) -> list[BoundTask]:
        """Bound tasks that have to stay; the others that have to are counted only."""
        last = view.placement
        if view.staying is None or last is None:
            return []
        tasks: list[BoundTask] = []
        bound = view.classes.bound
        assert bound is not None
        for row in np.flatnonzero(view.staying).tolist():
            position = int(view.position(last.first[row : row + 1])[0])
            gpu_type = int(last.type[row])
            slots = slots_of(last, row)
            if bound[view.job_class[position], gpu_type]:
                beside = self._held(view, last, row, position)
                tasks.append(
                    BoundTask(position, int(view.tenant[position]), gpu_type, int(last.gpus[row]), slots, beside)
                )
            else:
                beside = self._share(view, last, row)
            room.take(slots, beside)
        return tasks

    def _held(self, view: View, last: Placement, row: int, position: int) -> PerGpu:
        """What a bound task holds, and no less than it needs."""
        least = least_beside(view, position, int(last.type[row]))
        if last.cpus is None or last.memory_gb is None:
            return least
        size = int(last.gpus[row])
        cpus = max(least.cpus, float(last.cpus[row]) / size)
        return PerGpu(cpus, max(least.memory_gb, float(last.memory_gb[row]) / size))

    def _share(self, view: View, last: Placement, row: int) -> PerGpu:
        """What the mechanism cannot take from a task that stays: its share, or all it holds if it cuts nobody."""
        gpu_type = int(last.type[row])
        if self._walks and last.cpus is not None and last.memory_gb is not None:
            size = int(last.gpus[row])
            return PerGpu(float(last.cpus[row]) / size, float(last.memory_gb[row]) / size)
        return PerGpu(float(view.cluster.fair_cpus[gpu_type]), float(view.cluster.fair_memory_gb[gpu_type]))

    # Who is put on servers

    def _starting(self, view: View, wanted: Wanted, room: ServerRoom, there: set[int]) -> list[BoundTask]:
        """Bound tasks that were chosen and find room, in the order in which they were chosen."""
        tasks: list[BoundTask] = []
        before = np.zeros(len(view.types), dtype=np.int64)
        busy = _busy(view, wanted)
        held = [self._held_by_staying(view, gpu_type) for gpu_type in range(len(view.types))]
        columns = zip(wanted.position.tolist(), wanted.type.tolist(), wanted.bound.tolist(), strict=True)
        for position, gpu_type, bound in columns:
            size = int(view.gpus[position])
            if not bound:
                before[gpu_type] += size
            elif position not in there:
                task = _put(view, position, gpu_type, room, busy)
                if task is None:
                    continue
                room.take(task.slots, task.beside)
                if room.usable_of(gpu_type) + held[gpu_type] >= before[gpu_type]:
                    tasks.append(task)
                else:
                    room.give_back(task.slots, task.beside)
        return tasks

    def _finding_room(
        self, view: View, allocation: Allocation, wanted: Wanted, room: ServerRoom, tasks: list[BoundTask]
    ) -> list[BoundTask]:
        """Bound tasks on what those who were chosen leave; none if the mechanism gives them more than their share."""
        if self._walks:
            return []
        others = ~wanted.bound
        waits: BoolArray = np.logical_or.reduce(view.classes.runs_on[view.job_class], axis=1)
        chosen = np.zeros(len(view), dtype=np.bool_)
        chosen[wanted.position] = True
        waits[wanted.position[others]] = False
        if wanted.partner is not None:
            waits[wanted.partner[wanted.partner >= 0]] = False
        waits[[task.position for task in tasks]] = False
        size = view.gpus[wanted.position[others]]
        kept = np.bincount(wanted.type[others], weights=size, minlength=len(view.types)).astype(np.int64)
        kept -= [self._held_by_staying(view, gpu_type) for gpu_type in range(len(view.types))]
        held = np.zeros((len(view.tenants), len(view.types)), dtype=np.int64)
        np.add.at(held, (view.tenant[wanted.position[others]], wanted.type[others]), size)
        for task in tasks:
            held[task.tenant, task.type] += task.size
        busy = _busy(view, wanted)
        claims = Claims(kept=kept, held=held, waits=waits, chosen=chosen)
        put = partial(_put, view, room=room, busy=busy)
        return offered(view, allocation, room, claims, put, self._limits)

    def _held_by_staying(self, view: View, gpu_type: int) -> int:
        """GPUs of tasks that have to stay and are not bound: they are not free, and those chosen hold them."""
        last = view.placement
        if view.staying is None or last is None:
            return 0
        bound = view.classes.bound
        assert bound is not None
        groups = view.job_class[view.position(last.first)]
        mine = view.staying & (last.type == gpu_type) & ~bound[groups, last.type]
        return int(last.gpus[mine].sum())

    def _with_more(self, view: View, task: BoundTask, room: ServerRoom) -> BoundTask:
        """The task with what makes it as fast as it can get, if nobody else can use that."""
        known = view.classes.configurations
        full = known.holding(int(known.full[view.job_class[task.position], task.type]))
        beside = PerGpu(
            max(task.beside.cpus, full.cpus / task.size), max(task.beside.memory_gb, full.memory_gb / task.size)
        )
        more = PerGpu(beside.cpus - task.beside.cpus, beside.memory_gb - task.beside.memory_gb)
        after = room.copy()
        for server, part in task.slots:
            after.cpus[server] -= more.cpus * part
            after.memory_gb[server] -= more.memory_gb * part
        same = every(after.usable() == room.usable()) and min(after.cpus.min(), after.memory_gb.min()) >= 0
        if not same:
            return task
        room.cpus = after.cpus
        room.memory_gb = after.memory_gb
        return replace(task, beside=beside)

    # What is left for the others

    def _rest_of(self, cluster: Cluster, tasks: list[BoundTask]) -> RestOfCluster:
        """What is left of the servers; the same object as long as the same is taken."""
        taken = tuple((slot, task.beside) for task in tasks for slot in task.slots)
        if self._rest is None or not self._rest.is_of(cluster, taken):
            self._rest = RestOfCluster(cluster, taken)
        return self._rest

    def _others(self, view: View, wanted: Wanted, placed: set[int], rest: Cluster) -> View:
        """What the mechanism is asked about: everybody else, on what is left."""
        classes = self._without_bound(view.classes)
        able: BoolArray = np.logical_or.reduce(classes.runs_on[view.job_class], axis=1)
        able[list(placed)] = False
        keep = np.flatnonzero(able)
        part = view.some_jobs(keep, rest.capacity)
        part.cluster = rest
        part.classes = classes
        if part.accounts is not None:
            part.accounts.terms.classes = classes
        keep_tasks(view, part, wanted.position)
        divides = self._by_need and classes.configurations.sensitive
        if part.placement is not None and not divides:  # what tasks held beside others is no promise
            part.placement = replace(part.placement, cpus=None, memory_gb=None, speed=None)
        return part

    def _without_bound(self, classes: Classes) -> Classes:
        """The classes without the types on which they are bound."""
        if self._unbound is None or self._unbound[0] is not classes:
            bound = classes.bound
            assert bound is not None
            unbound = replace(
                classes,
                throughput=frozen(np.where(bound, 0.0, classes.throughput)),
                spread=frozen(np.where(bound, 0.0, classes.spread)),
                runs_on=frozen(classes.runs_on & ~bound),
                bound=None,
            )
            self._unbound = (classes, unbound)
        return self._unbound[1]


def least_beside(view: View, position: int, gpu_type: int) -> PerGpu:
    """What a job holds beside each GPU at least: the proportional share, or what it needs if that is more."""
    needs = view.classes.needs[int(view.job_class[position])]
    size = int(view.gpus[position])
    cluster = view.cluster
    cpus = float(cluster.fair_cpus[gpu_type])
    memory_gb = float(cluster.fair_memory_gb[gpu_type])
    return PerGpu(
        max(cpus, needs.cpus / size) if cpus > 0 else 0.0,
        max(memory_gb, needs.memory_gb / size) if memory_gb > 0 else 0.0,
    )


def _while_gpus_last(view: View, choice: Choice, rows: IntArray) -> IntArray:
    """Down the queue, those for whom there are GPUs of their type."""
    left = view.capacity.tolist()
    kept = []
    for row in rows.tolist():
        gpu_type = int(choice.type[row])
        size = int(view.gpus[choice.first[row]])
        if size <= left[gpu_type]:
            left[gpu_type] -= size
            kept.append(row)
    return np.array(kept, dtype=np.int64)


def _put(view: View, position: int, gpu_type: int, room: ServerRoom, busy: IntArray) -> BoundTask | None:
    """A bound job on servers: where it ran, if that is possible; None if there is no room."""
    size = int(view.gpus[position])
    beside = least_beside(view, position, gpu_type)
    labels = view.classes.needs[int(view.job_class[position])].labels
    allowed = labelled(view.cluster, labels) if labels else None
    last = view.placement
    row = -1 if last is None or view.last_task is None else int(view.last_task[position])
    if last is not None and row >= 0 and last.type[row] == gpu_type and len(last.slot_server):
        slots = slots_of(last, row)
        if room.holds(slots, beside) and (allowed is None or all(allowed[server] for server, _ in slots)):
            return BoundTask(position, int(view.tenant[position]), gpu_type, size, slots, beside)
    found = room.place(gpu_type, size, beside, allowed, busy)
    return None if found is None else BoundTask(position, int(view.tenant[position]), gpu_type, size, found, beside)


def _busy(view: View, wanted: Wanted) -> IntArray:
    """[S] GPUs of unbound tasks that were chosen to go on."""
    last = view.placement
    busy = np.zeros(len(view.cluster.ordered), dtype=np.int64)
    if last is None or view.last_task is None or len(last.slot_server) == 0:
        return busy
    rows = view.last_task[wanted.position]
    rows = rows[(rows >= 0) & ~wanted.bound]
    goes_on = np.zeros(len(last), dtype=np.bool_)
    goes_on[rows] = True
    slots = goes_on[last.task_of_slot]
    np.add.at(busy, last.slot_server[slots], last.slot_gpus[slots])
    return busy
