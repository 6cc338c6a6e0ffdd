"""GPU-seconds by tenant and type, added up as attempts start and end. Two jobs on the same GPU have half of it each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from rota.deploy.events import Part
from rota.deploy.scheduler.registry import Registry

Key = tuple[str, str]
"""(tenant, type)"""
Device = tuple[str, str]
"""(node, device)"""
UNKNOWN_TYPE = "unknown"


class GpuTime:
    """Totals that never go back."""

    def __init__(self) -> None:
        self.total: defaultdict[Key, float] = defaultdict(float)
        """GPU-seconds of the scheduler's clock."""
        self._holders: dict[Device, list[Key]] = {}
        self._held: defaultdict[Key, float] = defaultdict(float)
        self._attempts: dict[int, tuple[Key, tuple[Device, ...]]] = {}
        self._now = 0.0

    def held(self) -> dict[Key, float]:
        """GPUs that are held now."""
        return {key: gpus for key, gpus in self._held.items() if gpus > 1e-9}

    def begin(self, registry: Registry, now: float, tenant_label: Callable[[str], str]) -> None:
        """Go on with the attempts that a registry has; totals stay."""
        self.advance(now)
        self._holders.clear()
        self._held.clear()
        self._attempts.clear()
        for job in registry.running.values():
            if job.attempt is not None:
                gpu_type = type_of(registry, job.attempt.parts)
                self.started(job.id, (tenant_label(job.tenant), gpu_type), job.attempt.parts, now)

    def advance(self, now: float) -> None:
        """Let time pass until an engine second."""
        seconds = now - self._now
        if seconds > 0:
            for key, gpus in self._held.items():
                self.total[key] += gpus * seconds
            self._now = now

    def started(self, job: int, key: Key, parts: tuple[Part, ...], now: float) -> None:
        """An attempt holds devices from now on."""
        self.ended(job, now)
        devices = tuple((part.node, device) for part in parts for device in part.devices)
        self._attempts[job] = (key, devices)
        for device in devices:
            self._change(device, [*self._holders.get(device, []), key])

    def ended(self, job: int, now: float) -> None:
        """An attempt holds nothing any more."""
        self.advance(now)
        key, devices = self._attempts.pop(job, (("", ""), ()))
        for device in devices:
            left = list(self._holders.get(device, []))
            if key in left:
                left.remove(key)
            self._change(device, left)

    def _change(self, device: Device, holders: list[Key]) -> None:
        before = self._holders.get(device, [])
        for key in before:
            self._held[key] -= 1.0 / len(before)
        for key in holders:
            self._held[key] += 1.0 / len(holders)
        if holders:
            self._holders[device] = holders
        else:
            self._holders.pop(device, None)


def type_of(registry: Registry, parts: tuple[Part, ...]) -> str:
    """The type of GPU that an attempt runs on."""
    node = registry.nodes.get(parts[0].node) if parts else None
    return UNKNOWN_TYPE if node is None else node.joined.type
