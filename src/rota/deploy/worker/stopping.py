"""The end of a task against its will.

Time to leave by itself, then TERM, then KILL for everything it started.

Asking it kindly (the end of its lease, through its socket) is somebody else's part and comes
before.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from rota.deploy.worker import status
from rota.deploy.worker.launcher import Launcher
from rota.deploy.worker.status import Phase

_KILL_AGAIN_S = 1.0  # between kills of a task that does not go


class Ending:
    """The stop of one task, step by step, for a loop that has other things to do.

    TERM is sent `term_after_s` seconds after the beginning, KILL `kill_after_s` seconds after that.
    """

    def __init__(
        self, launcher: Launcher, folder: Path, term_after_s: float, kill_after_s: float, now: float
    ) -> None:
        self._launcher = launcher
        self._folder = folder
        self._term_at: float | None = now + term_after_s
        self._kill_at = now + term_after_s + kill_after_s
        self._kill_after_s = kill_after_s
        self._gentle = term_after_s > 0
        self.forced = False
        """Whether it was sent a signal: it did not leave because it was done."""
        mark(folder)

    def advance(self, now: float) -> float | None:
        """Do what is due; seconds until the next step, or None when the task has ended."""
        if status.read(self._folder).phase is Phase.ENDED:
            return None
        if now >= self._kill_at:
            self._term_at = None
            self.forced = True
            self._kill_at = now + _KILL_AGAIN_S
            self._launcher.kill(self._folder)
        elif self._term_at is not None and now >= self._term_at:
            self._term_at = None
            self.forced = True
            self._launcher.signal(self._folder, signal.SIGTERM)
        due = self._kill_at if self._term_at is None else self._term_at
        return max(0.0, due - now)

    def postpone(self, until: float) -> None:
        """Let it have time until then: to leave by itself, or after TERM if that was the first.

        One that was given time to leave by itself and did not gets no more.
        """
        if self._term_at is not None and self._gentle:
            self._term_at = until
            self._kill_at = until + self._kill_after_s
        elif not self._gentle:
            self._kill_at = max(until, self._kill_at)

    def expire(self, now: float) -> None:
        """It may not run any longer: KILL is next."""
        self._term_at = None
        self._kill_at = min(self._kill_at, now)


def mark(folder: Path) -> None:
    """Note on disk that a stop was asked for: the agent may be started again before the end."""
    with contextlib.suppress(OSError):  # a full disk does not keep a task from being stopped
        os.close(os.open(folder / status.STOPPING, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
