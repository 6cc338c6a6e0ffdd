"""What an operator says about tenants: their parts of the cluster, and limits that keep one from harming another.

[tenants.vision]
weight = 2            # twice the part of a tenant with weight 1, when both have work
max_job_weight = 4    # the largest --weight of its jobs
max_running = 16      # jobs that run at the same time

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSettings:
    """One tenant."""

    weight: float = 1.0
    """Its part of the cluster, relative to other tenants."""
    max_job_weight: float = 1.0
    """The largest weight that its jobs may have."""
    max_queued: int = 20_000
    """Jobs that are not over and do not run."""
    max_queued_mb: float = 512.0
    """Their commands and variables, MB (10^6 bytes)."""
    max_running: int = 10_000
    """Jobs that run at the same time."""
    requests_per_s: float = 200.0
    """Requests per second, over longer times ..."""
    request_burst: int = 2_000
    """... and requests that it may make at once before that."""
    max_streams: int = 64
    """Readers of logs and events at the same time."""
    max_log_gb: float = 1.0
    """Output of its jobs that is kept, GB (10^9 bytes)."""
    max_checkpoint_gb: float = 1_000.0
    """Checkpoints of its jobs, GB (10^9 bytes), beyond which none of its jobs starts."""


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
        values[name] = _number(value, f"{where}: {name}", whole=isinstance(values[name], int))
    return TenantSettings(**values)


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


def _values(settings: TenantSettings) -> dict[str, float]:
    return {setting.name: getattr(settings, setting.name) for setting in fields(settings)}
