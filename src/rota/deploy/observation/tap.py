"""The line from the thread that decides to the threads that watch it: it appends and never waits.

What does not fit is dropped and counted, and whoever reads starts again from a fresh copy of the registry.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rota.deploy.scheduler.stage_times import Stage

MOST_WAITING = 200_000
"""Batches of events and durations that wait to be read: minutes of a very busy scheduler."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A stage of the scheduler's work took so many wall seconds."""

    stage: Stage
    seconds: float


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything before it is in the copy of the registry that was made with it."""

    number: int


class EventTap:
    """Written by the thread that decides, read by one other."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._waiting: deque[Sequence[Any] | Duration | Mark] = deque()
        self._marks = itertools.count(1)
        self.dropped = 0
        """Batches of events that did not fit."""

    # The thread that decides

    def events(self, events: Sequence[Any]) -> None:
        """These were committed."""
        if len(self._waiting) >= self._most:
            self.dropped += 1
        else:
            self._waiting.append(events)

    def took(self, stage: Stage, seconds: float) -> None:
        """A stage took so long."""
        if len(self._waiting) < self._most:
            self._waiting.append(Duration(stage, seconds))

    def mark(self) -> int:
        """Note that a copy of the registry is made now; the number of the mark."""
        number = next(self._marks)
        self._waiting.append(Mark(number))
        return number

    # The reader

    def read(self, most: int) -> list[Sequence[Any] | Duration | Mark]:
        """Some of what waits, the oldest first."""
        taken: list[Sequence[Any] | Duration | Mark] = []
        while self._waiting and len(taken) < most:
            taken.append(self._waiting.popleft())
        return taken
