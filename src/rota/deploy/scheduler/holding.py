"""Holding jobs, and releasing them: what somebody asks for, turned into events.

A job that waits does not start; one that runs is stopped in order, saves and goes on from there when it is released.
One that runs and is not known to save would begin anew, so it is only held if the caller insists. What an
administrator holds, only an administrator can release. Pure: jobs are looked at, not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rota.deploy.events import DeployEvent, JobHeld, JobReleased
from rota.deploy.scheduler.node_offers import Refused
from rota.deploy.scheduler.records import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldAnswer:
    """Numbers of the jobs that somebody named."""

    changed: tuple[int, ...]
    unchanged: tuple[int, ...]
    """Were held already, or were not held."""
    over: tuple[int, ...]


def hold(jobs: Sequence[Job], by: str, now: float, *, admin: bool, force: bool) -> tuple[list[DeployEvent], HoldAnswer]:
    """Hold jobs, all or none."""
    changed = [job for job in jobs if not job.ending and not job.held_by]
    for job in changed:
        if job.attempt is not None and not job.can_save and not force:
            raise Refused(
                "FAILED_PRECONDITION",
                f"no job was held: job {job.id} runs and could not go on from where it is ({job.can_save_why}); "
                "wait until it is over, or hold it all the same with --force: it then begins anew when it is released",
            )
    events: list[DeployEvent] = [JobHeld(at=now, job=job.id, by=by, admin=admin) for job in changed]
    return events, _answer(jobs, changed)


def release(jobs: Sequence[Job], by: str, now: float, *, admin: bool) -> tuple[list[DeployEvent], HoldAnswer]:
    """Release jobs, all or none."""
    changed = [job for job in jobs if not job.ending and job.held_by]
    for job in changed:
        if job.held_by_admin and not admin:
            raise Refused(
                "PERMISSION_DENIED",
                f"no job was released: job {job.id} is held by {job.held_by}; ask an administrator to release it",
            )
    events: list[DeployEvent] = [JobReleased(at=now, job=job.id, by=by) for job in changed]
    return events, _answer(jobs, changed)


def _answer(jobs: Sequence[Job], changed: Sequence[Job]) -> HoldAnswer:
    numbers = {job.id for job in changed}
    return HoldAnswer(
        changed=tuple(sorted(numbers)),
        unchanged=tuple(job.id for job in jobs if not job.ending and job.id not in numbers),
        over=tuple(job.id for job in jobs if job.ending),
    )
