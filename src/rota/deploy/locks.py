"""Locks that say who holds them, so that two processes never work on the same thing."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rota.core.errors import ConfigError

_HELD = (errno.EAGAIN, errno.EACCES)
"""What the system says of a lock that somebody else has."""


def hold(path: Path, taken: Callable[[str], str]) -> IO[str]:
    """Hold the lock for as long as the file is open. OSError if the file cannot be used.

    If somebody else holds it, ConfigError with what `taken` says about the number of that process.
    """
    lock = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        owner = lock.read().strip()
        lock.close()
        raise ConfigError(taken(owner or "unknown")) from error
    try:
        lock.truncate(0)
        os.write(lock.fileno(), str(os.getpid()).encode())
    except OSError:  # the disk is full
        lock.close()
        raise
    return lock


def hold_itself(path: Path, taken: str) -> IO[bytes]:
    """Hold the file itself, whatever its name: hard links of it are the same file. Made empty if it is not there.

    Let go of it after whatever else this process has open of the file: to close it ends the locks of SQLite on it. If
    somebody else holds it, ConfigError with `taken`; OSError if the file cannot be used.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno not in _HELD:
            raise
        raise ConfigError(taken) from error
    return file
