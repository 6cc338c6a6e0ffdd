"""What explains jobs as everything is now. It looks at all jobs, so it is made anew only if something has changed."""

from __future__ import annotations

from dataclasses import dataclass

from rota.deploy.scheduler.catalogue import OpenCatalogue
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.cluster_facts import cluster_as_it_is
from rota.deploy.scheduler.heartbeats import Heartbeats
from rota.deploy.scheduler.reasons import Reasons
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.secrets import SecretStore
from rota.deploy.scheduler.tenant_limits import TenantLimits

_SAME_S = 0.1
"""Wall seconds for which the reasons of jobs are the same if nothing happens."""


@dataclass(slots=True)
class _Made:
    """What explained jobs last."""

    reasons: Reasons
    changes: int
    """Events that the registry had applied."""
    until: float
    """Engine seconds."""


@dataclass(slots=True, kw_only=True)
class ReasonsNow:
    """Makes what explains jobs."""

    registry: Registry
    heartbeats: Heartbeats
    clock: WallClock
    catalogue: OpenCatalogue
    secrets: SecretStore
    limits: TenantLimits
    dead_after_s: float
    _last: _Made | None = None

    def of_owner(self) -> Reasons:
        """About the registry, for its owner."""
        now = self.clock.now()
        last = self._last
        if last is None or last.changes != self.registry.changes or now > last.until:
            until = now + _SAME_S * self.clock.scale
            last = self._last = _Made(self.of(self.registry), self.registry.changes, until)
        return last.reasons

    def of(self, registry: Registry) -> Reasons:
        """About a registry that nobody else changes meanwhile, for any thread."""
        silences = self.heartbeats.silences_s().items()
        silent = {node: seconds for node, seconds in silences if seconds > self.dead_after_s and node in registry.nodes}
        cluster = cluster_as_it_is(registry, self.clock.now(), time_scale=self.clock.scale, silent_s=silent)
        return Reasons(cluster, self.catalogue, self.secrets.missing, limits=self.limits, registry=registry)
