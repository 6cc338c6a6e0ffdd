"""What explanations need to know of the servers and jobs of a cluster, at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rota.core.cluster import Cluster
from rota.deploy.scheduler.free_servers import free_servers, servers_up
from rota.deploy.scheduler.records import gpus_on
from rota.deploy.scheduler.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNow:
    """What all explanations of one request have in common."""

    up: Mapping[str, int]
    """GPUs by type on servers that are up."""
    free: Mapping[str, int]
    """Those of them that no attempt holds."""
    away: Mapping[str, int]
    """GPUs by type on servers that are lost or drained."""
    servers_away: str
    """The latter in words; empty: there are none."""
    pending: Sequence[int]
    """Numbers of the jobs that do not run and are not over, ascending."""
    running: int
    """Number of jobs that run."""
    silent_s: Mapping[str, float] = field(default_factory=dict)
    """Servers that were not heard of for so long, in seconds, that nobody knows what they do."""
    now: float
    """Engine seconds."""
    time_scale: float = 1.0
    servers: Cluster | None = None
    """Servers that are up, with all that they have; None: there is none."""
    free_servers: Cluster | None = None
    """Those with free GPUs, with what nobody holds; None: there is none."""


def cluster_as_it_is(
    registry: Registry, now: float, *, time_scale: float = 1.0, silent_s: Mapping[str, float] | None = None
) -> ClusterNow:
    """What explanations need of the registry, counted once."""
    up: Counter[str] = Counter()
    away: Counter[str] = Counter()
    lost = 0
    drained = 0
    troubled = 0
    for name, node in registry.nodes.items():
        count = len(node.joined.devices)
        held = (
            gpus_on(name, (attempt for _, attempt in registry.attempts_on(name)))
            if node.usable and node.trouble
            else count
        )
        (up if node.usable else away)[node.joined.type] += held
        away[node.joined.type] += count - held
        lost += node.lost
        drained += node.drained and not node.lost
        troubled += node.usable and bool(node.trouble)
    counted = ((lost, "lost"), (drained, "drained"), (troubled, "in trouble (`rota nodes` says why)"))
    words = [f"{count} {word}" for count, word in counted if count]
    pending = sorted(job.id for job in registry.live.values() if job.attempt is None and job.final_phase is None)
    return ClusterNow(
        up={gpu_type: count for gpu_type, count in up.items() if count},
        free=_free(registry),
        away=away,
        servers_away=" and ".join(words),
        pending=pending,
        running=len(registry.running),
        silent_s=silent_s or {},
        now=now,
        time_scale=time_scale,
        servers=servers_up(registry),
        free_servers=free_servers(registry),
    )


def gpus_by_tenant(registry: Registry) -> dict[str, dict[str, int]]:
    """GPUs by type that attempts of each tenant hold; those on which two of its jobs run count once."""
    held: dict[str, set[tuple[str, str]]] = {}
    for job in registry.running.values():
        for part in job.attempt.parts if job.attempt is not None else ():
            held.setdefault(job.tenant, set()).update((part.node, device) for device in part.devices)
    counts: dict[str, dict[str, int]] = {}
    for tenant, devices in held.items():
        types = (registry.nodes[node].joined.type for node, _ in devices if node in registry.nodes)
        counts[tenant] = dict(Counter(types))
    return counts


def _free(registry: Registry) -> dict[str, int]:
    """GPUs by type that are up and that no attempt holds."""
    held: dict[str, set[str]] = {}
    for job in registry.running.values():
        for part in job.attempt.parts if job.attempt is not None else ():
            held.setdefault(part.node, set()).update(part.devices)
    free: Counter[str] = Counter()
    for name, node in registry.nodes.items():
        if node.usable and not node.trouble:
            free[node.joined.type] += len(set(node.joined.devices) - held.get(name, set()))
    return dict(free)
