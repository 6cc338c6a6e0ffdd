"""Makes a certificate authority and certificates for the scheduler, agents and clients.

    DIR/ca.pem, ca.key                 the authority; the key stays where certificates are made
    DIR/scheduler.pem, scheduler.key
    DIR/client.pem, client.key         the client that `rota certs init` makes
    DIR/agents/NAME.pem, NAME.key
    DIR/clients/NAME.pem, NAME.key

Keys are P-256: gRPC's TLS library does not offer Ed25519 in its handshakes. Nothing is overwritten
unless asked.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rota.core.errors import ConfigError, OutputError
from rota.deploy.security import secret_files
from rota.deploy.security.certificates import load_authority, read_certificate, subject_of
from rota.deploy.security.places import revoked_file
from rota.deploy.security.revocations import CLOCKS_DIFFER, Revocations
from rota.deploy.security.subjects import Role, Subject, check_name

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365


@dataclass(frozen=True)
class Issued:
    """A certificate that was written."""

    subject: Subject
    certificate: Path
    key: Path
    expires: datetime


def create_authority(
    folder: Path, now: datetime, *, days: int = AUTHORITY_DAYS, force: bool = False
) -> Path:
    """Write ca.pem and ca.key.

    With `force`, certificates of the old authority are worthless from then on.
    """
    certificate = folder / "ca.pem"
    key = folder / "ca.key"
    _refuse_overwriting([certificate, key], force=force)
    secret_files.make_private_folder(folder)
    private = ec.generate_private_key(ec.SECP256R1())
    # Two authorities never have the same name, so that "signed by another one" is seen as that.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Rota CA {secrets.token_hex(4)}")])
    usage = _usage(signs_certificates=True)
    built = (
        _builder(name, name, private.public_key(), now, now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(private, hashes.SHA256())
    )
    _write_pair(certificate, key, built, private)
    return certificate


def issue(
    folder: Path,
    subject: Subject,
    now: datetime,
    *,
    hosts: Iterable[str] = (),
    days: float = CERTIFICATE_DAYS,
    force: bool = False,
    out: Path | None = None,
) -> Issued:
    """A key and a certificate, signed by the authority in `folder`.

    With `out` they go there as ROLE.pem and ROLE.key beside a copy of ca.pem: a folder to hand
    over.
    """
    check_name(_with_article(subject.role), subject.name)
    if subject.tenant is not None:
        check_name("a tenant", subject.tenant)
    authority, _ = load_authority(folder, now)
    certificate, key = _place(folder, subject, out)
    _refuse_overwriting([certificate, key], force=force)
    if out is not None:
        _refuse_another_authority(out / "ca.pem", authority)
    secret_files.make_private_folder(certificate.parent)
    private = ec.generate_private_key(ec.SECP256R1())
    built = sign(folder, subject, private.public_key(), now, hosts=hosts, days=days)
    _write_pair(certificate, key, built, private)
    if out is not None:
        secret_files.write_whole(out / "ca.pem", _pem(authority), secret_files.PUBLIC)
    return Issued(subject, certificate, key, built.not_valid_after_utc)


def sign(
    folder: Path,
    subject: Subject,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    *,
    hosts: Iterable[str] = (),
    days: float = CERTIFICATE_DAYS,
) -> x509.Certificate:
    """The certificate of a holder for its key, signed by the authority in `folder`."""
    authority, authority_key = load_authority(folder, now)
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"{subject.role.value}:{subject.name}"[:64])]
    )
    ends = min(now + timedelta(days=days), authority.not_valid_after_utc)
    revoked = Revocations(revoked_file(folder)).made_after(subject)
    begins = now if revoked is None else max(now, revoked + timedelta(seconds=1))
    serves = subject.role is Role.SCHEDULER
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if serves else ExtendedKeyUsageOID.CLIENT_AUTH
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(subject.uri)]
    names += check_hosts(hosts)
    _remember(folder, subject)
    return (
        _builder(name, authority.subject, public_key, begins, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(_issued_by(authority_key), critical=False)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _place(folder: Path, subject: Subject, out: Path | None) -> tuple[Path, Path]:
    if out is not None:
        base = out / subject.role.value
    elif subject.role is Role.SCHEDULER:
        base = folder / "scheduler"
    else:
        base = folder / f"{subject.role.value}s" / subject.name
    return base.with_name(f"{base.name}.pem"), base.with_name(f"{base.name}.key")


def holders(folder: Path) -> frozenset[str]:
    """Everybody (`role:name`) for whom a certificate was made, as far as the folder knows."""
    there = (path.relative_to(folder) for path in certificates_in(folder))
    kept = {f"{path.parent.name[:-1]}:{path.stem}" for path in there if len(path.parts) > 1}
    return frozenset(_issued(folder) | kept)


def _issued(folder: Path) -> set[str]:
    path = folder / "issued.json"
    if not path.exists():  # made by an earlier version
        return set()
    try:
        return set(json.loads(secret_files.read(path, ""))["holders"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a list of holders ({error}); remove it") from error


def _remember(folder: Path, subject: Subject) -> None:
    """Write down for whom a certificate was made, also if it is handed over and not kept here."""
    path = folder / "issued.json"
    with secret_files.changing(path):
        known = _issued(folder)
        holder = f"{subject.role.value}:{subject.name}"
        if holder not in known:
            text = json.dumps({"holders": sorted({*known, holder})}, indent=1) + "\n"
            secret_files.write_whole(path, text.encode(), secret_files.PUBLIC)


def certificates_in(folder: Path) -> list[Path]:
    """Every certificate of a folder except that of the authority."""
    single = [folder / f"{role.value}.pem" for role in Role]
    return (
        [p for p in single if p.exists()]
        + sorted(folder.glob("agents/*.pem"))
        + sorted(folder.glob("clients/*.pem"))
    )


def renew(
    folder: Path, now: datetime, *, within_days: int = 30, days: int = CERTIFICATE_DAYS
) -> list[Issued]:
    """Replace the certificates, keys included, that end within so many days.

    Role, name and hosts stay.
    """
    renewed = []
    authority, _ = load_authority(folder, now)
    limit = now + timedelta(days=within_days)
    if authority.not_valid_after_utc <= limit:
        raise ConfigError(
            f"{folder / 'ca.pem'}: the authority itself ends on "
            f"{authority.not_valid_after_utc:%Y-%m-%d}; make a new "
            "one in another folder with `rota certs init` and hand out its certificates"
        )
    for path in certificates_in(folder):
        old = read_certificate(path)
        if old.not_valid_after_utc > limit:
            continue
        subject = subject_of(old, path)
        out = folder if path.parent == folder else None
        renewed.append(
            issue(folder, subject, now, hosts=hosts_of(old), days=days, force=True, out=out)
        )
    return renewed


def hosts_of(certificate: x509.Certificate) -> Sequence[str]:
    """Host names and addresses that a certificate is good for."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]


