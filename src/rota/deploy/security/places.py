"""Where a user's settings and certificates are, if nothing else is said."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's folder: $XDG_CONFIG_HOME/rota, else ~/.config/rota."""
    base = environ.get("XDG_CONFIG_HOME")
    return (
        Path(base) if base else Path(environ.get("HOME", str(Path.home()))) / ".config"
    ) / "rota"


def certs_folder(given: str | Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of certificates: what was given, ROTA_CERTS, or `certs` in the user's folder."""
    named = given or environ.get("ROTA_CERTS")
    return Path(named).expanduser() if named else config_folder(environ) / "certs"


def tokens_file(certs: Path) -> Path:
    """The file of tokens beside the certificates."""
    return certs / "tokens.json"


def revoked_file(certs: Path) -> Path:
    """The list of revoked certificates beside them."""
    return certs / "revoked.json"


def joined_file(certs: Path) -> Path:
    """The list of join tickets that were used, beside the certificates."""
    return certs / "joined.json"


def quiet_grpc() -> None:
    """Keep gRPC from saying what our own message says; to be called before grpc is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
