"""Whose mini-batch a shared device computes next. A mini-batch that began is computed to its end.

`fifo` takes them as they came, `round-robin` goes around among the jobs that have one, `weighted`
gives each job time in proportion to its weight: start-time fair queueing, where a mini-batch of s
seconds of a job with weight w moves the job's own clock by s / w and the job that is furthest
behind is next. `exclusive` refuses a second job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rota.core.errors import UnknownName


class WaitingBatch(Protocol):
    """A mini-batch that waits for its turn."""

    @property
    def seat(self) -> int:
        """A number that grows with every job that came to the device."""
        ...

    @property
    def tag(self) -> float:
        """Where its job's own clock stands."""
        ...


class Turns(Protocol):
    """A way to choose."""

    def pick(self, waiting: Sequence[WaitingBatch], last_seat: int) -> int:
        """The place in `waiting` (in order of arrival, not empty) of the one to compute next."""
        ...


class FifoTurns:
    """As they came."""

    def pick(self, waiting: Sequence[WaitingBatch], last_seat: int) -> int:
        """The first."""
        return 0


class RoundRobinTurns:
    """Once around."""

    def pick(self, waiting: Sequence[WaitingBatch], last_seat: int) -> int:
        """The next seat after the last, else the lowest."""
        return min(
            range(len(waiting)), key=lambda i: (waiting[i].seat <= last_seat, waiting[i].seat)
        )


class WeightedTurns:
    """By weight."""

    def pick(self, waiting: Sequence[WaitingBatch], last_seat: int) -> int:
        """The one furthest behind; the first of equals."""
        return min(range(len(waiting)), key=lambda i: waiting[i].tag)


SHARING: dict[str, Turns] = {
    "exclusive": FifoTurns(),
    "fifo": FifoTurns(),
    "round-robin": RoundRobinTurns(),
    "weighted": WeightedTurns(),
}


def turns(name: str) -> Turns:
    """The way of a name."""
    if name not in SHARING:
        raise UnknownName("way to share a device", name, SHARING)
    return SHARING[name]