def _with_article(role: Role) -> str:
    return {Role.AGENT: "an agent"}.get(role, f"a {role.value}")


def _refuse_overwriting(paths: Iterable[Path], *, force: bool) -> None:
    existing = [str(p) for p in paths if p.exists()]
    if existing and not force:
        raise OutputError(
            f"{' and '.join(existing)} would be overwritten; nothing was changed. Give --force to "
            "replace them"
        )


def _refuse_another_authority(path: Path, authority: x509.Certificate) -> None:
    """Not even `force` replaces ca.pem: the other certificates beside it would be useless."""
    if path.exists() and read_certificate(path) != authority:
        raise OutputError(
            f"{path} is of another authority; nothing was changed. Choose another folder, or "
            "remove it first"
        )


def check_hosts(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Host names and addresses as a certificate has them, each once. Raises ConfigError."""
    return [_host(h) for h in dict.fromkeys(hosts)]


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    if (
        not text
        or len(text) > 253
        or not all(c.isascii() and (c.isalnum() or c in ".-_*") for c in text)
    ):
        raise ConfigError(
            f"{text!r} is neither a host name nor an IP address; give it without scheme and port"
        )
    return x509.DNSName(text)


def _builder(
    name: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - CLOCKS_DIFFER)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _issued_by(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    """Python 3.13 and newer accept no certificate that does not name the key it was signed with."""
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_pair(
    path: Path, key_path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    secret_files.write_whole(key_path, secret, secret_files.PRIVATE)
    secret_files.write_whole(path, _pem(certificate), secret_files.PUBLIC)
