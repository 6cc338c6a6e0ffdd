"""A question for whose answer nobody waits any more: the child that thinks about it is ended, the process stays."""

from __future__ import annotations

import contextlib
import os
import signal

BREAK_OFF = signal.SIGUSR1
"""What the scheduler sends to the process."""


class Thinking:
    """The child that thinks at the moment, and the signal that ends it."""

    def __init__(self) -> None:
        self._child = 0
        self.broken_off = False
        """Whether the thought that ended last, or the one under way, is wanted no more."""
        signal.signal(BREAK_OFF, self._break_off)

    def begin(self) -> None:
        """A question was read; a signal from now on is about it."""
        self.broken_off = False

    def started(self, child: int) -> None:
        """The child is there."""
        self._child = child
        if self.broken_off:
            self._end()

    def ended(self) -> None:
        """The child is about to be waited for: its number may soon be that of another process."""
        self._child = 0

    def _break_off(self, *_: object) -> None:
        self.broken_off = True
        self._end()

    def _end(self) -> None:
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
