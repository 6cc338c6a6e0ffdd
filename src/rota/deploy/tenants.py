"""What an operator says about tenants: their parts of the cluster, and limits that keep one from harming another.

[tenants.vision]
weight = 2            # twice the part of a tenant with weight 1, when both have work
max_job_weight = 4    # the largest --weight of its jobs
max_running = 16      # jobs that run at the same time
max_priority = 10     # the highest --priority of its jobs; 0 unless it is given
max_least_turn_s = 3600   # the largest --least-turn of its jobs, wall seconds; a week unless it is given
quota = {v100 = 8, k80 = 4}   # GPUs that it is promised, by type; quota = 12: of any type
borrow = 4            # GPUs beyond its quota that it may hold; "all" unless it is given

[default]             # all other tenants
max_queued = 5000     # jobs that wait

Every number that is not given is that of `[default]`, and there that of `TenantSettings`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from rota.core.errors import ConfigError
from rota.core.parsing import parse_toml
from rota.core.quotas import NO_QUOTA, Quota, Quotas
from rota.core.tenant_rules import RunningLimits, TenantRules

ALL = "all"
"""Of `borrow`: whatever is free."""
_MOST_GPUS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSettings:
    """One tenant."""

    weight: float = 1.0
    """Its part of the cluster, relative to other tenants."""
    max_job_weight: float = 1.0
    """The largest weight that its jobs may have."""
    max_priority: int = 0
    """The highest priority that its jobs may have; lower ones, also below 0, are up to the tenant."""
    max_least_turn_s: float = 7 * 86400.0
    """The largest least turn that its jobs may have, wall seconds."""
    max_queued: int = 20_000
    """Jobs that are not over and do not run."""
    max_queued_mb: float = 512.0
    """Their commands and variables, MB (10^6 bytes)."""
    max_dependencies: int = 20_000
    """Jobs and arrays that its jobs come after, counted for each job that is not over."""
    max_running: int = 10_000
    """Jobs that run at the same time."""
    requests_per_s: float = 200.0
    """Requests per second, over longer times ..."""
    request_burst: int = 2_000
    """... and requests that it may make at once before that."""
    max_scheduler_share: float = 0.25
    """The part of the CPU time of the thread that decides that its requests may take, over `owner_time.WINDOW_S`."""
    max_streams: int = 64
    """Readers of logs and events at the same time."""
    max_log_gb: float = 1.0
    """Output of its jobs that is kept, GB (10^9 bytes)."""
    max_checkpoint_gb: float = 1_000.0
    """Checkpoints of its jobs, GB (10^9 bytes), beyond which none of its jobs starts."""
    quota: int | Mapping[str, int] | None = None
    """GPUs that it is promised, of any type or by type; None: none."""
    borrow: int | str = ALL
    """GPUs beyond its quota that it may hold."""

    def promised(self) -> Quota:
        """Its quota and what it may borrow."""
        if self.quota is None:
            return NO_QUOTA
        most = math.inf if isinstance(self.borrow, str) else self.borrow
        if isinstance(self.quota, int):
            return Quota(any_type=self.quota, borrow=most)
        return Quota(by_type=self.quota, borrow=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """All of them."""

    named: Mapping[str, TenantSettings] = field(default_factory=dict)
    default: TenantSettings = TenantSettings()
    """Of tenants that are not named."""

    def of(self, name: str) -> TenantSettings:
        """The settings of a tenant."""
        return self.named.get(name, self.default)

    def weights(self) -> Mapping[str, float]:
        """Weights by name, relative to a tenant that is not named."""
        return {name: settings.weight / self.default.weight for name, settings in self.named.items()}

    def quotas(self) -> Quotas:
        """GPUs that tenants are promised."""
        named = {name: settings.promised() for name, settings in self.named.items()}
        return Quotas(named=named, default=self.default.promised())

    def running_limits(self) -> RunningLimits | None:
        """Jobs of each tenant that may run at the same time; None if all have as many as by default."""
        running = RunningLimits(
            named={name: settings.max_running for name, settings in self.named.items()},
            default=self.default.max_running,
        )
        limited = {*running.named.values(), running.default} != {TenantSettings().max_running}
        return running if limited else None

    def rules(self, where: str) -> TenantRules:
        """What counts in a simulation; `where` is the file, for messages."""
        return TenantRules(
            where=where,
            weights=self.weights(),
            quotas=self.quotas(),
            running=self.running_limits(),
            described=self.described(),
        )

    def described(self) -> dict[str, Any]:
        """As plain values, for the journal."""
        named = {name: _values(settings) for name, settings in self.named.items()}
        return {"tenants": named, "default": _values(self.default)}


class TenantTable(Protocol):
    """Settings by name of a tenant: a value, or those in force at the moment."""

    @property
    def default(self) -> TenantSettings:
        """Of tenants that are not named."""

    def of(self, name: str) -> TenantSettings:
        """The settings of a tenant."""


@dataclass(frozen=True, slots=True)
class TenantsInForce:
    """The tenants of whoever is asked for them: other ones once an operator has set them on a live cluster."""

    now: Callable[[], Tenants]

    @property
    def default(self) -> TenantSettings:
        """Of tenants that are not named."""
        return self.now().default

    def of(self, name: str) -> TenantSettings:
        """The settings of a tenant."""
        return self.now().of(name)


def tenants_from(described: Mapping[str, Any]) -> Tenants:
    """The tenants of plain values that `Tenants.described` made, by this version or another one."""
    named = {name: _settings_from(values) for name, values in described.get("tenants", {}).items()}
    return Tenants(named=named, default=_settings_from(described.get("default", {})))


def _settings_from(values: Mapping[str, Any]) -> TenantSettings:
    known = {known.name for known in fields(TenantSettings)}
    return TenantSettings(**{name: value for name, value in values.items() if name in known})


def read_tenants(path: str | Path) -> Tenants:
    """The tenants of a TOML file. Raises ConfigError with the file and the key."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    return parse_tenants(text, str(path))


