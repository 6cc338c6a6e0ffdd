"""How a page that stayed open gets a key of a gateway that was started again, without telling anybody else a secret.

A page holds a ticket: a name that says until when it is good, and a secret that follows from that name and from a key
in a file that only the user may read. When its gateway is gone, whoever takes the port meanwhile must learn nothing:

    page -> gateway   name, a number
    gateway -> page   another number, and a proof that it knows the secret; a page that finds it wrong stops here
    page -> gateway   the same, and a proof of its own
    both              the new key, which follows from the secret and both numbers and is not sent

The proofs are about 127.0.0.1 and the port, so that nobody passes them on to the gateway on another port. The secret
follows from the rights of the gateway as well: one that was started with other rights knows no ticket of before.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rota.deploy.clocks import wall_s
from rota.deploy.security import secret_files

if TYPE_CHECKING:
    from rota.deploy.security.client import ClientSettings

log = logging.getLogger(__name__)

LASTS_S = 12 * 3600.0
"""Seconds for which a ticket is good; an open page gets another one each hour."""
_ANSWER_S = 30.0
"""Seconds for which an answer of the gateway can be used."""
_KEY_BYTES = 32
_NAME = re.compile(r"([0-9]{1,12})\.[A-Za-z0-9_-]{16,64}\.([0-9a-f]{64})")
_NUMBER = re.compile(r"[A-Za-z0-9_-]{16,64}")
_ANSWER = re.compile(r"([0-9]{1,12})\.[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a page keeps, in its memory only."""

    name: str
    secret: str


class Tickets:
    """Made anew by every gateway; those of a key are the same as before."""

    def __init__(self, port: int, key: bytes, rights: str, clock: Callable[[], float] = wall_s) -> None:
        self._host = f"127.0.0.1:{port}"
        self._key = key
        self._rights = rights
        self._clock = clock
        self._own = secrets.token_bytes(_KEY_BYTES)
        """By which this gateway knows its own answers again."""

    def issue(self) -> Ticket:
        """A new one."""
        name = f"{int(self._clock() + LASTS_S)}.{secrets.token_urlsafe(16)}"
        name = f"{name}.{self._mark(name)}"
        return Ticket(name, self._secret(name))

    def answer(self, name: str, number: str) -> tuple[str, str] | None:
        """Another number and the proof of this gateway; None if the ticket is not good any more, or none of its."""
        if not self._good(name) or not _NUMBER.fullmatch(number):
            return None
        until = str(int(self._clock() + _ANSWER_S))
        theirs = f"{until}.{self._answer_mark(until, name, number)}"
        return theirs, self._proof("gateway", name, number, theirs)

    def key_for(self, name: str, number: str, theirs: str, proof: str) -> str | None:
        """The key of a page that has proved that it knows the secret; else None."""
        found = _ANSWER.fullmatch(theirs)
        if found is None or not self._good(name) or not _NUMBER.fullmatch(number):
            return None
        own = f"{found[1]}.{self._answer_mark(found[1], name, number)}"
        expected = self._proof("page", name, number, theirs)
        known = hmac.compare_digest(theirs, own) and hmac.compare_digest(proof.encode(), expected.encode())
        return self._proof("key", name, number, theirs) if known and int(found[1]) >= self._clock() else None

    def _good(self, name: str) -> bool:
        found = _NAME.fullmatch(name)
        if found is None or self._clock() >= int(found[1]):
            return False
        return hmac.compare_digest(found[2], self._mark(name.rpartition(".")[0]))

    def _mark(self, name: str) -> str:
        """By which a gateway sees whether a ticket is of its own key and rights."""
        return _mac(self._key, f"name|{self._rights}|{name}")

    def _secret(self, name: str) -> str:
        return _mac(self._key, f"secret|{self._rights}|{name}")

    def _answer_mark(self, until: str, name: str, number: str) -> str:
        return _mac(self._own, f"{until}|{name}|{number}")

    def _proof(self, what: str, name: str, number: str, theirs: str) -> str:
        return _mac(self._secret(name).encode(), f"{what}|{self._host}|{name}|{number}|{theirs}")


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def rights_of(settings: ClientSettings) -> str:
    """A digest of whom a gateway speaks for, and with which schedulers."""
    bundle = settings.bundle
    subject = "" if bundle is None else str(bundle.subject)
    what = [settings.address, *settings.others, settings.token or "", subject]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


# The file of the key


def state_folder() -> Path:
    """Where programs of a user keep what they want to find again: $XDG_STATE_HOME/rota, else ~/.local/state/rota."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "rota"


class KeyFile:
    """The key of the gateway on one port. It stays when a gateway is killed, and goes when one ends in order."""

    def __init__(self, port: int, folder: Path | None = None) -> None:
        self._path = (folder or state_folder()) / f"dashboard-{port}.key"

    def read_or_make(self) -> bytes:
        """The key of the gateway before this one, else a new one; without a file if none can be written."""
        kept = self._read()
        if kept is not None:
            return kept
        key = secrets.token_bytes(_KEY_BYTES)
        try:
            secret_files.make_private_folder(self._path.parent)
            secret_files.write_whole(self._path, key, secret_files.PRIVATE)
        except Exception as error:  # noqa: BLE001 - a gateway without it is as good as before there was one
            log.warning("pages will need a new link if this gateway is killed: %s", error)
        return key

    def _read(self) -> bytes | None:
        """None if there is none that can be trusted: of another user, or readable by one, or of another size."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(handle, "rb") as file:
            state = os.fstat(file.fileno())
            key = file.read(_KEY_BYTES + 1)
        trusted = state.st_uid == os.geteuid() and not state.st_mode & 0o077
        return key if trusted and len(key) == _KEY_BYTES else None

    def remove(self) -> None:
        """No page gets a key of the next gateway."""
        self._path.unlink(missing_ok=True)
