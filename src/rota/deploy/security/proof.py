"""Shows that a certificate would be accepted, by a handshake with itself in memory; standard library only.

The holder plays both ends. The end that is called trusts the authority alone and demands a certificate, so a handshake
that succeeds proves what a look at the files would: who signed it, its dates, and that the key belongs to it.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

_FLIGHTS = 4
"""Messages go to and fro at most so often, in TLS 1.2 and 1.3."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is used of a certificate. The texts are PEM."""

    authority: bytes
    certificate: bytes
    uris: tuple[str, ...]
    expires: datetime


def shown(authority: Path, certificate: Path, key: Path) -> Shown | None:
    """What a good certificate says; None if anything about the files is not as usual."""
    try:
        texts = [_one_certificate(path) for path in (authority, certificate)]
        said = _handshake(texts[0], certificate, key)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return None
    return Shown(
        authority=texts[0].encode(), certificate=texts[1].encode(),
        uris=tuple(value for kind, value in said.get("subjectAltName", ()) if kind == "URI"),
        expires=datetime.fromtimestamp(ssl.cert_time_to_seconds(said["notAfter"]), timezone.utc),
    )  # fmt: skip


def _one_certificate(path: Path) -> str:
    """The only certificate of a file. Raises ValueError if there is more in it, or something else."""
    text = path.read_text(encoding="ascii")
    if text.count("-----BEGIN ") != 1:
        raise ValueError(path)
    return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(text))


def _handshake(authority: str, certificate: Path, key: Path) -> Mapping[str, Any]:
    """The certificate as the end sees it that is called. Raises ssl.SSLError if it does not accept it."""
    calls, called = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    calls.check_hostname, calls.verify_mode = False, ssl.CERT_NONE  # it talks to itself
    called.verify_mode = ssl.CERT_REQUIRED
    called.load_verify_locations(cadata=authority)
    for context in (calls, called):
        context.load_cert_chain(certificate, key, password=lambda: "")  # an encrypted key must not ask a terminal
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = calls.wrap_bio(back, there), called.wrap_bio(there, back, server_side=True)
    for _ in range(_FLIGHTS):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[1].getpeercert() or {}
