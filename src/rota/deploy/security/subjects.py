"""What a certificate says about its holder.

A role, a name, and for clients perhaps the only tenant it may serve.

It is carried as a URI in the subject alternative name:

    rota://scheduler/NAME
    rota://agent/NAME
    rota://client/NAME
    rota://client/NAME/tenant/TENANT
    rota://join/NAME

The common name repeats it for people (`agent:NAME`); nothing is decided by it.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from rota.core.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SCHEME = "rota://"


class Role(str, enum.Enum):
    """What the holder of a certificate is."""

    SCHEDULER = "scheduler"
    AGENT = "agent"
    CLIENT = "client"
    JOIN = "join"
    """A ticket: good for being exchanged, once, for the certificate of the agent NAME."""


@dataclass(frozen=True)
class Subject:
    """The holder of a certificate."""

    role: Role
    name: str
    tenant: str | None = None

    @property
    def uri(self) -> str:
        """How it is written in a certificate."""
        return f"{_SCHEME}{self.role.value}/{self.name}" + (
            f"/tenant/{self.tenant}" if self.tenant else ""
        )

    def __str__(self) -> str:
        return f"{self.role.value}:{self.name}" + (
            f" (tenant {self.tenant})" if self.tenant else ""
        )


def check_name(holder: str, name: str) -> str:
    """The name, if it may be one.

    Names become file names and parts of a URI, so the rule is narrow.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be the name of {holder}: use 1 to 63 letters, digits, dots, hyphens "
            "and underscores, and begin with a letter or digit"
        )
    return name


def parse(uri: str) -> Subject | None:
    """The holder that a URI names; None if it is not one of ours."""
    if not uri.startswith(_SCHEME):
        return None
    role, *rest = uri[len(_SCHEME) :].split("/")
    if role not in {r.value for r in Role} or not all(_NAME.fullmatch(part) for part in rest):
        return None
    if len(rest) == 1:
        return Subject(Role(role), rest[0])
    if role == Role.CLIENT.value and len(rest) == 3 and rest[1] == "tenant":
        return Subject(Role.CLIENT, rest[0], rest[2])
    return None
