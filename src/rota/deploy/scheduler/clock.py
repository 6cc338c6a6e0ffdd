"""The only place of the scheduler that looks at a clock.

Engine seconds run `scale` times as fast as real ones, from 0 at the moment the journal was begun. They follow the
seconds since boot, over restarts of the scheduler too, so that a wall clock that is set moves nothing. Only if the
machine itself was started again (or the journal is on another one) is there nothing but the wall clock to say how long
that took. Then engine time goes on with it, never back, and what nobody can be sure of is in `unsure_s`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.deploy.clocks import boot_id, machine_s, wall_s

STEP_S = 1.0
"""A wall clock that differs by so much from what it should be was set; what is less is a correction."""
_TOGETHER_S = 0.1
"""Clocks that were not read within so short a time cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """One moment, on all clocks."""

    at: float = 0.0
    """Engine seconds."""
    wall: float = 0.0
    """Seconds since 1970."""
    boot: str = ""
    """Name of the boot; empty: not known."""
    machine_s: float = 0.0
    """Seconds since that boot."""


class WallClock:
    """Engine seconds from the clocks of this machine."""

    def __init__(self, *, scale: float = 1.0, before: ClockReading | None = None, at_least: float = 0.0) -> None:
        """`before` is what an earlier scheduler read; time never goes back behind `at_least`."""
        self.scale = scale
        self._boot = boot_id()
        self._machine_s = machine_s()
        wall = wall_s()
        earlier = ClockReading(wall=wall) if before is None else before
        same_boot = bool(self._boot) and earlier.boot == self._boot and earlier.machine_s <= self._machine_s
        by_wall = wall - earlier.wall
        passed_s = self._machine_s - earlier.machine_s if same_boot else by_wall
        self._base = max(earlier.at + max(passed_s, 0.0) * scale, at_least)
        self.unsure_s = 0.0 if same_boot or before is None else self._base - at_least
        """Engine seconds that passed since the last event by the wall clock alone."""
        surely_passed_s = passed_s if same_boot else max(passed_s, (at_least - earlier.at) / scale)
        self.set_by_s = by_wall - surely_passed_s if abs(by_wall - surely_passed_s) >= STEP_S else 0.0
        """By how much the wall clock was set while no scheduler ran, as far as that can be known."""
        self.begun = wall - self._base / scale
        """Wall time of engine second 0, by the wall clock of now."""
        self._ahead_s = wall - self._machine_s

    def now(self) -> float:
        """Engine seconds."""
        return self._base + (machine_s() - self._machine_s) * self.scale

    def wall_seconds(self, engine_s: float) -> float:
        """Real seconds that `engine_s` engine seconds take."""
        return engine_s / self.scale

    def wall_time(self, at: float) -> float:
        """Engine second `at` as seconds since 1970."""
        return self.begun + at / self.scale

    def reading(self) -> ClockReading:
        """All clocks, for the next scheduler."""
        here = machine_s()
        at = self._base + (here - self._machine_s) * self.scale
        return ClockReading(at=at, wall=self.wall_time(at), boot=self._boot, machine_s=here)

    def wall_was_set(self) -> float:
        """By how many seconds the wall clock was set since the last time somebody asked; 0: it was not.

        Times are shown by the new wall clock from here on; engine seconds go on as they were.
        """
        first = machine_s()
        wall = wall_s()
        here = machine_s()
        if here - first > _TOGETHER_S:
            return 0.0
        step_s = wall - here - self._ahead_s
        self._ahead_s += step_s
        shown_s = self.wall_time(self.now()) - wall
        if abs(shown_s) >= STEP_S:
            self.begun -= shown_s
        return step_s if abs(step_s) >= STEP_S else 0.0
