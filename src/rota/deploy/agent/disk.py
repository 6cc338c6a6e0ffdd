"""Whether the disk of an agent's folder has room: for orders, tasks and output that waits to be sent.

Without it nothing new can start here. What runs goes on: its supervisors hold on to what they could not write.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

log = logging.getLogger(__name__)

_LEAST_MB = 16.0
"""Below that nothing new is begun ..."""
_ENOUGH_MB = 24.0
"""... until there is so much again."""
_EVERY_S = 1.0


class DiskWatch:
    """Looks at the disk of a folder now and then."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looked = -_EVERY_S
        self._full = False
        self.trouble = ""
        """What is wrong, for people; empty: nothing."""

    def trouble_now(self) -> str:
        """What is wrong at this moment: a report that a task could not start says why, so no other is sent here."""
        self._look()
        return self.trouble

    def look(self) -> bool:
        """Look if it is time to; whether something else is to be told than before."""
        return time.monotonic() - self._looked >= _EVERY_S and self._look()

    def _look(self) -> bool:
        self._looked = time.monotonic()
        before = self._full
        free_mb = _free_mb(self._folder)
        self._full = free_mb < (_ENOUGH_MB if self._full else _LEAST_MB)
        if self._full and not before:
            self.trouble = f"the disk of {self._folder} is full ({free_mb:.0f} MB left); make room there"
        elif not self._full:
            self.trouble = ""
        if self._full != before:
            log.warning("%s", self.trouble or "there is room on the disk again")
        return self._full != before


def _free_mb(folder: Path) -> float:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0.0
    return disk.f_bavail * disk.f_frsize / 1e6
