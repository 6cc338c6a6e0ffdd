"""Servers of one type while the tasks of a round are put on them: GPUs, CPUs and memory, one task after the other.

Rounds have hundreds of tasks, and every decision depends on the one before. Letting those go on who stay, and the
ordinary walk down the queue (first fit, and tune's squeezing), are therefore written a second time in C
(`kernels/packing.c`), on the same columns. What a task holds is a row of `Holdings`, spread over its servers in
proportion to its GPUs there. Tasks are numbered in the order of serving; what has been put is kept in columns, a row
per task.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rota import kernels
from rota.core.arrays import FloatArray, IntArray
from rota.core.configurations import Configurations
from rota.core.tolerance import TOLERANCE
from rota.mechanisms.divide.holdings import Holdings

Slots = list[tuple[int, int]]
"""(server, GPUs)."""
Columns = tuple[IntArray, IntArray, IntArray]
"""Where the slots of each task begin; server and GPUs of each slot."""
NOBODY: Columns = (np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
"""Slots of no task."""


class Squeeze(Protocol):
    """What happens to tasks that find no room."""

    def __call__(self, task: int, size: int, wish: int) -> None:
        """Put a task somewhere."""

    def stay(self, task: int) -> None:
        """Let a task go on where it was."""


class Packing:
    """Free resources by server, and who holds what.

    Every server has a hair's breadth more than it has, so that sums of fractions do not fail to fit.
    """

    def __init__(
        self,
        gpus: IntArray,
        cpus: FloatArray,
        memory: FloatArray,
        fair: tuple[float, float],
        *,
        first: int = 0,
    ) -> None:
        """`fair` is what a GPU has as its proportional share.

        Servers are counted from 0; `first` is the number of the first one in the cluster.
        """
        self.first = first
        self.consolidate = False
        """Whether jobs are kept on few servers."""
        self.balance = False
        """Whether they go where the rest of the CPUs suits the rest of the GPUs."""
        self.fair_cpus, self.fair_memory = fair
        self.servers = list(zip(gpus.tolist(), cpus.tolist(), memory.tolist(), strict=True))
        """GPUs, CPUs and memory of each when it is empty."""
        self._start = (array("q", gpus), array("d", cpus + TOLERANCE), array("d", memory + TOLERANCE))
        self._holdings: Holdings | None = None
        self._known: Configurations | None = None
        self._hold_cpus = array("d")
        self._hold_memory = array("d")
        most = int(gpus.sum())
        self._task: IntArray = np.empty(most, dtype=np.int64)
        self._config: IntArray = np.empty(most, dtype=np.int64)
        self._slot_start: IntArray = np.zeros(most + 1, dtype=np.int64)
        # One slot more than there are GPUs: a gang that does not fit is noticed after its last slot was written.
        self._slot_server: IntArray = np.empty(most + 1, dtype=np.int64)
        self._slot_gpus: IntArray = np.empty(most + 1, dtype=np.int64)
        self._empty()

    def begin(self, holdings: Holdings, *, consolidate: bool, balance: bool) -> None:
        """Empty servers, for tasks that hold rows of these."""
        self.consolidate = consolidate
        self.balance = balance
        self.know(holdings)
        self._empty()

    def again(self) -> None:
        """Empty servers once more."""
        self._empty()

    def rename(self, tasks: IntArray) -> None:
        """Tasks were numbered in another order: these are their numbers."""
        self._task[: self.rows] = tasks[self.task]

    def _empty(self) -> None:
        gpus, cpus, memory = self._start
        self.gpus = gpus[:]
        self.cpus = cpus[:]
        self.memory = memory[:]
        self.free = len(self._task)
        self.rows = 0
        self._on: dict[int, tuple[list[int], int]] = {}
        self._came: dict[int, float] = {}

    def know(self, holdings: Holdings) -> None:
        """What rows hold, including those that are new."""
        if holdings is not self._holdings or holdings.known is not self._known:
            self._holdings = holdings
            self._known = holdings.known
            self._hold_cpus = array("d")
            self._hold_memory = array("d")
        have = len(self._hold_cpus)
        if len(holdings.cpus) > have:
            self._hold_cpus.extend(holdings.cpus[have:])
            self._hold_memory.extend(holdings.memory_gb[have:])

    def holds(self, config: int) -> tuple[float, float]:
        """CPUs and memory of a row."""
        return self._hold_cpus[config], self._hold_memory[config]

    @property
    def taken(self) -> int:
        """GPUs that tasks hold."""
        return len(self._task) - self.free

    @property
    def task(self) -> IntArray:
        """Which task each row is."""
        return self._task[: self.rows]

    @property
    def config(self) -> IntArray:
        """What each row holds."""
        return self._config[: self.rows]

    @property
    def columns(self) -> Columns:
        """Where the slots of rows begin; server and GPUs of each slot."""
        used = self._slot_start[self.rows]
        return self._slot_start[: self.rows + 1], self._slot_server[:used], self._slot_gpus[:used]

    @property
    def _servers(self) -> tuple[array[int], array[float], array[float], array[float], array[float]]:
        """What is free, and what rows hold."""
        return self.gpus, self.cpus, self.memory, self._hold_cpus, self._hold_memory

    @property
    def _put(self) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """The columns of what has been put, with room for all."""
        return self._task, self._config, self._slot_start, self._slot_server, self._slot_gpus

    def settle(self, sizes: IntArray, wishes: IntArray, cut: IntArray, slots: Columns) -> int:
        """Let the first tasks hold these slots on empty servers, with their wish or else what it is cut to.

        How many could; the first that could not, and those after it, are left to the caller.
        """
        staying = len(slots[0]) - 1
        if kernels.walk is None or staying == 0:
            return 0
        self._compiled_walk(0, sizes[:staying], wishes[:staying], cut[:staying], slots, squeezes=False)
        return self.rows

    def walk(
        self,
        at: int,
        sizes: IntArray,
        wishes: IntArray,
        squeeze: Squeeze | None,
        cut: IntArray,
        stay: Columns = NOBODY,
    ) -> None:
        """Put task after task where its wish fits, as long as there are GPUs.

        `squeeze` puts those that do not fit, cutting wishes to `cut`; without it they are left out. With it, the first
        tasks may have slots on which they `stay`.
        """
        if kernels.walk is not None and not (self.consolidate or self.balance or self._came):
            self._compiled_walk(at, sizes, wishes, cut, stay, squeezes=squeeze is not None)
            return
        staying = len(stay[0]) - 1
        if squeeze is not None and staying:
            for task in range(self.settle(sizes, wishes, cut, stay), staying):
                squeeze.stay(task)
            at = staying
        self._walk(at, sizes, wishes, squeeze)

    def _compiled_walk(
        self, at: int, sizes: IntArray, wishes: IntArray, cut: IntArray, stay: Columns, *, squeezes: bool
    ) -> None:
        assert kernels.walk is not None  # the caller has looked
        fair = (self.fair_cpus, self.fair_memory)
        self.rows, self.free = kernels.walk(
            *self._servers, sizes, wishes, cut, *self._put, *stay, at, self.rows, self.free, *fair, squeezes
        )

    def _walk(self, at: int, sizes: IntArray, wishes: IntArray, squeeze: Squeeze | None) -> None:
        hopeless: set[int] = set()
        for task, (size, wish) in enumerate(zip(sizes[at:].tolist(), wishes[at:].tolist(), strict=True), at):
            if self.free == 0:
                return
            if size > self.free or wish in hopeless:
                continue
            slots = self.fit(size, wish)
            if slots is not None:
                self.put(task, size, wish, slots)
            elif squeeze is None:
                hopeless.add(wish)  # room only shrinks
            else:
                squeeze(task, size, wish)

    def fit(self, size: int, wish: int) -> Slots | None:
        """Where a task would go; None if there is no room."""
        cpus, memory = self.holds(wish)
        if self.consolidate:
            return self._few_servers(size, cpus, memory)
        if self.balance:
            return self._balanced(size, cpus, memory)
        if size == 1:
            return self._first(cpus, memory)
        return self._in_order(size, cpus / size, memory / size)

    def put(self, task: int, size: int, wish: int, slots: Slots) -> None:
        """Let a task hold its slots."""
        cpus, memory = self.holds(wish)
        row = self.rows
        at = int(self._slot_start[row])
        for server, part in slots:
            self.gpus[server] -= part
            self.cpus[server] -= cpus * part / size
            self.memory[server] -= memory * part / size
            self._slot_server[at] = server
            self._slot_gpus[at] = part
            at += 1
        self.free -= size
        self.rows += 1
        self._task[row] = task
        self._config[row] = wish
        self._slot_start[row + 1] = at

    def change(self, row: int, size: int, wish: int) -> None:
        """Let a task hold something else on the same GPUs; it counts as the last that came to its servers."""
        old_cpus, old_memory = self.holds(int(self._config[row]))
        new_cpus, new_memory = self.holds(wish)
        self._came[row] = self.rows - 0.5 + 1e-6 * len(self._came)
        for server, part in self.slots(row):
            self.cpus[server] += (old_cpus - new_cpus) * part / size
            self.memory[server] += (old_memory - new_memory) * part / size
            if server in self._on:
                here = self.tasks_on(server)
                here.remove(row)
                here.append(row)
        self._config[row] = wish

    def take_off(self, row: int, size: int) -> None:
        """Free what a task on one server holds there; `put_on` puts it back."""
        cpus, memory = self.holds(int(self._config[row]))
        server = int(self._slot_server[self._slot_start[row]])
        self.gpus[server] += size
        self.cpus[server] += cpus
        self.memory[server] += memory

    def put_on(self, row: int, size: int, wish: int, server: int) -> None:
        """Let a task that was taken off hold all of its GPUs on one server; nobody's order there is kept."""
        cpus, memory = self.holds(wish)
        self.gpus[server] -= size
        self.cpus[server] -= cpus
        self.memory[server] -= memory
        self._slot_server[self._slot_start[row]] = server
        self._config[row] = wish
        self._on.clear()

    def slots(self, row: int) -> Slots:
        """Where a task is."""
        part = slice(self._slot_start[row], self._slot_start[row + 1])
        return list(zip(self._slot_server[part].tolist(), self._slot_gpus[part].tolist(), strict=True))

    def tasks_on(self, server: int) -> list[int]:
        """Rows of the tasks on a server, in the order in which they came; kept up to date from the first use on."""
        listed, seen = self._on.get(server, (None, 0))
        if seen == self.rows and listed is not None:
            return listed
        first = self._slot_start[seen]
        last = self._slot_start[self.rows]
        slots = (self._slot_server[first:last] == server).nonzero()[0] + first
        new: list[int] = (self._slot_start[: self.rows + 1].searchsorted(slots, side="right") - 1).tolist()
        if listed is None:
            listed = sorted(new, key=lambda row: self._came.get(row, row)) if self._came else new
        else:
            listed += new
        self._on[server] = (listed, self.rows)
        return listed

    def fits_at(self, slots: Slots, size: int, wish: int) -> bool:
        """Whether a task would find room on exactly these GPUs."""
        cpus, memory = self.holds(wish)
        return all(
            self.gpus[server] >= part
            and self.cpus[server] >= cpus * part / size
            and self.memory[server] >= memory * part / size
            for server, part in slots
        )

    def _room(self, server: int, cpus: float, memory: float, most: int) -> int:
        """How many GPUs with so much beside each are free on a server, up to `most`."""
        count: int = min(self.gpus[server], most)
        if cpus > 0:
            count = min(count, int(self.cpus[server] / cpus))
        if memory > 0:
            count = min(count, int(self.memory[server] / memory))
        return count

    def _balanced(self, size: int, cpus: float, memory: float) -> Slots | None:
        """One server on which the CPUs that stay suit the GPUs that stay; GPU by GPU if none has room for all of it.

        Who takes more than a proportional share goes where most is left per free GPU, others where least is: CPUs
        and GPUs then run out together, and wishes come true that first fit would cut.
        """
        demanding = cpus > size * self.fair_cpus + TOLERANCE
        best = -math.inf
        best_server = -1
        for server, free in enumerate(self.gpus):
            if free < size or self.cpus[server] < cpus or self.memory[server] < memory:
                continue
            left = self.cpus[server] / free
            worth = left if demanding else -left
            if worth > best + TOLERANCE:
                best = worth
                best_server = server
        if best_server >= 0:
            return [(best_server, size)]
        return None if size == 1 else self._in_order(size, cpus / size, memory / size)

    def _first(self, cpus: float, memory: float) -> Slots | None:
        """The first server with room for one GPU."""
        for server, free in enumerate(self.gpus):
            if free and self.cpus[server] >= cpus and self.memory[server] >= memory:
                return [(server, 1)]
        return None

    def _in_order(self, size: int, cpus: float, memory: float) -> Slots | None:
        """GPU by GPU from the first server on, at any boundary."""
        return self._gather(range(len(self.gpus)), size, cpus, memory)

    def _few_servers(self, size: int, cpus: float, memory: float) -> Slots | None:
        """The fullest server that holds all of it, otherwise from the fullest on what they hold."""
        order = [server for _, server in sorted((free, server) for server, free in enumerate(self.gpus) if free)]
        if size > 1:
            for server in order:
                if self._room(server, cpus / size, memory / size, size) == size:
                    return [(server, size)]
        return self._gather(order, size, cpus / size, memory / size)

    def _gather(self, order: Sequence[int], size: int, cpus: float, memory: float) -> Slots | None:
        slots: Slots = []
        for server in order:
            part = self._room(server, cpus, memory, size) if self.gpus[server] else 0
            if part:
                slots.append((server, part))
                size -= part
                if size == 0:
                    return slots
        return None
