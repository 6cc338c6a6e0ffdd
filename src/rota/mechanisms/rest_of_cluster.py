"""Servers without what some tasks hold of them, as a cluster on which other tasks can be placed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rota.core.arrays import frozen
from rota.core.cluster import Cluster, Server
from rota.mechanisms.server_room import PerGpu, ServerRoom

Taken = tuple[tuple[tuple[int, int], PerGpu], ...]
"""((server, GPUs), what is held beside each GPU)."""
_SAME = ("types", "server_type", "server_bounds", "fair_cpus", "fair_memory_gb", "fair_storage_mbps")
"""What is true of the rest as of the whole: the order of servers, and what a GPU has as its proportional share."""


class RestOfCluster:
    """What is left of a cluster: GPUs with their proportional share of CPUs and memory, and the rest of those."""

    def __init__(self, whole: Cluster, taken: Taken) -> None:
        self._whole = whole
        self._taken = taken
        room = ServerRoom(whole)
        for slot, beside in taken:
            room.take([slot], beside)
        gpus = room.usable()
        cpus = np.where(np.isfinite(room.cpus), np.maximum(room.cpus, 0.0), 0.0)
        memory_gb = np.where(np.isfinite(room.memory_gb), np.maximum(room.memory_gb, 0.0), 0.0)
        columns = zip(whole.ordered, gpus.tolist(), cpus.tolist(), memory_gb.tolist(), strict=True)
        servers = tuple(_left(server, g, c, m) for server, g, c, m in columns)
        self.cluster = _alike(whole, servers)

    def is_of(self, whole: Cluster, taken: Taken) -> bool:
        """Whether it is what is left of this cluster if so much is taken."""
        return whole is self._whole and taken == self._taken


def _left(server: Server, gpus: int, cpus: float, memory_gb: float) -> Server:
    """The server with so much; itself if nothing is taken from it."""
    capacity = server.capacity
    if (capacity.gpus, capacity.cpus, capacity.memory_gb) == (gpus, cpus, memory_gb):
        return server
    return replace(server, capacity=replace(capacity, gpus=gpus, cpus=cpus, memory_gb=memory_gb))


def _alike(whole: Cluster, servers: tuple[Server, ...]) -> Cluster:
    """A cluster of these servers in the same order; it may have no GPU left, which no other cluster may."""
    rest = object.__new__(Cluster)
    rest.__dict__.update(
        name=whole.name,
        servers=servers,
        accelerators=whole.accelerators,
        type_order=whole.types,
        ordered=servers,
        **{name: getattr(whole, name) for name in _SAME},
    )
    gpus = np.bincount(whole.server_type, weights=rest.server_gpus, minlength=len(whole.types))
    rest.__dict__["capacity"] = frozen(gpus.astype(np.int64))
    return rest
