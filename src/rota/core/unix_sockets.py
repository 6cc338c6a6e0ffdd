"""UNIX sockets at paths of any length, for one user only.

The system takes 108 bytes for the address of a socket, and folders of jobs are often deeper. A longer path is reached
by way of its folder (Linux). Standard library only, so that agents and training code may use it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

LONGEST_PATH_BYTES = 100


@contextlib.contextmanager
def short_path(path: str) -> Iterator[str]:
    """Another name for a path, short enough for the address of a socket and good inside the block."""
    if len(os.fsencode(path)) <= LONGEST_PATH_BYTES:
        yield path
        return
    folder, name = os.path.split(path)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)


def bind(path: str, owner: tuple[int, int] | None = None) -> socket.socket:
    """A socket at a path, for this user only, or for another (user, group); nobody listens yet. Raises OSError."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(path) as short:
            bound.bind(short)
            os.chmod(short, 0o600)  # noqa: PTH101 - the name is good for this moment only
            if owner is not None:
                os.chown(short, *owner)
    except BaseException:
        bound.close()
        raise
    return bound


def connect(path: str) -> socket.socket:
    """A connection to whoever listens at a path. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(path) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection
