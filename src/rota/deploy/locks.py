"""A lock file that says who holds it, so that two processes never work on the same thing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rota.core.errors import ConfigError


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
