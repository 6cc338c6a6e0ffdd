"""Who is calling: from the certificate of the connection and the token of the call.

The certificate gives role and name; a token adds the tenant and whether its holder is an
administrator. Without TLS, which is allowed on loopback only, everybody is an administrator under
the tenant they name.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from rota.deploy.clocks import wall_date
from rota.deploy.security import subjects
from rota.deploy.security.addresses import peer_is_local
from rota.deploy.security.audit import RefusalReason
from rota.deploy.security.revocations import Revocations, validity
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenVerifier

AUTHORIZATION = "authorization"
TENANT = "rota-tenant"
ROLE = "rota-role"
NAME = "rota-name"
DEFAULT_TENANT = "default"
_BEARER = "bearer "
_LONGEST_TOKEN = 256


@dataclass(frozen=True)
class Identity:
    """The caller. `tenant` is None for agents and for clients without a token."""

    role: Role
    name: str
    tenant: str | None = None
    admin: bool = False
    token_id: str | None = None
    insecure: bool = False

    def __str__(self) -> str:
        """How the caller is named in the audit trail; never a secret."""
        whom = f"{self.role.value}:{self.name}"
        parts = [
            f"tenant {self.tenant}" if self.tenant else "",
            "admin" if self.admin else "",
            f"token {self.token_id}" if self.token_id else "",
            "insecure" if self.insecure else "",
        ]
        remarks = ", ".join(part for part in parts if part)
        return f"{whom} ({remarks})" if remarks else whom


class Denied(Exception):
    """A caller that is not let in.

    `known` is true when it is clear who it is, and it may not do this.
    """

    def __init__(self, reason: RefusalReason, why: str, *, known: bool = False) -> None:
        super().__init__(why)
        self.reason = reason
        self.why = why
        self.known = known


_current: ContextVar[Identity] = ContextVar("rota_identity")


def current_identity() -> Identity:
    """Who made the call that is being handled. Only inside a handler behind the guard."""
    return _current.get()


def identity_if_known() -> Identity | None:
    """The same, or None outside of a handler behind the guard."""
    return _current.get(None)


def set_current(identity: Identity) -> None:
    """For the guard: remember who calls, for the rest of this task."""
    _current.set(identity)


def identify(
    context: Any,
    tokens: TokenVerifier | None,
    revoked: Revocations | None = None,
    *,
    insecure: bool = False,
) -> Identity:
    """Who calls, from a grpc.aio ServicerContext. Raises Denied."""
    metadata = _metadata(context)
    if insecure:
        return _local(str(context.peer()), metadata)
    properties = context.auth_context()
    subject = _subject(properties)
    _check_certificate(subject, properties["x509_pem_cert"][0], revoked)
    if subject.role is Role.SCHEDULER:
        raise Denied(
            RefusalReason.WRONG_ROLE, "the certificate of a scheduler cannot call", known=True
        )
    given = metadata.get(AUTHORIZATION, [])
    if subject.role is not Role.CLIENT or not given:
        return Identity(subject.role, subject.name)
    return _with_token(subject, given, tokens)


def _check_certificate(subject: Subject, pem: bytes, revoked: Revocations | None) -> None:
    """Raises Denied if a certificate is revoked, or has ended since its connection was made."""
    if revoked is not None and revoked.covers(subject, pem):
        raise Denied(
            RefusalReason.BAD_CERTIFICATE,
            f"the certificate of {subject} is revoked; ask for a new one",
        )
    ends = validity(pem)[1]
    if wall_date() >= ends:
        raise Denied(
            RefusalReason.BAD_CERTIFICATE,
            f"the certificate of {subject} ended on {ends:%Y-%m-%d %H:%M} UTC; ask for a new one",
        )


def _with_token(subject: Subject, given: list[str], tokens: TokenVerifier | None) -> Identity:
    if len(given) > 1 or not given[0].lower().startswith(_BEARER) or len(given[0]) > _LONGEST_TOKEN:
        raise Denied(RefusalReason.BAD_TOKEN, "the authorization is not one `Bearer rota_...`")
    record = tokens.verify(given[0][len(_BEARER) :].strip()) if tokens is not None else None
    if record is None:
        raise Denied(RefusalReason.BAD_TOKEN, "the token is unknown, revoked or has ended")
    if subject.tenant is not None and subject.tenant != record.tenant:
        why = (
            f"the certificate of {subject.name} is for tenant {subject.tenant}, "
            "the token for another one"
        )
        raise Denied(RefusalReason.WRONG_TENANT, why, known=True)
    return Identity(subject.role, subject.name, record.tenant, record.admin, record.id)


def _subject(properties: dict[str, list[bytes]]) -> Subject:
    names = properties.get("peer_uri") or properties.get("x509_subject_alternative_name") or []
    texts = [n.decode("utf-8", "replace") for n in names]
    holders = [subject for subject in map(subjects.parse, texts) if subject is not None]
    if not texts and "x509_pem_cert" not in properties:
        raise Denied(RefusalReason.NO_CERTIFICATE, "the connection has no certificate")
    if len(holders) != 1:
        raise Denied(RefusalReason.BAD_CERTIFICATE, "the certificate names no role of Rota")
    return holders[0]


def _local(peer: str, metadata: dict[str, list[str]]) -> Identity:
    if not peer_is_local(peer):
        raise Denied(
            RefusalReason.NO_CERTIFICATE, "without certificates only this machine may call"
        )
    tenant = metadata.get(TENANT, [DEFAULT_TENANT])[0]
    name = metadata.get(NAME, ["local"])[0]
    role = metadata.get(ROLE, [Role.CLIENT.value])[0]
    subject = subjects.parse(f"rota://{role}/{name}")
    if subject is None or subjects.parse(f"rota://client/{tenant}") is None:
        raise Denied(
            RefusalReason.MALFORMED,
            f"{role!r}, {name!r}, {tenant!r} are not a role, a name and a tenant",
        )
    return Identity(subject.role, name, tenant, admin=True, insecure=True)


def _metadata(context: Any) -> dict[str, list[str]]:
    values_of: dict[str, list[str]] = {}
    for key, value in context.invocation_metadata() or ():
        if isinstance(value, str):
            values_of.setdefault(key.lower(), []).append(value)
    return values_of
