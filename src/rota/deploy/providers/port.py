"""What a place has to be able to do so that agents can run there: four methods.

A provider starts agents, says which of them are there, and ends them. It decides nothing: how many there should be is
up to the pool (`providers/pool`), what runs on them up to the scheduler. It keeps no state that cannot be lost: what it
started is found again by the name under which it was started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from rota.core.errors import RotaError


class PilotPhase(str, Enum):
    """How far a pilot is, as its place sees it."""

    PENDING = "pending"
    """Accepted, and waits for a machine."""
    RUNNING = "running"
    ENDING = "ending"
    """It was told to end, and something of it may still be there."""
    OVER = "over"
    """Nothing of it runs any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOrder:
    """An agent to start."""

    name: str
    """Of the pilot, and of its node in Rota. Used for one pilot only, ever."""
    command: tuple[str, ...]
    """The program and its arguments. Other users of the machine can see it: no secrets."""
    log: Path
    """Where its standard error goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotStatus:
    """A pilot as its place sees it."""

    name: str
    id: str
    """What the place calls it: the number of a batch job, of a process."""
    phase: PilotPhase
    host: str = ""
    """The machine on which it runs; empty: not known, or not yet."""
    left_s: float | None = None
    """Seconds until the place ends it; None: without end, or not known."""
    wanted_back: bool = False
    """Whether the place would like to have the machine back as soon as the pilot can leave it."""
    reason: str = ""
    """Why it waits or how it ended, in the words of the place; empty: nothing was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceDescription:
    """What a place has to offer."""

    words: str
    """In one line, for people."""
    gpus: int = 0
    """GPUs that one pilot gets; 0: not known before it runs."""
    gpu_type: str = ""
    end_s: float = 10.0
    """Seconds between the request to end a pilot and the moment at which the place kills it."""


class PlaceRefused(RotaError):
    """The place says no, in its own words. Trying again at once would not help."""


class PlaceSilent(RotaError):
    """The place does not answer: nothing is known, and nothing may be concluded."""


class Provider(Protocol):
    """A place where agents run."""

    def describe(self) -> PlaceDescription:
        """What a pilot gets here. Raises PlaceSilent."""

    def submit(self, order: PilotOrder) -> str:
        """Start a pilot, now or when there is room; its id. Raises PlaceRefused, PlaceSilent.

        After PlaceSilent it may have been accepted all the same: `list` tells, by its name.
        """

    def list(self) -> Sequence[PilotStatus]:
        """All pilots of this pool that are there, by one question, and those that ended lately. Raises PlaceSilent."""

    def cancel(self, ids: Sequence[str], *, gently: bool) -> None:
        """End pilots; what is over already is no error. Raises PlaceSilent.

        `gently`: let the agent know that it has to leave, with all the time it has for that; a pilot that waits is
        ended at once.
        """
