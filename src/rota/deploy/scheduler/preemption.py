"""What it costs to stop a job for another one and to start it again, and whether that may be done now.

Pure: functions of a job as the registry has it.
"""

from __future__ import annotations

from rota.core.lifecycle import StopReason
from rota.deploy.scheduler.records import Attempt, Job

CLIENT_GRACE_S = 60.0
"""Wall seconds that a job which uses `rota.client` may take to save, if nothing is known about it."""
SHORT_GRACE_S = 10.0
"""The same if its next checkpoint is of no use: the job is over or hangs."""
GANG_GRACE_S = 30.0
"""... and it has several processes, which have to agree on a step."""
_TIMES_LONGEST_SAVE = 3.0
_NOTHING_TO_SAVE = frozenset({StopReason.CANCELLED, StopReason.GIVEN_UP, StopReason.FINISHED, StopReason.HUNG})


def preemptible(job: Job, now: float) -> bool:
    """Whether a job has no right to keep its place for another job; `now` in engine seconds.

    One without an attempt, or whose attempt was asked to stop already, has no place to keep.
    """
    attempt = job.attempt
    if attempt is None or attempt.stopping or job.ending:
        return True
    if not job.can_save or attempt.saving or now < attempt.least_turn_until:
        return False
    return not about_to_end(job, attempt, now)


def restart_cost_s(job: Job) -> float:
    """Engine seconds that it takes to stop a job in order and to start it again: its own last times, else the usual."""
    own = [seconds for seconds in (job.stop_s, job.start_s) if seconds >= 0]
    return sum(own) if len(own) == 2 else max(job.usual_restart_s, sum(own))


def about_to_end(job: Job, attempt: Attempt, now: float) -> bool:
    """Whether a job ends sooner than it could be stopped and started again, as far as that is known.

    One that should have ended long ago is slower than it was thought to be, and so nothing is known.
    """
    cost_s = restart_cost_s(job)
    rate = _rate(job, attempt)
    if job.spec.steps == 0 or rate <= 0:
        return False
    remaining_s = (job.spec.steps - job.saved_step) / rate - (now - attempt.saved_at)
    return -cost_s <= remaining_s < cost_s


def _rate(job: Job, attempt: Attempt) -> float:
    """Steps per engine second: as it was seen to go, else as its profile promises; 0: not known."""
    steps = job.saved_step - attempt.resume_step
    seconds = attempt.saved_at - attempt.started
    if steps > 0 and seconds > 0:
        return steps / seconds
    return attempt.rate if job.spec.emulated or job.spec.profile else 0.0


def save_grace_s(job: Job, attempt: Attempt) -> float:
    """Wall seconds that an attempt may take to save once asked to stop; 0: nothing is known, the agent decides."""
    if attempt.stop_reason in _NOTHING_TO_SAVE:
        short_s = GANG_GRACE_S if len(attempt.parts) > 1 or job.spec.gpus > 1 else SHORT_GRACE_S
        return min(short_s, job.spec.save_grace_s or short_s)
    if job.spec.save_grace_s > 0:
        return job.spec.save_grace_s
    if job.longest_save_s > 0:
        return max(CLIENT_GRACE_S, _TIMES_LONGEST_SAVE * job.longest_save_s)
    return 0.0


def expected_grace_s(job: Job, attempt: Attempt) -> float:
    """The same where the agent decides: what it will allow."""
    default_s = CLIENT_GRACE_S if job.saves else SHORT_GRACE_S
    return save_grace_s(job, attempt) or default_s
