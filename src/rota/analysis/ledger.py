"""What did every job hold? GPU-seconds and their price by job, CPU- and memory-seconds of all.

Two jobs that share GPUs are charged half each while both are there. Where a placement does not say how many CPUs a task
holds, it holds the same part of those of its servers as of their GPUs.
"""

from __future__ import annotations

import numpy as np

from rota import kernels
from rota.core.arrays import FloatArray
from rota.core.cluster import Cluster
from rota.core.placement import Placement

_NONE: FloatArray = np.zeros(0)


class Ledger:
    """Adds up rounds."""

    def __init__(self, cluster: Cluster) -> None:
        self.knows_cpus = bool(np.all(cluster.server_cpus > 0))
        self.knows_memory = bool(np.all(cluster.server_memory_gb > 0))
        self.by_type: FloatArray = np.zeros(len(cluster.types))
        """GPU-seconds by type."""
        self._cluster = cluster
        self._prices: FloatArray = cluster.prices / 3600.0
        self._alike = _alike(cluster)
        self._unsaid: FloatArray = np.zeros(len(cluster.types))
        """GPU-seconds by type of tasks of which only that is known."""
        self._beside: FloatArray = np.zeros(2)
        """CPU- and GB-seconds of the others."""
        self._gpu_s: FloatArray = np.zeros(256)
        self._price: FloatArray = np.zeros(256)

    def ran(self, placement: Placement, seconds: FloatArray, alone: FloatArray | None = None) -> None:
        """Tasks of a placement held their slots for these seconds.

        `alone` says for how long one member of a pair was left (`RoundsRan.alone`).
        """
        cpus = placement.cpus
        memory = placement.memory_gb
        if cpus is None or memory is None:
            if cpus is None and (self._alike or len(placement.slot_gpus) == 0):
                cpus = memory = _NONE
            else:
                cpus = cpus_of(placement, self._cluster)
                memory = memory_of(placement, self._cluster)
        what = (placement.type, placement.gpus, seconds, self._prices, cpus, memory)
        totals = (self.by_type, self._unsaid, self._beside)
        while not kernels.charge(placement.first, placement.second, *what, self._gpu_s, self._price, *totals):
            self._gpu_s = np.concatenate([self._gpu_s, np.zeros_like(self._gpu_s)])
            self._price = np.concatenate([self._price, np.zeros_like(self._price)])
        if alone is not None:
            self._charge_who_is_left(placement, alone)

    def _charge_who_is_left(self, placement: Placement, alone: FloatArray) -> None:
        """Half of what a pair held after one of them had ended goes from the first member to the second, or back."""
        pairs = alone.nonzero()[0]
        half_gpu_s = placement.gpus[pairs] * alone[pairs] / 2
        half_price = half_gpu_s * self._prices[placement.type[pairs]]
        for jobs, sign in ((placement.first[pairs], 1.0), (placement.second[pairs], -1.0)):
            np.add.at(self._gpu_s, jobs, sign * half_gpu_s)
            np.add.at(self._price, jobs, sign * half_price)

    def gpu_s(self, jobs: int) -> FloatArray:
        """[N] GPU-seconds of the first jobs."""
        return _first(self._gpu_s, jobs)

    def price(self, jobs: int) -> FloatArray:
        """[N] what that cost."""
        return _first(self._price, jobs)

    def unpriced(self) -> list[str]:
        """Types that were used and have no price."""
        used = dict(zip(self._cluster.types, self.by_type.tolist(), strict=True))
        return [gpu_type for gpu_type in self._cluster.unpriced if used[gpu_type] > 0]

    def remarks(self) -> list[str]:
        """What to say about the cost."""
        missing = self.unpriced()
        if not missing:
            return []
        example = f"{missing[0]}=8:price=2.5"
        fix = f"give it as {example} in --cluster, or as hourly_price in an [[accelerator]] of a cluster file"
        return [f"the cost is unknown: nobody has said the price of a GPU hour of {', '.join(missing)}; {fix}"]

    @property
    def cpu_s(self) -> float:
        """CPU-seconds held, if the cluster knows its CPUs."""
        per_gpu = _per_gpu(self._cluster, self._cluster.server_cpus)
        return float(self._beside[0] + self._unsaid @ per_gpu)

    @property
    def memory_gb_s(self) -> float:
        """GB-seconds held, if the cluster knows its memory."""
        per_gpu = _per_gpu(self._cluster, self._cluster.server_memory_gb)
        return float(self._beside[1] + self._unsaid @ per_gpu)


def _per_gpu(cluster: Cluster, there: FloatArray) -> FloatArray:
    """[T] what servers of a type have on average for each of their GPUs."""
    by_type = np.bincount(cluster.server_type, weights=there, minlength=len(cluster.types))
    per_gpu: FloatArray = by_type / cluster.capacity
    return per_gpu


def _alike(cluster: Cluster) -> bool:
    """Whether all servers of a type have the same per GPU, so that the server of a task is no matter."""
    first = np.array(cluster.server_bounds[:-1])[cluster.server_type]
    cpus = cluster.server_cpus / cluster.server_gpus
    memory_gb = cluster.server_memory_gb / cluster.server_gpus
    return all(bool(np.all(ratio == ratio[first])) for ratio in (cpus, memory_gb))


def cpus_of(placement: Placement, cluster: Cluster) -> FloatArray:
    """[K] CPUs that tasks hold."""
    if placement.cpus is None:
        return in_proportion(placement, cluster, cluster.server_cpus)
    return placement.cpus


def memory_of(placement: Placement, cluster: Cluster) -> FloatArray:
    """[K] memory that tasks hold, GB."""
    if placement.memory_gb is None:
        return in_proportion(placement, cluster, cluster.server_memory_gb)
    return placement.memory_gb


def in_proportion(placement: Placement, cluster: Cluster, there: FloatArray) -> FloatArray:
    """[K] the same part of what servers have as of their GPUs.

    Without slots, of an average server of the type.
    """
    if len(placement.slot_gpus) == 0:
        average: FloatArray = placement.gpus * _per_gpu(cluster, there)[placement.type]
        return average
    server = placement.slot_server
    amount = placement.slot_gpus * there[server] / cluster.server_gpus[server]
    task = np.repeat(np.arange(len(placement)), np.diff(placement.slot_start))
    held = np.zeros(len(placement))
    np.add.at(held, task, amount)
    return held


def _first(column: FloatArray, jobs: int) -> FloatArray:
    if jobs <= len(column):
        return column[:jobs].copy()
    return np.concatenate([column, np.zeros(jobs - len(column))])
