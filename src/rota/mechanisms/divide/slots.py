"""Slots that stay, slots that are taken, and how both become a placement."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rota import kernels
from rota.core.arrays import NO_JOB, BoolArray, IntArray, some, whole_zeros
from rota.core.placement import Placement
from rota.core.view import View
from rota.mechanisms.choice import Choice

Spread = Callable[[IntArray, int], list[tuple[int, int]]]
"""(free GPUs by server of one type, GPUs wanted) -> [(server offset, GPUs)]."""


_NOBODY: IntArray = np.full(1 << 16, NO_JOB, dtype=np.int64)
_NOBODY.setflags(write=False)


def alone(count: int) -> IntArray:
    """The partners of jobs that share with nobody."""
    return _NOBODY[:count] if count <= len(_NOBODY) else np.full(count, NO_JOB, dtype=np.int64)


class ServerSlots:
    """Free GPUs by server while one round is laid out, and the slots each task gets."""

    free: IntArray
    bounds: list[int]

    def __init__(self, view: View, choice: Choice) -> None:
        rows = choice.first
        partner = choice.second
        gpu_type = choice.type
        if choice.wasted is not None:
            runs = (~choice.wasted).nonzero()[0]
            rows = rows[runs]
            gpu_type = gpu_type[runs]
            partner = None if partner is None else partner[runs]
        self.view = view
        self.choice = choice
        self.rows = rows
        self.partner = partner
        self.gpu_type = gpu_type
        self.first = view.jobs[rows]
        self.second = alone(len(rows)) if partner is None else np.where(partner >= 0, view.jobs[partner], NO_JOB)
        self.gpus = view.gpus[rows]

    def lay_out(
        self, order_singles: Callable[[IntArray], IntArray], spread: Spread, *, slots: bool = True
    ) -> Placement:
        """Keep who can stay, then place the others, the largest first; without `slots`, only say who stays.

        Nothing but the last round over again is the last placement itself.
        """
        last = self.view.placement
        row, kept, same = self._last_rows(last)
        if same and last is not None and last.horizon.as_long_as(self.choice.horizon):
            return last
        if not slots:
            return self._placement(kept, whole_zeros(len(row) + 1), _NOBODY[:0], _NOBODY[:0])
        self.free = self.view.cluster.server_gpus.copy()
        self.bounds = self.view.cluster.server_bounds
        if self.view.single_gpu or len(row) == 0 or self.gpus.max() == 1:
            return self._ones(last, row, kept, order_singles)
        return self._any(last, row, kept, spread)

    def _last_rows(self, last: Placement | None) -> tuple[IntArray, BoolArray, bool]:
        """For each task the row of the last placement with the same members on the same type, or -1; who stays.

        And whether it is the last round over again.
        """
        tasks = self.view.last_task
        count = len(self.rows)
        row = np.empty(count, dtype=np.int64)
        kept = np.empty(count, dtype=np.bool_)
        if last is None or tasks is None or len(last.first) == 0 or last.fraction is not None:
            row.fill(-1)
            kept.fill(False)
            return row, kept, last is not None and count == len(last.first) == 0
        same = kernels.stay(self.rows, self.gpu_type, tasks, last.type, row, kept)
        if self.partner is not None or last.shared:
            moved = kept & (last.second[row] != self.second)
            row[moved] = -1
            kept[moved] = False
            same = same and not some(moved)
        return row, kept, same

    def _ones(
        self, last: Placement | None, row: IntArray, kept: BoolArray, order_singles: Callable[[IntArray], IntArray]
    ) -> Placement:
        """Every task takes one GPU: all by arrays."""
        server = np.empty(len(row), dtype=np.int64)
        old = kept.nonzero()[0]
        if last is not None and len(old):
            stay = last.slot_server[last.slot_start[row[old]]]
            server[old] = stay
            self.free -= np.bincount(stay, minlength=len(self.free))
        new = (~kept).nonzero()[0]
        if len(new):
            types = self.gpu_type[new]
            for gpu_type in set(types.tolist()):
                lo = self.bounds[gpu_type]
                hi = self.bounds[gpu_type + 1]
                mine = new[types == gpu_type]
                server[mine] = order_singles(self.free[lo:hi])[: len(mine)] + lo
        start = np.arange(len(row) + 1)
        return self._placement(kept, start, server, self.gpus)

    def _any(self, last: Placement | None, row: IntArray, kept: BoolArray, spread: Spread) -> Placement:
        """Tasks of mixed sizes: one by one, the largest newcomers first."""
        slots: list[list[tuple[int, int]]] = [[] for _ in range(len(row))]
        if last is not None:
            start = last.slot_start.tolist()
            servers = last.slot_server.tolist()
            sizes = last.slot_gpus.tolist()
            for task in kept.nonzero()[0].tolist():
                old = slice(start[row[task]], start[row[task] + 1])
                slots[task] = list(zip(servers[old], sizes[old], strict=True))
                for server, size in slots[task]:
                    self.free[server] -= size
        new = (~kept).nonzero()[0]
        for task in new[np.argsort(-self.gpus[new], kind="stable")].tolist():
            lo = self.bounds[self.gpu_type[task]]
            hi = self.bounds[self.gpu_type[task] + 1]
            for offset, size in spread(self.free[lo:hi], int(self.gpus[task])):
                slots[task].append((lo + offset, size))
                self.free[lo + offset] -= size
        start_of = np.concatenate([[0], np.cumsum([len(s) for s in slots])]).astype(np.int64)
        flat = np.array([pair for s in slots for pair in s], dtype=np.int64).reshape(-1, 2)
        return self._placement(kept, start_of, flat[:, 0], flat[:, 1])

    def _free_gpus(self) -> int:
        taken = len(self.gpus) if self.view.single_gpu else int(self.gpus.sum())
        return self.view.cluster.gpus - taken

    def _placement(self, kept: BoolArray, start: IntArray, server: IntArray, sizes: IntArray) -> Placement:
        choice = self.choice
        return Placement(
            first=self.first,
            second=self.second,
            type=self.gpu_type,
            gpus=self.gpus,
            kept=kept,
            slot_start=start,
            slot_server=server,
            slot_gpus=sizes,
            fraction=choice.fraction,
            shared=self.partner is not None,
            horizon=choice.horizon_with(self._free_gpus()) if choice.arrivals_wait else choice.horizon,
        )


def in_order(free: IntArray) -> IntArray:
    """Server offsets, once per free GPU."""
    return np.repeat(np.arange(len(free)), free)


def walk(free: IntArray, wanted: int) -> list[tuple[int, int]]:
    """The first free GPUs in the order of servers."""
    slots = []
    for server in np.flatnonzero(free).tolist():
        size = min(wanted, int(free[server]))
        slots.append((server, size))
        wanted -= size
        if wanted == 0:
            break
    return slots
