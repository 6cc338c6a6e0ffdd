"""Servers of one type while the tasks of a round are put on them: GPUs, CPUs and memory, one task after the other.

Plain lists and numbers: rounds have about a hundred tasks, and every decision depends on the one before. What a task
holds is spread over its servers in proportion to its GPUs there.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.arrays import FloatArray, IntArray

Slots = list[tuple[int, int]]
"""(server, GPUs), servers ascending unless they were filled in another order."""

_SLACK = 1e-9


class Packing:
    """Free resources by server, and who holds what."""

    __slots__ = (
        "consolidate", "cpus", "fair_cpus", "fair_memory", "first", "free", "gpus", "held", "hints", "memory", "on",
        "size", "slots",
    )  # fmt: skip

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
        self.gpus: list[int] = gpus.tolist()
        self.cpus: list[float] = cpus.tolist()
        self.memory: list[float] = memory.tolist()
        self.fair_cpus, self.fair_memory = fair
        self.consolidate = consolidate
        self.free = sum(self.gpus)
        self.on: list[list[int]] = [[] for _ in self.gpus]
        """Tasks on each server, in the order in which they came."""
        self.slots: dict[int, Slots] = {}
        self.held: dict[int, tuple[float, float]] = {}
        """CPUs and memory of each task."""
        self.size: dict[int, int] = {}
        self.hints: dict[tuple[float, float], int] = {}
        """No server before this one has room for one GPU with so much beside it."""

    def fit(self, size: int, cpus: float, memory: float) -> Slots | None:
        """Where a task would go; None if there is no room."""
        if self.consolidate:
            return self._few_servers(size, cpus, memory)
        return self._first(cpus, memory) if size == 1 else self._in_order(size, cpus / size, memory / size)

    def put(self, task: int, size: int, cpus: float, memory: float, slots: Slots) -> None:
        """Let a task hold its slots."""
        self.slots[task], self.held[task], self.size[task] = slots, (cpus, memory), size
        self.free -= size
        for server, part in slots:
            self.gpus[server] -= part
            self.cpus[server] -= cpus * part / size
            self.memory[server] -= memory * part / size
            self.on[server].append(task)

    def change(self, task: int, cpus: float, memory: float) -> None:
        """Let a task hold other amounts on the same GPUs; it counts as the last that came to its servers."""
        size, (old_cpus, old_memory) = self.size[task], self.held[task]
        for server, part in self.slots[task]:
            self.cpus[server] += (old_cpus - cpus) * part / size
            self.memory[server] += (old_memory - memory) * part / size
            self.on[server].remove(task)
            self.on[server].append(task)
        self.held[task] = (cpus, memory)
        self.hints.clear()

    def room(self, server: int, cpus: float, memory: float, most: int) -> int:
        """How many GPUs with so much beside each are free on a server, up to `most`."""
        count = min(self.gpus[server], most)
        if cpus > 0:
            count = min(count, int((self.cpus[server] + _SLACK) / cpus))
        if memory > 0:
            count = min(count, int((self.memory[server] + _SLACK) / memory))
        return count

    def fits_at(self, slots: Slots, size: int, cpus: float, memory: float) -> bool:
        """Whether a task would find room on exactly these GPUs."""
        return all(
            self.gpus[server] >= part
            and self.cpus[server] + _SLACK >= cpus * part / size
            and self.memory[server] + _SLACK >= memory * part / size
            for server, part in slots
        )

    def _first(self, cpus: float, memory: float) -> Slots | None:
        """The first server with room for one GPU. Room only shrinks, so the search goes on where it ended last."""
        gpus, key = self.gpus, (cpus, memory)
        for server in range(self.hints.get(key, 0), len(gpus)):
            if gpus[server] and self.cpus[server] + _SLACK >= cpus and self.memory[server] + _SLACK >= memory:
                self.hints[key] = server
                return [(server, 1)]
        self.hints[key] = len(gpus)
        return None

    def _in_order(self, size: int, cpus: float, memory: float) -> Slots | None:
        """GPU by GPU from the first server on, at any boundary."""
        slots: Slots = []
        for server in range(len(self.gpus)):
            part = self.room(server, cpus, memory, size) if self.gpus[server] else 0
            if part:
                slots.append((server, part))
                size -= part
                if size == 0:
                    return slots
        return None

    def _few_servers(self, size: int, cpus: float, memory: float) -> Slots | None:
        """The fullest server that holds all of it, otherwise from the fullest on what they hold."""
        order = sorted((free, server) for server, free in enumerate(self.gpus) if free)
        if size > 1:
            for _, server in order:
                if self.fits_at([(server, size)], size, cpus, memory):
                    return [(server, size)]
        slots: Slots = []
        each_cpus, each_memory = cpus / size, memory / size
        for _, server in order:
            part = self.room(server, each_cpus, each_memory, size)
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

    def givers(self, server: int, cpus: float, memory: float) -> list[int]:
        """Tasks on a server that give back what they have beyond their share until so much is free there.

        Those on few servers and with much per GPU come first; the list of the server stays in that order.
        """
        lack_cpus, lack_memory = cpus - self.cpus[server], memory - self.memory[server]
        if lack_cpus <= _SLACK and lack_memory <= _SLACK:
            return []
        self.on[server].sort(key=self._greed)
        chosen: list[int] = []
        for task in self.on[server]:
            chosen.append(task)
            part = next(p for s, p in self.slots[task] if s == server)
            ratio, (held_cpus, held_memory) = part / self.size[task], self.held[task]
            lack_cpus -= max(0.0, held_cpus * ratio - part * self.fair_cpus)
            lack_memory -= max(0.0, held_memory * ratio - part * self.fair_memory)
            if lack_cpus <= _SLACK and lack_memory <= _SLACK:
                break
        return chosen

    def _greed(self, task: int) -> tuple[int, float, float]:
        size, (cpus, memory) = self.size[task], self.held[task]
        return len(self.slots[task]), -cpus / size, -memory / size


def slot_columns(slots: Sequence[Slots]) -> tuple[list[int], list[int], list[int]]:
    """(start, server, GPUs) columns of a placement."""
    start, servers, sizes = [0], [], []
    for each in slots:
        for server, part in each:
            servers.append(server)
            sizes.append(part)
        start.append(len(servers))
    return start, servers, sizes
