"""CPUs and memory that nobody can use, because the GPUs beside them are taken.

Of a server at a moment, with g, c and m the parts of its GPUs, CPUs and memory that are held:

    stranded CPUs = max(0, g - c)        stranded memory = max(0, g - m)

as parts of what the server has: what is idle beyond what its idle GPUs would get as their fair
share. A mechanism that divides in proportion strands nothing in this sense; one that divides by
need leaves behind what nobody asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.analysis.ledger import cpus_of, memory_of
from rota.core.arrays import FloatArray
from rota.core.cluster import Cluster
from rota.core.errors import ConfigError
from rota.core.events import Event, Planned, RoundsRan
from rota.core.placement import Placement


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stranded:
    """Parts of servers over time.

    `cpus[s, i]` and `memory[s, i]` hold from `edge[i]` to `edge[i + 1]`, seconds.
    """

    servers: tuple[str, ...]
    edge: FloatArray
    cpus: FloatArray
    memory: FloatArray

    def numbers(self) -> dict[str, Any]:
        """What is drawn, for JSON."""
        return {
            "servers": list(self.servers),
            "edge_s": self.edge,
            "cpus": self.cpus,
            "memory": self.memory,
            "mean_cpus": float(self.cpus.mean()),
            "mean_memory": float(self.memory.mean()),
        }


class Stranding:
    """Observes a run."""

    def __init__(self, cluster: Cluster) -> None:
        if not (np.all(cluster.server_cpus > 0) and np.all(cluster.server_memory_gb > 0)):
            raise ConfigError(
                f"cluster {cluster.name!r} does not say how many CPUs and how much memory its "
                "servers have; give them, e.g. v100=32/8:cpus=24:memory=500"
            )
        self._cluster = cluster
        self._now: tuple[FloatArray, FloatArray] = _nothing(cluster)
        self._spans: list[tuple[float, float, tuple[FloatArray, FloatArray]]] = []

    def observe(self, event: Event) -> None:
        """Take an event into account."""
        if isinstance(event, Planned):
            self._now = _of(event.plan.placement, self._cluster)
        elif isinstance(event, RoundsRan) and event.at > event.start:
            self._spans.append((event.start, event.at, self._now))

    def over_time(self, bins: int = 100) -> Stranded:
        """Means by server and bin of time."""
        end = max((stop for _, stop, _ in self._spans), default=1.0)
        edge = np.linspace(0.0, end, bins + 1)
        parts = np.zeros((2, len(self._cluster.ordered), bins))
        for start, stop, values in self._spans:
            inside = np.diff(np.clip(edge, start, stop))
            where = np.flatnonzero(inside)
            for part, value in zip(parts, values, strict=True):
                part[:, where] += value[:, None] * inside[where]
        parts /= np.diff(edge)
        names = tuple(server.id for server in self._cluster.ordered)
        return Stranded(servers=names, edge=edge, cpus=parts[0], memory=parts[1])


def _nothing(cluster: Cluster) -> tuple[FloatArray, FloatArray]:
    return np.zeros(len(cluster.ordered)), np.zeros(len(cluster.ordered))


def _of(placement: Placement, cluster: Cluster) -> tuple[FloatArray, FloatArray]:
    """[S] stranded parts of CPUs and of memory in a round."""
    if not len(placement.slot_gpus):
        return _nothing(cluster)
    task = np.repeat(np.arange(len(placement)), np.diff(placement.slot_start))
    part_of_task = placement.slot_gpus / placement.gpus[task]
    held = []
    for amount in (placement.gpus, cpus_of(placement, cluster), memory_of(placement, cluster)):
        sums = np.zeros(len(cluster.ordered))
        np.add.at(sums, placement.slot_server, amount[task] * part_of_task)
        held.append(sums)
    gpus = held[0] / cluster.server_gpus
    return (
        np.maximum(0.0, gpus - held[1] / cluster.server_cpus),
        np.maximum(0.0, gpus - held[2] / cluster.server_memory_gb),
    )
