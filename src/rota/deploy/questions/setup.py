"""How a scheduler decides, made again from the settings in its journal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.assembly import make_throughputs
from rota.core.cluster import Cluster
from rota.core.ports import Policy
from rota.core.quotas import Quotas
from rota.core.rules import Rules
from rota.deploy.deciding import deployed_policy
from rota.deploy.scheduler.catalogue import OpenCatalogue, opened
from rota.deploy.scheduler.recovery import Ways, rules_of
from rota.deploy.tenants import Tenants, tenants_from
from rota.engine.live_state import LiveState
from rota.mechanisms.registry import ComposedMechanism, build


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The settings of a scheduler, and its catalogue of speeds."""

    config: Mapping[str, Any]
    """As `Options.described` writes it."""
    rules: Rules
    catalogue: OpenCatalogue
    tenants: Tenants

    @property
    def time_scale(self) -> float:
        """Engine seconds per wall second."""
        return float(self.config.get("time_scale", 1.0))

    def policy(self) -> Policy:
        """A fresh policy, which has as much time as it needs."""
        config = self.config
        return deployed_policy(
            config["policy"],
            config.get("policy_settings", {}),
            int(config.get("seed", 0)),
            self.rules,
            weights=self.tenants.weights() if config.get("fair_by", "job") == "tenant" else None,
        )

    def quotas(self) -> Quotas:
        """GPUs that tenants are promised."""
        return self.tenants.quotas()

    def mechanism(self) -> ComposedMechanism:
        """A fresh mechanism."""
        config = self.config
        settings = dict(config.get("mechanism_settings", {}))
        seed = int(config.get("seed", 0))
        return build(config["mechanism"], self.rules, seed, settings, watched=True, quotas=self.quotas())

    def state(self, cluster: Cluster) -> LiveState:
        """An empty state on these servers."""
        return LiveState(cluster, self.catalogue, self.rules, by_need=self.mechanism().by_need)

    def changed(self, **settings: Any) -> Setup:
        """The same with other settings."""
        return self.follows({**self.config, **settings})

    def follows(self, config: Mapping[str, Any]) -> Setup:
        """The same catalogue, decided on by the settings of another configuration."""
        tenants = tenants_from(config.get("tenants", {}))
        return dataclasses.replace(self, config=config, rules=rules_of(config), tenants=tenants)

    def ways(self, config: Mapping[str, Any]) -> Ways:
        """How events are read that were written under a configuration."""
        setup = self.follows(config)
        return Ways(rules=setup.rules, by_need=setup.mechanism().by_need, make_state=setup.state)


def setup_of(config: Mapping[str, Any]) -> Setup:
    """The setup of a journal's settings. Raises ConfigError if a file that they name is gone."""
    return Setup(
        config=config,
        rules=rules_of(config),
        catalogue=opened(make_throughputs(config["profiles"])),
        tenants=tenants_from(config.get("tenants", {})),
    )
