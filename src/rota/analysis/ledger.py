"""What did every job hold? GPU-seconds and their price by job, CPU- and memory-seconds of all.

A round is only noted down; the books are done for many rounds at once, since adding up arrays of a few entries costs
more than the sums themselves. Two jobs that share GPUs are charged half each. Where a placement does not say how many
CPUs a task holds, it holds the same part of those of its servers as of their GPUs.
"""

from __future__ import annotations

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.cluster import Cluster
from rota.core.placement import Placement

ROUNDS = 512
"""Noted down before the books are done."""


class Ledger:
    """Adds up rounds."""

    def __init__(self, cluster: Cluster) -> None:
        self.knows_cpus = bool(np.all(cluster.server_cpus > 0))
        self.knows_memory = bool(np.all(cluster.server_memory_gb > 0))
        self._cluster = cluster
        self._cpu_s = 0.0
        self._memory_gb_s = 0.0
        self._gpu_s: FloatArray = np.zeros(256)
        self._price: FloatArray = np.zeros(256)
        self._noted: list[tuple[Placement, FloatArray]] = []

    def ran(self, placement: Placement, seconds: FloatArray) -> None:
        """Tasks of a placement held their slots for so long."""
        self._noted.append((placement, seconds))
        if len(self._noted) >= ROUNDS:
            self._do_the_books()

    def gpu_s(self, jobs: int) -> FloatArray:
        """[N] GPU-seconds of the first jobs."""
        self._do_the_books()
        return _first(self._gpu_s, jobs)

    def price(self, jobs: int) -> FloatArray:
        """[N] what that cost."""
        self._do_the_books()
        return _first(self._price, jobs)

    @property
    def cpu_s(self) -> float:
        """CPU-seconds held, if the cluster knows its CPUs."""
        self._do_the_books()
        return self._cpu_s

    @property
    def memory_gb_s(self) -> float:
        """GB-seconds held, if the cluster knows its memory."""
        self._do_the_books()
        return self._memory_gb_s

    def _do_the_books(self) -> None:
        noted, self._noted = self._noted, []
        if not noted:
            return
        placements = [placement for placement, _ in noted]
        seconds = np.concatenate([s for _, s in noted])
        first, second = (np.concatenate([getattr(p, n) for p in placements]) for n in ("first", "second"))
        gpus, kind = (np.concatenate([getattr(p, n) for p in placements]) for n in ("gpus", "type"))
        self._make_room(int(max(first.max(initial=-1), second.max(initial=-1))) + 1)
        held = seconds * gpus
        shared = second >= 0
        if shared.any():
            held = np.where(shared, 0.5, 1.0) * held
        price = held * self._cluster.prices[kind] / 3600.0
        for column, amount in ((self._gpu_s, held), (self._price, price)):
            np.add.at(column, first, amount)
            np.add.at(column, second[shared], amount[shared])
        if self.knows_cpus:
            self._cpu_s += float(seconds @ np.concatenate([cpus_of(p, self._cluster) for p in placements]))
        if self.knows_memory:
            self._memory_gb_s += float(seconds @ np.concatenate([memory_of(p, self._cluster) for p in placements]))

    def _make_room(self, jobs: int) -> None:
        if jobs > len(self._gpu_s):
            more = np.zeros(max(jobs, 2 * len(self._gpu_s)) - len(self._gpu_s))
            self._gpu_s = np.concatenate([self._gpu_s, more])
            self._price = np.concatenate([self._price, more])


def cpus_of(placement: Placement, cluster: Cluster) -> FloatArray:
    """[K] CPUs that tasks hold."""
    return in_proportion(placement, cluster, cluster.server_cpus) if placement.cpus is None else placement.cpus


def memory_of(placement: Placement, cluster: Cluster) -> FloatArray:
    """[K] memory that tasks hold, GB."""
    if placement.memory_gb is None:
        return in_proportion(placement, cluster, cluster.server_memory_gb)
    return placement.memory_gb


def in_proportion(placement: Placement, cluster: Cluster, there: FloatArray) -> FloatArray:
    """[K] the same part of what servers have as of their GPUs; without slots, of an average server of the type."""
    if len(placement.slot_gpus) == 0:
        by_type = np.bincount(cluster.server_type, weights=there, minlength=len(cluster.types))
        found: FloatArray = placement.gpus * (by_type / cluster.capacity)[placement.type]
        return found
    server = placement.slot_server
    amount = placement.slot_gpus * there[server] / cluster.server_gpus[server]
    task = np.repeat(np.arange(len(placement)), np.diff(placement.slot_start))
    held = np.zeros(len(placement))
    np.add.at(held, task, amount)
    return held


def _first(column: FloatArray, jobs: int) -> FloatArray:
    return column[:jobs].copy() if jobs <= len(column) else np.concatenate([column, np.zeros(jobs - len(column))])
