"""A UNIX socket that only this user can reach, for jobs to connect to."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from rota.core import unix_sockets
from rota.core.errors import ConfigError


def bind_private(path: Path) -> socket.socket:
    """A socket for this user only, in a folder for this user only.

    It takes the place of one that a dead agent left. Raises ConfigError.
    """
    _own_folder(path.parent)
    if path.exists():
        _clear(path)
    try:
        bound = unix_sockets.bind(str(path))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot listen there ({error.strerror or error}). Choose a shorter path."
        ) from error
    bound.setblocking(False)
    return bound


def _own_folder(folder: Path) -> None:
    """Make the folder for this user only; refuse one that others may enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = folder.stat()
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise ConfigError(
            f"{folder}: a socket of jobs needs a folder that only this user may enter, and this "
            f"one has owner {facts.st_uid} and mode {stat.S_IMODE(facts.st_mode):03o}. Choose "
            "another, or chmod 700 it."
        )


def _clear(path: Path) -> None:
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise ConfigError(f"{path}: this is a file and no socket; choose another path.")
    try:
        unix_sockets.connect(str(path)).close()
    except OSError:
        path.unlink()
        return
    raise ConfigError(f"{path}: another agent listens there. End it, or choose another path.")
