"""What did every job hold? GPU-seconds and their price by job, CPU- and memory-seconds of all.

A round is only noted down; the books are done for many rounds at once, since adding up arrays of a few entries costs
more than the sums themselves. Two jobs that share GPUs are charged half each. Where a placement does not say how many
CPUs a task holds, it holds the same part of those of its servers as of their GPUs.
"""

from __future__ import annotations

import numpy as np

from rota.core.arrays import FloatArray, IntArray
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
        jobs = np.concatenate([p.first for p in placements])
        held = seconds * np.concatenate([p.gpus for p in placements])
        price = held * (self._cluster.prices / 3600.0)[np.concatenate([p.type for p in placements])]
        if any(p.shared for p in placements):
            second = np.concatenate([p.second for p in placements])
            pairs = np.flatnonzero(second >= 0)
            held[pairs] *= 0.5
            price[pairs] *= 0.5
            jobs = np.concatenate([jobs, second[pairs]])
            held, price = np.concatenate([held, held[pairs]]), np.concatenate([price, price[pairs]])
        if len(jobs):
            self._add(jobs, held, price)
        if self.knows_cpus:
            self._cpu_s += float(seconds @ np.concatenate([cpus_of(p, self._cluster) for p in placements]))
        if self.knows_memory:
            self._memory_gb_s += float(seconds @ np.concatenate([memory_of(p, self._cluster) for p in placements]))

    def _add(self, jobs: IntArray, held: FloatArray, price: FloatArray) -> None:
        """Ids of jobs that run at the same time lie close together, so only that stretch is touched."""
        first, last = int(jobs.min()), int(jobs.max()) + 1
        self._make_room(last)
        for column, amount in ((self._gpu_s, held), (self._price, price)):
            column[first:last] += np.bincount(jobs - first, weights=amount, minlength=last - first)

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
