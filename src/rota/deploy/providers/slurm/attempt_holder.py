"""What the batch job of an attempt runs: it holds the resources for as long as the attempt may run, and no longer.

It is run by path (`python -S -E attempt_holder.py FOLDER...`) as the user of the attempt, with the standard library
only. The agent of the server starts the ranks as steps of this batch job and writes their leases; nobody but the
agent's user can write them. When a lease has ended, whatever became of the agent, this process ends, and Slurm ends all
steps with it. When all ranks have ended it ends with their exit code, which Slurm writes into its accounts.

A signal (USR1: notice before the time limit; TERM: scancel, preemption) is told to the agent, which lets the job save.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path

_LOOK_S = 0.2
_LATER_S = 2.0
"""Seconds beyond those that the supervisors of ranks have: they come first."""
LEASE_OVER = 75


def main(folders: list[Path]) -> int:
    """Hold on; the exit code. The first folder is that of the first rank here, with the folder for notices."""
    notice = folders[0] / "notice"

    def tell(number: int, frame: object) -> None:
        del frame
        touch(notice / signal.Signals(number).name)

    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, tell)
    touch(notice / "started")
    while True:
        codes = [code_of(folder) for folder in folders]
        known = [code for code in codes if code is not None]
        if len(known) == len(codes):
            return max(known)
        if not may_run(folders[0]):
            return LEASE_OVER
        time.sleep(_LOOK_S)


def touch(path: Path) -> None:
    """Make an empty file, if there is room."""
    with contextlib.suppress(OSError):
        path.touch(mode=0o600)


def code_of(folder: Path) -> int | None:
    """The exit code of a rank that has ended; None before."""
    try:
        return int((folder / "code").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def may_run(folder: Path) -> bool:
    """Whether the lease holds: its end in seconds since boot, and seconds of patience. No lease, no right to run."""
    try:
        end, patience_s = map(float, (folder / "lease").read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return False
    return time.clock_gettime(time.CLOCK_BOOTTIME) < end + patience_s + _LATER_S


if __name__ == "__main__":
    sys.exit(main([Path(word) for word in sys.argv[1:]]))
