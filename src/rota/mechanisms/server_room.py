"""What is left on servers while jobs that need more than a proportional share, or certain servers, are put on them."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.cluster import Cluster
from rota.core.tolerance import TOLERANCE

Slots = list[tuple[int, int]]
"""(server, GPUs)."""

ALL = slice(None)


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
        self._fair_cpus: FloatArray = cluster.fair_cpus[cluster.server_type]
        self._fair_memory: FloatArray = cluster.fair_memory_gb[cluster.server_type]

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

    def most(self, beside: PerGpu, servers: slice = ALL) -> IntArray:
        """[S] GPUs with so much beside each that are free."""
        return self._with(beside.cpus, beside.memory_gb, servers)

    def usable(self, servers: slice = ALL) -> IntArray:
        """[S] GPUs that are left with a proportional share of CPUs and memory for each; the others are stranded."""
        return self._with(self._fair_cpus[servers], self._fair_memory[servers], servers)

    def usable_of(self, gpu_type: int) -> int:
        """The same, of all servers of a type."""
        return int(self.usable(self.servers_of(gpu_type)).sum())

    def servers_of(self, gpu_type: int) -> slice:
        """The servers of a type."""
        return slice(self._bounds[gpu_type], self._bounds[gpu_type + 1])

    def _with(self, cpus: float | FloatArray, memory_gb: float | FloatArray, servers: slice) -> IntArray:
        most = self.gpus[servers].astype(np.float64)
        for wanted, free in ((cpus, self.cpus[servers]), (memory_gb, self.memory_gb[servers])):
            each = np.broadcast_to(np.asarray(wanted, dtype=np.float64), free.shape)
            limit = np.full(len(free), np.inf)
            np.divide(free + TOLERANCE, each, out=limit, where=(each > 0) & np.isfinite(free))
            most = np.minimum(most, np.floor(limit + TOLERANCE))
        return np.maximum(most, 0).astype(np.int64)

    def place(self, gpu_type: int, size: int, beside: PerGpu, allowed: BoolArray, busy: IntArray) -> Slots | None:
        """Where a task of so many GPUs goes; None if there is no room on the servers that are allowed.

        On one server if there is one: where the fewest of the GPUs that are `busy` ([S], with tasks that could go on)
        would have to make way, then where the fewest are stranded, then the fullest. Otherwise on as few as possible.
        """
        servers = self.servers_of(gpu_type)
        lo = servers.start
        most = np.where(allowed[servers], self.most(beside, servers), 0)
        whole = (np.flatnonzero(most >= size) + lo).tolist()
        if whole:
            return [(min(whole, key=lambda server: self._harm(server, size, beside, busy)), size)]
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

    def _harm(self, server: int, size: int, beside: PerGpu, busy: IntArray) -> tuple[int, int, int, int]:
        here = slice(server, server + 1)
        self.take([(server, size)], beside)
        usable = int(self.usable(here)[0])
        left = int(self.gpus[server])
        self.give_back([(server, size)], beside)
        return max(0, int(busy[server]) - usable), left - usable, left, server
