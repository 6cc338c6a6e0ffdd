"""Certificates that are no longer accepted, by holder.

Those made up to a moment are refused, later ones are good.

So a holder can be shut out without having the lost certificate at hand, and let in again with a new
one.
"""

from __future__ import annotations

import functools
import json
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
    """One JSON file beside the certificates.

    A running scheduler reads it again when it has changed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._watched = WatchedFile(path, self.read, "no certificate is accepted")

    def revoke(self, role: Role, name: str, now: datetime) -> None:
        """Refuse every certificate of a holder that exists now."""
        check_name(f"a certificate of role {role.value}", name)
        until = {**self.read(), f"{role.value}/{name}": now}
        document = {
            "version": _VERSION,
            "revoked": {k: v.isoformat() for k, v in sorted(until.items())},
        }
        text = json.dumps(document, indent=1) + "\n"
        secret_files.write_whole(self._path, text.encode(), secret_files.PUBLIC)

    def made_after(self, subject: Subject) -> datetime | None:
        """The moment up to which certificates of a holder are refused; None if all are good."""
        return self.read().get(f"{subject.role.value}/{subject.name}")

    def covers(self, subject: Subject, pem: bytes) -> bool:
        """Whether a certificate is refused.

        If the file is broken all are, because nobody knows which ones it meant.
        """
        known = self._watched.content()
        if known is None:
            return True
        until = known.get(f"{subject.role.value}/{subject.name}")
        return until is not None and _made(pem) <= until

    def read(self) -> dict[str, datetime]:
        """Holders (`role/name`) and the moment up to which their certificates are refused."""
        if not self._path.exists():
            return {}
        try:
            document = parse_json(secret_files.read(self._path, ""))
            if document["version"] != _VERSION:
                raise ConfigError(
                    f"{self._path} has version {document['version']!r}, this Rota reads {_VERSION}"
                )
            return {
                k: datetime.fromisoformat(v).astimezone(timezone.utc)
                for k, v in document["revoked"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ConfigError(
                f"{self._path} is not a list of revoked certificates ({error}); restore it"
            ) from error


@functools.lru_cache(maxsize=4096)
def _made(pem: bytes) -> datetime:
    from cryptography import x509  # this module is loaded by agents too, which have no use for it

    return x509.load_pem_x509_certificate(pem).not_valid_before_utc + CLOCKS_DIFFER
