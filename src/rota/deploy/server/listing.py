"""Which of the jobs in memory a list has, and how many there are: no job is looked at for longer than it has to be."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable

from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler.archive import JobFilter
from rota.deploy.scheduler.reasons import Reasons, shown_phase
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry

_WITH_ATTEMPT = frozenset({JobPhase.RUNNING, JobPhase.STOPPING})


def newest(
    registry: Registry, wanted: JobFilter, limit: int | None, reasons: Callable[[], Reasons]
) -> tuple[list[Job], int]:
    """The newest of the wanted jobs, and how many there are. `reasons` is asked only if phases depend on them."""
    if not wanted.jobs and not wanted.phases:
        numbers = registry.queue.numbers(wanted.tenant)
        count = bisect.bisect_left(numbers, wanted.below) if wanted.below else len(numbers)
        first = 0 if limit is None else max(0, count - limit)
        return [registry.jobs[number] for number in reversed(numbers[first:count])], count
    phase_of = _phases(wanted, reasons)
    taken = {job.id: job for job in _looked_at(registry, wanted) if wanted.takes(job, phase_of)}
    return [taken[number] for number in sorted(taken, reverse=True)[:limit]], len(taken)


def _looked_at(registry: Registry, wanted: JobFilter) -> Iterable[Job]:
    """Jobs that may be among those in the wanted phases."""
    if wanted.jobs:
        return [registry.jobs[number] for number in wanted.jobs if number in registry.jobs]
    if wanted.phases <= _WITH_ATTEMPT:
        return registry.running.values()
    ended = registry.ended.values() if any(phase.final for phase in wanted.phases) else ()
    return [*registry.live.values(), *ended]


def _phases(wanted: JobFilter, reasons: Callable[[], Reasons]) -> Callable[[Job], JobPhase]:
    """What says the phase of a job as people see it."""
    if {JobPhase.QUEUED, JobPhase.WAITING}.isdisjoint(wanted.phases):
        return shown_phase  # that of a job which waits is another one, but none of those
    return reasons().phase
