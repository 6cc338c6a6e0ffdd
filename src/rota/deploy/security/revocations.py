"""Certificates that are no longer accepted, by holder.

Those made up to a moment are refused, later ones are good.

So a holder can be shut out without having the lost certificate at hand, and let in again with a new
one. The list is kept twice: a file that is deleted or restored from an old copy lifts nothing.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

from rota.core.errors import ConfigError
from rota.core.parsing import parse_json
from rota.deploy.security import secret_files
from rota.deploy.security.subjects import Role, Subject, check_name
from rota.deploy.security.watched_file import WatchedFile

CLOCKS_DIFFER = timedelta(hours=1)
"""Certificates begin this long before they are made, because the clocks of machines are not
equal."""
_VERSION = 1


class Revocations:
    """A JSON file beside the certificates, and a second one that says the same.

    A running scheduler reads them again when they have changed.
    """

    def __init__(self, path: Path) -> None:
        self._paths = (path, path.with_name(f".{path.name}.second"))
        self._watched = [
            WatchedFile(one, functools.partial(_read, one), "no certificate is accepted")
            for one in self._paths
        ]

    def revoke(self, role: Role, name: str, now: datetime) -> None:
        """Refuse every certificate of a holder that exists now."""
        check_name(f"a certificate of role {role.value}", name)
        self._refuse({f"{role.value}/{name}": now})

    def follow(self, content: bytes) -> None:
        """Refuse what another scheduler's list refuses, beside what is refused here.

        Raises ConfigError if it is no such list.
        """
        self._refuse(_parsed(content, "what the other scheduler sent"))

    def _refuse(self, more: Mapping[str, datetime]) -> None:
        with secret_files.changing(self._paths[0]):
            until = _latest([self.read(), more])
            document = {
                "version": _VERSION,
                "revoked": {k: v.isoformat() for k, v in sorted(until.items())},
            }
            text = json.dumps(document, indent=1) + "\n"
            for path in self._paths:
                secret_files.write_whole(path, text.encode(), secret_files.PUBLIC)

    def made_after(self, subject: Subject) -> datetime | None:
        """The moment up to which certificates of a holder are refused; None if all are good."""
        return self.read().get(f"{subject.role.value}/{subject.name}")

    def covers(self, subject: Subject, pem: bytes) -> bool:
        """Whether a certificate is refused.

        If the file is broken all are, because nobody knows which ones it meant.
        """
        known = [watched.content() for watched in self._watched]
        holder = f"{subject.role.value}/{subject.name}"
        return any(one is None or _covers(one.get(holder), pem) for one in known)

    def read(self) -> dict[str, datetime]:
        """Holders (`role/name`) and the moment up to which their certificates are refused."""
        return _latest([_read(path) for path in self._paths])


def _covers(until: datetime | None, pem: bytes) -> bool:
    return until is not None and _made(pem) <= until


def _latest(lists: Iterable[Mapping[str, datetime]]) -> dict[str, datetime]:
    """What several lists say together."""
    together: dict[str, datetime] = {}
    for entries in lists:
        for holder, until in entries.items():
            together[holder] = max(until, together.get(holder, until))
    return together


def _read(path: Path) -> dict[str, datetime]:
    return _parsed(secret_files.read(path, ""), str(path)) if path.exists() else {}


def _parsed(content: bytes, path: str) -> dict[str, datetime]:
    try:
        document = parse_json(content)
        if document["version"] != _VERSION:
            raise ConfigError(
                f"{path} has version {document['version']!r}, this Rota reads {_VERSION}"
            )
        return {
            k: datetime.fromisoformat(v).astimezone(timezone.utc)
            for k, v in document["revoked"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ConfigError(
            f"{path} is not a list of revoked certificates ({error}); restore it"
        ) from error


def _made(pem: bytes) -> datetime:
    return validity(pem)[0] + CLOCKS_DIFFER


@functools.lru_cache(maxsize=4096)
def validity(pem: bytes) -> tuple[datetime, datetime]:
    """From when and until when a certificate is good."""
    from cryptography import x509  # this module is loaded by agents too, which have no use for it

    certificate = x509.load_pem_x509_certificate(pem)
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc
