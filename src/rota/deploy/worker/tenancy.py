"""Who may run tasks on this machine, and as which user.

Three ways: every tenant as a user of its own (an agent that is root), one tenant only (an agent
that is not, and so cannot become another user), or all of them as the agent's own user, which the
operator has to ask for.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from rota.core import files
from rota.core.errors import ConfigError
from rota.deploy.worker import users
from rota.deploy.worker.users import JobUser, UidRange

_TRUST = "--trust-tenants"


class Tenancy(Protocol):
    """Maps tenants to users."""

    separate: bool
    """Whether tasks run as other users than the agent's."""
    trusting: bool
    """Whether tenants may do what the agent's user may."""

    def user_of(self, tenant: str) -> JobUser | None:
        """Whom tasks of a tenant run as; None: the agent's own user.

        ConfigError if they may not run here.
        """

    def describe(self) -> str:
        """How tenants are kept apart, for people."""


class TrustedTenants:
    """All tasks run as the agent's user: tenants are not kept apart."""

    separate = False
    trusting = True

    def user_of(self, tenant: str) -> JobUser | None:
        """Nobody else."""
        del tenant
        return None

    def describe(self) -> str:
        """What an operator has to know."""
        return "tenants not isolated: all jobs run as the agent's user"


class OneTenant:
    """Without the right to become another user only one tenant is let in.

    It is the one that is named, else the first that comes. `path` remembers it: files of its jobs
    are on this machine.
    """

    separate = False
    trusting = False

    def __init__(self, path: Path, tenant: str = "") -> None:
        self._path = path
        self._named = tenant
        self._mine = ""

    def user_of(self, tenant: str) -> JobUser | None:
        """The agent's own user for the one tenant. Raises ConfigError for others."""
        mine = self._named or self._remembered()
        if not mine:
            files.write_text(self._path, tenant)
            self._mine = tenant
            mine = tenant
        if tenant == mine:
            return None
        raise ConfigError(
            f"this server runs jobs of tenant {mine!r} only: its agent is not root and cannot keep "
            f"tenants apart. Start the agent as root, or with {_TRUST} if they may read each "
            "other's files"
        )

    def describe(self) -> str:
        """What an operator has to know."""
        mine = self._named or self._remembered()
        who = f"tenant {mine!r}" if mine else "the first tenant"
        return f"not root, so tenants cannot be isolated: jobs of {who} only"

    def _remembered(self) -> str:
        """What the file says, or said: jobs here have the rights to remove it."""
        with contextlib.suppress(FileNotFoundError):
            self._mine = self._mine or self._path.read_text(encoding="utf-8").strip()
        return self._mine


class SeparateUsers:
    """Every tenant is a user of its own: one that is named, else a number from a range.

    `folder` has the homes of numbered ones, and a list of who has which number.
    """

    separate = True
    trusting = False

    def __init__(
        self, folder: Path, named: Mapping[str, str] | None = None, uids: UidRange | None = None
    ) -> None:
        self._homes = folder / "home"
        self._list = folder / "users.json"
        self._named = dict(named or {})
        self._uids = uids
        if uids is not None:
            uids.check()
        for tenant in self._named:
            self._from_name(tenant)

    def user_of(self, tenant: str) -> JobUser | None:
        """The user of a tenant; its home is made if it is not there. Raises ConfigError."""
        if tenant in self._named:
            return self._from_name(tenant)
        if self._uids is None:
            raise ConfigError(
                f"tenant {tenant!r} has no user on this server; add it to [tenants] in the agent's "
                "file"
            )
        user = users.numbered(self._uids.uid_of(tenant), tenant, self._homes / tenant)
        self._check_number(user.uid, tenant)
        make_folder(Path(user.home), 0o700, owner=(user.uid, user.gid))
        return user

    def describe(self) -> str:
        """What an operator has to know."""
        return "tenants isolated: each one's jobs run as a user of its own"

    def _from_name(self, tenant: str) -> JobUser:
        user = users.named(self._named[tenant], tenant)
        others = [
            other
            for other, name in self._named.items()
            if other != tenant and users.named(name, other).uid == user.uid
        ]
        if others:
            raise ConfigError(
                f"tenants {tenant!r} and {others[0]!r} have the same user {user.name!r}, so they "
                "are not kept apart; give each its own"
            )
        return user

    def _check_number(self, uid: int, tenant: str) -> None:
        """Two names may have one number, if rarely: the second is refused."""
        known = self._numbers()
        owner = known.get(str(uid))
        if owner is None:
            files.write_text(self._list, json.dumps({**known, str(uid): tenant}), mode=0o600)
        elif owner != tenant:
            raise ConfigError(
                f"tenants {tenant!r} and {owner!r} have the same number {uid}; give one of them a "
                "user of its own in [tenants] of the agent's file"
            )

    def _numbers(self) -> dict[str, str]:
        """Tenants by number. ConfigError if the list cannot be read."""
        try:
            known = json.loads(self._list.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"{self._list} cannot be read ({error}); it says which tenant has which number. "
                "Remove it if no job of another tenant left files here"
            ) from error
        return {str(uid): str(tenant) for uid, tenant in dict(known).items()}


def make_job_folder(path: Path, owner: tuple[int, int]) -> None:
    """The folder of an attempt, in that of its job, for a user of jobs.

    Where everybody may make folders, somebody could have made these before: whose a folder above is
    could put other checkpoints into it. Raises ConfigError.
    """
    path.parent.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o711, exist_ok=True)
    above = path.parent.lstat()
    if above.st_uid != os.geteuid() or above.st_mode & 0o022 or not stat.S_ISDIR(above.st_mode):
        raise ConfigError(
            f"folder {path.parent} was not made by this agent's user, or others may write there; "
            "checkpoints in it could be somebody else's. Remove it, and let only the agent's user "
            f"write into {path.parent.parent}"
        )
    if path.exists() and path.lstat().st_uid not in (owner[0], os.geteuid()):
        raise ConfigError(f"folder {path} belongs to another user; remove it")
    make_folder(path, 0o700, owner)


def make_folder(path: Path, mode: int, owner: tuple[int, int] | None = None) -> None:
    """A folder with these rights and owner; one that is a link is refused."""
    path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    path.mkdir(mode=mode, exist_ok=True)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if owner is not None:
            os.fchown(handle, *owner)
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def check_reachable(path: Path, what: str) -> None:
    """ConfigError if other users cannot get to a folder, because one above it is closed."""
    for above in path.resolve().parents:
        if not above.stat().st_mode & 0o001:
            raise ConfigError(
                f"{what} {path} is below {above}, which other users may not enter, so jobs could "
                f"not reach it. Choose another, such as /var/lib/rota, or `chmod o+x {above}`"
            )
