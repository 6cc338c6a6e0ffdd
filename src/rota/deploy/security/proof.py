"""Shows that a certificate would be accepted, by a handshake with itself in memory.

Standard library only.

The holder plays both ends. The end that is called trusts the authority alone and demands a
certificate, so a handshake that succeeds proves what a look at the files would: who signed it, its
dates, and that the key belongs to it.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

_FLIGHTS = 4
"""Messages go to and fro at most so often, in TLS 1.2 and 1.3."""


class BundleFiles(NamedTuple):
    """Where the certificate of a holder, its key and the authority are."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, kw_only=True)
class CertificateFacts:
    """What is used of a certificate. The texts are PEM."""

    authority: bytes
    certificate: bytes
    uris: tuple[str, ...]
    expires: datetime


def prove(files: BundleFiles) -> CertificateFacts | None:
    """What a good certificate says; None if anything about the files is not as usual."""
    try:
        authority = _one_certificate(files.authority)
        certificate = _one_certificate(files.certificate)
        accepted = _handshake(authority, files)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return None
    return CertificateFacts(
        authority=authority.encode(),
        certificate=certificate.encode(),
        uris=tuple(
            value for name_type, value in accepted.get("subjectAltName", ()) if name_type == "URI"
        ),
        expires=datetime.fromtimestamp(
            ssl.cert_time_to_seconds(accepted["notAfter"]), timezone.utc
        ),
    )


def _one_certificate(path: Path) -> str:
    """The only certificate of a file.

    Raises ValueError if there is more in it, or something else.
    """
    text = path.read_text(encoding="ascii")
    if text.count("-----BEGIN ") != 1:
        raise ValueError(path)
    return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(text))


def _handshake(authority: str, files: BundleFiles) -> Mapping[str, Any]:
    """The certificate as the end sees it that is called.

    Raises ssl.SSLError if it does not accept it.
    """
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False  # it talks to itself
    client_context.verify_mode = ssl.CERT_NONE
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.verify_mode = ssl.CERT_REQUIRED
    server_context.load_verify_locations(cadata=authority)
    for context in (client_context, server_context):
        # An encrypted key must not ask a terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    to_server = ssl.MemoryBIO()
    to_client = ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_FLIGHTS):
        for end in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return server.getpeercert() or {}
