"""The clocks of a machine, and the only place of a deployment that reads the wall clock.

The wall clock may be set at any moment, forward or back. It is for people (times that are shown) and for what is dated
in it (certificates, tokens). Everything else goes by seconds since boot, which nobody can set: they count the time for
which a machine sleeps, and together with the name of the boot they can be written down and read by a later process.

For tests, ROTA_TEST_WALL_CLOCK names a file with seconds that are added to the wall clock of this process: to write
another number into it is to set the clock.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from pathlib import Path

from rota.client.clock import machine_s

__all__ = ["boot_id", "machine_s", "wall_date", "wall_s"]

_VARIABLE = "ROTA_TEST_WALL_CLOCK"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def wall_s() -> float:
    """Seconds since 1970, as the wall clock has them now."""
    return time.time() + _set_by()


def wall_date() -> datetime:
    """The same as a date in UTC."""
    return datetime.fromtimestamp(wall_s(), timezone.utc)


def boot_id() -> str:
    """A text that changes when the machine starts again; empty where there is none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _set_by() -> float:
    path = os.environ.get(_VARIABLE)
    if not path:
        return 0.0
    try:
        return float(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0.0