def parse_tenants(text: str, path: str) -> Tenants:
    """The tenants of the text of a TOML file. Raises ConfigError with the file and the key."""
    try:
        document = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    _check_keys(document, ("tenants", "default"), path)
    default = _settings(document.get("default", {}), TenantSettings(), f"{path}: default")
    tables = document.get("tenants", {})
    if not isinstance(tables, dict):
        raise ConfigError(f"{path}: tenants is no table; write [tenants.NAME] for each tenant")
    named = {name: _settings(table, default, f"{path}: tenants.{name}") for name, table in tables.items()}
    return Tenants(named=named, default=default)


def _settings(table: Any, default: TenantSettings, where: str) -> TenantSettings:
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is {table!r}; give a table, such as weight = 2")
    known = tuple(setting.name for setting in fields(TenantSettings))
    _check_keys(table, known, where)
    values = {name: getattr(default, name) for name in known}
    for name, value in table.items():
        if name in _GPU_NUMBERS:
            values[name] = _GPU_NUMBERS[name](value, f"{where}: {name}")
            continue
        nothing = name == "max_priority" and value == 0 and not isinstance(value, bool)
        whole = isinstance(values[name], int)
        values[name] = 0 if nothing else _number(value, f"{where}: {name}", whole=whole)
    if values["quota"] is None and values["borrow"] != ALL:
        raise ConfigError(
            f"{where}: borrow is {values['borrow']!r} without a quota; give quota, which is 0 for a tenant that is "
            "promised nothing"
        )
    return TenantSettings(**values)


def _quota(value: Any, what: str) -> int | dict[str, int]:
    if not isinstance(value, dict):
        return _gpus(value, what, "give a number of GPUs from 0 on, or numbers by type such as {v100 = 8, k80 = 4}")
    if not value:
        raise ConfigError(f"{what} is {{}}; name types of GPU with their numbers, or give 0")
    fix = "give a number of GPUs from 0 on"
    return {gpu_type: _gpus(gpus, f"{what}.{gpu_type}", fix) for gpu_type, gpus in value.items()}


def _borrow(value: Any, what: str) -> int | str:
    return ALL if value == ALL else _gpus(value, what, f'give "{ALL}", or a number of GPUs from 0 on')


_GPU_NUMBERS: dict[str, Callable[[Any, str], Any]] = {"quota": _quota, "borrow": _borrow}


def _gpus(value: Any, what: str, fix: str) -> int:
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not 0 <= value <= _MOST_GPUS or value != int(value):
        raise ConfigError(f"{what} is {value!r}; {fix}")
    return int(value)


def _number(value: Any, what: str, *, whole: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(f"{what} is {value!r}; give a number above 0")
    if whole and value != int(value):
        raise ConfigError(f"{what} is {value!r}; give a whole number above 0")
    return int(value) if whole else float(value)


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{where}: there is no {name!r}; {hint}")


def _values(settings: TenantSettings) -> dict[str, Any]:
    return {setting.name: getattr(settings, setting.name) for setting in fields(settings)}
