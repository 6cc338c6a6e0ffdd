"""What keeps jobs of a fork back, as the simulation of the coming rounds wants to know it.

Jobs that are held, or whose tenant has too many checkpoints, stay out: nobody releases them in a future. Those that
come after others, and those that are beyond the limit of their array or of their tenant, are let in when others end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from rota.core.job_arrays import array_indices
from rota.core.jobs import Jobs
from rota.core.tenant_rules import RunningLimits
from rota.deploy.scheduler.predecessors import Predecessors
from rota.deploy.scheduler.queue_holds import QueueHold
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.tenant_limits import Hold
from rota.deploy.scheduler.time_limits import left_s
from rota.sim.queue_gate import GatedJob, array_key
from rota.sim.queue_rules import QueueRules


def queue_of(
    registry: Registry,
    holds: Mapping[int, object],
    now: float,
    table: Callable[[Job], Jobs],
    running: RunningLimits | None = None,
) -> QueueRules | None:
    """The rules of the jobs that are not over; None if they have none. `table` makes a table of one job.

    `running` are limits to the jobs of tenants at the same time.
    """
    live = [job for job in registry.live.values() if job.final_phase is None]
    limited = [job for job in live if job.spec.time_limit_s > 0]
    if not (registry.queue.arrays or registry.queue.dependencies.dependents or limited or running):
        return None
    rules = QueueRules(running)
    before = Predecessors(registry)
    gated = {job.id: _gated(registry, before, job, running) for job in live}
    for job in live:
        rules.gate.expect(gated[job.id])
    for job in sorted(live, key=lambda job: (_order(holds.get(job.id)), job.id)):
        hold = holds.get(job.id)
        if hold is QueueHold.HELD or hold is Hold.CHECKPOINTS:
            rules.gate.block(gated[job.id])
        elif isinstance(hold, QueueHold) or hold is Hold.MAX_RUNNING:
            rules.keep(gated[job.id], None if job.admitted else (table(job), 0))
        else:
            rules.gate.arrive(gated[job.id], inside=True)
        if math.isfinite(left_s(job, now)):
            rules.left_s[job.id] = left_s(job, now)
    return rules


def _order(hold: object) -> int:
    """Those that nobody keeps back take their places first."""
    return 0 if hold is None else 2 if hold is QueueHold.DEPENDENCY else 1


def _gated(registry: Registry, before: Predecessors, job: Job, running: RunningLimits | None) -> GatedJob:
    return GatedJob(
        job=job.id,
        after=_keys(registry, before, job.spec.after),
        after_any=_keys(registry, before, job.spec.after_any),
        array=job.array,
        limit=array_indices(job.spec.array).limit if job.array >= 0 else 0,
        tenant=job.tenant,
        tenant_limit=0 if running is None else running.of(job.tenant),
    )


def _keys(registry: Registry, before: Predecessors, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Keys of jobs and arrays that are not over; of the others it was decided before."""
    arrays = registry.queue.arrays
    return tuple(array_key(number) if number in arrays else number for number in numbers if before.is_open(number))
