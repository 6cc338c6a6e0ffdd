"""Loads the certificate, key and authority of a holder; says what is wrong before gRPC does.

What is in order is seen in a handshake in memory (`proof`), with the standard library only. What is
not is looked at by `certificates`, which says why; agents and clients that are in order never load
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rota.core.errors import ConfigError
from rota.deploy.security import secret_files, subjects
from rota.deploy.security.proof import BundleFiles, CertificateFacts, prove
from rota.deploy.security.subjects import Role, Subject


@dataclass(frozen=True)
class Bundle:
    """What one end of a connection needs. The texts are PEM."""

    subject: Subject
    authority: bytes
    certificate: bytes
    key: bytes
    expires: datetime
    files: BundleFiles

    def __repr__(self) -> str:
        return f"Bundle({self.subject}, expires {self.expires:%Y-%m-%d})"


def load_bundle(
    folder: Path, role: Role, name: str | None = None, now: datetime | None = None
) -> Bundle:
    """The bundle of a role.

    An agent or client is looked for as `ROLE.pem`, then as `ROLEs/NAME.pem`.
    """
    files = _files(folder, role, name)
    facts = prove(files) if role is not Role.SCHEDULER and now is None else None
    subject = None if facts is None else _subject(facts)
    if (
        facts is None
        or subject is None
        or subject.role is not role
        or (name is not None and subject.name != name)
    ):
        from rota.deploy.security.certificates import examine  # ten megabytes for a rare case

        subject, facts = examine(files, role, name, now)
    return Bundle(
        subject=subject,
        authority=facts.authority,
        certificate=facts.certificate,
        key=secret_files.read_secret(files.key, ""),
        expires=facts.expires,
        files=files,
    )


def _subject(facts: CertificateFacts) -> Subject | None:
    holders = [subjects.parse(uri) for uri in facts.uris]
    return holders[0] if len(holders) == 1 else None


def _files(folder: Path, role: Role, name: str | None) -> BundleFiles:
    certificate = _find(folder, role, name)
    return BundleFiles(folder / "ca.pem", certificate, certificate.with_suffix(".key"))


def _find(folder: Path, role: Role, name: str | None) -> Path:
    single = folder / f"{role.value}.pem"
    if role is Role.SCHEDULER or (single.exists() and name is None):
        return single
    several = folder / f"{role.value}s"
    if name is not None:
        subjects.check_name(f"a certificate of role {role.value}", name)
        named = several / f"{name}.pem"
        return single if single.exists() and not named.exists() else named
    certificates = sorted(several.glob("*.pem"))
    if len(certificates) > 1:
        names = ", ".join(path.stem for path in certificates)
        raise ConfigError(f"{several} holds several certificates ({names}); say which one is meant")
    return certificates[0] if certificates else single
