"""Servers of one type while the tasks of a round are put on them: GPUs, CPUs and memory, one task after the other.

Plain lists and numbers: rounds have about a hundred tasks, and every decision depends on the one before. What a task
holds is a configuration (a row of `view.classes.configurations`), spread over its servers in proportion to its GPUs
there. Tasks are numbered in the order of serving; what has been put is kept in three parallel lists.

Where a sequence of wishes begins like the one of the last round, so does the answer: `Packing` remembers how the
servers looked on the way, and goes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rota.core.arrays import FloatArray, IntArray
from rota.core.view import Configurations

Slots = list[tuple[int, int]]
"""(server, GPUs)."""
Snapshot = tuple[
    int, int, list[int], list[float], list[float], list[int], list[int], list[int], list["int | Slots"], list[int]
]
"""Tasks looked at and GPUs free; GPUs, CPUs, memory by server; hints; the three lists of what was put; gangs."""

_SLACK = 1e-9
_STRIDE = 32
"""Tasks between two snapshots."""


class Packing:
    """Free resources by server, and who holds what.

    Behind the last server stands one that is always free, so that a search needs no bound; and every server has a
    hair's breadth more than it has, so that sums of fractions do not fail to fit.
    """

    def __init__(
        self,
        gpus: IntArray,
        cpus: FloatArray,
        memory: FloatArray,
        fair: tuple[float, float],
        *,
        consolidate: bool,
        first: int = 0,
    ) -> None:
        """`fair` is what a GPU has as its proportional share; with `consolidate`, jobs are kept on few servers.

        Servers are counted from 0; `first` is the number of the first one in the cluster. While `balance` is set,
        jobs go where the rest of the CPUs suits the rest of the GPUs.
        """
        self.first = first
        self.balance = False
        self.consolidate = consolidate
        self.fair_cpus, self.fair_memory = fair
        self.servers = list(zip(gpus.tolist(), cpus.tolist(), memory.tolist(), strict=True))
        """GPUs, CPUs and memory of each when it is empty."""
        self._start = (
            [*gpus.tolist(), 1],
            [*(cpus + _SLACK).tolist(), math.inf],
            [*(memory + _SLACK).tolist(), math.inf],
        )
        self._snapshots: list[Snapshot] = []
        self._before: list[int] = []
        self.holds: list[tuple[float, float]] = []
        """CPUs and memory of each configuration."""
        self.begin([])

    def begin(self, wishes: list[int]) -> int:
        """Empty servers, or as they were where these wishes first differ from the last ones; how many tasks that is."""
        before, common = self._before, 0
        while common < len(before) and wishes[common : common + _STRIDE] == before[common : common + _STRIDE]:
            common += _STRIDE
        while self._snapshots and self._snapshots[-1][0] > common:
            self._snapshots.pop()
        self._remember = common > 0
        self._before = wishes
        self.on: dict[int, list[int]] = {}
        self.came: dict[int, float] = {}
        if not self._snapshots:
            gpus, cpus, memory = self._start
            self.gpus, self.cpus, self.memory = gpus.copy(), cpus.copy(), memory.copy()
            self.free = sum(gpus) - 1
            self.hints = [0] * len(self.holds)
            self.task: list[int] = []
            self.config: list[int] = []
            self.where: list[int | Slots] = []
            self.gangs: list[int] = []
            return 0
        seen, self.free, gpus, cpus, memory, hints, task, config, where, gangs = self._snapshots[-1]
        self.gpus, self.cpus, self.memory, self.hints = gpus.copy(), cpus.copy(), memory.copy(), hints.copy()
        self.hints += [0] * (len(self.holds) - len(self.hints))
        self.task, self.config, self.where = task.copy(), config.copy(), where.copy()
        self.gangs = gangs.copy()
        return seen

    def know(self, known: Configurations) -> None:
        """What configurations hold, including those that are new."""
        have = len(self.holds)
        if len(known.cpus) > have:
            self.holds += zip(known.cpus[have:].tolist(), known.memory_gb[have:].tolist(), strict=True)
            self.hints += [0] * (len(self.holds) - len(self.hints))

    def walk(  # noqa: C901 - the inner loop of every round
        self, start: int, sizes: Sequence[int], wishes: Sequence[int], otherwise: Callable[[int, int, int], bool]
    ) -> None:
        """Put task after task where its wish first fits, as long as there are GPUs.

        `otherwise(task, size, wish)` is called for those that do not fit, and says whether to go on.
        """
        gpus, cpus, memory, hints, holds = self.gpus, self.cpus, self.memory, self.hints, self.holds
        task_of, config_of, where_of, on = self.task, self.config, self.where, self.on
        last, free, remember = len(gpus) - 1, self.free, self._remember
        one_by_one = not (self.consolidate or self.balance)
        for task in range(start, len(wishes)):
            if free == 0:
                break
            if remember and task % _STRIDE == 0 and task > start and not on:
                self._keep(task, free)
            wish, size = wishes[task], sizes[task]
            if size == 1 and one_by_one:
                need_cpus, need_memory = holds[wish]
                server = hints[wish]  # room only shrinks, so the search goes on where it ended last
                if gpus[server] == 0 or cpus[server] < need_cpus or memory[server] < need_memory:
                    while gpus[server] == 0 or cpus[server] < need_cpus or memory[server] < need_memory:
                        server += 1
                    hints[wish] = server
                if server != last:
                    gpus[server] -= 1
                    cpus[server] -= need_cpus
                    memory[server] -= need_memory
                    free -= 1
                    if on and server in on:
                        on[server].append(len(task_of))
                    task_of.append(task)
                    config_of.append(wish)
                    where_of.append(server)
                    continue
            elif size > free:
                continue
            else:
                slots = self.fit(size, wish)
                if slots is not None:
                    self.put(task, size, wish, slots)
                    free -= size
                    continue
            self.free = free
            if not otherwise(task, size, wish):
                break
            free, hints = self.free, self.hints
        self.free = free

    def _keep(self, task: int, free: int) -> None:
        """Remember how things look before this task."""
        servers = (self.gpus.copy(), self.cpus.copy(), self.memory.copy(), self.hints.copy())
        put = (self.task.copy(), self.config.copy(), self.where.copy(), self.gangs.copy())
        self._snapshots.append((task, free, *servers, *put))

    def fit(self, size: int, wish: int) -> Slots | None:
        """Where a task would go; None if there is no room."""
        cpus, memory = self.holds[wish]
        if self.consolidate:
            return self._few_servers(size, cpus, memory)
        if self.balance:
            return self._balanced(size, cpus, memory)
        if size == 1:
            return self._first(cpus, memory)
        return self._in_order(size, cpus / size, memory / size)

    def put(self, task: int, size: int, wish: int, slots: Slots) -> None:
        """Let a task hold its slots."""
        cpus, memory = self.holds[wish]
        for server, part in slots:
            self.gpus[server] -= part
            self.cpus[server] -= cpus * part / size
            self.memory[server] -= memory * part / size
            if server in self.on:
                self.on[server].append(len(self.task))
        self.free -= size
        self.task.append(task)
        self.config.append(wish)
        if size > 1:
            self.gangs.append(len(self.where))
        self.where.append(slots[0][0] if size == 1 else slots)

    def change(self, row: int, size: int, wish: int) -> None:
        """Let a task hold another configuration on the same GPUs; it counts as the last that came to its servers."""
        (old_cpus, old_memory), (new_cpus, new_memory) = self.holds[self.config[row]], self.holds[wish]
        self.came[row] = len(self.task) - 0.5 + 1e-6 * len(self.came)
        for server, part in self.slots(row):
            self.cpus[server] += (old_cpus - new_cpus) * part / size
            self.memory[server] += (old_memory - new_memory) * part / size
            if server in self.on:
                self.on[server].remove(row)
                self.on[server].append(row)
        self.config[row] = wish
        self.hints = [0] * len(self.hints)

    def slots(self, row: int) -> Slots:
        """Where a task is."""
        where = self.where[row]
        return [(where, 1)] if isinstance(where, int) else where

    def tasks_on(self, server: int) -> list[int]:
        """Rows of the tasks on a server, in the order in which they came; kept up to date from the first use on."""
        found = self.on.get(server)
        if found is None:
            found = [row for row, where in enumerate(self.where) if where == server]
            if self.gangs:
                found += [row for row in self.gangs if any(s == server for s, _ in self.slots(row))]
                found.sort()
            if self.came:
                found.sort(key=lambda row: self.came.get(row, row))
            self.on[server] = found
        return found

    def fits_at(self, slots: Slots, size: int, wish: int) -> bool:
        """Whether a task would find room on exactly these GPUs."""
        cpus, memory = self.holds[wish]
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
        demanding = cpus > size * self.fair_cpus + _SLACK
        best, found = -math.inf, -1
        for server, free in enumerate(self.gpus[:-1]):
            if free < size or self.cpus[server] < cpus or self.memory[server] < memory:
                continue
            left = self.cpus[server] / free
            worth = left if demanding else -left
            if worth > best + _SLACK:
                best, found = worth, server
        if found >= 0:
            return [(found, size)]
        return None if size == 1 else self._in_order(size, cpus / size, memory / size)

    def _first(self, cpus: float, memory: float) -> Slots | None:
        """The first server with room for one GPU."""
        server = 0
        while self.gpus[server] == 0 or self.cpus[server] < cpus or self.memory[server] < memory:
            server += 1
        return None if server == len(self.gpus) - 1 else [(server, 1)]

    def _in_order(self, size: int, cpus: float, memory: float) -> Slots | None:
        """GPU by GPU from the first server on, at any boundary."""
        return self._gather(range(len(self.gpus) - 1), size, cpus, memory)

    def _few_servers(self, size: int, cpus: float, memory: float) -> Slots | None:
        """The fullest server that holds all of it, otherwise from the fullest on what they hold."""
        order = [server for _, server in sorted((free, server) for server, free in enumerate(self.gpus[:-1]) if free)]
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

    def emptied(self, size: int) -> Slots:
        """The servers on which a task that finds no room will displace others, with its GPUs on each.

        One server with all the GPUs if there is one (the first), otherwise those with the fewest free GPUs.
        """
        if size > 1:
            for server, free in enumerate(self.gpus[:-1]):
                if free >= size:
                    return [(server, size)]
        slots: Slots = []
        for free, server in sorted((free, server) for server, free in enumerate(self.gpus[:-1]) if free):
            part = min(free, size)
            slots.append((server, part))
            size -= part
            if size == 0:
                break
        return slots

    def givers(self, server: int, cpus: float, memory: float, sizes: Sequence[int]) -> list[int]:
        """Rows of tasks on a server that give back what they hold beyond their share, until so much is free there.

        Those on few servers and with much per GPU come first; the list of the server stays in that order.
        """
        lack_cpus, lack_memory = cpus - self.cpus[server], memory - self.memory[server]
        if lack_cpus <= _SLACK and lack_memory <= _SLACK:
            return []
        here = self.tasks_on(server)
        here.sort(key=lambda row: self._greed(row, sizes[self.task[row]]))
        chosen: list[int] = []
        for row in here:
            chosen.append(row)
            part = next(p for s, p in self.slots(row) if s == server)
            ratio, (held_cpus, held_memory) = part / sizes[self.task[row]], self.holds[self.config[row]]
            lack_cpus -= max(0.0, held_cpus * ratio - part * self.fair_cpus)
            lack_memory -= max(0.0, held_memory * ratio - part * self.fair_memory)
            if lack_cpus <= _SLACK and lack_memory <= _SLACK:
                break
        return chosen

    def _greed(self, row: int, size: int) -> tuple[int, float, float]:
        where, (cpus, memory) = self.where[row], self.holds[self.config[row]]
        return 1 if isinstance(where, int) else len(where), -cpus / size, -memory / size
