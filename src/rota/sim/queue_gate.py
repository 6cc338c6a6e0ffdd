"""Which jobs are kept back: until those before them are over, while their array or their tenant has as many as it may.

Knows numbers only. Arrays are keys of their own, below 0 (`array_key`). One job of an array that ended badly is enough
for those that need the array to finish; the array is over when all its jobs are.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass


def array_key(array: int) -> int:
    """What an array is called among jobs."""
    return -1 - array


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedJob:
    """A job that may have to wait."""

    job: int
    after: tuple[int, ...] = ()
    """Keys of jobs and arrays that have to finish before."""
    after_any: tuple[int, ...] = ()
    """Keys of jobs and arrays that have to be over before."""
    array: int = -1
    limit: int = 0
    """Jobs of its array at the same time; 0: any number."""
    tenant: str = ""
    tenant_limit: int = 0
    """Jobs of its tenant at the same time; 0: any number."""


class QueueGate:
    """Lets jobs in, one after the other."""

    def __init__(self) -> None:
        self._over: dict[int, bool] = {}
        """Jobs and arrays that are over: whether they finished."""
        self._unmet: dict[int, set[int]] = {}
        """Jobs that wait for others: what they still wait for."""
        self._dependents: dict[int, list[int]] = {}
        self._jobs: dict[int, GatedJob] = {}
        """Those that are not over."""
        self._open_members: dict[int, set[int]] = {}
        """Jobs of arrays that are not over."""
        self._failed_arrays: set[int] = set()
        self._inside: dict[int, int] = {}
        """Jobs of arrays that were let in and are not over."""
        self._queues: dict[int, list[int]] = {}
        """Jobs of arrays that only wait for their array."""
        self._of_tenants: dict[str, set[int]] = {}
        """Jobs of tenants with a limit that were let in and are not over."""
        self._tenant_queues: dict[str, list[int]] = {}
        """Jobs that only wait for others of their tenant."""
        self._let_in: set[int] = set()
        self._ready: list[int] = []
        self._hopeless: dict[int, int] = {}
        """Jobs that can never start, and what did not finish before them."""

    @property
    def pending(self) -> bool:
        """Whether there is somebody to let in or to turn away."""
        return bool(self._ready or self._hopeless)

    @property
    def waiting(self) -> bool:
        """Whether somebody is kept back."""
        return bool(self._unmet or any(self._queues.values()) or any(self._tenant_queues.values()))

    def expect(self, job: GatedJob) -> None:
        """A job belongs to an array, which is not over as long as it is not."""
        if job.array >= 0:
            self._over.pop(array_key(job.array), None)
            self._open_members.setdefault(job.array, set()).add(job.job)

    def arrive(self, job: GatedJob, *, inside: bool = False) -> None:
        """A job is there; `inside`: nobody can keep it back any more."""
        self.expect(job)
        self._jobs[job.job] = job
        if inside:
            self._enter(job)
            if job.tenant_limit:
                self._of_tenants.setdefault(job.tenant, set()).add(job.job)
            return
        failed = next((key for key in job.after if self._failed(key)), None)
        if failed is not None:
            self._hopeless[job.job] = failed
            return
        unmet = {key for key in (*job.after, *job.after_any) if self._is_open(key)}
        if not unmet:
            self._next_step(job)
            return
        self._unmet[job.job] = unmet
        for key in unmet:
            self._dependents.setdefault(key, []).append(job.job)

    def block(self, job: GatedJob) -> None:
        """A job is there that is never let in, so that those after it wait for ever."""
        self.expect(job)
        self._jobs[job.job] = job

    def over(self, number: int, *, finished: bool) -> None:
        """A job is over; who is told twice hears it once."""
        job = self._jobs.pop(number, None)
        if number in self._over:
            return
        self._hopeless.pop(number, None)
        self._unmet.pop(number, None)
        self._end(number, finished=finished)
        if job is not None and job.tenant_limit:
            self._of_tenants.get(job.tenant, set()).discard(number)
            self._admit_of_tenant(job.tenant, job.tenant_limit)
        if job is None or job.array < 0:
            return
        array = job.array
        if not finished:
            self._failed_arrays.add(array)
            self._fail(array_key(array))
        self._open_members[array].discard(number)
        if not self._open_members[array]:
            self._end(array_key(array), finished=array not in self._failed_arrays)
        if number in self._let_in:
            self._let_in.discard(number)
            self._inside[array] -= 1
            self._admit(array, job.limit)

    def take(self) -> tuple[list[int], dict[int, int]]:
        """Jobs that are let in now, ascending; and those that never can be, with the key of what did not finish."""
        ready = sorted(self._ready)
        hopeless = dict(sorted(self._hopeless.items()))
        self._ready = []
        self._hopeless = {}
        return ready, hopeless

    # Inside

    def _failed(self, key: int) -> bool:
        return self._over.get(key) is False or (key < 0 and -1 - key in self._failed_arrays)

    def _is_open(self, key: int) -> bool:
        """Whether it is there and not over; what nobody has heard of is not waited for."""
        if key in self._over:
            return False
        return bool(self._open_members.get(-1 - key)) if key < 0 else key in self._jobs

    def _end(self, key: int, *, finished: bool) -> None:
        self._over[key] = finished
        if not finished:
            self._fail(key)
        for number in self._dependents.pop(key, ()):
            unmet = self._unmet.get(number)
            if unmet is None:
                continue
            unmet.discard(key)
            if not unmet:
                del self._unmet[number]
                self._next_step(self._jobs[number])

    def _fail(self, key: int) -> None:
        """Whoever needs it to finish can never start."""
        for number in self._dependents.get(key, ()):
            if number in self._unmet and key in self._jobs[number].after:
                del self._unmet[number]
                self._hopeless[number] = key

    def _next_step(self, job: GatedJob) -> None:
        """A job waits for no other job any more."""
        if job.array < 0 or not job.limit:
            self._enter(job)
            self._last_step(job)
            return
        heapq.heappush(self._queues.setdefault(job.array, []), job.job)
        self._admit(job.array, job.limit)

    def _admit(self, array: int, limit: int) -> None:
        queue = self._queues.get(array, [])
        while queue and self._inside.get(array, 0) < limit:
            number = heapq.heappop(queue)
            if number in self._jobs:
                self._enter(self._jobs[number])
                self._last_step(self._jobs[number])

    def _last_step(self, job: GatedJob) -> None:
        """A job waits for nothing but others of its tenant."""
        if not job.tenant_limit:
            self._ready.append(job.job)
            return
        heapq.heappush(self._tenant_queues.setdefault(job.tenant, []), job.job)
        self._admit_of_tenant(job.tenant, job.tenant_limit)

    def _admit_of_tenant(self, tenant: str, limit: int) -> None:
        queue = self._tenant_queues.get(tenant, [])
        inside = self._of_tenants.setdefault(tenant, set())
        while queue and len(inside) < limit:
            number = heapq.heappop(queue)
            if number in self._jobs:
                inside.add(number)
                self._ready.append(number)

    def _enter(self, job: GatedJob) -> None:
        if job.array >= 0:
            self._let_in.add(job.job)
            self._inside[job.array] = self._inside.get(job.array, 0) + 1
