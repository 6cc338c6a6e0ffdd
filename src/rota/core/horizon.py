"""How long a decision stays right: the one place that is about rounds in which nobody has to be asked.

An allocation and a placement each carry a `Horizon`. A policy or mechanism that says nothing is asked in every round.
The loop takes the least of the two and hands it to the clock, which may go on until then without coming back; it may
always come back earlier.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple, Protocol

from rota.core.arrays import FloatArray
from rota.core.events import (
    ClusterChanged,
    JobsDropped,
    JobsFinished,
    JobsParked,
    JobsRejected,
    JobsReturned,
    JobsSubmitted,
    SpeedsLearned,
)

CHANGES: frozenset[type] = frozenset(
    {JobsSubmitted, JobsFinished, JobsDropped, JobsRejected, JobsParked, JobsReturned, ClusterChanged, SpeedsLearned}
)
"""Kinds of events after which other jobs or other servers are there, or their speeds are taken to be others."""


class FollowsRanking(Enum):
    """Whether a placement holds, beyond its time, for as long as the order of the ranking it was made from does."""

    NEVER = "never"
    ONCE_REPEATED = "once repeated"
    """Only after the same placement came out twice in a row: until then jobs may still be shifted."""
    AT_ONCE = "at once"


class Outlook(Protocol):
    """What can be said about the time after `until`, if the jobs that run keep their pace."""

    def rounds(self, steps: FloatArray) -> int:
        """For how many rounds from now on, this one included, the decision holds.

        `steps` [K] is what the tasks of the placement do in every round; none of them may end in the next three.
        """


class Horizon(NamedTuple):
    """How long a decision stays right if nothing unexpected happens."""

    until: float
    """Seconds; the time at which to look again, at the end of the round in which it falls."""
    ended_by: frozenset[type] = frozenset()
    """Kinds of events that end it earlier. For an allocation: after which the answer may be another one for the jobs
    that it knows; jobs that it does not know are a reason to ask in any case."""
    follows: FollowsRanking = FollowsRanking.NEVER
    outlook: Outlook | None = None
    """What a clock that knows the pace of jobs may ask for a later `until`; the loop fills it in."""

    free_gpus: bool = False
    """Whether GPUs are free: a job that arrives between two rounds is looked at when it comes (rule `at_once`)."""
    jobs_wait: bool = False
    """Whether jobs wait: one that ends between two rounds is looked at when it ends."""

    def not_beyond(self, until: float) -> Horizon:
        """The same, but not for longer than that."""
        return self if self.until <= until else self._replace(until=until)

    def as_long_as(self, other: Horizon) -> bool:
        """Whether this one holds until the same time, and follows a ranking in the same way."""
        return self.until == other.until and self.follows is other.follows

    @property
    def arrivals_end_it(self) -> bool:
        """Whether a job that arrives is a reason to look again."""
        return JobsSubmitted in self.ended_by


EVERY_ROUND = Horizon(-math.inf, CHANGES)
"""Nothing is promised: ask again after this round."""
WITH_RANKING = Horizon(-math.inf, CHANGES, FollowsRanking.AT_ONCE)
"""The same comes out as long as the ranking has the same order."""
WITH_RANKING_ONCE_REPEATED = Horizon(-math.inf, CHANGES, FollowsRanking.ONCE_REPEATED)
"""The same, from the second time on that it came out."""
UNTIL_JOBS_CHANGE = Horizon(math.inf, CHANGES)
"""Until a job arrives or leaves, or servers come or go."""
UNTIL_JOBS_LEAVE = Horizon(math.inf, CHANGES - {JobsSubmitted})
"""The same, but a job that arrives changes nothing for those that are there."""
