"""The only place of the scheduler that looks at a clock.

Engine seconds run `scale` times as fast as the wall, from 0 at the moment the journal was begun. Within one process
they follow the monotonic clock, so that a step of the wall clock moves nothing; over a restart, the wall.
"""

from __future__ import annotations

import time


class WallClock:
    """Engine seconds from the clocks of this machine."""

    def __init__(self, *, scale: float = 1.0, begun: float | None = None, at_least: float = 0.0) -> None:
        """`begun` is the wall time of engine second 0 (now if None); time never goes back behind `at_least`."""
        self.scale = scale
        wall = time.time()
        self.begun = wall if begun is None else begun
        self._base = max((wall - self.begun) * scale, at_least)
        self._mono = time.monotonic()

    def now(self) -> float:
        """Engine seconds."""
        return self._base + (time.monotonic() - self._mono) * self.scale

    def wall_seconds(self, engine_s: float) -> float:
        """Wall seconds that `engine_s` engine seconds take."""
        return engine_s / self.scale

    def wall_time(self, at: float) -> float:
        """Engine second `at` as seconds since 1970."""
        return self.begun + at / self.scale
