"""Values that travel between two machines of one scheduler, and that nobody else may read.

Both have the scheduler's private key; a key for sealing follows from it. An administrator's token
is enough to ask for the journal, but not to read the secrets of jobs.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rota.core.errors import ConfigError
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.subjects import Role

_NONCE_BYTES = 12
_KEY_BYTES = 32
_USE = b"rota standby secrets"


class Seal:
    """Seals and opens bytes."""

    def __init__(self, key: bytes | None) -> None:
        """Without a key (a scheduler without certificates, on loopback) bytes pass as they are."""
        self._cipher = None if key is None else AESGCM(key)

    def close(self, data: bytes) -> bytes:
        """Bytes that only the holder of the same key can read."""
        if self._cipher is None:
            return data
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, _USE)

    def open(self, data: bytes) -> bytes:
        """The bytes again. Raises ConfigError if they were sealed with another key."""
        if self._cipher is None:
            return data
        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _USE)
        except (InvalidTag, ValueError) as error:
            raise ConfigError(
                "secrets cannot be read: the standby needs the scheduler's own key; "
                "make one certificate for both machines (rota certs init --host A --host B)"
            ) from error


def seal_of(certs: Path | None) -> Seal:
    """The seal that follows from the scheduler's private key; None: no certificates."""
    if certs is None:
        return Seal(None)
    secret = load_bundle(certs, Role.SCHEDULER).key
    key = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_USE).derive(secret)
    return Seal(key)
