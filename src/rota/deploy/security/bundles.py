"""Loads the certificate, the key and the authority of one holder, and says what is wrong with them before gRPC does.

What is in order is seen in a handshake in memory (`proof`), with the standard library only. What is not is looked at by
`certificates`, which says why; agents and clients that are in order never load it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rota.core.errors import ConfigError
from rota.deploy.security import secret_files, subjects
from rota.deploy.security.proof import Shown, shown
from rota.deploy.security.subjects import Role, Subject


@dataclass(frozen=True)
class Bundle:
    """What one end of a connection needs. The texts are PEM."""

    subject: Subject
    authority: bytes
    certificate: bytes
    key: bytes
    expires: datetime
    files: tuple[Path, Path, Path]

    def __repr__(self) -> str:
        return f"Bundle({self.subject}, expires {self.expires:%Y-%m-%d})"


def load_bundle(folder: Path, role: Role, name: str | None = None, now: datetime | None = None) -> Bundle:
    """The bundle of a role. An agent or client is looked for as `ROLE.pem`, then as `ROLEs/NAME.pem`."""
    files = _files(folder, role, name)
    seen = shown(*files) if role is not Role.SCHEDULER and now is None else None
    subject = None if seen is None else _subject(seen)
    if seen is None or subject is None or subject.role is not role or (name is not None and subject.name != name):
        from rota.deploy.security.certificates import examine  # ten megabytes for a rare case

        subject, seen = examine(files, role, name, now)
    key = secret_files.read_secret(files[2], "")
    return Bundle(
        subject=subject, authority=seen.authority, certificate=seen.certificate, key=key, expires=seen.expires,
        files=files,
    )  # fmt: skip


def _subject(seen: Shown) -> Subject | None:
    found = [subjects.parse(uri) for uri in seen.uris]
    return found[0] if len(found) == 1 else None


def _files(folder: Path, role: Role, name: str | None) -> tuple[Path, Path, Path]:
    """Authority, certificate and key."""
    path = _find(folder, role, name)
    return folder / "ca.pem", path, path.with_name(f"{path.name[:-4]}.key")


def _find(folder: Path, role: Role, name: str | None) -> Path:
    single = folder / f"{role.value}.pem"
    if role is Role.SCHEDULER or (single.exists() and name is None):
        return single
    several = folder / f"{role.value}s"
    if name is not None:
        subjects.check_name(f"a certificate of role {role.value}", name)
        named = several / f"{name}.pem"
        return single if single.exists() and not named.exists() else named
    found = sorted(several.glob("*.pem"))
    if len(found) > 1:
        names = ", ".join(p.stem for p in found)
        raise ConfigError(f"{several} holds several certificates ({names}); say which one is meant")
    return found[0] if found else single
