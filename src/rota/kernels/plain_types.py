"""On which type the jobs of a ranking run: the inner loops in Python (see `plain`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations, product
from typing import TypeAlias

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray

_Kind: TypeAlias = "tuple[int, int]"
"""Class and last type + 1: a type is worth as much for all jobs of a kind."""

_LEAST_GAIN = 1e-9
"""Sum of values by which an exchange of types must be better."""


def by_speed(
    queue: IntArray,
    gpus: IntArray,
    job_class: IntArray,
    wish: IntArray,
    value: FloatArray,
    last: IntArray,
    free: IntArray,
    rows: IntArray,
    gpu_types: IntArray,
    placed: IntArray,
    size_of: IntArray,
) -> tuple[int, bool]:
    """Down the queue, who finds room; then types so that the sum of what they are worth to these jobs is largest.

    At first each job is on the type that it ran on last ([J], -1: none) if there is room, else on the first type of
    `wish` [C, T] (-1: no more) with enough GPUs in `free` [T], rather one where nobody has to leave. If there is none,
    jobs of as many GPUs make way for it if they can go elsewhere. Then jobs of as many GPUs exchange types, and take
    free ones, as long as that raises the sum of `value` [C, 1 + T, T] (by class, last type and type). Who runs and
    where is written to `rows` and `gpu_types`; returns how many they are, and whether types were exchanged. `placed`
    [C, 1 + T, T] and `size_of` [C, 1 + T] are zeros to work with.
    """
    left = free.tolist()
    wishes = [[t for t in row if t >= 0] for row in wish.tolist()]
    room = _SharedRoom(left, wishes, job_class, last, value, placed, size_of)
    at = _walk(queue, gpus, last, room, rows, gpu_types)
    moved = _exchange(list(room.present), size_of, value, placed, left) or room.made_way
    if moved:
        _write_types(rows[:at], job_class, wishes, last, placed, gpu_types)
    free[:] = left
    return at, moved


def _walk(queue: IntArray, gpus: IntArray, last: IntArray, room: _Room, rows: IntArray, gpu_types: IntArray) -> int:
    """Who finds room down the queue; each stays where it is, or starts where there is room. How many."""
    sizes = gpus[queue].tolist()
    before = last[queue].tolist()
    goes_on, room.idle = _not_held(sizes, before, room.left)
    at = 0
    for place, (job, size, here) in enumerate(zip(queue.tolist(), sizes, before, strict=True)):
        if place < goes_on and here >= 0:
            room.idle[here] += size
        chosen = here
        if here < 0 or room.left[here] < size:
            chosen = room.start(job, size)
        if chosen >= 0:
            room.take(job, chosen, size)
            rows[at] = job
            gpu_types[at] = chosen
            at += 1
    return at


def _write_types(
    rows: IntArray, job_class: IntArray, wishes: list[list[int]], last: IntArray, placed: IntArray, gpu_types: IntArray
) -> None:
    """Of jobs of one kind, those in front get the types that they wish for most."""
    for place, job in enumerate(rows.tolist()):
        group = job_class[job]
        there = placed[group, last[job] + 1]
        chosen = next(t for t in wishes[group] if there[t])
        gpu_types[place] = chosen
        there[chosen] -= 1


class _Room:
    """GPUs by type that are left, and those of them that nobody holds who surely goes on."""

    def __init__(self, left: list[int], choose: Callable[[int, int, list[int]], int]) -> None:
        """`choose`: on which type a job starts, given its GPUs and those by type that are there; -1 if nowhere."""
        self.left = left
        self.idle = list(left)
        self._choose = choose

    def start(self, job: int, size: int) -> int:
        """A type with room, rather one where nobody has to leave; -1 if there is none."""
        chosen = self._choose(job, size, self.idle)
        return self._choose(job, size, self.left) if chosen < 0 else chosen

    def take(self, job: int, gpu_type: int, size: int) -> None:  # noqa: ARG002 - who it is matters below
        """A job runs on this type."""
        self.left[gpu_type] -= size
        self.idle[gpu_type] -= size


class _SharedRoom(_Room):
    """Jobs start on their fastest type with room, and those of as many GPUs make way if there is none."""

    def __init__(
        self,
        left: list[int],
        wishes: list[list[int]],
        job_class: IntArray,
        last: IntArray,
        value: FloatArray,
        placed: IntArray,
        size_of: IntArray,
    ) -> None:
        self._groups = job_class.tolist()
        self._last = last.tolist()
        super().__init__(left, lambda job, size, there: next((t for t in self._wish(job) if there[t] >= size), -1))
        self._wishes = wishes
        self._may_run = value > -math.inf
        self._placed = placed
        self._size_of = size_of
        self._stuck: set[int] = set()
        self.present: dict[_Kind, None] = {}
        self.made_way = False

    def _wish(self, job: int) -> list[int]:
        return self._wishes[self._groups[job]]

    def start(self, job: int, size: int) -> int:
        """A type with room, if need be after others have made way; a class for which nobody can is not tried again."""
        chosen = super().start(job, size)
        group = self._groups[job]
        if chosen < 0 and group not in self._stuck:
            chosen = self._make_way(self._wish(job), size)
        if chosen < 0:
            self._stuck.add(group)
        return chosen

    def take(self, job: int, gpu_type: int, size: int) -> None:
        """A job runs on this type."""
        super().take(job, gpu_type, size)
        kind = (self._groups[job], self._last[job] + 1)
        self._placed[kind][gpu_type] += 1
        self._size_of[kind] = size
        self.present[kind] = None

    def _make_way(self, wish: list[int], size: int) -> int:
        """A type with room after jobs of as many GPUs have moved, each for the next; -1 if there is none.

        The shortest such chain: from the types of the wish to where one of their jobs may go, and on from there.
        """
        if all(room < size for room in self.left):
            return -1
        source: dict[int, tuple[int, _Kind] | None] = dict.fromkeys(wish)
        line = list(wish)
        for a in line:
            for b in range(len(self.left)):
                kind = None if b in source else self._mover(a, b, size)
                if kind is None:
                    continue
                source[b] = (a, kind)
                line.append(b)
                if self.left[b] >= size:
                    return self._shift(source, b, size)
        return -1

    def _mover(self, a: int, b: int, size: int) -> _Kind | None:
        """The first kind of that size with a job on type a that may run on type b."""
        fits = (k for k in self.present if self._size_of[k] == size and self._placed[k][a] and self._may_run[k][b])
        return next(fits, None)

    def _shift(self, source: dict[int, tuple[int, _Kind] | None], end: int, size: int) -> int:
        """Move the jobs of a chain that ends on a type with room; where it begins there is room then."""
        self.made_way = True
        self.left[end] -= size
        self.idle[end] -= size
        step = source[end]
        while step is not None:
            start, kind = step
            self._placed[kind][start] -= 1
            self._placed[kind][end] += 1
            end = start
            step = source[end]
        self.left[end] += size
        self.idle[end] += size
        return end


def _not_held(sizes: list[int], before: list[int], left: list[int]) -> tuple[int, list[int]]:
    """How many of the queue surely go on, and the GPUs by type that none of them holds."""
    goes_on = int(np.argmin(np.append(np.cumsum(sizes) <= sum(left), False)))
    idle = list(left)
    for size, here in zip(sizes[:goes_on], before, strict=False):
        if here >= 0:
            idle[here] -= size
    return goes_on, idle


def _exchange(present: list[_Kind], size_of: IntArray, value: FloatArray, placed: IntArray, left: list[int]) -> bool:
    """Exchange types until nothing is gained by it; whether anybody moved."""
    sizes = sorted({int(size_of[kind]) for kind in present}, reverse=True)
    moved = False
    again = True
    while again:
        again = False
        for size in sizes:
            group = [kind for kind in present if size_of[kind] == size]
            while _exchange_once(group, size, value, placed, left):
                again = True
        moved = moved or again
    return moved


def _exchange_once(group: list[_Kind], size: int, value: FloatArray, placed: IntArray, left: list[int]) -> bool:
    """One round of exchanges among jobs of `size` GPUs that raises the sum of values; whether there was one.

    Nodes are the types and, last, GPUs that are free; a job that moves is an edge, and a gain is a cycle.
    """
    gain, who = _gains(group, size, value, placed, left)
    cycle = _cycle(gain)
    if not cycle:
        return False
    spare = len(left)
    amounts = [left[a] // size if b == spare else int(placed[who[a][b]][a]) for a, b in cycle if a != spare]
    most = min(amounts)
    for a, b in cycle:
        if a == spare:
            left[b] += most * size
        elif b == spare:
            left[a] -= most * size
        else:
            placed[who[a][b]][a] -= most
            placed[who[a][b]][b] += most
    return True


def _gains(
    group: list[_Kind], size: int, value: FloatArray, placed: IntArray, left: list[int]
) -> tuple[list[list[float]], list[list[_Kind]]]:
    """What the best move from one node to another gains, and who makes it."""
    types = len(left)
    gain = [[-math.inf] * (types + 1) for _ in range(types + 1)]
    who = [[(-1, -1)] * (types + 1) for _ in range(types + 1)]
    for t, room in enumerate(left):
        gain[types][t] = 0.0
        if room >= size:
            gain[t][types] = 0.0
    for kind in group:
        worth = value[kind].tolist()
        for a, b in permutations(range(types), 2):
            if placed[kind][a] > 0 and worth[b] - worth[a] > gain[a][b]:
                gain[a][b] = worth[b] - worth[a]
                who[a][b] = kind
    return gain, who


def _cycle(gain: list[list[float]]) -> list[tuple[int, int]]:
    """Edges of a cycle with a positive sum, last one first (Bellman-Ford); none if there is no such cycle."""
    nodes = range(len(gain))
    reach = [0.0] * len(gain)
    source = [-1] * len(gain)
    met = -1
    for _ in nodes:
        met = -1
        for a, b in product(nodes, nodes):
            if reach[a] + gain[a][b] > reach[b] + _LEAST_GAIN:
                reach[b] = reach[a] + gain[a][b]
                source[b] = a
                met = b
        if met < 0:
            return []
    for _ in nodes:
        met = source[met]
    edges = [(source[met], met)]
    while edges[-1][0] != met:
        edges.append((source[edges[-1][0]], edges[-1][0]))
    return edges


_WORD = (1 << 64) - 1


def _drawn(job: int, seed: int) -> float:
    """A number in [0, 1) that belongs to a job: splitmix64 of its id and the seed."""
    x = ((seed + 1) * 0xD1342543DE82EF95 + (job + 1) * 0x9E3779B97F4A7C15) & _WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _WORD
    x ^= x >> 31
    return (x >> 11) * 2.0**-53


def _some_type(there: list[int], runs: list[bool], size: int, part: float) -> int:
    """The type of one GPU drawn among those that are there; -1 if the job fits nowhere."""
    fits = [t for t, room in enumerate(there) if runs[t] and room >= size]
    left = part * float(sum(there[t] for t in fits))
    for t in fits:
        if left < there[t]:
            return t
        left -= there[t]
    return fits[-1] if fits else -1


def by_chance(
    queue: IntArray,
    gpus: IntArray,
    job_class: IntArray,
    jobs: IntArray,
    runs_on: BoolArray,
    last: IntArray,
    free: IntArray,
    rows: IntArray,
    gpu_types: IntArray,
    seed: int,
) -> int:
    """Down the queue, each job on the type it ran on last ([J], -1: none) if there is room, else where a GPU is drawn.

    Drawn among the GPUs in `free` [T] of types with enough of them that the job runs on ([C, T]) and that nobody holds
    who surely goes on; among those that others hold only if there is no such type. The draw belongs to the id of the
    job (`jobs` [J]) and the seed. Who runs and where is written to `rows` and `gpu_types`; returns how many they are.
    """
    left = free.tolist()
    groups = job_class.tolist()
    numbers = jobs.tolist()
    runs = runs_on.tolist()

    def choose(job: int, size: int, there: list[int]) -> int:
        return _some_type(there, runs[groups[job]], size, _drawn(numbers[job], seed))

    at = _walk(queue, gpus, last, _Room(left, choose), rows, gpu_types)
    free[:] = left
    return at
