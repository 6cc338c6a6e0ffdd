"""Reads certificates and says exactly what is wrong with them.

Needs the library `cryptography`, which takes 10 MB.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rota.core.errors import ConfigError
from rota.deploy.clocks import wall_date
from rota.deploy.security import secret_files, subjects
from rota.deploy.security.proof import BundleFiles, CertificateFacts
from rota.deploy.security.subjects import Role, Subject


def examine(
    files: BundleFiles, role: Role, name: str | None, now: datetime | None
) -> tuple[Subject, CertificateFacts]:
    """The holder of a certificate and what is used of it.

    Raises ConfigError with the first thing that is wrong.
    """
    at = wall_date() if now is None else now
    authority = read_certificate(files.authority)
    _check_dates(authority, files.authority, at, "make a new authority with `rota certs init`")
    path = files.certificate
    certificate = read_certificate(path)
    subject = subject_of(certificate, path)
    if subject.role is not role or (name is not None and subject.name != name):
        wanted = f"{role.value}:{name}" if name else f"the role {role.value}"
        raise ConfigError(
            f"{path} is the certificate of {subject}, not of {wanted}; {_remedy(role, name)}"
        )
    _check_dates(
        certificate, path, at, "run `rota certs renew` where it was made, and copy it from there"
    )
    _check_issuer(certificate, authority, path, files.authority)
    key = secret_files.read_secret(
        files.key, f"{_remedy(role, subject.name)}, or copy the key that belongs to {path}"
    )
    _check_key(key, files.key, certificate, path)
    return subject, CertificateFacts(
        authority=authority.public_bytes(serialization.Encoding.PEM),
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        uris=(subject.uri,),
        expires=certificate.not_valid_after_utc,
    )


def load_authority(
    folder: Path, now: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """The authority with its key, to sign with."""
    path = folder / "ca.pem"
    key_path = folder / "ca.key"
    certificate = read_certificate(path)
    _check_dates(certificate, path, now, "make a new authority with `rota certs init --force`")
    secret = secret_files.read_secret(
        key_path, "certificates can only be made where the key of the authority is"
    )
    key = _check_key(secret, key_path, certificate, path)
    return certificate, key


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate from a PEM file."""
    content = secret_files.read(
        path, "make certificates with `rota certs init`, or name their folder"
    )
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise ConfigError(
            f"{path} is not a certificate in PEM form; make it again with `rota certs`"
        ) from error


def subject_of(certificate: x509.Certificate, path: Path) -> Subject:
    """Whom a certificate names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        holders = [
            subjects.parse(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)
        ]
    except (x509.ExtensionNotFound, ValueError):  # none, or extensions that cannot be read
        holders = []
    if len(holders) != 1 or holders[0] is None:
        raise ConfigError(
            f"{path} names no role (a URI rota://ROLE/NAME); make certificates with `rota certs`"
        )
    return holders[0]


def _remedy(role: Role, name: str | None) -> str:
    return (
        "run `rota certs init`"
        if role is Role.SCHEDULER
        else f"make one with `rota certs {role.value} {name or 'NAME'}`"
    )


def _check_dates(certificate: x509.Certificate, path: Path, now: datetime, remedy: str) -> None:
    if now > certificate.not_valid_after_utc:
        raise ConfigError(
            f"{path} ended on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; {remedy}"
        )
    if now < certificate.not_valid_before_utc:
        raise ConfigError(
            f"{path} begins only on {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; check "
            "the clock of this machine"
        )


def _check_issuer(
    certificate: x509.Certificate, authority: x509.Certificate, path: Path, authority_path: Path
) -> None:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{path} was not signed by {authority_path}; take both from the same folder of `rota "
            "certs init`"
        ) from error


def _check_key(
    secret: bytes, key_path: Path, certificate: x509.Certificate, path: Path
) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(secret, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{key_path} is not an unencrypted private key in PEM form") from error
    if (
        not isinstance(key, ec.EllipticCurvePrivateKey)
        or key.public_key() != certificate.public_key()
    ):
        raise ConfigError(
            f"{key_path} does not belong to {path}; copy both from the machine where they were made"
        )
    return key
