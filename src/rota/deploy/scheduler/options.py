"""What `rota serve` was asked for."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota._version import __version__
from rota.assembly import Settings
from rota.core.cluster import Cluster
from rota.core.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How patient the scheduler is; wall seconds."""

    heartbeat_s: float = 2.0
    dead_after_s: float = 10.0
    lease_s: float = 30.0
    """How long an attempt may run beyond the end of its round without hearing from the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long jobs that are over stay in memory; after that they are read from the journal."""

    keep_finished_s: float = 3600.0
    """Wall seconds."""
    keep_finished_jobs: int = 10_000
    """The largest number of them; those that ended last stay."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """All settings of a scheduler."""

    state: str | Path
    policy: str = "max-min-fairness-perf"
    policy_settings: Settings = field(default_factory=dict)
    mechanism: str | None = None
    mechanism_settings: Settings = field(default_factory=dict)
    profiles: str = "gavel"
    rules: str = "default"
    rule_settings: Settings = field(default_factory=dict)
    round_s: float | None = None
    cluster: Cluster | None = None
    time_scale: float = 1.0
    checkpoints: str = ""
    seed: int = 0
    timing: Timing = field(default_factory=Timing)
    retention: Retention = field(default_factory=Retention)
    solve_budget_s: float | None = None

    def described(self, rules: Rules) -> dict[str, Any]:
        """As plain values, for the journal."""
        return {
            "policy": self.policy,
            "policy_settings": dict(self.policy_settings),
            "mechanism": self.mechanism or rules.mechanism,
            "mechanism_settings": dict(self.mechanism_settings),
            "profiles": self.profiles,
            "rules": {**dataclasses.asdict(rules), "type_order": list(rules.type_order)},
            "time_scale": self.time_scale,
            "seed": self.seed,
            "version": __version__,
        }
