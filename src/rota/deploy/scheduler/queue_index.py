"""Whose jobs in memory are, which are in arrays, come after others or are held: nobody has to look at all for that.

Follows the events that the registry applies; after a snapshot it is made anew from the jobs.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rota.core import events as engine_events
from rota.deploy import events as deploy_events
from rota.deploy.scheduler.dependency_index import DependencyIndex
from rota.deploy.scheduler.records import Job

Value = TypeVar("Value")
_ABOUT_ONE = frozenset(
    {
        deploy_events.JobAccepted,
        deploy_events.CancelAsked,
        deploy_events.JobGivenUp,
        deploy_events.AttemptEnded,
    }
)
"""Comings and ends of a job."""
_ABOUT_SEVERAL = frozenset(
    {
        deploy_events.JobsArchived,
        engine_events.JobsFinished,
        engine_events.JobsDropped,
        engine_events.JobsRejected,
    }
)
_ALL = ""
"""In the place of a tenant; none has this name."""


class QueueIndex:
    """Of the jobs of one registry."""

    def __init__(self, jobs: dict[int, Job]) -> None:
        """`jobs` are those in memory, as the registry keeps them."""
        self._jobs = jobs
        self.arrays: dict[int, set[int]] = {}
        """Jobs of each array, by the number of its first one."""
        self.held: set[int] = set()
        """Jobs that somebody holds."""
        self._array_of: dict[int, int] = {}
        self._tenant_of: dict[int, str] = {}
        self.version = 0
        """Grows when a job comes or ends."""
        self._remembered: dict[str, tuple[int, Any]] = {}
        self._numbers: dict[str, list[int]] = {_ALL: []}
        """Numbers of jobs by tenant, ascending."""
        for job in jobs.values():
            self._enter(job)
        self.dependencies = DependencyIndex(jobs)
        """Which jobs wait for which others."""

    def take(self, event: Any) -> None:
        """Follow an event that the registry has applied."""
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)
        self.look_again(event)

    def look_again(self, event: Any) -> None:
        """Jobs may have come or ended by an event, also by one that could not be applied to all of them."""
        if type(event) in _ABOUT_ONE:
            self.version += 1
            self.dependencies.look_again([event.job])
        elif type(event) in _ABOUT_SEVERAL:
            self.version += 1
            self.dependencies.look_again(int(number) for number in event.jobs)

    def remembered(self, name: str, compute: Callable[[], Value]) -> Value:
        """A value that only changes when a job comes or ends: there may be many jobs that wait for many others."""
        known = self._remembered.get(name)
        if known is None or known[0] != self.version:
            known = (self.version, compute())
            self._remembered[name] = known
        value: Value = known[1]
        return value

    def numbers(self, tenant: str) -> Sequence[int]:
        """Numbers of the jobs of a tenant, ascending; empty: of all."""
        return self._numbers.get(tenant, ())

    def members(self, array: int) -> Iterable[Job]:
        """Jobs of an array that are in memory; a job of no array is the only one of its own."""
        numbers = self.arrays.get(array, {array})
        return [self._jobs[number] for number in sorted(numbers) if number in self._jobs]

    def _enter(self, job: Job) -> None:
        if job.array >= 0:
            self.arrays.setdefault(job.array, set()).add(job.id)
            self._array_of[job.id] = job.array
        if job.held_by:
            self.held.add(job.id)
        for owner in (_ALL, job.tenant):
            bisect.insort(self._numbers.setdefault(owner, []), job.id)
        self._tenant_of[job.id] = job.tenant

    def _accepted(self, event: deploy_events.JobAccepted) -> None:
        job = self._jobs[event.job]
        job.held_by = event.by if event.spec.hold else ""
        self._enter(job)
        self.dependencies.enter(job)

    def _held(self, event: deploy_events.JobHeld) -> None:
        job = self._jobs[event.job]
        job.held_by = event.by
        job.held_by_admin = event.admin
        job.note(event)
        self.held.add(event.job)

    def _released(self, event: deploy_events.JobReleased) -> None:
        job = self._jobs[event.job]
        job.held_by = ""
        job.held_by_admin = False
        job.note(event)
        self.held.discard(event.job)

    def _limit_near(self, event: deploy_events.TimeLimitNear) -> None:
        self._jobs[event.job].limit_told = True

    def _archived(self, event: deploy_events.JobsArchived) -> None:
        self.held.difference_update(event.jobs)
        gone = set(event.jobs)
        for owner in {_ALL, *(self._tenant_of.pop(number) for number in event.jobs)}:
            self._numbers[owner] = [number for number in self._numbers[owner] if number not in gone]
        for number in event.jobs:
            array = self._array_of.pop(number, None)
            if array is None:
                continue
            self.arrays[array].discard(number)
            if not self.arrays[array]:
                del self.arrays[array]

    _HANDLERS: Mapping[type, Callable[[QueueIndex, Any], None]] = {
        deploy_events.JobAccepted: _accepted,
        deploy_events.JobsArchived: _archived,
        deploy_events.JobHeld: _held,
        deploy_events.JobReleased: _released,
        deploy_events.TimeLimitNear: _limit_near,
    }
