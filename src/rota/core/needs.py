"""What a job needs of its servers beside GPUs: CPUs and memory that it never goes below, and labels of the servers.

CPUs and memory are those of the whole job. On several servers it needs the part of them that it has of its GPUs there.
Where a cluster does not say what its servers have (0), they are taken to have enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.cluster import Cluster
from rota.core.tolerance import TOLERANCE

LabelSet: TypeAlias = tuple[str, ...]
"""Labels like `zone=a`, alphabetical."""


@dataclass(frozen=True, slots=True)
class Needs:
    """CPUs and memory (GB) of a whole job, 0: nothing was said; and labels that each of its servers must have."""

    cpus: float = 0.0
    memory_gb: float = 0.0
    labels: LabelSet = ()

    def __bool__(self) -> bool:
        return self.cpus > 0 or self.memory_gb > 0 or bool(self.labels)


NOTHING = Needs()


def labelled(cluster: Cluster, labels: LabelSet) -> BoolArray:
    """[S] servers of `cluster.ordered` that have all the labels."""
    if not labels:
        return np.ones(len(cluster.ordered), dtype=np.bool_)
    wanted = set(labels)
    return np.array([wanted.issubset(server.labels) for server in cluster.ordered], dtype=np.bool_)


def most_gpus(cluster: Cluster, gpus: int, needs: Needs) -> IntArray:
    """[S] GPUs of a job of so many that each server could hold, if it were empty."""
    most = np.minimum(cluster.server_gpus, gpus).astype(np.float64)
    for amount, of_server in ((needs.cpus, cluster.server_cpus), (needs.memory_gb, cluster.server_memory_gb)):
        if amount > 0:
            limit = np.floor(of_server * gpus / amount + TOLERANCE)
            most = np.where(of_server > 0, np.minimum(most, limit), most)
    if needs.labels:
        most[~labelled(cluster, needs.labels)] = 0
    return most.astype(np.int64)


def types_that_hold(cluster: Cluster, gpus: int, needs: Needs) -> list[bool]:
    """By type, whether its servers could hold such a job if they were empty."""
    most = most_gpus(cluster, gpus, needs)
    held = np.bincount(cluster.server_type, weights=most, minlength=len(cluster.types))
    able: list[bool] = (held >= gpus).tolist()
    return able


def types_that_bind(cluster: Cluster, gpus: int, needs: Needs) -> list[bool]:
    """By type, whether not every GPU of it will do: the job needs more than its proportional share, or labels."""
    beyond = (needs.cpus > gpus * cluster.fair_cpus + TOLERANCE) & (cluster.fair_cpus > 0)
    beyond |= (needs.memory_gb > gpus * cluster.fair_memory_gb + TOLERANCE) & (cluster.fair_memory_gb > 0)
    if needs.labels:
        other = ~labelled(cluster, needs.labels)
        beyond |= np.bincount(cluster.server_type[other], minlength=len(cluster.types)) > 0
    binds: list[bool] = beyond.tolist()
    return binds


def in_words(gpus: int, needs: Needs) -> str:
    """What such a job asks for."""
    asked = []
    if needs.cpus > 0:
        asked.append(f"{needs.cpus:g} CPUs")
    if needs.memory_gb > 0:
        asked.append(f"{needs.memory_gb:g} GB of memory")
    beside = f" with {' and '.join(asked)}" if asked else ""
    labels = f" on servers with {', '.join(needs.labels)}" if needs.labels else ""
    return f"{gpus} GPU{'s' if gpus != 1 else ''}{beside}{labels}"


def why_not(cluster: Cluster, gpus: int, needs: Needs, types: Sequence[str]) -> str:
    """Why no server of these types can hold such a job, with the numbers of the servers."""
    ordered = cluster.ordered
    mine = [at for at, server in enumerate(ordered) if server.type in types]
    if needs.labels:
        with_labels = labelled(cluster, needs.labels)
        mine = [at for at in mine if with_labels[at]]
        if not mine:
            known = sorted({label for server in ordered for label in server.labels})
            there = f"labels of servers that are there: {', '.join(known[:8])}" if known else "no server has labels"
            return f"asks for {in_words(gpus, needs)}; no such server is there ({there})"
    largest = {name: _largest(column, mine) for name, column in _columns(cluster).items()}
    has = f"{largest['GPUs']:g} GPUs, {_amount(largest['CPUs'])} CPUs, {_amount(largest['GB'])} GB"
    several = "together, its servers cannot give that much per GPU" if gpus > largest["GPUs"] else ""
    said = f"asks for {in_words(gpus, needs)}; the most that one server has is {has}"
    return f"{said}; {several}" if several else said


def _columns(cluster: Cluster) -> dict[str, IntArray | FloatArray]:
    return {"GPUs": cluster.server_gpus, "CPUs": cluster.server_cpus, "GB": cluster.server_memory_gb}


def _largest(column: IntArray | FloatArray, servers: Sequence[int]) -> float:
    return max((float(column[at]) for at in servers), default=math.nan)


def _amount(value: float) -> str:
    return f"{value:g}" if value > 0 else "an unknown number of"
