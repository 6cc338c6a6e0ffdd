"""Tokens say for which tenant a user speaks: `rota_<id>_<secret>`.

The file keeps a salted SHA-256 of the secret, never the secret. A slow hash (scrypt) protects
passwords, which people choose; here the secret is 256 random bits, which nobody can guess at any
speed, and a slow hash in front of every call would let anybody keep the scheduler busy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import json
import math
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rota.core.errors import ConfigError, UnknownName
from rota.core.parsing import parse_json
from rota.deploy.clocks import wall_s
from rota.deploy.security import secret_files
from rota.deploy.security.subjects import check_name
from rota.deploy.security.watched_file import WatchedFile

_TOKEN = re.compile(r"rota_([0-9a-f]{12})_([0-9a-f]{64})")
_VERSION = 1
_SECONDS_PER_DAY = 86400


@dataclass(frozen=True)
class TokenRecord:
    """What is kept of a token. Times are seconds since 1970."""

    id: str
    tenant: str
    admin: bool
    salt: str
    hash: str
    created: float
    expires: float | None = None
    revoked: float | None = None
    note: str = ""

    def good_at(self, now: float) -> bool:
        """Whether it still opens anything."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class TokenVerifier(Protocol):
    """Knows good tokens, wherever they are kept."""

    def verify(self, token: str) -> TokenRecord | None:
        """The record of a good token, else None."""


def looks_like_a_token(text: str) -> bool:
    """Whether a text has the form of a token."""
    return _TOKEN.fullmatch(text) is not None


class TokenFile:
    """Tokens in one JSON file (mode 0600).

    A running scheduler reads it again when it has changed.
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = wall_s) -> None:
        self._path = Path(path)
        self._clock = clock
        self._watched = WatchedFile(self._path, self._read, "no token is accepted")

    def add(
        self, tenant: str, *, admin: bool = False, days: float | None = None, note: str = ""
    ) -> tuple[str, str]:
        """Make a token; its id, and the text that is shown once."""
        check_name("a tenant", tenant)
        now = self._clock()
        token_id = secrets.token_hex(6)
        secret = secrets.token_hex(32)
        salt = secrets.token_hex(16)
        record = TokenRecord(
            id=token_id,
            tenant=tenant,
            admin=admin,
            salt=salt,
            hash=_digest(salt, secret),
            created=now,
            expires=None if days is None else now + _SECONDS_PER_DAY * days,
            note=note,
        )
        with self._changing() as records:
            records[token_id] = record
        return token_id, f"rota_{token_id}_{secret}"

    def revoke(self, token_id: str) -> TokenRecord:
        """End a token; the record stays, so that the list says what became of it."""
        with self._changing() as records:
            if token_id not in records:
                raise UnknownName("token", token_id, records)
            old = records[token_id]
            if old.revoked is None:
                records[token_id] = dataclasses.replace(old, revoked=self._clock())
            return records[token_id]

    def list(self) -> list[TokenRecord]:
        """All tokens, the oldest first."""
        return sorted(self._read().values(), key=lambda r: (r.created, r.id))

    def verify(self, token: str) -> TokenRecord | None:
        """The record of a good token, else None. A file that cannot be read opens nothing."""
        records = self._watched.content() or {}
        match = _TOKEN.fullmatch(token)
        token_id, secret = match.groups() if match else ("", "")
        record = records.get(token_id)
        # Unknown tokens are hashed and compared as well: the time must not tell which ids exist.
        salt = record.salt if record else ""
        expected = record.hash if record else "0" * 64
        equal = hmac.compare_digest(_digest(salt, secret), expected)
        return record if record is not None and equal and record.good_at(self._clock()) else None

    def follow(self, content: bytes) -> None:
        """Keep what another scheduler's file says from now on; what was revoked here stays revoked.

        Raises ConfigError if it is no file of tokens.
        """
        theirs = self._parsed(content)
        with self._changing() as records:
            for token_id, ours in list(records.items()):
                their = theirs.get(token_id)
                if their is not None and their.revoked is None and ours.revoked is not None:
                    theirs[token_id] = dataclasses.replace(their, revoked=ours.revoked)
            records.clear()
            records.update(theirs)

    def _read(self) -> dict[str, TokenRecord]:
        if not self._path.exists():
            return {}
        content = secret_files.read_secret(self._path, "make it with `rota tokens create`")
        return self._parsed(content)

    def _parsed(self, content: bytes) -> dict[str, TokenRecord]:
        try:
            document = parse_json(content)
            version = document["version"]
            records = (
                [_record(entry) for entry in document["tokens"]] if version == _VERSION else []
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{self._path} is not a file of tokens ({error}); restore it or make new tokens"
            ) from error
        if version != _VERSION:
            raise ConfigError(
                f"{self._path} has version {version!r}, this Rota reads {_VERSION}; update Rota"
            )
        return {record.id: record for record in records}

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, TokenRecord]]:
        """The records to change; written when the block ends well.

        One writer at a time, also between processes.
        """
        with secret_files.changing(self._path):
            records = self._read()
            yield records
            document = {
                "version": _VERSION,
                "tokens": [dataclasses.asdict(r) for r in records.values()],
            }
            text = json.dumps(document, indent=1) + "\n"
            content = text.encode()
            secret_files.write_whole(
                self._path, content, secret_files.PRIVATE, for_owner_of_folder=True
            )


def _record(entry: Mapping[str, object]) -> TokenRecord:
    """The record of an entry of the file. Raises TypeError or ValueError if it is none."""
    record = TokenRecord(**entry)  # type: ignore[arg-type]
    texts = (record.id, record.tenant, record.salt, record.hash, record.note)
    times = [at for at in (record.created, record.expires, record.revoked) if at is not None]
    numbers = (int, float)
    if not all(isinstance(text, str) for text in texts) or not isinstance(record.admin, bool):
        raise TypeError("an entry has a value of another type than it should")
    if not all(
        isinstance(at, numbers) and not isinstance(at, bool) and math.isfinite(at) for at in times
    ):
        raise ValueError("a time of an entry is no number of seconds since 1970")
    record.hash.encode("ascii")
    return record


def _digest(salt: str, secret: str) -> str:
    return hashlib.sha256(f"{salt}:{secret}".encode()).hexdigest()
