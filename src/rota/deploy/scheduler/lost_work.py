"""What is lost when an attempt ends: the work since its last checkpoint. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rota.core.lifecycle import AttemptOutcome
from rota.deploy.scheduler.records import Attempt, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWork:
    """Work that has to be done again."""

    steps: int = 0
    seconds: float = 0.0
    """Engine seconds."""
    times_to_zero: int = 0
    """How often the job was thrown back to its start by now, if it was so this time; else 0."""


def lost_work(
    job: Job, attempt: Attempt, outcome: AttemptOutcome, *, step: int, saved_step: int, now: float
) -> LostWork:
    """What the end of an attempt costs: `step` is how far it came, `saved_step` what is in a checkpoint.

    Of a command that does not say how far it is, everything since the last checkpoint is lost. Work of a job that is
    over is not needed any more.
    """
    saved = max(saved_step, job.saved_step)
    steps = max(0, step - max(saved, attempt.resume_step))
    says_steps = job.saves or step > attempt.resume_step
    if job.ending or outcome is AttemptOutcome.COMPLETED or (says_steps and steps == 0):
        return LostWork()
    seconds = max(0.0, now - attempt.saved_at)
    by_us = outcome.by_stop or outcome is AttemptOutcome.LOST
    to_zero = by_us and saved == 0 and seconds > 0
    return LostWork(steps=steps, seconds=seconds, times_to_zero=job.thrown_back_to_zero + 1 if to_zero else 0)


def cut_off(job: Job, outcome: AttemptOutcome, lost: LostWork) -> bool:
    """Whether a job that saves was stopped before its checkpoint was complete."""
    return outcome is AttemptOutcome.STOPPED and job.saves and lost.steps > 0
