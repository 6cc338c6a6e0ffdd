"""The end of a task against its will: time to leave by itself, then TERM, then KILL for everything it started.

Asking it kindly (the end of its lease, through its socket) is somebody else's part and comes before.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from rota.deploy.worker import status
from rota.deploy.worker.launcher import Launcher
from rota.deploy.worker.status import Phase, Status

_AGAIN = 1.0  # seconds between kills of a task that does not go
_LOOK = 0.02


class Ending:
    """The stop of one task, step by step, for a loop that has other things to do.

    TERM is sent `grace_1` seconds after the beginning, KILL `grace_2` seconds after that.
    """

    def __init__(self, launcher: Launcher, folder: Path, grace_1: float, grace_2: float, now: float) -> None:
        self._launcher, self._folder = launcher, folder
        self._term_at: float | None = now + grace_1
        self._kill_at = now + grace_1 + grace_2
        self.forced = False
        """Whether it was sent a signal: it did not leave because it was done."""
        mark(folder)

    def advance(self, now: float) -> float | None:
        """Do what is due; seconds until the next step, or None when the task has ended."""
        if status.read(self._folder).phase is Phase.ENDED:
            return None
        if now >= self._kill_at:
            self._term_at, self.forced = None, True
            self._kill_at = now + _AGAIN
            self._launcher.kill(self._folder)
        elif self._term_at is not None and now >= self._term_at:
            self._term_at, self.forced = None, True
            self._launcher.signal(self._folder, signal.SIGTERM)
        due = self._kill_at if self._term_at is None else self._term_at
        return max(0.0, due - now)


def mark(folder: Path) -> None:
    """Note on disk that a stop was asked for, so that the reason of the end survives a restart of the agent."""
    with contextlib.suppress(OSError):  # a full disk does not keep a task from being stopped
        os.close(os.open(folder / status.STOPPING, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def stop(launcher: Launcher, folder: Path, grace_1: float, grace_2: float, patience: float = 30.0) -> Status:
    """Stop a task and wait for it; `patience` bounds the wait after the first KILL."""
    begin = time.monotonic()
    ending = Ending(launcher, folder, grace_1, grace_2, begin)
    end = begin + grace_1 + grace_2 + patience
    while (left := ending.advance(time.monotonic())) is not None and time.monotonic() < end:
        time.sleep(min(left, _LOOK))
    return launcher.status(folder)
