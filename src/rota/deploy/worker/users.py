"""The Unix users that tasks of tenants run as, so that the kernel keeps tenants apart."""

from __future__ import annotations

import contextlib
import grp
import hashlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from rota.core.errors import ConfigError

FIRST_UID = 1_879_048_192
"""From here to 2^31 - 1 no distribution and no container engine gives out numbers of users."""
UIDS = 1 << 27
_SHELL = "/bin/sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUser:
    """A user as the kernel knows it, and what its programs expect to find in their environment."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str = _SHELL
    groups: tuple[int, ...] = ()

    def environment(self) -> dict[str, str]:
        """What a login would set."""
        return {
            "HOME": self.home,
            "USER": self.name,
            "LOGNAME": self.name,
            "SHELL": self.shell,
        }


@dataclass(frozen=True, slots=True)
class UidRange:
    """Numbers for tenants that have no user of their own.

    The number follows from the name of the tenant alone, so it is the same on all servers, and
    checkpoints in a shared folder belong to the same user everywhere.
    """

    first: int = FIRST_UID
    count: int = UIDS

    def uid_of(self, tenant: str) -> int:
        """The number of a tenant."""
        digest = hashlib.sha256(tenant.encode()).digest()
        return self.first + int.from_bytes(digest[:8], "big") % self.count

    def check(self) -> None:
        """ConfigError if programs here cannot have these numbers, as in some containers."""
        for uid in (self.first, self.first + self.count - 1):
            if not _is_mapped(uid, Path("/proc/self/uid_map")):
                raise ConfigError(
                    f"user number {uid} does not exist in this container; give a range that does "
                    "(uids = [FIRST, LAST] in the agent's file), or --trust-tenants"
                )


def named(name: str, tenant: str) -> JobUser:
    """A user of this machine, for a tenant. Raises ConfigError."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(
            f"tenant {tenant!r} is to run as {name!r}, and this machine has no such user; make it "
            "(useradd), or correct the agent's file"
        ) from None
    if entry.pw_uid == 0:
        raise ConfigError(f"tenant {tenant!r} may not run as {name!r}: that is the administrator")
    return JobUser(
        name=name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        home=entry.pw_dir,
        shell=entry.pw_shell or _SHELL,
        groups=tuple(os.getgrouplist(name, entry.pw_gid)),
    )


def numbered(uid: int, tenant: str, home: Path) -> JobUser:
    """A user without an entry in any list: a number, and a home that the agent keeps.

    ConfigError if the machine knows somebody by that number, as directories of large sites may.
    """
    if owner := _known(uid):
        raise ConfigError(
            f"the number {uid} of tenant {tenant!r} is that of {owner} on this machine; give the "
            "tenant a user of its own in [tenants] of the agent's file, or other uids"
        )
    return JobUser(name=tenant, uid=uid, gid=uid, home=str(home), groups=(uid,))


def _known(number: int) -> str:
    """Whose number it is, as a user or a group; empty: nobody's."""
    with contextlib.suppress(KeyError):
        return f"user {pwd.getpwuid(number).pw_name!r}"
    with contextlib.suppress(KeyError):
        return f"group {grp.getgrgid(number).gr_name!r}"
    return ""


def _is_mapped(uid: int, path: Path) -> bool:
    """Whether a number exists in the user namespace of this process."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return True
    ranges = [tuple(map(int, line.split())) for line in lines]
    return any(first <= uid < first + count for first, _, count in ranges)
