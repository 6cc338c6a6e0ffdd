"""Jobs of which only so many may run at the same time: an array with a limit, or a tenant with `max_running`.

As many as may run are let in. Those that run stay, then the lowest numbers come: a job that was let in and does not run
makes way for one with a lower number.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Turn:
    """A job is let in."""

    job: int
    instead_of: int | None = None
    """A job that has to step aside for it."""


@dataclass(slots=True)
class LimitedGroup:
    """The jobs of one group that only wait for each other."""

    inside: set[int] = field(default_factory=set)
    """Let in and not over."""
    waiting: list[int] = field(default_factory=list)
    """The others, as a heap."""

    def add(self, job: int) -> None:
        """A job waits for its turn."""
        heapq.heappush(self.waiting, job)

    def remove(self, job: int) -> None:
        """A job is over, or waits for something else again."""
        self.inside.discard(job)
        if job in self.waiting:
            self.waiting.remove(job)
            heapq.heapify(self.waiting)

    def turns(self, limit: int, may_step_aside: Callable[[int], bool]) -> Iterator[Turn]:
        """Whose turn it is; each is let in before the next one is looked for."""
        while self.waiting:
            if len(self.inside) < limit:
                yield self._let_in(heapq.heappop(self.waiting))
                continue
            first = self.waiting[0]
            last = max((job for job in self.inside if job > first and may_step_aside(job)), default=None)
            if last is None:
                return
            yield self.exchange(last, first)

    def exchange(self, leaving: int, coming: int) -> Turn:
        """A job that waits is let in instead of one that does not run."""
        self.remove(coming)
        self.inside.discard(leaving)
        self.add(leaving)
        self.inside.add(coming)
        return Turn(coming, leaving)

    def _let_in(self, job: int) -> Turn:
        self.inside.add(job)
        return Turn(job)
