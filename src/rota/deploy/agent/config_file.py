"""What the operator of a server says about the tenants whose jobs run there.

uids = [1879048192, 2013265919]   # users of tenants that are not named: a number from this range each
refuse_others = false             # true: tenants that are not named may not run here

[tenants]                         # tenants with users of this machine
vision = "vision-jobs"

[containers]
images = ["/srv/images/*", "registry.example.org/ml/**", "host"]
mounts = ["/datasets:ro", "/scratch"]
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError
from rota.core.parsing import parse_toml
from rota.deploy.security.subjects import check_name
from rota.deploy.worker.container_rules import ContainerRules, check_mount
from rota.deploy.worker.users import UidRange

_KEYS = ("uids", "refuse_others", "tenants", "containers")
_OF_CONTAINERS = ("images", "mounts")
_MOST_UID = 2**31 - 1
_LEAST_UID = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """One server."""

    tenants: Mapping[str, str] = field(default_factory=dict)
    """Names of users by tenant."""
    uids: UidRange | None = field(default_factory=UidRange)
    """For all other tenants; None: they may not run here."""
    containers: ContainerRules = field(default_factory=ContainerRules)


def read_agent_file(path: str | Path) -> AgentFile:
    """What a file says. Raises ConfigError with the file and the key."""
    try:
        document = parse_toml(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    where = str(path)
    _check_keys(document, _KEYS, where)
    refuse = document.get("refuse_others", False)
    if not isinstance(refuse, bool):
        raise ConfigError(f"{where}: refuse_others is {refuse!r}; give true or false")
    return AgentFile(
        tenants=_tenants(document.get("tenants", {}), where),
        uids=None if refuse else _uids(document.get("uids"), where),
        containers=_containers(document.get("containers", {}), where),
    )


def _tenants(table: Any, where: str) -> dict[str, str]:
    if not isinstance(table, dict):
        raise ConfigError(f'{where}: tenants is no table; write [tenants] and lines like vision = "vision-jobs"')
    for tenant, user in table.items():
        check_name("a tenant", tenant)
        if not isinstance(user, str) or not user:
            raise ConfigError(f"{where}: tenants.{tenant} is {user!r}; give the name of a user of this machine")
    return table


def _uids(values: Any, where: str) -> UidRange:
    if values is None:
        return UidRange()
    numbers = isinstance(values, list) and len(values) == 2 and all(type(value) is int for value in values)
    if not numbers or not _LEAST_UID <= values[0] <= values[1] <= _MOST_UID:
        raise ConfigError(
            f"{where}: uids is {values!r}; give the first and the last number, [FIRST, LAST], from {_LEAST_UID} to "
            f"{_MOST_UID}"
        )
    return UidRange(values[0], values[1] - values[0] + 1)


def _containers(table: Any, where: str) -> ContainerRules:
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: containers is no table; write [containers] with images and mounts")
    _check_keys(table, _OF_CONTAINERS, f"{where}: containers")
    images = _texts(table.get("images", []), f"{where}: containers.images")
    mounts = _texts(table.get("mounts", []), f"{where}: containers.mounts")
    for mount in mounts:
        check_mount(mount)
    return ContainerRules(images=images, mounts=mounts)


def _texts(values: Any, where: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise ConfigError(f'{where} is {values!r}; give a list of texts, such as ["/srv/images/*"]')
    return tuple(values)


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{where}: there is no {name!r}; {hint}")
