"""The tasks of a round as columns, and how they end as a placement."""

from __future__ import annotations

import numpy as np

from rota import kernels
from rota.core.arrays import BoolArray, IntArray, every, some, whole_zeros
from rota.core.horizon import Horizon
from rota.core.placement import Placement
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.holdings import Holdings
from rota.mechanisms.divide.packing import Columns
from rota.mechanisms.divide.slots import alone

_NONE: IntArray = np.zeros(0, dtype=np.int64)


class Chosen:
    """The tasks of one round, in the order of serving."""

    rows: IntArray
    """Positions of their jobs."""
    gpu_type: IntArray
    partner: IntArray | None
    """Positions of the jobs that share; -1 or None without one."""
    wish: IntArray | None
    """Rows of the policy's menu, or -1; None if it has no wishes."""

    def __init__(self, view: View, choice: Choice, *, largest_first: bool) -> None:
        self.view = view
        self.choice = choice
        self.rows = choice.first
        self.gpu_type = choice.type
        self.partner = choice.second
        self.wish = choice.wish
        order: IntArray | None = None
        if choice.wasted is not None:
            order = (~choice.wasted).nonzero()[0]
        elif largest_first and choice.largest_first and not view.single_gpu:
            order = (-view.gpus[self.rows]).argsort(kind="stable")
        if order is not None:
            self.rows = self.rows[order]
            self.gpu_type = self.gpu_type[order]
            self.partner = None if self.partner is None else self.partner[order]
            self.wish = None if self.wish is None else self.wish[order]

    def last_rows(self) -> IntArray:
        """For each task the row of the last placement with the same members on the same type, or -1."""
        last = self.view.placement
        tasks = self.view.last_task
        if last is None or tasks is None or len(last) == 0 or last.fraction is not None:
            return np.full(len(self.rows), -1, dtype=np.int64)
        row = tasks[self.rows]
        other = (last.type[row] != self.gpu_type) | (last.second[row] != self.partners())
        return np.where(other, -1, row)

    def partners(self) -> IntArray:
        """Ids of the jobs that share, or -1."""
        if self.partner is None:
            return alone(len(self.rows))
        return np.where(self.partner >= 0, self.view.jobs[self.partner], -1)

    def placement(
        self, put: IntArray, rows: IntArray, holdings: Holdings, slots: list[Columns], horizon: Horizon
    ) -> Placement:
        """The round, tasks by job id; the last placement itself if nothing but that came out again.

        `put` says which of the tasks were put, `rows` what each of them holds.
        """
        view = self.view
        count = len(put)
        columns = np.empty((4, count), dtype=np.int64)
        beside = np.empty((3, count))
        kept = np.empty(count, dtype=np.bool_)
        kernels.arrange(
            self.rows,
            self.gpu_type,
            put,
            rows,
            view.jobs,
            view.gpus,
            alone(len(view)) if view.last_task is None else view.last_task,
            holdings.cpus,
            holdings.memory_gb,
            holdings.speed,
            columns,
            beside,
            kept,
        )
        order, first, gpu_type, gpus = columns
        second = alone(count) if self.partner is None else self.partners()[put[order]]
        start, server, sizes = _ordered(slots, order)
        made = Placement(
            first=first,
            second=second,
            type=gpu_type,
            gpus=gpus,
            kept=kept,
            slot_start=start,
            slot_server=server,
            slot_gpus=sizes,
            cpus=beside[0],
            memory_gb=beside[1],
            speed=beside[2],
            shared=self.partner is not None,
            horizon=horizon,
        )
        last = view.placement
        if last is not None and _same_round(last, made):
            return last
        if slots or len(view.types) > 1 or self.partner is not None:
            made.kept = self._kept(put[order], start, server, sizes)
        return made

    def _kept(self, put: IntArray, start: IntArray, server: IntArray, sizes: IntArray) -> BoolArray:
        """Who holds the very GPUs it had in the round before (who is on the same type, if servers are left out)."""
        last = self.view.placement
        row = self.last_rows()[put]
        kept: BoolArray = row >= 0
        if last is None or len(server) == 0:
            return kept
        tasks = kept.nonzero()[0]
        begin = start[tasks]
        old = last.slot_start[row[tasks]]
        count = start[tasks + 1] - begin
        other = count != last.slot_start[row[tasks] + 1] - old
        if some(other):
            kept[tasks[other]] = False
            tasks, begin, old, count = (column[~other] for column in (tasks, begin, old, count))
        mine = _all_of(begin, count)
        before = _all_of(old, count)
        moved = (server[mine] != last.slot_server[before]) | (sizes[mine] != last.slot_gpus[before])
        kept[tasks.repeat(count)[moved]] = False
        return kept


def _same_round(last: Placement, made: Placement) -> bool:
    """Whether a placement is the last one over again, and everybody ran in that one already."""
    if last.cpus is None or last.memory_gb is None or made.cpus is None or made.memory_gb is None:
        return False
    return (
        len(last) == len(made)
        and last.horizon.as_long_as(made.horizon)
        and every(last.cpus == made.cpus)
        and every(last.memory_gb == made.memory_gb)
        and every(last.first == made.first)
        and every(last.type == made.type)
        and every(last.second == made.second)
        and len(last.slot_server) == len(made.slot_server)
        and every(last.slot_server == made.slot_server)
        and every(last.slot_gpus == made.slot_gpus)
        and every(last.kept)
    )


def joined(parts: list[IntArray]) -> IntArray:
    """One array of several, without a copy if it is one."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else _NONE


def _ordered(slots: list[Columns], order: IntArray) -> Columns:
    """Start, server and GPUs of the slots, task by task in this order; nothing if servers are left out."""
    if not slots:
        return whole_zeros(len(order) + 1), _NONE, _NONE
    counts = joined([start[1:] - start[:-1] for start, _, _ in slots])
    server = joined([part for _, part, _ in slots])
    sizes = joined([part for _, _, part in slots])
    start = np.zeros(len(order) + 1, dtype=np.int64)
    counts[order].cumsum(out=start[1:])
    old = counts.cumsum() - counts
    at = _all_of(old[order], counts[order])
    return start, server[at], sizes[at]


def _all_of(begin: IntArray, count: IntArray) -> IntArray:
    """Positions of the slots of some tasks, one task after the other: `count` slots from `begin` on."""
    end = count.cumsum()
    at: IntArray = (begin - end + count).repeat(count) + np.arange(end[-1] if len(end) else 0)
    return at
