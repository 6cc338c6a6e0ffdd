"""How long a task took from the order to its first step."""

from __future__ import annotations

import time


class StartTime:
    """Begins with the order. Of a task that was adopted nothing is known."""

    def __init__(self, *, known: bool = True) -> None:
        self._ordered = time.monotonic() if known else None
        self._launched_s = 0.0
        self._stepped_s = 0.0

    def launched(self) -> None:
        """Its processes run."""
        self._launched_s = self._since_order()

    def stepped(self) -> None:
        """It has finished a step; the first one counts."""
        self._stepped_s = self._stepped_s or self._since_order()

    def seconds(self, *, talks: bool) -> float:
        """To the first step of a task that tells its steps, else to the start of its processes; 0: not known."""
        return self._stepped_s if talks else self._launched_s

    def _since_order(self) -> float:
        return 0.0 if self._ordered is None else time.monotonic() - self._ordered
