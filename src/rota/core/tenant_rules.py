"""What an operator says about tenants, as far as a simulation knows it: weights, quotas, jobs at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.core.errors import ConfigError
from rota.core.quotas import Quotas, beyond_capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningLimits:
    """Jobs of a tenant that may run at the same time."""

    named: Mapping[str, int]
    default: int

    def of(self, tenant: str) -> int:
        """The limit of a tenant."""
        return self.named.get(tenant, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRules:
    """Of all tenants."""

    where: str
    """The file, for messages."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Relative to a tenant that is not named."""
    quotas: Quotas = field(default_factory=Quotas)
    running: RunningLimits | None = None
    """None: any number."""
    described: Mapping[str, Any] = field(default_factory=dict)
    """All as plain values."""

    def check(self, capacity: Mapping[str, int]) -> None:
        """Raise ConfigError for a type of GPU that a cluster with these does not have."""
        there = ", ".join(sorted(capacity))
        for gpu_type in sorted(self.quotas.types() - capacity.keys()):
            raise ConfigError(
                f"{self.where}: a quota names the type {gpu_type!r}, and the cluster has {there}; name one of these, "
                "or leave it out"
            )

    def remarks(self, capacity: Mapping[str, int], tenants: Iterable[str]) -> list[str]:
        """What a user should know about them on a cluster with so many GPUs by type; `tenants` that have jobs."""
        names = dict.fromkeys([*self.quotas.named, *tenants])
        short = beyond_capacity([self.quotas.of(name) for name in names], capacity)
        return [f"{self.where}: {short}; while all ask for theirs, each gets its part of it"] if short else []
