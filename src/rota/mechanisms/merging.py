"""Tasks that were put on servers for what they need, and all others, as one placement."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray, every
from rota.core.cluster import Cluster
from rota.core.errors import ProfileMissing
from rota.core.horizon import EVERY_ROUND
from rota.core.placement import Placement
from rota.core.view import View
from rota.mechanisms.server_room import PerGpu, Slots


@dataclass(frozen=True, slots=True)
class BoundTask:
    """A job on its servers, with what it holds beside each GPU."""

    position: int
    """Of the job in the view."""
    tenant: int
    type: int
    size: int
    slots: Slots
    beside: PerGpu


def slots_of(placement: Placement, row: int) -> Slots:
    """The slots of a task."""
    part = slice(int(placement.slot_start[row]), int(placement.slot_start[row + 1]))
    return list(zip(placement.slot_server[part].tolist(), placement.slot_gpus[part].tolist(), strict=True))


def merged(view: View, tasks: list[BoundTask], others: Placement, rest: Cluster) -> Placement:
    """One placement of bound tasks and of all others, tasks by job id; the last one itself if nothing changes."""
    bound = _as_placement(view, tasks)
    cpus, memory_gb = _beside_others(others, rest, view.cluster)
    first = np.concatenate([others.first, bound.first])
    counts = np.concatenate([np.diff(others.slot_start), np.diff(bound.slot_start)])
    order = np.argsort(first, kind="stable")
    starts = np.concatenate([others.slot_start[:-1], bound.slot_start[:-1] + len(others.slot_server)])
    slots = _slots_in_order(starts[order], counts[order])
    speed = np.ones(len(others)) if others.speed is None else others.speed
    assert bound.cpus is not None
    assert bound.memory_gb is not None
    assert bound.speed is not None
    made = Placement(
        first=first[order],
        second=np.concatenate([others.second, bound.second])[order],
        type=np.concatenate([others.type, bound.type])[order],
        gpus=np.concatenate([others.gpus, bound.gpus])[order],
        kept=np.zeros(len(first), dtype=np.bool_),
        slot_start=np.concatenate([[0], counts[order].cumsum()]).astype(np.int64),
        slot_server=np.concatenate([others.slot_server, bound.slot_server])[slots],
        slot_gpus=np.concatenate([others.slot_gpus, bound.slot_gpus])[slots],
        cpus=np.concatenate([cpus, bound.cpus])[order],
        memory_gb=np.concatenate([memory_gb, bound.memory_gb])[order],
        speed=np.concatenate([speed, bound.speed])[order],
        shared=others.shared,
        horizon=EVERY_ROUND,
    )
    made.kept = _kept(view, made)
    last = view.placement
    if last is not None and every(made.kept) and last == made and last.horizon.as_long_as(EVERY_ROUND):
        return last
    return made


def _as_placement(view: View, tasks: list[BoundTask]) -> Placement:
    """Bound tasks as columns."""
    size = np.array([task.size for task in tasks], dtype=np.int64)
    position = np.array([task.position for task in tasks], dtype=np.int64)
    slots = np.array([slot for task in tasks for slot in task.slots], dtype=np.int64).reshape(-1, 2)
    counts = np.array([len(task.slots) for task in tasks], dtype=np.int64)
    return Placement(
        first=view.jobs[position],
        second=np.full(len(tasks), -1, dtype=np.int64),
        type=np.array([task.type for task in tasks], dtype=np.int64),
        gpus=size,
        kept=np.zeros(len(tasks), dtype=np.bool_),
        slot_start=np.concatenate([[0], counts.cumsum()]).astype(np.int64),
        slot_server=slots[:, 0],
        slot_gpus=slots[:, 1],
        cpus=np.array([task.beside.cpus for task in tasks], dtype=np.float64) * size,
        memory_gb=np.array([task.beside.memory_gb for task in tasks], dtype=np.float64) * size,
        speed=np.array([_speed(view, task) for task in tasks], dtype=np.float64),
    )


def _speed(view: View, task: BoundTask) -> float:
    """How fast a bound task is with what it holds, relative to the proportional share."""
    known = view.classes.configurations
    if known.two_valued or not known.shapes[task.type].known:
        return 1.0
    speed = 1.0
    amounts = (task.beside.cpus * task.size, task.beside.memory_gb * task.size)
    with contextlib.suppress(ProfileMissing):
        speed = known.speed_of(int(view.job_class[task.position]), task.type, *amounts)
    return max(1.0, speed)


def _beside_others(others: Placement, rest: Cluster, cluster: Cluster) -> tuple[FloatArray, FloatArray]:
    """CPUs and memory of each other task: what the mechanism gave, or a part of the rest as of its GPUs."""
    columns = []
    amounts = (
        (others.cpus, rest.server_cpus, cluster.server_cpus),
        (others.memory_gb, rest.server_memory_gb, cluster.server_memory_gb),
    )
    for given, left, whole in amounts:
        if given is not None:
            columns.append(given)
            continue
        each = np.minimum(whole / np.maximum(cluster.server_gpus, 1), left / np.maximum(rest.server_gpus, 1))
        least: FloatArray = np.zeros(len(others))
        if len(others):
            least = np.minimum.reduceat(each[others.slot_server], others.slot_start[:-1])
        columns.append(least * others.gpus)
    return columns[0], columns[1]


def _slots_in_order(starts: IntArray, counts: IntArray) -> IntArray:
    """Positions of the slots of tasks, one task after the other."""
    ends: IntArray = counts.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    first: IntArray = (starts - (ends - counts)).repeat(counts)
    return first + np.arange(total)


def _kept(view: View, made: Placement) -> BoolArray:
    """[K] whether a task holds the very slots that it had in the last round."""
    last = view.placement
    kept = np.zeros(len(made), dtype=np.bool_)
    if last is None or view.last_task is None or len(last) == 0:
        return kept
    rows = view.last_task[view.position(made.first)]
    counts = np.diff(made.slot_start)
    alike = (rows >= 0) & (last.type[rows] == made.type) & (last.second[rows] == made.second)
    alike &= np.diff(last.slot_start)[rows] == counts
    tasks = np.flatnonzero(alike)
    if len(tasks) == 0:
        return kept
    now = _sorted_slots(made, tasks)
    before = _sorted_slots(last, rows[tasks])
    starts = np.concatenate([[0], counts[tasks].cumsum()[:-1]]).astype(np.int64)
    kept[tasks] = np.logical_and.reduceat((now == before).all(axis=1), starts)
    return kept


def _sorted_slots(placement: Placement, tasks: IntArray) -> IntArray:
    """[N, 2] server and GPUs of the slots of tasks, one task after the other, each by server."""
    counts = np.diff(placement.slot_start)[tasks]
    slots = _slots_in_order(placement.slot_start[tasks], counts)
    pairs = np.stack([placement.slot_server[slots], placement.slot_gpus[slots]], axis=1)
    if len(slots) == len(tasks):  # one slot each
        return pairs
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0], np.arange(len(tasks)).repeat(counts)))]
