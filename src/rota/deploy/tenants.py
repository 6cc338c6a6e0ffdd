"""What an operator says about tenants: their parts of the cluster, and how far their jobs may outweigh each other.

[tenants.vision]
weight = 2            # twice the part of a tenant with weight 1, when both have work
max_job_weight = 4    # the largest --weight of its jobs

[default]             # all other tenants
weight = 1
max_job_weight = 1
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError
from rota.core.parsing import parse_toml


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSettings:
    """One tenant."""

    weight: float = 1.0
    """Its part of the cluster, relative to other tenants."""
    max_job_weight: float = 1.0
    """The largest weight that its jobs may have."""


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


def read_tenants(path: str | Path) -> Tenants:
    """The tenants of a TOML file. Raises ConfigError with the file and the key."""
    try:
        document = parse_toml(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    _check_keys(document, ("tenants", "default"), str(path))
    default = _settings(document.get("default", {}), TenantSettings(), f"{path}: default")
    tables = document.get("tenants", {})
    if not isinstance(tables, dict):
        raise ConfigError(f"{path}: tenants is no table; write [tenants.NAME] for each tenant")
    named = {name: _settings(table, default, f"{path}: tenants.{name}") for name, table in tables.items()}
    return Tenants(named=named, default=default)


def _settings(table: Any, default: TenantSettings, where: str) -> TenantSettings:
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is {table!r}; give a table with weight and max_job_weight")
    known = tuple(setting.name for setting in fields(TenantSettings))
    _check_keys(table, known, where)
    values = {name: getattr(default, name) for name in known}
    for name, value in table.items():
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
        if not 0 < number < math.inf:
            raise ConfigError(f"{where}: {name} is {value!r}; give a number above 0")
        values[name] = number
    return TenantSettings(**values)


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{where}: there is no {name!r}; {hint}")


def _values(settings: TenantSettings) -> dict[str, float]:
    return {setting.name: getattr(settings, setting.name) for setting in fields(settings)}
