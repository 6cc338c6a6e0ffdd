"""Servers of one type while the tasks of a round are put on them: GPUs, CPUs and memory, one task after the other.

Plain lists and numbers: rounds have about a hundred tasks, and every decision depends on the one before. What a task
holds is a configuration (a row of `view.classes.configurations`), spread over its servers in proportion to its GPUs
there. Tasks are numbered in the order of serving; what has been put is kept in three parallel lists.

Where a sequence of wishes begins like the one of the last round, so does the answer: `Packing` remembers how the
servers looked on the way, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.core.arrays import FloatArray, IntArray
from rota.core.view import Configurations

Slots = list[tuple[int, int]]
"""(server, GPUs)."""
Snapshot = tuple[int, int, list[int], list[float], list[float], list[int], list[int], list[int], list["int | Slots"]]
"""Tasks looked at and GPUs free; GPUs, CPUs, memory by server; hints; then the three lists of what was put."""

_SLACK = 1e-9
_STRIDE = 32
"""Tasks between two snapshots."""


class Packing:
    """Free resources by server, and who holds what."""

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

        Servers are counted from 0; `first` is the number of the first one in the cluster.
        """
        self.first = first
        self.consolidate = consolidate
        self.fair_cpus, self.fair_memory = fair
        self._start = (gpus.tolist(), cpus.tolist(), memory.tolist())
        self._snapshots: list[Snapshot] = []
        self._before: list[int] = []
        self.wish_cpus: list[float] = []
        self.wish_memory: list[float] = []
        self.begin(())

    def begin(self, wishes: Sequence[int]) -> int:
        """Empty servers, or as they were where these wishes first differ from the last ones; how many tasks that is."""
        common = 0
        for mine, last in zip(wishes, self._before, strict=False):
            if mine != last:
                break
            common += 1
        while self._snapshots and self._snapshots[-1][0] > common:
            self._snapshots.pop()
        self._before = list(wishes)
        self.on: dict[int, list[int]] = {}
        self.came: dict[int, float] = {}
        if not self._snapshots:
            gpus, cpus, memory = self._start
            self.gpus, self.cpus, self.memory = gpus.copy(), cpus.copy(), memory.copy()
            self.free = sum(gpus)
            self.hints = [0] * len(self.wish_cpus)
            self.task: list[int] = []
            self.config: list[int] = []
            self.where: list[int | Slots] = []
            return 0
        seen, self.free, gpus, cpus, memory, hints, task, config, where = self._snapshots[-1]
        self.gpus, self.cpus, self.memory, self.hints = gpus.copy(), cpus.copy(), memory.copy(), hints.copy()
        self.hints += [0] * (len(self.wish_cpus) - len(self.hints))
        self.task, self.config, self.where = task.copy(), config.copy(), where.copy()
        return seen

    def know(self, known: Configurations) -> None:
        """What configurations hold, including those that are new."""
        have = len(self.wish_cpus)
        if len(known.cpus) > have:
            self.wish_cpus += known.cpus[have:].tolist()
            self.wish_memory += known.memory_gb[have:].tolist()
            self.hints += [0] * (len(self.wish_cpus) - len(self.hints))

    def walk(
        self, start: int, sizes: Sequence[int], wishes: Sequence[int], otherwise: Callable[[int, int, int], None]
    ) -> None:
        """Put task after task where its wish first fits, as long as there are GPUs.

        `otherwise(task, size, wish)` is called for those that do not fit.
        """
        gpus, cpus, memory, hints = self.gpus, self.cpus, self.memory, self.hints
        task_of, config_of, where_of = self.task, self.config, self.where
        wish_cpus, wish_memory = self.wish_cpus, self.wish_memory
        count, free, one_by_one, on = len(gpus), self.free, not self.consolidate, self.on
        for task in range(start, len(sizes)):
            if free == 0:
                break
            if task % _STRIDE == 0 and task > start and not on:
                self._snapshots.append(
                    (task, free, gpus.copy(), cpus.copy(), memory.copy(), hints.copy(), task_of.copy(),
                     config_of.copy(), where_of.copy())
                )  # fmt: skip
            size, wish = sizes[task], wishes[task]
            if size > free:
                continue
            if size == 1 and one_by_one:
                need_cpus, need_memory = wish_cpus[wish], wish_memory[wish]
                low_cpus, low_memory = need_cpus - _SLACK, need_memory - _SLACK
                server = hints[wish]  # room only shrinks, so the search goes on where it ended last
                while server < count and (gpus[server] == 0 or cpus[server] < low_cpus or memory[server] < low_memory):
                    server += 1
                hints[wish] = server
                if server < count:
                    gpus[server] -= 1
                    cpus[server] -= need_cpus
                    memory[server] -= need_memory
                    free -= 1
                    if server in on:
                        on[server].append(len(task_of))
                    task_of.append(task)
                    config_of.append(wish)
                    where_of.append(server)
                    continue
            else:
                slots = self.fit(size, wish)
                if slots is not None:
                    self.put(task, size, wish, slots)
                    free -= size
                    continue
            self.free = free
            otherwise(task, size, wish)
            free, hints = self.free, self.hints
        self.free = free

    def fit(self, size: int, wish: int) -> Slots | None:
        """Where a task would go; None if there is no room."""
        cpus, memory = self.wish_cpus[wish], self.wish_memory[wish]
        if self.consolidate:
            return self._few_servers(size, cpus, memory)
        return self._in_order(size, cpus / size, memory / size)

    def put(self, task: int, size: int, wish: int, slots: Slots) -> None:
        """Let a task hold its slots."""
        cpus, memory = self.wish_cpus[wish], self.wish_memory[wish]
        for server, part in slots:
            self.gpus[server] -= part
            self.cpus[server] -= cpus * part / size
            self.memory[server] -= memory * part / size
            if server in self.on:
                self.on[server].append(len(self.task))
        self.free -= size
        self.task.append(task)
        self.config.append(wish)
        self.where.append(slots[0][0] if size == 1 else slots)

    def change(self, row: int, size: int, wish: int) -> None:
        """Let a task hold another configuration on the same GPUs; it counts as the last that came to its servers."""
        old = self.config[row]
        self.came[row] = len(self.task) - 0.5 + 1e-6 * len(self.came)
        cpus = self.wish_cpus[old] - self.wish_cpus[wish]
        memory = self.wish_memory[old] - self.wish_memory[wish]
        for server, part in self.slots(row):
            self.cpus[server] += cpus * part / size
            self.memory[server] += memory * part / size
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
            found = [
                row
                for row, where in enumerate(self.where)
                if where == server or (not isinstance(where, int) and any(s == server for s, _ in where))
            ]
            if self.came:
                found.sort(key=lambda row: self.came.get(row, row))
            self.on[server] = found
        return found

    def fits_at(self, slots: Slots, size: int, wish: int) -> bool:
        """Whether a task would find room on exactly these GPUs."""
        cpus, memory = self.wish_cpus[wish], self.wish_memory[wish]
        return all(
            self.gpus[server] >= part
            and self.cpus[server] + _SLACK >= cpus * part / size
            and self.memory[server] + _SLACK >= memory * part / size
            for server, part in slots
        )

    def _room(self, server: int, cpus: float, memory: float, most: int) -> int:
        """How many GPUs with so much beside each are free on a server, up to `most`."""
        count: int = min(self.gpus[server], most)
        if cpus > 0:
            count = min(count, int((self.cpus[server] + _SLACK) / cpus))
        if memory > 0:
            count = min(count, int((self.memory[server] + _SLACK) / memory))
        return count

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

    def emptied(self, size: int) -> Slots:
        """The servers on which a task that finds no room will displace others, with its GPUs on each.

        One server with all the GPUs if there is one (the first), otherwise those with the fewest free GPUs.
        """
        if size > 1:
            for server, free in enumerate(self.gpus):
                if free >= size:
                    return [(server, size)]
        slots: Slots = []
        for free, server in sorted((free, server) for server, free in enumerate(self.gpus) if free):
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
            ratio, config = part / sizes[self.task[row]], self.config[row]
            lack_cpus -= max(0.0, self.wish_cpus[config] * ratio - part * self.fair_cpus)
            lack_memory -= max(0.0, self.wish_memory[config] * ratio - part * self.fair_memory)
            if lack_cpus <= _SLACK and lack_memory <= _SLACK:
                break
        return chosen

    def _greed(self, row: int, size: int) -> tuple[int, float, float]:
        where, config = self.where[row], self.config[row]
        servers = 1 if isinstance(where, int) else len(where)
        return servers, -self.wish_cpus[config] / size, -self.wish_memory[config] / size
