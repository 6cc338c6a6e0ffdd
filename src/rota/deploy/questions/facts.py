"""What a simulation of the coming rounds has to know of a live job beside what the engine knows: where it really is.

The engine is credited steps when they are in a checkpoint; a job that runs is further. Whether it may be preempted,
how long it takes to stop and to start, and whether anybody knows how long it is, are facts of the registry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rota.core.job_spec import UNPROFILED
from rota.deploy.scheduler.learned_speeds import LearnedSpeeds
from rota.deploy.scheduler.preemption import restart_cost_s
from rota.deploy.scheduler.records import Attempt, Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.speed_names import speed_name

_EMULATED_SAVES_EVERY_S = 5.0
"""Wall seconds between two checkpoints of an emulated job that does not say it (`agent/emulated.py`)."""
_SEEN_ENOUGH_S = 1.0
"""Engine seconds after which steps that were seen say how fast a job is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """One live job. Times are engine seconds."""

    job: int
    tenant: str
    gpus: int
    weight: float
    submitted: float
    total: float
    """Steps; infinity: nobody knows how many."""
    done: float
    """Steps that it really has done by now, saved or not."""
    saved: float
    """Steps that are in a checkpoint."""
    runs: bool
    """Whether it has an attempt now that was not asked to stop."""
    save_every_s: float = 0.0
    """Between two checkpoints; 0: taken to save all the time; infinity: only when it is stopped."""
    saved_at: float = 0.0
    """When its last checkpoint was heard of, or it was started."""
    can_save: bool = True
    least_turn_s: float = 0.0
    turn_began: float = 0.0
    """When its attempt was started, if it runs."""
    start_s: float = 0.0
    """From the order to start to the first step."""
    stop_s: float = 0.0
    """From the order to stop until its GPUs are free."""
    cost_s: float = 0.0
    """What stopping and starting it is taken to cost when it is asked whether it ends sooner than that."""
    pace: float = 1.0
    """How fast it was seen to go, relative to its profile."""
    why_unknown: str = ""
    """Why nobody knows how long it is; empty: it is known."""

    @property
    def left(self) -> float:
        """Steps still to do."""
        return max(self.total - self.done, 0.0)


def facts_of(
    registry: Registry, now: float, live_steps: Mapping[int, int], time_scale: float, around_s: float = 0.0
) -> dict[int, JobFacts]:
    """Facts of all jobs that are not over; `live_steps` are those that agents reported last, saved or not.

    `around_s` is what emulated jobs hold their GPUs beyond the time of their steps.
    """
    return {
        job.id: fact_of(registry, job, now, live_steps.get(job.id, 0), time_scale, around_s)
        for job in registry.live.values()
        if job.final_phase is None
    }


def fact_of(
    registry: Registry, job: Job, now: float, live_step: int, time_scale: float, around_s: float = 0.0
) -> JobFacts:
    """Facts of one job."""
    usual = registry.restart_times
    attempt = None if job.attempt is None or job.attempt.stopping else job.attempt
    why_unknown = unknown_length(job, registry.speeds)
    pace = 1.0 if attempt is None else _pace(job, attempt)
    done = float(job.saved_step) if attempt is None else _really_done(job, attempt, now, live_step, pace)
    wall_s = job.spec.least_turn_s or float(registry.config.get("least_turn_s", 0.0))
    return JobFacts(
        job=job.id,
        tenant=job.tenant,
        gpus=job.spec.gpus,
        weight=job.spec.weight,
        submitted=job.submitted,
        total=math.inf if why_unknown else float(job.spec.steps),
        done=done,
        saved=float(job.saved_step),
        runs=attempt is not None,
        save_every_s=_saves_every_s(job) * time_scale,
        saved_at=0.0 if attempt is None else attempt.saved_at,
        can_save=job.can_save,
        least_turn_s=wall_s * time_scale,
        turn_began=0.0 if attempt is None else attempt.started,
        start_s=(job.start_s if job.start_s >= 0 else usual.start_s) + (around_s if job.spec.emulated else 0.0),
        stop_s=job.stop_s if job.stop_s >= 0 else usual.stop_s,
        cost_s=max(restart_cost_s(job), usual.stop_s + usual.start_s),
        pace=pace,
        why_unknown=why_unknown,
    )


def unknown_length(job: Job, speeds: LearnedSpeeds) -> str:
    """Why nobody knows how long a job is; empty if it is known."""
    if job.spec.steps == 0:
        return "nobody said how many steps it has (--steps)"
    unprofiled = job.spec.scheduled_profile == UNPROFILED and not job.spec.emulated
    if unprofiled and not _seen(job) and not _learned(job, speeds):
        return "it has no profile (--profile), and nobody has seen yet how fast it is"
    return ""


def _learned(job: Job, speeds: LearnedSpeeds) -> bool:
    """Whether jobs with its command were seen to run before."""
    seen = speeds.of_kind((job.tenant, speed_name(job.spec), job.spec.gpus))
    return any(speed.believed for speed in seen.values())


def _seen(job: Job) -> bool:
    """Whether its checkpoints say how fast it is."""
    attempt = job.attempt
    if attempt is None:
        return False
    return job.saved_step > attempt.resume_step and attempt.saved_at - attempt.started > _SEEN_ENOUGH_S


def _pace(job: Job, attempt: Attempt) -> float:
    """Emulated jobs keep to their profile; others as they were seen."""
    if job.spec.emulated or attempt.rate <= 0 or not _seen(job):
        return 1.0
    seen = (job.saved_step - attempt.resume_step) / (attempt.saved_at - attempt.started)
    return seen / attempt.rate


def _really_done(job: Job, attempt: Attempt, now: float, live_step: int, pace: float) -> float:
    """Steps by now: those that were reported, or since its last checkpoint at its pace if that is more."""
    since_s = max(0.0, now - attempt.saved_at)
    by_pace = job.saved_step + since_s * attempt.rate * pace if job.spec.emulated or _seen(job) else 0.0
    return max(float(job.saved_step), float(live_step), by_pace)


def _saves_every_s(job: Job) -> float:
    """Wall seconds between checkpoints, as far as that is known."""
    if job.spec.emulated:
        return job.spec.checkpoint_every_s or _EMULATED_SAVES_EVERY_S
    return 0.0


def unknown_ahead(facts: Iterable[JobFacts]) -> int:
    """How many jobs have a length that nobody knows."""
    return sum(1 for fact in facts if fact.why_unknown)
