"""The same thing said again and again: at once, and then at growing intervals."""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST_S = 5.0
_LONGEST_S = 600.0
_MOST = 1000
"""Things that are remembered."""


class Repetition:
    """Says when something may be said again. Not for several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[str, tuple[float, float]] = {}
        """When a thing may be said next, and how long to wait after that."""

    def due(self, what: str) -> bool:
        """Whether to say it now: the first time, and 5, 10, 20 ... s after each time, at most every 10 minutes."""
        now = self._clock()
        again, pause_s = self._said.get(what, (now, _FIRST_S))
        if now < again:
            return False
        self._said.pop(what, None)
        self._said[what] = (now + pause_s, min(2 * pause_s, _LONGEST_S))
        if len(self._said) > _MOST:
            del self._said[next(iter(self._said))]
        return True

    def forget(self) -> None:
        """All is well again: whatever comes next is new."""
        self._said.clear()

    @property
    def silent(self) -> bool:
        """Whether nothing was said since all was well."""
        return not self._said
