"""Why a job failed, in the few words that a scheduler can act on."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT}
_LITTLE_BYTES = 1 << 20
LONGEST_DETAIL = 2000


def reason_of(error: BaseException, folder: Path | None = None) -> str:
    """A word for an error. An error may bring its own as the attribute `rota_reason`."""
    own = getattr(error, "rota_reason", None)
    if isinstance(own, str):
        return own
    if isinstance(error, OSError) and error.errno in _FULL:
        return "disk-full"
    if "OutOfMemoryError" in {base.__name__ for base in type(error).__mro__}:
        return "out-of-device-memory"
    if isinstance(error, MemoryError):
        return "out-of-memory"
    # Writers in C++ hide the number of the error, so look at the disk.
    if isinstance(error, RuntimeError) and folder is not None and _nearly_full(folder):
        return "disk-full"
    return "exception"


def detail_of(error: BaseException) -> str:
    """One line for people."""
    return f"{type(error).__name__}: {error}"[:LONGEST_DETAIL]


def _nearly_full(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LITTLE_BYTES
