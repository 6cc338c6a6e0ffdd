"""Devices that keep time on a busy machine.

A GPU does not compute more slowly because the CPUs beside it are busy; a thread that waits for it
in vain does. With real-time priority its waits end on time whatever else runs.
"""

from __future__ import annotations

import os
import sys


def realtime() -> bool:
    """Let this thread go first whenever it wakes.

    False where that is not allowed or not known, and nothing changes.

    What it starts later, threads and processes, has ordinary priority. Only for threads that mostly
    wait.
    """
    if sys.platform != "linux":
        return False
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:  # needs CAP_SYS_NICE, or a limit on real-time priority above 0
        return False
    return True
