"""The cheapest queues of many jobs on workers of several types, in Python; `queues.c` is the other half of this pair.

A job in place k from the end of a worker's queue costs k times its seconds on that type, so jobs are matched to places.
All workers of a type are alike: place k of type t is one node that takes as many jobs as there are workers, and in the
best queues of a set of jobs the longest stand last. So a state is a set of jobs for each type, sorted by length; who
has which place follows.

Jobs come one after the other. A new one enters a place, somebody leaves that for another place, and so on to a place
with room: the shortest such way, found by Dijkstra's algorithm from the places with room backwards, keeps the matching
the cheapest of all (successive shortest paths). Places have prices, 0 where there is room, under which nobody would
rather have another place, so that no way has a negative length. It is enough to look at few moves: within a type to
the next place, by the shortest job of a place or the longest of the one behind it; to another type only to where the
job belongs by its length (between two places, to either). A longer move is no cheaper than several of these.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from heapq import heappop, heappush

from rota.core.arrays import FloatArray, IntArray

_Node = tuple[int, int]
"""Type, and place from the end."""


def queue_up(seconds: FloatArray, workers: IntArray, order: IntArray, types: IntArray, places: IntArray) -> None:
    """The type of every job, and its place from the end of a queue, so that places times seconds add up to the least.

    `seconds` is [J, T]; at least one type has workers. Jobs come in `order`: long ones first is quickest.
    """
    queues = _Queues(seconds.tolist(), workers.tolist())
    for job in order.tolist():
        queues.place(job)
    for gpu_type, queue in enumerate(queues.queue):
        for rank, (_, job) in enumerate(queue):
            types[job] = gpu_type
            places[job] = rank // queues.workers[gpu_type] + 1


class _Queues:
    """Who stands where, and what places cost."""

    def __init__(self, seconds: list[list[float]], workers: list[int]) -> None:
        self.seconds = seconds
        self.workers = workers
        self.usable = [gpu_type for gpu_type, count in enumerate(workers) if count]
        self.queue: list[list[tuple[float, int]]] = [[] for _ in workers]
        """By type: (- seconds there, job), longest first."""
        self.every: list[list[tuple[float, int]]] = [[] for _ in workers]
        """The same of all jobs that have a place."""
        self.type_of: dict[int, int] = {}
        self.price: dict[_Node, float] = {}
        """Of places without room, less `dearer`."""
        self.dearer = 0.0
        """By how much all of them have become dearer."""
        self.near: dict[int, tuple[int, int]] = {}
        """By type: the places between which the job that comes belongs."""
        self.ways: dict[_Node, tuple[float, int, _Node | None]] = {}
        """The length of the best way from a place to one with room; who leaves, and where to."""
        self.nearest = math.inf
        """The length of the best way of the job that comes."""

    def cost(self, job: int, node: _Node) -> float:
        """What a place costs a job."""
        gpu_type, place = node
        full = len(self.queue[gpu_type]) >= place * self.workers[gpu_type]
        price = self.price[node] + self.dearer if full else 0.0
        return place * self.seconds[job][gpu_type] + price

    def place(self, job: int) -> None:
        """Find a place for one more job."""
        least, best = self._least_cost(job)
        node: _Node | None = best
        if len(self.queue[best[0]]) >= best[1] * self.workers[best[0]]:
            node = self._entry(job, least)
        comer = job
        gpu_type = best[0]
        while node is not None:
            gpu_type = node[0]
            _, leaver, towards = self.ways.get(node, (0.0, -1, None))
            self._move(comer, gpu_type)
            comer = leaver
            node = towards
        self.ways.clear()
        count = len(self.queue[gpu_type])
        if count % self.workers[gpu_type] == 0:
            self.price[gpu_type, count // self.workers[gpu_type]] = -self.dearer
        for other, jobs in enumerate(self.every):
            insort(jobs, (-self.seconds[job][other], job))

    def _least_cost(self, job: int) -> tuple[float, _Node]:
        """Where the job would go if there was room everywhere, and what it would pay."""
        least = math.inf
        best = (-1, 0)
        for gpu_type in self.usable:
            ahead = bisect_left(self.queue[gpu_type], (-self.seconds[job][gpu_type], job))
            high = ahead // self.workers[gpu_type] + 1
            low = high - (ahead > 0 and ahead % self.workers[gpu_type] == 0)
            self.near[gpu_type] = (low, high)
            for place in range(low, high + 1):
                cost = self.cost(job, (gpu_type, place))
                if cost < least:
                    least = cost
                    best = (gpu_type, place)
        return least, best

    def _entry(self, job: int, least: float) -> _Node | None:
        """The place at which the shortest way of a job to a place with room begins; prices follow."""
        entry: _Node | None = None
        settled: dict[_Node, float] = {}
        heap: list[tuple[float, _Node]] = []
        self.nearest = math.inf
        for gpu_type in self.usable:
            room = (gpu_type, len(self.queue[gpu_type]) // self.workers[gpu_type] + 1)
            self.ways[room] = (0.0, -1, None)
            heappush(heap, (0.0, room))
        while heap and heap[0][0] < self.nearest:
            distance, node = heappop(heap)
            if node in settled:
                continue
            settled[node] = distance
            low, high = self.near[node[0]]
            if low <= node[1] <= high:
                way = self.cost(job, node) - least + distance
                if way < self.nearest:
                    self.nearest = way
                    entry = node
            for comer, start in self._comers(node):
                if start not in settled:
                    self._reach(heap, comer, start, node, distance)
        self._follow(settled)
        return entry

    def _follow(self, settled: dict[_Node, float]) -> None:
        """Prices after a job has come: places that are near to room become dearer by less than all others."""
        for node, distance in settled.items():
            if distance < self.nearest and node in self.price:
                self.price[node] += distance - self.nearest
        self.dearer += self.nearest

    def _reach(self, heap: list[tuple[float, _Node]], job: int, start: _Node, node: _Node, distance: float) -> None:
        """A job may go from its place to a node, which is so far from a place with room."""
        length = distance + (self.cost(job, node) - self.cost(job, start))
        known = self.ways.get(start)
        if length < self.nearest and (known is None or length < known[0]):
            self.ways[start] = (length, job, node)
            heappush(heap, (length, start))

    def _comers(self, node: _Node) -> list[tuple[int, _Node]]:
        """Jobs that may come to a place, and where they are now."""
        gpu_type, place = node
        workers = self.workers[gpu_type]
        queue = self.queue[gpu_type]
        comers = []
        begin = 0
        shortest = math.inf
        if place > 1:
            longer = queue[(place - 1) * workers - 1]
            begin = bisect_left(self.every[gpu_type], longer) + 1
            comers.append((longer[1], (gpu_type, place - 1)))
        if len(queue) > place * workers:
            shortest, job = queue[place * workers]
            comers.append((job, (gpu_type, place + 1)))
        every = self.every[gpu_type]
        for at in range(begin, len(every)):
            length, job = every[at]
            if length > shortest:
                break
            if self.type_of[job] != gpu_type:
                comers.append((job, self._node_of(job)))
        return comers

    def _node_of(self, job: int) -> _Node:
        gpu_type = self.type_of[job]
        rank = bisect_left(self.queue[gpu_type], (-self.seconds[job][gpu_type], job))
        return gpu_type, rank // self.workers[gpu_type] + 1

    def _move(self, job: int, gpu_type: int) -> None:
        """A job goes to the queues of a type."""
        old = self.type_of.get(job)
        if old == gpu_type:
            return
        if old is not None:
            queue = self.queue[old]
            queue.pop(bisect_left(queue, (-self.seconds[job][old], job)))
        insort(self.queue[gpu_type], (-self.seconds[job][gpu_type], job))
        self.type_of[job] = gpu_type
