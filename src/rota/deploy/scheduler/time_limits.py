"""Jobs that may only run for so long: how much of that is left, when to warn, when to stop.

What counts is the time of all attempts, each from the order to start until nothing is left of it, in seconds of the
scheduler's clock: starting and saving included, waiting not. A job whose time is up saves, stops and has failed, with
an outcome of its own. Pure: the registry is read, not changed.
"""

from __future__ import annotations

import math

from rota.core.lifecycle import AttemptOutcome, StopReason
from rota.deploy.events import AttemptStopping, TimeLimitNear
from rota.deploy.scheduler.records import Attempt, Job
from rota.deploy.scheduler.registry import Registry

_WARNED_PART = 0.1
"""Part of the time that is left when the owner is warned ..."""
_WARNED_S = 600.0
"""... and the most, seconds of the scheduler's clock."""


def ran_s(job: Job, now: float) -> float:
    """Engine seconds that a job ran by now."""
    attempt = job.attempt
    return job.ran_s + (0.0 if attempt is None else max(0.0, now - attempt.started))


def left_s(job: Job, now: float) -> float:
    """Engine seconds that it may still run; infinity without a limit."""
    limit_s = job.spec.time_limit_s
    return max(0.0, limit_s - ran_s(job, now)) if limit_s > 0 else math.inf


def is_up(job: Job, now: float) -> bool:
    """Whether it has run for as long as it may."""
    return left_s(job, now) <= 0.0


def is_near(job: Job, now: float) -> bool:
    """Whether it runs and its owner should know that it will not for much longer."""
    limit_s = job.spec.time_limit_s
    return job.attempt is not None and left_s(job, now) <= min(_WARNED_PART * limit_s, _WARNED_S)


def warnings(registry: Registry, now: float) -> list[TimeLimitNear]:
    """One for each job that runs and has little time left, once."""
    return [
        TimeLimitNear(at=now, job=job.id, left_s=left_s(job, now))
        for job in registry.running.values()
        if job.spec.time_limit_s > 0 and not job.limit_told and not job.ending and is_near(job, now)
    ]


def stops(registry: Registry, now: float) -> list[AttemptStopping]:
    """Attempts of jobs whose time is up."""
    return [
        AttemptStopping(
            at=now, job=job.id, epoch=job.attempt.epoch, reason=StopReason.TIME_LIMIT, detail=_limit_words(job)
        )
        for job in registry.running.values()
        if job.spec.time_limit_s > 0 and job.attempt is not None and not job.attempt.stopping and is_up(job, now)
    ]


def outcome_at_limit(job: Job, attempt: Attempt, outcome: AttemptOutcome, now: float) -> AttemptOutcome:
    """How an attempt ended: by the limit, if it was stopped for that, or stopped for another reason with no time left.

    One that was done in time, failed by itself or was lost with its server, ended so.
    """
    if outcome in (AttemptOutcome.COMPLETED, AttemptOutcome.LOST):
        return outcome
    stopped = attempt.stop_reason is StopReason.TIME_LIMIT or (outcome.by_stop and is_up(job, now))
    return AttemptOutcome.TIME_LIMIT if stopped else outcome


def reason_at_limit(job: Job, saved_step: int, now: float) -> str:
    """Why a job has failed whose time is up, for its owner; `saved_step` is the last one of its last attempt."""
    last_step = max(job.saved_step, saved_step)
    saved = f"saved step {last_step:,}" if last_step else "nothing was saved"
    return f"ran {ran_s(job, now):,.0f} s, and {_limit_words(job)}; {saved}"


def near_words(job: Job, now: float) -> str:
    """What its owner should know; empty: nothing."""
    if job.spec.time_limit_s <= 0 or job.ending or not is_near(job, now):
        return ""
    limit_s = job.spec.time_limit_s
    return f"{left_s(job, now):,.0f} s are left of its time limit of {limit_s:,.0f} s; it saves and stops then"


def _limit_words(job: Job) -> str:
    return f"its time limit is {job.spec.time_limit_s:,.0f} s (--time-limit)"
