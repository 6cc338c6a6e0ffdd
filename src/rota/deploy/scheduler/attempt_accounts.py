"""What a job learns from the end of an attempt: work that was lost, and how long starts and stops take.

Used by the registry alone, which owns the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rota.core.lifecycle import AttemptOutcome, JobPhase
from rota.deploy.events import AttemptEnded, ProfileWrong, SpeedMeasured, StepsSaved
from rota.deploy.scheduler.learned_speeds import LearnedSpeeds
from rota.deploy.scheduler.records import Attempt, Job

_NEWEST_PART = 0.2
"""Part of the newest value in what is usual."""


@dataclass(slots=True, kw_only=True)
class RestartTimes:
    """How long jobs in general take to stop in order, and to start; engine seconds, recent ones count more."""

    stop_s: float = 0.0
    start_s: float = 0.0

    def take(self, stop_s: float, start_s: float) -> None:
        """One more attempt; below 0 is not known."""
        self.stop_s = _smoothed(self.stop_s, stop_s)
        self.start_s = _smoothed(self.start_s, start_s)


def _smoothed(usual: float, value: float) -> float:
    if value < 0:
        return usual
    return value if usual == 0.0 else usual + _NEWEST_PART * (value - usual)


def close_account(usual: RestartTimes, job: Job, attempt: Attempt, event: AttemptEnded) -> None:
    """All that a job learns from the end of an attempt."""
    count_time(job, attempt, event)
    remember_end(job, attempt, event)
    count_outcome(job, event)
    count_lost_work(job, event)
    count_stalls(job, event)
    learn_times(usual, job, attempt, event)


def count_time(job: Job, attempt: Attempt, event: AttemptEnded) -> None:
    """How long it ran; on a server that was lost, not beyond its lease."""
    end = min(event.at, attempt.lease_until) if event.outcome is AttemptOutcome.LOST else event.at
    job.ran_s += max(0.0, end - attempt.started)


def take_speed(speeds: LearnedSpeeds, job: Job, event: SpeedMeasured | ProfileWrong) -> None:
    """How fast a job was seen to run, or how far its profile is off."""
    if isinstance(event, SpeedMeasured):
        speeds.take(event, job.tenant, job.spec.gpus)
        return
    job.note(event)
    job.profile_wrong = event


def count_lost_work(job: Job, event: AttemptEnded) -> None:
    """Work that has to be done again, and how often a stop or the loss of a server was the reason."""
    job.lost_steps += event.lost_steps
    job.lost_s += event.lost_s
    by_us = event.outcome.by_stop or event.outcome is AttemptOutcome.LOST
    if by_us and (event.lost_s > 0 or event.lost_steps > 0):
        job.thrown_back += 1
    job.thrown_back_to_zero = max(job.thrown_back_to_zero, event.times_to_zero)


def count_stalls(job: Job, event: AttemptEnded) -> None:
    """What its training loop spent its time on."""
    job.compute_s += event.compute_s
    job.prepare_s += event.prepare_s
    job.storage_s += event.storage_s


def learn_times(usual: RestartTimes, job: Job, attempt: Attempt, event: AttemptEnded) -> None:
    """How long it took to start, and to stop in order: what the next preemption will cost."""
    stopped = event.outcome is AttemptOutcome.STOPPED and attempt.stopping
    stop_s = max(0.0, event.at - attempt.stop_asked) if stopped else -1.0
    start_s = event.start_s if event.start_s > 0 else -1.0
    job.stop_s = stop_s if stop_s >= 0 else job.stop_s
    job.start_s = start_s if start_s >= 0 else job.start_s
    usual.take(stop_s, start_s)


def remember_end(job: Job, attempt: Attempt, event: AttemptEnded) -> None:
    """Write down how the last attempt of a job ended."""
    if job.attempts and job.attempts[-1].epoch == event.epoch:
        ended = replace(
            job.attempts[-1],
            ended=event.at,
            outcome=event.outcome.value,
            exit_code=event.exit_code,
            detail=event.detail,
            stop_reason="" if attempt.stop_reason is None else attempt.stop_reason.value,
        )
        job.attempts = (*job.attempts[:-1], ended)


def count_outcome(job: Job, event: AttemptEnded) -> None:
    """What the end of an attempt means for the counts of its job."""
    if event.outcome is AttemptOutcome.COMPLETED and job.final_phase is None:
        job.final_phase = JobPhase.FINISHED
        job.ended = event.at
        job.saved_step = max(job.saved_step, job.spec.expected_steps)
        job.counted_steps = max(job.counted_steps, job.spec.steps)
    elif event.outcome is AttemptOutcome.STOPPED:
        job.preemptions += 1
    elif event.outcome is AttemptOutcome.CUT_OFF:
        job.last_cut = event.detail
    elif event.outcome is AttemptOutcome.LOST:
        job.losses += 1
    elif event.outcome is AttemptOutcome.TIME_LIMIT:
        job.reason = event.detail
    elif job.final_phase is None:
        job.restarts += 1
        job.failures += 1
        job.reason = f"{event.outcome.value}: {event.detail}" if event.detail else event.outcome.value


def count_saved(job: Job, event: StepsSaved) -> None:
    """A checkpoint has more steps than the one before."""
    job.saved_step = event.step
    job.counted_steps = event.step
    job.checkpoint = event.path
    job.losses = 0
    job.failures = 0
    job.longest_save_s = max(job.longest_save_s, event.took_s)
    job.seen_saving = job.seen_saving or ("it saved a checkpoint" if event.path else "")
    if job.attempt is not None:
        job.attempt.saved_at = event.at


def least_turn_s(job: Job, config: Mapping[str, Any]) -> float:
    """Engine seconds that a job runs at least before it may be preempted, under the settings of a scheduler."""
    wall_s = job.spec.least_turn_s or float(config.get("least_turn_s", 0.0))
    return wall_s * float(config.get("time_scale", 1.0))
