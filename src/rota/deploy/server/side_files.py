"""Files that a scheduler keeps beside its journal and that its standby needs.

| name | what | how a standby keeps it |
|---|---|---|
| `tokens.json` | digests of tokens | as it comes; what was revoked on the standby stays revoked |
| `revoked.json` | certificates that are refused | both lists together |
| `joined.json` | join tickets that were used | both lists together |
| `notified` | which events targets of notifications were told of | as it comes |
| `secrets` | names under which values of environments are kept | others are deleted: their jobs are over |
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import sqlite3
from pathlib import Path

from rota.core import files
from rota.core.errors import ConfigError, OutputError
from rota.deploy.clocks import wall_s
from rota.deploy.notifications.positions import positions_file
from rota.deploy.scheduler import archive
from rota.deploy.scheduler.secrets import secrets_file
from rota.deploy.security import secret_files
from rota.deploy.security.joining import UsedTickets
from rota.deploy.security.places import joined_file, revoked_file, tokens_file
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.tokens import TokenFile

log = logging.getLogger(__name__)

TOKENS = "tokens.json"
REVOKED = "revoked.json"
JOINED = "joined.json"
NOTIFIED = "notified"
SECRETS = "secrets"
MOST_BYTES = 8 << 20
"""Of one file; a message is at most 16 MB. 20,000 tokens are as much."""


def digest_of(content: bytes) -> bytes:
    """By which two machines compare a file."""
    return hashlib.sha256(content).digest()


def secrets_content(names: list[str]) -> bytes:
    """Names of secrets as they are sent."""
    return json.dumps(names).encode()


class SideFiles:
    """Those of one scheduler. Used by one thread."""

    def __init__(self, state: Path, certs: Path | None) -> None:
        self._secrets = secrets_file(state)
        self._certs = certs
        self._paths = {NOTIFIED: positions_file(state)}
        if certs is not None:
            self._paths |= {TOKENS: tokens_file(certs), REVOKED: revoked_file(certs), JOINED: joined_file(certs)}
        self._seen: dict[str, tuple[secret_files.Stamp, bytes]] = {}
        """Digests of files, and what the files were like then."""
        self._too_large: set[str] = set()

    # The scheduler in charge

    def different(self, known: dict[str, bytes]) -> dict[str, bytes]:
        """Contents of files whose digests are others than these."""
        found: dict[str, bytes] = {}
        for name, path in (*self._paths.items(), (SECRETS, self._secrets)):
            stamp = secret_files.stamp(path)
            if stamp is None:
                continue
            seen = self._seen.get(name)
            if seen is not None and seen[0] == stamp and seen[1] == known.get(name):
                continue
            content = self._content(name, path)
            if content is None:
                continue
            self._seen[name] = (stamp, digest_of(content))
            if self._seen[name][1] != known.get(name):
                found[name] = content
        return found

    def _content(self, name: str, path: Path) -> bytes | None:
        try:
            content = secrets_content(self.names_of_secrets()) if name == SECRETS else path.read_bytes()
        except (OSError, sqlite3.Error) as error:
            log.warning("the standby does not get %s: %s", path, error)
            return None
        if len(content) <= MOST_BYTES:
            return content
        if name not in self._too_large:
            self._too_large.add(name)
            log.error("the standby does not get %s, which has more than %d bytes; copy it yourself", path, MOST_BYTES)
        return None

    # The standby

    def names_of_secrets(self) -> list[str]:
        """Under which values are kept here. Raises sqlite3.Error."""
        if not self._secrets.exists():
            return []
        with archive.reading(self._secrets) as db:
            try:
                return sorted(str(name) for (name,) in db.execute("SELECT name FROM environments"))
            except sqlite3.OperationalError:  # nothing was kept there yet
                return []

    def keep(self, name: str, content: bytes, held: list[str]) -> None:
        """Keep what the scheduler in charge has; `held` are names of secrets before it was asked.

        Raises ConfigError if it is not what it should be, OutputError if it cannot be written.
        """
        try:
            self._keep(name, content, held)
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"cannot keep {name} of the scheduler in charge: {error}") from error

    def _keep(self, name: str, content: bytes, held: list[str]) -> None:
        if name == SECRETS:
            self._drop_secrets(set(held) - set(json.loads(content)))
        elif name == NOTIFIED:
            files.write_bytes(self._paths[name], content, mode=secret_files.PRIVATE)
        elif self._certs is not None and name in self._paths:
            if name == TOKENS:
                TokenFile(self._paths[name]).follow(content)
            elif name == REVOKED:
                Revocations(self._paths[name]).follow(content)
            else:
                UsedTickets(self._certs).follow(content, wall_s())
        else:
            raise ConfigError(f"the scheduler in charge sends {name!r}, which has no place here; update Rota here")

    def _drop_secrets(self, over: set[str]) -> None:
        if not over:
            return
        with contextlib.closing(sqlite3.connect(self._secrets)) as db, db:
            db.execute("PRAGMA secure_delete = ON")
            db.executemany("DELETE FROM environments WHERE name = ?", [(name,) for name in over])
