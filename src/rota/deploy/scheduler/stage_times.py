"""How long the stages of a round take, told to whoever listens: wall seconds, measured where the work is done."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from rota.core.allocation import Allocation
from rota.core.placement import Placement
from rota.core.ports import Mechanism, Policy
from rota.core.view import View
from rota.deploy.events import EventRow
from rota.deploy.scheduler.recorder import EventLog
from rota.deploy.scheduler.records import Job


class Stage(str, Enum):
    """What the thread that decides does in a round, and beside it."""

    REPORT = "report"
    """What happened since the last round, put together for the engine."""
    SOLVE = "solve"
    """The policy."""
    PLACE = "place"
    """The mechanism."""
    CARRY_OUT = "carry-out"
    """From the placement to orders of agents, their commit included."""
    TOTAL = "total"
    """A whole decision."""
    COMMIT = "commit"
    """One transaction of the journal; it is no stage of its own, others contain it."""


Listener = Callable[[Stage, float], None]


def _nobody(_: Stage, __: float) -> None:
    """Nobody listens."""


class StageTimes:
    """Measures; used by the thread that decides."""

    def __init__(self) -> None:
        self.listener: Listener = _nobody
        """Must not wait: the round does."""

    @contextlib.contextmanager
    def measuring(self, stage: Stage) -> Iterator[None]:
        """Tell how long the block took, however it ends."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.listener(stage, time.perf_counter() - began)

    def took(self, stage: Stage, seconds: float) -> None:
        """Tell what somebody else measured."""
        self.listener(stage, seconds)


class TimedPolicy:
    """A policy whose answers are timed."""

    def __init__(self, policy: Policy, times: StageTimes) -> None:
        self._policy = policy
        self._times = times

    def allocate(self, view: View) -> Allocation:
        """The answer of the policy."""
        with self._times.measuring(Stage.SOLVE):
            return self._policy.allocate(view)


class TimedMechanism:
    """A mechanism whose answers are timed."""

    def __init__(self, mechanism: Mechanism, times: StageTimes) -> None:
        self._mechanism = mechanism
        self._times = times

    def place(self, view: View, allocation: Allocation) -> Placement:
        """The answer of the mechanism."""
        with self._times.measuring(Stage.PLACE):
            return self._mechanism.place(view, allocation)


class TimedEventLog:
    """A journal whose commits are timed."""

    def __init__(self, events: EventLog, times: StageTimes) -> None:
        self._events = events
        self._times = times

    def append(self, rows: Iterable[EventRow], archived: Iterable[Job] = (), forgotten: Iterable[int] = ()) -> int:
        """Commit events in one piece. Raises OutputError."""
        with self._times.measuring(Stage.COMMIT):
            return self._events.append(rows, archived, forgotten)
