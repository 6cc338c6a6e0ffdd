"""The clock by which leases are counted.

Nobody can set it, and it does not stand still while a machine sleeps.
"""

from __future__ import annotations

import time

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def machine_s() -> float:
    """Seconds since this machine was started.

    Those for which it slept count, where the system has a clock for that.
    """
    return time.clock_gettime(_CLOCK)
