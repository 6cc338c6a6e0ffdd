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
from rota.deploy.tenants import Tenants

_DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How patient the scheduler is; wall seconds."""

    heartbeat_s: float = 2.0
    dead_after_s: float = 10.0
    lease_s: float = 30.0
    """How long an attempt may run beyond the end of its round without hearing from the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long jobs that are over stay in memory, and what is removed when from the disk."""

    keep_finished_s: float = 3600.0
    """Wall seconds."""
    keep_finished_jobs: int = 10_000
    """The largest number of them; those that ended last stay."""
    keep_finished_bytes: float = 64e6
    """Size of their commands and variables together at most, likewise: one job may have a megabyte of them."""
    keep_jobs_s: float = 90 * _DAY_S
    """Wall seconds that jobs which are over can be asked for at all."""
    keep_events_s: float = 30 * _DAY_S
    """Wall seconds that events stay in the journal."""
    keep_rounds_s: float = _DAY_S
    """The same for events that every round has."""
    keep_checkpoints_s: float = 30 * _DAY_S
    """Wall seconds that checkpoints stay after the end of their job."""
    keep_bytes: float = 2e9
    """Size of the state file from which on the oldest events go before their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """How much output of jobs is kept."""

    job_bytes: int = 64_000_000
    """Of one job, all attempts and ranks together; the oldest goes first."""
    total_bytes: int = 4_000_000_000
    keep_s: float = 30 * 86400.0
    """Seconds after the end of a job, by the clock of the scheduler."""
    segment_bytes: int = 1_000_000
    """Of one file; it is dropped as a whole."""
    least_free_bytes: int = 100_000_000
    """Free space on the disk that is left for the state file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLimits:
    """How much a tenant may ask (`deploy/questions`)."""

    per_minute: int = 60
    """Questions; 0: none are answered."""
    cpu_s: float = 20.0
    """CPU seconds of one question."""
    cpu_s_per_minute: float = 60.0


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
    least_turn_s: float = 0.0
    """Wall seconds that a job runs at least before it may be preempted, if it does not say."""
    tenants: Tenants = field(default_factory=Tenants)
    fair_by: str = "tenant"
    """Between whom a policy that goes by weights is fair first: `tenant` or `job`."""
    tenants_file: str = ""
    """Where `tenants` were read; empty: nowhere."""
    discard_live_settings: bool = False
    """Whether to forget what was set on the live cluster before this start."""
    term: int = 0
    """The term that begins with this start, because it takes over; 0: as the journal says."""
    state_checked: bool = False
    """Whether the state file was checked by this process already, so that it is not read as a whole again."""
    standby_sync: bool = False
    """Whether commits wait for the standby."""
    claim_checkpoints: bool = False
    """Whether to take over a folder of checkpoints that is another state file's."""
    logs: str = ""
    """Folder of the output of jobs; empty: beside the state file, with `.logs` behind its name."""
    log_limits: LogLimits = field(default_factory=LogLimits)
    questions: QuestionLimits = field(default_factory=QuestionLimits)

    @property
    def logs_folder(self) -> Path:
        """Where the output of jobs is kept."""
        return Path(self.logs) if self.logs else Path(f"{self.state}.logs")

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
            "fair_by": self.fair_by,
            "tenants": self.tenants.described(),
            "version": __version__,
            "least_turn_s": self.least_turn_s,
        }
