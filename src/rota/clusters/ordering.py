"""In which order types and servers stand in a run, so that neither names nor the order of a file decide anything.

Where two types or servers are equally good, whoever comes first wins; so the order must follow from what they are.
Types go from slow to fast by the catalogue of the run, servers of a type from large to small, of equal ones those with
fewer labels first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from operator import neg

from rota.core.cluster import Cluster, Server
from rota.core.errors import ProfileMissing, UnknownName
from rota.core.ports import Listed, Throughputs

_GPU_COUNTS = (1, 2, 4, 8, 16, 32)
"""GPUs of a job by which a profile is judged: the first count with which it was measured."""


def in_order(cluster: Cluster, speeds: Throughputs, profiles: Iterable[str] = ()) -> Cluster:
    """The same cluster with types from slow to fast and servers of each type from large to small."""
    servers = sorted(cluster.servers, key=lambda server: (_largest_first(server), len(server.labels), server.labels))
    return types_by_speed(replace(cluster, servers=tuple(servers)), speeds, profiles)


def types_by_speed(cluster: Cluster, speeds: Throughputs, profiles: Iterable[str] = ()) -> Cluster:
    """The same cluster with types from slow to fast; equals by size, price and servers.

    By all profiles of the catalogue; by `profiles` if it cannot say which it has. An order that is that of their names
    is not written down, as a description (`cluster_fields`) has none then: a cluster that was read back is the same.
    """
    names = speeds.names if isinstance(speeds, Listed) else profiles
    speed = _relative_speed(cluster.types, speeds, names)
    keys = {t: (speed[t], *_looks(cluster, t), t) for t in cluster.types}
    order = tuple(sorted(cluster.types, key=keys.__getitem__))
    return replace(cluster, type_order=() if list(order) == sorted(order) else order)


def _largest_first(server: Server) -> tuple[float, ...]:
    capacity = server.capacity
    parts = (capacity.gpus, capacity.cpus, capacity.memory_gb, capacity.storage_mbps, capacity.network_gbps)
    return tuple(map(neg, parts))


def _looks(cluster: Cluster, gpu_type: str) -> tuple[object, ...]:
    """What tells a type from another one of the same speed, beside its name."""
    at = cluster.types.index(gpu_type)
    shapes = sorted(_largest_first(s) for s in cluster.servers if s.type == gpu_type)
    return int(cluster.capacity[at]), float(cluster.prices[at]), shapes


def _relative_speed(types: tuple[str, ...], speeds: Throughputs, names: Iterable[str]) -> dict[str, float]:
    """By type, the mean over profiles measured there of the rate relative to the profile's best type."""
    relative: dict[str, list[float]] = {t: [] for t in types}
    for profile in names:
        rates = _measured(profile, types, speeds)
        best = max(rates.values(), default=0.0)
        for gpu_type, rate in rates.items():
            relative[gpu_type].append(rate / best)
    return {t: math.fsum(parts) / len(parts) if parts else 0.0 for t, parts in relative.items()}


def _measured(profile: str, types: tuple[str, ...], speeds: Throughputs) -> dict[str, float]:
    """Rates by type with the fewest GPUs for which there are any."""
    for gpus in _GPU_COUNTS:
        rates = {t: _rate(profile, gpus, t, speeds) for t in types}
        there = {t: rate for t, rate in rates.items() if rate > 0}
        if there:
            return there
    return {}


def _rate(profile: str, gpus: int, gpu_type: str, speeds: Throughputs) -> float:
    try:
        return speeds.rate(profile, gpus, gpu_type)
    except (ProfileMissing, UnknownName):
        return 0.0
