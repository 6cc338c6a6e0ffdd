"""Join tickets: how a server gets its certificate without anybody copying keys around.

A ticket is a certificate that ends soon, with the role `join` and the name of one node. Whoever
holds the key of the authority makes it (`rota pilots`) and leaves it in a folder that only its
owner can enter. On its server the agent makes a key of its own and shows the ticket to the
scheduler, which signs a certificate for that key and writes down that the ticket was used. It can
be used once: with another key it is refused. With the same key the answer is given again, because
answers get lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rota.core.errors import ConfigError
from rota.deploy.security import certs, secret_files
from rota.deploy.security.certificates import load_authority
from rota.deploy.security.places import joined_file
from rota.deploy.security.subjects import Role, Subject

TICKET_HOURS = 24.0
"""For how long a ticket can be used, unless something else is said."""
LONGEST_S = 30 * 86_400.0
"""Seconds for which the certificate of a server that joined is good at most."""
_VERSION = 1
_LARGEST_REQUEST = 16 * 1024


@dataclass(frozen=True, kw_only=True)
class UsedTicket:
    """A ticket that cannot be used by anybody else."""

    node: str
    key: str
    """SHA-256 of the public key it was exchanged for; empty: it was withdrawn."""
    until: float
    """When it would have ended, seconds since 1970."""


class TicketRefused(ConfigError):
    """A ticket, or what came with it, is not good."""


def make_ticket(
    certs_folder: Path, node: str, out: Path, now: datetime, *, hours: float = TICKET_HOURS
) -> datetime:
    """Write a ticket for a node to `out`: ca.pem, join.pem, join.key (0600); when it ends."""
    secret_files.make_private_folder(out)
    subject = Subject(Role.JOIN, node)
    return certs.issue(certs_folder, subject, now, days=hours / 24.0, out=out, force=True).expires


def withdraw_ticket(certs_folder: Path, ticket: Path) -> None:
    """See to it that a ticket is never accepted; nothing happens to one that was used."""
    with contextlib.suppress(OSError, ValueError):
        certificate = x509.load_pem_x509_certificate((ticket / "join.pem").read_bytes())
        with UsedTickets(certs_folder).changing() as used:
            until = certificate.not_valid_after_utc.timestamp()
            used.setdefault(_serial(certificate), UsedTicket(node="", key="", until=until))


class UsedTickets:
    """One JSON file beside the certificates. Those that have ended are left out of it."""

    def __init__(self, certs_folder: Path) -> None:
        self._path = joined_file(certs_folder)

    @contextlib.contextmanager
    def changing(self, now: float = 0.0) -> Iterator[dict[str, UsedTicket]]:
        """The list to change; on the disk when the block ends well. One writer at a time."""
        with self._path.with_name(f".{self._path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            used = self._read()
            before = dict(used)
            yield used
            if used == before:
                return
            kept = {serial: asdict(one) for serial, one in used.items() if one.until > now}
            text = json.dumps({"version": _VERSION, "used": kept}, indent=1) + "\n"
            secret_files.write_whole(self._path, text.encode(), secret_files.PRIVATE)

    def follow(self, content: bytes, now: float) -> None:
        """Add tickets that were used or withdrawn at another scheduler. Raises ConfigError."""
        theirs = self._parsed(content)
        with self.changing(now) as used:
            for serial, ticket in theirs.items():
                used.setdefault(serial, ticket)

    def _read(self) -> dict[str, UsedTicket]:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(error) from error
        return self._parsed(content)

    def _parsed(self, content: bytes) -> dict[str, UsedTicket]:
        try:
            document = json.loads(content)
            return {serial: UsedTicket(**one) for serial, one in document["used"].items()}
        except (ValueError, KeyError, TypeError) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"{self._path} is not a list of used tickets ({error}), so no ticket is accepted; "
            "restore it, or remove it when no ticket is under way"
        )


class JoinAuthority:
    """Exchanges tickets for certificates.

    Only a scheduler that may use the key of the authority has one.
    """

    def __init__(self, certs_folder: Path, now: datetime) -> None:
        load_authority(certs_folder, now)  # said at the start, not when the first server comes
        self._folder = certs_folder
        self._used = UsedTickets(certs_folder)

    def exchange(
        self, ticket: bytes, node: str, request: bytes, valid_s: float, now: datetime
    ) -> bytes:
        """The certificate of an agent for the key in `request`, both PEM. Raises TicketRefused.

        The connection has proved that the caller has the key of the ticket, and who signed it.
        """
        shown = x509.load_pem_x509_certificate(ticket)
        key = _requested_key(request)
        print_ = _fingerprint(key)
        with self._used.changing(now.timestamp()) as used:
            known = used.get(_serial(shown))
            if known is not None and known.key != print_:
                raise TicketRefused(
                    f"the join ticket of {node} was used before or withdrawn; "
                    "a ticket is good for one server, once"
                )
            until = shown.not_valid_after_utc.timestamp()
            used[_serial(shown)] = UsedTicket(node=node, key=print_, until=until)
        days = min(max(valid_s, 60.0), LONGEST_S) / 86_400.0
        made = certs.sign(self._folder, Subject(Role.AGENT, node), key, now, days=days)
        return made.public_bytes(serialization.Encoding.PEM)


def _requested_key(request: bytes) -> ec.EllipticCurvePublicKey:
    problem = "the certificate signing request cannot be used"
    try:
        parsed = x509.load_pem_x509_csr(request[:_LARGEST_REQUEST])
        key = parsed.public_key()
        signed = parsed.is_signature_valid
    except (ValueError, TypeError) as error:
        raise TicketRefused(f"{problem}: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise TicketRefused(f"{problem}: its key is not of type P-256")
    if not signed:
        raise TicketRefused(f"{problem}: it is not signed with its own key")
    return key


def _serial(certificate: x509.Certificate) -> str:
    return f"{certificate.serial_number:x}"


def _fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()


# The side of the server that joins


def make_request(node: str) -> tuple[bytes, bytes]:
    """A new key and a request to sign it, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"agent:{node}"[:64])])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret, request.public_bytes(serialization.Encoding.PEM)
