"""Servers of a deployment as values: all that they have, and what nobody holds of it."""

from __future__ import annotations

from collections.abc import Iterable

from rota.core.cluster import Cluster, Resources, Server
from rota.deploy.scheduler.records import Node
from rota.deploy.scheduler.registry import Registry

_NOTHING_LEFT = 1e-6
"""CPUs or GB of a server that has none left; 0 says that nobody knows."""


def servers_up(registry: Registry) -> Cluster | None:
    """Servers that are up, with all that they have; None if there is none."""
    return _cluster(_server(name, node, _capacity(node)) for name, node in _usable(registry))


def free_servers(registry: Registry) -> Cluster | None:
    """Servers on which GPUs are free, with what nobody holds; None if there is none."""
    free: dict[str, Resources] = {name: _capacity(node) for name, node in _usable(registry) if not node.trouble}
    for job in registry.running.values():
        for part in job.attempt.parts if job.attempt is not None else ():
            if part.node in free:
                free[part.node] = _without(free[part.node], len(part.devices), part.cpus, part.memory_gb)
    nodes = registry.nodes
    return _cluster(_server(name, nodes[name], left) for name, left in free.items() if left.gpus > 0)


def _usable(registry: Registry) -> list[tuple[str, Node]]:
    return [(name, node) for name, node in sorted(registry.nodes.items()) if node.usable and node.joined.devices]


def _capacity(node: Node) -> Resources:
    return Resources(len(node.joined.devices), node.joined.cpus, node.joined.memory_gb)


def _without(capacity: Resources, gpus: int, cpus: float, memory_gb: float) -> Resources:
    left_cpus = max(capacity.cpus - cpus, _NOTHING_LEFT) if capacity.cpus > 0 else 0.0
    left_memory = max(capacity.memory_gb - memory_gb, _NOTHING_LEFT) if capacity.memory_gb > 0 else 0.0
    return Resources(capacity.gpus - gpus, left_cpus, left_memory)


def _server(name: str, node: Node, capacity: Resources) -> Server:
    return Server(id=name, type=node.joined.type, capacity=capacity, labels=node.joined.labels)


def _cluster(servers: Iterable[Server]) -> Cluster | None:
    listed = tuple(servers)
    return Cluster(name="up", servers=listed) if listed else None
