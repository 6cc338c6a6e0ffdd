"""How far a job is, for those that come after it."""

from __future__ import annotations

from enum import Enum

from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler.records import Job


class Ending(Enum):
    """How far a predecessor is."""

    OPEN = "not over"
    WELL = "finished"
    BADLY = "failed or cancelled"


def ending_of(job: Job) -> Ending:
    """How far a job is, for those that come after it."""
    if not job.over and (job.final_phase is None or job.attempt is not None):
        return Ending.OPEN
    return Ending.WELL if phase_at_end(job) is JobPhase.FINISHED else Ending.BADLY


def phase_at_end(job: Job) -> JobPhase:
    """The phase in which a job ends, if that is decided; else that of now."""
    return job.final_phase or job.phase
