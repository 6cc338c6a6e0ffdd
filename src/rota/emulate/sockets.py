"""UNIX sockets at paths that are longer than the 108 bytes of a socket address."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

LONGEST_PATH = 107


@contextlib.contextmanager
def fitting(path: str) -> Iterator[str]:
    """A name for a path that fits, by way of its folder (Linux)."""
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield path
        return
    folder, name = os.path.split(path)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)


def listening(path: str) -> socket.socket:
    """A socket bound to a path, for the own user only."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with fitting(path) as short:
            made.bind(short)
            os.chmod(short, 0o600)  # noqa: PTH101 - the name is good for this moment only
    except BaseException:
        made.close()
        raise
    return made


def connected(path: str) -> socket.socket:
    """A connection to whoever listens there."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with fitting(path) as short:
            made.connect(short)
    except BaseException:
        made.close()
        raise
    return made
