"""A server as its agent registers it, and what cannot be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rota.core.cluster import Server
from rota.core.errors import ConfigError
from rota.core.labels import checked_labels
from rota.deploy.events import NodeJoined


class Refused(ConfigError):
    """A request that cannot be granted; `status` is the name of a status of gRPC."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedNode:
    """A server as its agent registers it."""

    node: str
    type: str
    devices: tuple[str, ...]
    cpus: float = 0.0
    memory_gb: float = 0.0
    storage_mbps: float = 0.0
    network_gbps: float = 0.0
    rack: str = ""
    host: str = ""
    emulated: bool = False
    limits: str = ""
    device_memory_mib: float = 0.0
    identity: str = ""
    instance: str = ""
    """Of the agent's process; empty: an agent that does not say it."""
    replaces: tuple[str, ...] = ()
    """Instances that are surely dead."""
    place: str = ""
    """Machine, folder and process, for messages."""
    labels: tuple[str, ...] = ()
    """Like `zone=a`."""


def check_amounts(offered: OfferedNode) -> None:
    """Refused if a server says to have something that no server can have."""
    for name in ("cpus", "memory_gb", "storage_mbps", "network_gbps", "device_memory_mib"):
        amount = getattr(offered, name)
        if not (math.isfinite(amount) and amount >= 0):
            message = f"node {offered.node!r}: {name} is {amount!r}; give a number from 0 on"
            raise Refused("INVALID_ARGUMENT", message)
    try:
        checked_labels(offered.labels, f"node {offered.node!r}")
    except ConfigError as error:
        raise Refused("INVALID_ARGUMENT", str(error)) from error


def as_declared(offered: OfferedNode, declared: Mapping[str, Server]) -> OfferedNode:
    """The server as the cluster file has it; Refused if it is not in there, or has less."""
    server = declared.get(offered.node)
    if server is None:
        names = ", ".join(sorted(declared)[:8])
        raise Refused("FAILED_PRECONDITION", f"the cluster file has no server {offered.node!r}; it has {names}, ...")
    have = len(offered.devices)
    if server.type != offered.type or server.capacity.gpus > have:
        raise Refused(
            "FAILED_PRECONDITION",
            f"server {offered.node!r} should have {server.capacity.gpus} x {server.type} by the cluster file; "
            f"the agent offers {have} x {offered.type}",
        )
    return replace(
        offered,
        devices=offered.devices[: server.capacity.gpus],
        rack=server.rack,
        labels=server.labels or offered.labels,
        cpus=server.capacity.cpus or offered.cpus,
        memory_gb=server.capacity.memory_gb or offered.memory_gb,
    )


def joined(node: OfferedNode, session: str, now: float) -> NodeJoined:
    """The event that it is there."""
    return NodeJoined(
        at=now,
        node=node.node,
        type=node.type,
        devices=node.devices,
        cpus=node.cpus,
        memory_gb=node.memory_gb,
        storage_mbps=node.storage_mbps,
        network_gbps=node.network_gbps,
        rack=node.rack,
        host=node.host,
        session=session,
        emulated=node.emulated,
        limits=node.limits,
        device_memory_mib=node.device_memory_mib,
        identity=node.identity,
        instance=node.instance,
        place=node.place,
        labels=tuple(sorted(set(node.labels))),
    )
