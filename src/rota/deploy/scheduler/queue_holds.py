"""What users say about when jobs start, and which jobs that holds back: holds, jobs before them, limits of arrays.

    held           somebody holds it, until it is released
    dependency     a job that it comes after is not over
    array-limit    as many jobs of its array run as may at the same time (`%LIMIT`)

Jobs that are held back are not known to the engine, or parked there, so no policy keeps GPUs for them. Pure: computed
from the registry whenever somebody asks, so that a scheduler which is started again comes to the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from rota.core.job_arrays import array_indices
from rota.deploy.scheduler.endings import Ending, ending_of
from rota.deploy.scheduler.predecessors import Predecessors, unmet_dependents
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry

_MOST_NAMED = 8
"""Jobs that are named in a sentence."""


class QueueHold(str, Enum):
    """What holds a job back."""

    HELD = "held"
    DEPENDENCY = "dependency"
    ARRAY_LIMIT = "array-limit"


PARKED = {
    QueueHold.HELD: "it is held",
    QueueHold.DEPENDENCY: "a job that it comes after is not over",
    QueueHold.ARRAY_LIMIT: "as many jobs of its array run as may",
}
"""For the event log: why the engine leaves a job out."""


def queue_holds(registry: Registry, ready: Callable[[Job], bool]) -> dict[int, QueueHold]:
    """Jobs that must not start now, and why. `ready`: whether a job could start if nothing held it back."""
    holds = dict.fromkeys(unmet_dependents(registry), QueueHold.DEPENDENCY)
    holds |= dict.fromkeys((number for number in registry.queue.held if number in registry.live), QueueHold.HELD)

    def free(job: Job) -> bool:
        return job.id not in holds and ready(job)

    for array, numbers in registry.queue.arrays.items():
        limit = array_indices(registry.jobs[next(iter(numbers))].spec.array).limit
        if limit:
            beyond = _beyond_limit(registry.queue.members(array), limit, free)
            holds |= dict.fromkeys(beyond, QueueHold.ARRAY_LIMIT)
    return holds


def _beyond_limit(members: Iterable[Job], limit: int, ready: Callable[[Job], bool]) -> list[int]:
    """Jobs of an array that would be too many at the same time: those that run stay, then the lowest numbers come."""
    jobs = [job for job in members if not job.over]
    running = sum(job.attempt is not None for job in jobs)
    pending = sorted(job.id for job in jobs if job.attempt is None and job.final_phase is None and ready(job))
    return pending[max(limit - running, 0) :]


class HoldSentences:
    """Says why jobs are held back. Made anew for every request, so that an array is counted once for all after it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._before = Predecessors(registry)
        self._words: dict[int, str] = {}

    def of(self, job: Job, hold: QueueHold) -> str:
        """Why a job is held back, for its owner."""
        if hold is QueueHold.HELD:
            who = f"{job.held_by}; only an administrator can release it" if job.held_by_admin else job.held_by
            return f"by {who} (rota release {job.id})"
        if hold is QueueHold.DEPENDENCY:
            return self._waits_for(job)
        limit = array_indices(job.spec.array).limit
        most = f"{limit:,} jobs of array {job.array} may run at the same time (--array {job.spec.array})"
        return f"{most}, and as many run or come before it"

    def _waits_for(self, job: Job) -> str:
        open_ones = self._before.open_ones(job)
        named = ", ".join(self._predecessor(number) for number in open_ones[:_MOST_NAMED])
        more = f" and {len(open_ones) - _MOST_NAMED:,} more" if len(open_ones) > _MOST_NAMED else ""
        return f"comes after {named}{more}"

    def _predecessor(self, number: int) -> str:
        """One of the jobs or arrays that a job comes after, and how it is."""
        if number not in self._words:
            self._words[number] = _how_it_is(self._registry, number)
        return self._words[number]


def _how_it_is(registry: Registry, number: int) -> str:
    members = [job for job in registry.queue.members(number) if ending_of(job) is Ending.OPEN]
    if number not in registry.queue.arrays:
        return f"job {number} ({members[0].phase.value})" if members else f"job {number}"
    running = sum(job.attempt is not None for job in members)
    return f"array {number} ({len(members):,} of its jobs not over, {running:,} running)"
