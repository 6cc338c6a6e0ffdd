"""Until when attempts may run without hearing from the scheduler.

An attempt gets a lease with its order to start; every decision lends more time to those that go on and whose agents are
all heard of. One that was asked to stop gets more time as long as its notice period lasts, or while it is heard that
the checkpoint it writes is growing. Agents end what has no lease (`deploy/agent`), so a server that nobody hears of
stops by itself before its jobs run elsewhere: `failure_detection` gives a node up only when `leases_over` says so.
"""

from __future__ import annotations

from collections.abc import Container

from rota.deploy.events import LeasesExtended
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.heartbeats import Heartbeats
from rota.deploy.scheduler.options import Timing
from rota.deploy.scheduler.preemption import expected_grace_s
from rota.deploy.scheduler.records import Attempt, AttemptKey, Job
from rota.deploy.scheduler.registry import Registry


class LeaseKeeper:
    """Says when leases end."""

    def __init__(self, clock: WallClock, timing: Timing, round_s: float) -> None:
        self._clock = clock
        self._timing = timing
        self.round_s = round_s

    def end_of_lease(self, round_start: float) -> float:
        """Engine second at which a lease ends that is given in the round that began at `round_start`."""
        return round_start + self.round_s + self._timing.lease_s * self._clock.scale


def extension(
    registry: Registry, silent: Container[str], now: float, until: float, saving: Container[AttemptKey] = ()
) -> LeasesExtended | None:
    """Longer leases for attempts that go on, or are `saving`, and whose agents are all heard of and know them."""
    going_on = tuple(
        (job.id, job.attempt.epoch)
        for job in registry.running.values()
        if job.attempt is not None
        and (not job.attempt.stopping or (job.id, job.attempt.epoch) in saving)
        and not job.attempt.forgotten
        and job.attempt.lease_until < until
        and not any(node in silent for node in job.attempt.nodes)
    )
    return LeasesExtended(at=now, until=until, attempts=going_on) if going_on else None


def saving_attempts(registry: Registry, heartbeats: Heartbeats, now: float, scale: float) -> set[AttemptKey]:
    """Attempts that were asked to stop and may go on saving: in their notice period, or with a checkpoint that grows.

    `scale` is engine seconds per wall second.
    """
    stopping = [(job, job.attempt) for job in registry.running.values() if job.attempt is not None]
    return {
        (job.id, attempt.epoch)
        for job, attempt in stopping
        if attempt.stopping and _may_go_on_saving(job, attempt, heartbeats, now, scale)
    }


def _may_go_on_saving(job: Job, attempt: Attempt, heartbeats: Heartbeats, now: float, scale: float) -> bool:
    if job.ending or (attempt.stop_reason is not None and attempt.stop_reason.kills):
        return False
    grace_s = expected_grace_s(job, attempt)
    in_notice = now - attempt.stop_asked < grace_s * scale
    return in_notice or heartbeats.save_idle_s((job.id, attempt.epoch)) < grace_s


def leases_over(registry: Registry, node: str, now: float) -> bool:
    """Whether no attempt on a node may run any longer."""
    return all(attempt.lease_until <= now for _, attempt in registry.attempts_on(node))
