"""UNIX sockets that one user can reach, for its jobs to connect to."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from rota.core import unix_sockets
from rota.core.errors import ConfigError
from rota.deploy.worker.tenancy import make_folder
from rota.deploy.worker.users import JobUser


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


def bind_for(path: Path, user: JobUser) -> socket.socket:
    """A socket for another user only.

    Its folder is the agent's, so that nobody can put another socket into its place. It takes the
    place of one that an agent left. Raises ConfigError.
    """
    try:
        make_folder(path.parent, 0o711)
        path.unlink(missing_ok=True)
        bound = unix_sockets.bind(str(path), owner=(user.uid, user.gid))
    except OSError as error:
        raise ConfigError(f"{path}: cannot listen there ({error.strerror or error})") from error
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
