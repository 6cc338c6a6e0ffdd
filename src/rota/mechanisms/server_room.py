"""What is left on servers while jobs that need more than a proportional share, or certain servers, are put on them."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.cluster import Cluster
from rota.core.tolerance import TOLERANCE

Slots = list[tuple[int, int]]
"""(server, GPUs)."""

ALL = slice(None)
_NOTHING = 1e-200
"""Beside a GPU, instead of 0: every server has it for all its GPUs, also one that is full."""


@dataclass(frozen=True, slots=True)
class PerGpu:
    """CPUs and memory (GB) that a task holds beside each of its GPUs."""

    cpus: float
    memory_gb: float


class ServerRoom:
    """GPUs, CPUs and memory that are free on each server; what is not known is endless."""

    def __init__(self, cluster: Cluster) -> None:
        self._bounds = cluster.server_bounds
        self.gpus: IntArray = cluster.server_gpus.copy()
        self.cpus: FloatArray = np.where(cluster.server_cpus > 0, cluster.server_cpus, np.inf)
        self.memory_gb: FloatArray = np.where(cluster.server_memory_gb > 0, cluster.server_memory_gb, np.inf)
        self._fair_cpus = _divisor(cluster.fair_cpus)[cluster.server_type]
        self._fair_memory = _divisor(cluster.fair_memory_gb)[cluster.server_type]

    def copy(self) -> ServerRoom:
        """The same, to try something out."""
        other = copy.copy(self)
        other.gpus = self.gpus.copy()
        other.cpus = self.cpus.copy()
        other.memory_gb = self.memory_gb.copy()
        return other

    def take(self, slots: Slots, beside: PerGpu) -> None:
        """Let a task hold these GPUs with so much beside each."""
        for server, part in slots:
            self.gpus[server] -= part
            self.cpus[server] -= beside.cpus * part
            self.memory_gb[server] -= beside.memory_gb * part

    def give_back(self, slots: Slots, beside: PerGpu) -> None:
        """Undo `take`."""
        for server, part in slots:
            self.gpus[server] += part
            self.cpus[server] += beside.cpus * part
            self.memory_gb[server] += beside.memory_gb * part

    def holds(self, slots: Slots, beside: PerGpu) -> bool:
        """Whether these GPUs are free with so much beside each."""
        return all(self._most_at(server, beside) >= part for server, part in slots)

    def most(self, beside: PerGpu, servers: slice = ALL) -> IntArray:
        """[S] GPUs with so much beside each that are free."""
        free = _Free(self.gpus[servers], self.cpus[servers], self.memory_gb[servers])
        return free.with_beside(beside.cpus or _NOTHING, beside.memory_gb or _NOTHING)

    def usable(self, servers: slice | IntArray = ALL) -> IntArray:
        """[S] GPUs that are left with a proportional share of CPUs and memory for each; the others are stranded."""
        free = _Free(self.gpus[servers], self.cpus[servers], self.memory_gb[servers])
        return free.with_beside(self._fair_cpus[servers], self._fair_memory[servers])

    def usable_of(self, gpu_type: int) -> int:
        """The same, of all servers of a type."""
        return int(self.usable(self.servers_of(gpu_type)).sum())

    def servers_of(self, gpu_type: int) -> slice:
        """The servers of a type."""
        return slice(self._bounds[gpu_type], self._bounds[gpu_type + 1])

    def place(
        self, gpu_type: int, size: int, beside: PerGpu, allowed: BoolArray | None, busy: IntArray
    ) -> Slots | None:
        """Where a task of so many GPUs goes; None if there is no room on the servers that are allowed (None: all).

        On one server if there is one: where the fewest of the GPUs that are `busy` ([S], with tasks that could go on)
        would have to make way, then where the fewest are stranded, then the fullest. Otherwise on as few as possible.
        """
        servers = self.servers_of(gpu_type)
        lo = servers.start
        most = self.most(beside, servers)
        if allowed is not None:
            most = np.where(allowed[servers], most, 0)
        whole = (most >= size).nonzero()[0] + lo
        if len(whole):
            return [(self._least_harmed(whole, size, beside, busy), size)]
        slots: Slots = []
        for offset in np.argsort(-most, kind="stable").tolist():
            part = min(size, int(most[offset]))
            if part == 0:
                return None
            slots.append((lo + offset, part))
            size -= part
            if size == 0:
                return slots
        return None

    def _least_harmed(self, servers: IntArray, size: int, beside: PerGpu, busy: IntArray) -> int:
        """The server where a task of so many GPUs does least harm, of those that can hold it."""
        left = self.gpus[servers] - size
        free = _Free(left, self.cpus[servers] - beside.cpus * size, self.memory_gb[servers] - beside.memory_gb * size)
        usable = free.with_beside(self._fair_cpus[servers], self._fair_memory[servers])
        make_way = np.maximum(busy[servers] - usable, 0)
        harm = zip(make_way.tolist(), (left - usable).tolist(), left.tolist(), servers.tolist(), strict=True)
        least: tuple[int, int, int, int] = min(harm)
        return least[-1]

    def _most_at(self, server: int, beside: PerGpu) -> float:
        """GPUs with so much beside each that are free on a server."""
        most = float(self.gpus[server])
        for wanted, free in ((beside.cpus, self.cpus[server]), (beside.memory_gb, self.memory_gb[server])):
            if wanted > 0 and free < math.inf:
                most = min(most, math.floor((free + TOLERANCE) / wanted + TOLERANCE))
        return most


@dataclass(frozen=True, slots=True)
class _Free:
    """Columns of what is free on some servers."""

    gpus: IntArray
    cpus: FloatArray
    memory_gb: FloatArray

    def with_beside(self, cpus: float | FloatArray, memory_gb: float | FloatArray) -> IntArray:
        """[S] GPUs with so much beside each."""
        by_cpus = np.floor((np.maximum(self.cpus, 0.0) + TOLERANCE) / cpus + TOLERANCE)
        by_memory = np.floor((np.maximum(self.memory_gb, 0.0) + TOLERANCE) / memory_gb + TOLERANCE)
        most = np.minimum(np.minimum(by_cpus, by_memory), self.gpus)
        return np.maximum(most, 0).astype(np.int64)


def _divisor(fair: FloatArray) -> FloatArray:
    """Shares by which can be divided: where nothing is known, so little that it binds nobody."""
    return np.where(fair > 0, fair, _NOTHING)
