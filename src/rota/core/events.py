"""Everything that can happen. State changes only through these, our own decisions included.

Events are batched: one event carries arrays. `engine/log.py` writes them as JSON lines and reads them back. None is
ever changed after it is made (those made every round are not frozen: that would cost more than all else about them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from rota.core.arrays import FloatArray, IntArray

if TYPE_CHECKING:  # decisions say which kinds of events end them
    from rota.core.allocation import Allocation
    from rota.core.cluster import Cluster
    from rota.core.jobs import Jobs
    from rota.core.placement import Plan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunStarted:
    """First event of a log: the whole configuration."""

    at: float
    config: Mapping[str, Any]


@dataclass(slots=True, kw_only=True, eq=False)
class JobsSubmitted:
    """Jobs arrived; ids are consecutive from `first_id`."""

    at: float
    first_id: int
    jobs: Jobs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobsRejected:
    """Jobs that can never run here, with the reason."""

    at: float
    jobs: IntArray
    reason: str


@dataclass(slots=True, kw_only=True, eq=False)
class Allocated:
    """The policy answered."""

    at: float
    allocation: Allocation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SolveFailed:
    """The policy did not answer, or its answer made no sense; the last good allocation stays."""

    at: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacementFailed:
    """The mechanism did not answer, or its answer made no sense; the last placement stays."""

    at: float
    reason: str


@dataclass(slots=True, kw_only=True, eq=False)
class Planned:
    """A round was decided."""

    at: float
    plan: Plan


@dataclass(slots=True, kw_only=True, eq=False)
class RoundsRan:
    """One round, or several alike, came to its end at `at`; what every task of the plan did in them.

    Where time was up in the middle of a round, that round does not count in `rounds`; the rest of it does.
    """

    at: float
    start: float
    rounds: int
    steps: FloatArray
    """[K] steps credited to the first member."""
    partner_steps: FloatArray
    """[K] steps credited to the second member (0 without one)."""
    seconds: FloatArray
    """[K] time the task held its slots, as accounted."""
    lost: IntArray
    """Ids of jobs whose attempt did nothing and counts as failed."""
    each: FloatArray | None = None
    """[rounds, K] the same round by round, where the order of summation is to be that of single rounds (not logged)."""
    alone: FloatArray | None = None
    """[K] of `seconds`, those after one member of a pair had ended: positive if the first went on, negative if the
    second did; None if that happened to no pair."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpeedsLearned:
    """Jobs turned out to be as fast as this: from now on it is what policies see."""

    at: float
    profiles: tuple[str, ...]
    beliefs: tuple[str, ...]
    """What was believed of these jobs when they came (`core.ports.Beliefs`); empty: what the profile says."""
    gpus: IntArray
    types: tuple[str, ...]
    rates: FloatArray
    """Steps/s of the whole job, alone, on GPUs of one server, with the proportional share."""


@dataclass(slots=True, kw_only=True, eq=False)
class JobsFinished:
    """Jobs did their last step, each at its own time."""

    at: float
    jobs: IntArray
    finished_at: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobsDropped:
    """Jobs were given up, with the reason."""

    at: float
    jobs: IntArray
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgressMade:
    """Steps were credited to jobs outside a round, e.g. because a job was slow to stop."""

    at: float
    jobs: IntArray
    steps: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobsParked:
    """Jobs step aside: nobody decides about them until they return."""

    at: float
    jobs: IntArray
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobsPinned:
    """Jobs must not be preempted or moved while they run from now on, or may be again."""

    at: float
    jobs: IntArray
    pinned: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobsReturned:
    """Parked jobs are there again, with all they had done."""

    at: float
    jobs: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CapacityChanged:
    """GPUs by type that are up from now on, of all that there ever were (in exported logs of deployments)."""

    at: float
    capacity: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterChanged:
    """Servers came or went: this is the cluster from now on. Jobs that it cannot run were parked before."""

    at: float
    cluster: Cluster


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunEnded:
    """Last event: why the run stopped."""

    at: float
    reason: str


Event: TypeAlias = (
    RunStarted
    | JobsSubmitted
    | JobsRejected
    | Allocated
    | SolveFailed
    | PlacementFailed
    | Planned
    | RoundsRan
    | SpeedsLearned
    | JobsFinished
    | JobsDropped
    | ProgressMade
    | JobsParked
    | JobsPinned
    | JobsReturned
    | CapacityChanged
    | ClusterChanged
    | RunEnded
)
