"""Phases of jobs, outcomes of attempts, reasons to stop: the words by which a deployment decides.

    submitted --> QUEUED <--> WAITING
                   |  ^          |
                   v  |          v
                 RUNNING <-------+
                   |  ^
                   v  |
                 STOPPING         any of them --> FINISHED, FAILED or CANCELLED, which are final

Sentences for people travel beside these values, never instead of them. Standard library only: agents use it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from rota.core.errors import IllegalTransition


class JobPhase(str, Enum):
    """Where in its life a job is."""

    QUEUED = "queued"
    WAITING = "waiting"
    """It is kept from the queue for a while: it failed and will be tried again."""
    RUNNING = "running"
    STOPPING = "stopping"
    """It runs and was asked to save and end."""
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing will happen to the job any more."""
        return self in FINAL_PHASES


FINAL_PHASES = frozenset({JobPhase.FINISHED, JobPhase.FAILED, JobPhase.CANCELLED})

LEGAL_TRANSITIONS: Mapping[JobPhase, frozenset[JobPhase]] = {
    JobPhase.QUEUED: frozenset(
        {
            JobPhase.RUNNING,  # an attempt starts
            JobPhase.WAITING,  # its last attempt has failed
            JobPhase.FINISHED,  # its last attempt was completed, and the round is over
            JobPhase.FAILED,  # given up after its last attempt, or refused by the engine
            JobPhase.CANCELLED,
        }
    ),
    JobPhase.WAITING: frozenset(
        {
            JobPhase.QUEUED,  # the pause is over and the engine has it back
            JobPhase.RUNNING,  # the pause was over before the next round
            JobPhase.FAILED,
            JobPhase.CANCELLED,
        }
    ),
    JobPhase.RUNNING: frozenset(
        {
            JobPhase.STOPPING,  # preempted, moved, held, cancelled, hung, or a rank is dead
            JobPhase.QUEUED,  # the attempt has ended by itself
            JobPhase.FAILED,  # dropped by the engine; what is left of the attempt is stopped afterwards
            JobPhase.CANCELLED,  # dropped by the engine after it was cancelled
        }
    ),
    JobPhase.STOPPING: frozenset(
        {
            JobPhase.STOPPING,  # there is a graver reason now: a rank died while the others were saving
            JobPhase.QUEUED,  # the attempt has ended
            JobPhase.FAILED,  # dropped by the engine meanwhile
            JobPhase.CANCELLED,  # dropped by the engine after it was cancelled
        }
    ),
    JobPhase.FINISHED: frozenset(),
    JobPhase.FAILED: frozenset(),
    JobPhase.CANCELLED: frozenset(),
}


class AttemptOutcome(str, Enum):
    """How an attempt ended, or the task of it on one server."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    """It was asked to, and saved."""
    CUT_OFF = "cut-off"
    """It was asked to and can save, but ended before its checkpoint was complete: no failure, but work is lost."""
    FAILED = "failed"
    EXCEPTION = "exception"
    """The training code raised an error."""
    KILLED = "killed"
    HUNG = "hung"
    OUT_OF_MEMORY = "out-of-memory"
    OUT_OF_DEVICE_MEMORY = "out-of-device-memory"
    DISK_FULL = "disk-full"
    TIME_LIMIT = "time-limit"
    """It ran for as long as it may (--time-limit), saved and stopped."""
    LOST = "lost"
    """Its server is silent, or knows nothing of it any more: no failure of the job."""

    @property
    def well(self) -> bool:
        """Whether the job ended as it should: nothing of it failed and nothing was lost."""
        return self in {AttemptOutcome.COMPLETED, AttemptOutcome.STOPPED}

    @property
    def by_stop(self) -> bool:
        """Whether it ended because it was asked to."""
        return self in {AttemptOutcome.STOPPED, AttemptOutcome.CUT_OFF}


def outcome_named(word: str, detail: str) -> tuple[AttemptOutcome, str]:
    """The outcome by its name, with the detail; a name that is not known is a failure that keeps it in the detail."""
    try:
        return AttemptOutcome(word), detail
    except ValueError:
        return AttemptOutcome.FAILED, f"{word}: {detail}" if word and detail else word or detail


class StopReason(str, Enum):
    """Why an attempt is asked to end."""

    PREEMPTED = "preempted"
    """The placement in force has no place for it."""
    MOVED = "moved"
    """The placement in force has another place for it."""
    HELD = "held"
    """Somebody holds the job: it saves, and goes on when it is released."""
    TIME_LIMIT = "time-limit"
    """It has run for as long as it may: it saves, and the job is over."""
    CANCELLED = "cancelled"
    GIVEN_UP = "given-up"
    """The job has failed for good."""
    FINISHED = "finished"
    """The job is done, and something of it still runs."""
    HUNG = "hung"
    RANK_STOPPED = "rank-stopped"
    """One of its ranks stopped by itself: the others are asked to save and stop, too."""
    RANK_FAILED = "rank-failed"
    """One of its ranks is dead: there is nobody to agree with on a step, so the others are killed."""

    @property
    def kills(self) -> bool:
        """Whether what is left is ended without asking."""
        return self is StopReason.RANK_FAILED


STOP_REASON_OF_FINAL_PHASE: Mapping[JobPhase, StopReason] = {
    JobPhase.FINISHED: StopReason.FINISHED,
    JobPhase.FAILED: StopReason.GIVEN_UP,
    JobPhase.CANCELLED: StopReason.CANCELLED,
}


class TaskPhase(str, Enum):
    """Where the part of an attempt on one server is, as its agent says."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class TaskCommand(str, Enum):
    """What an agent has to do with a task."""

    RUN = "run"
    STOP = "stop"
    """Let it save and end."""
    KILL = "kill"
    """End it without asking: a rank elsewhere is dead."""


class NodeState(str, Enum):
    """How a server is."""

    UP = "up"
    DRAINING = "draining"
    """No job starts there, and some still run."""
    DRAINED = "drained"
    LOST = "lost"


def advance(job: int, phase: JobPhase, to: JobPhase, story: Sequence[str]) -> JobPhase:
    """The next phase of a job; IllegalTransition with the last events of the job if it cannot follow."""
    if to not in LEGAL_TRANSITIONS[phase]:
        raise IllegalTransition(f"job {job} cannot go from {phase.value} to {to.value}", story, job)
    return to
