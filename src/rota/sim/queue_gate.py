"""Which jobs are kept back: until those before them are over, while their array or their tenant has as many as it may.

Limits count jobs that run. As many as may run are let in, so that never more can; who was let in and does not run makes
way for a lower number (`limited_group`), or for one that can use GPUs which nobody uses (`make_way`). Knows numbers
only. Arrays are keys of their own, below 0 (`array_key`). One job of an array that ended badly is enough for those that
need the array to finish; the array is over when all its jobs are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rota.sim.limited_group import LimitedGroup, Turn


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
        self._arrays: dict[int, LimitedGroup] = {}
        """Arrays with a limit: their jobs that wait for no other job."""
        self._tenants: dict[str, LimitedGroup] = {}
        """Tenants with a limit: their jobs that wait for nothing else."""
        self._running: frozenset[int] | None = None
        """Jobs that run now; None: nobody has said, and all that were let in may."""
        self._ready: list[int] = []
        self._hopeless: dict[int, int] = {}
        """Jobs that can never start, and what did not finish before them."""
        self._aside: list[int] = []
        """Jobs that were let in and have to step aside."""

    @property
    def pending(self) -> bool:
        """Whether there is somebody to let in or to turn away."""
        return bool(self._ready or self._hopeless or self._aside)

    @property
    def waiting(self) -> bool:
        """Whether somebody is kept back."""
        groups = (*self._arrays.values(), *self._tenants.values())
        return bool(self._unmet) or any(group.waiting for group in groups)

    def run(self, jobs: Iterable[int]) -> None:
        """These jobs run from now on, and no others; one that was preempted makes way for a lower number."""
        before = self._running or frozenset()
        self._running = frozenset(jobs)
        for number in sorted(before - self._running):
            job = self._jobs.get(number)
            if job is not None and job.limit and job.array in self._arrays:
                self._admit(job.array, job.limit)
            if job is not None and job.tenant_limit:
                self._admit_of_tenant(job.tenant, job.tenant_limit)

    def idle_arrays(self) -> list[tuple[int, list[int], list[int]]]:
        """Arrays of which jobs wait while others were let in and do not run: the array, the latter, and the former."""
        if self._running is None:
            return []
        found = []
        for array, group in self._arrays.items():
            idle = [job for job in group.inside if self._may_step_aside(job)] if group.waiting else []
            if idle:
                found.append((array, sorted(idle), sorted(group.waiting)))
        return found

    def make_way(self, array: int, leaving: int, coming: int) -> None:
        """A job of an array that was let in and does not run steps aside for another one of it."""
        self._turn_of_array(self._arrays[array].exchange(leaving, coming))

    def lowest_first(self, array: int) -> None:
        """Let an array have its lowest numbers inside, beside those that run."""
        waiting = self._arrays[array].waiting
        if waiting:
            self._admit(array, self._jobs[waiting[0]].limit)

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
        if job is None:
            return
        if job.tenant_limit:
            self._tenants.setdefault(job.tenant, LimitedGroup()).remove(number)
            self._admit_of_tenant(job.tenant, job.tenant_limit)
        if job.array >= 0:
            self._leave_array(job, finished=finished)

    def _leave_array(self, job: GatedJob, *, finished: bool) -> None:
        array = job.array
        if not finished:
            self._failed_arrays.add(array)
            self._fail(array_key(array))
        self._open_members[array].discard(job.job)
        if not self._open_members[array]:
            self._end(array_key(array), finished=array not in self._failed_arrays)
        if job.limit:
            self._arrays.setdefault(array, LimitedGroup()).remove(job.job)
            self._admit(array, job.limit)

    def take(self) -> tuple[list[int], dict[int, int]]:
        """Jobs that are let in now, ascending; and those that never can be, with the key of what did not finish.

        `step_aside` says before who has to make way for them.
        """
        ready = sorted(self._ready)
        hopeless = dict(sorted(self._hopeless.items()))
        self._ready = []
        self._hopeless = {}
        return ready, hopeless

    def step_aside(self) -> list[int]:
        """Jobs that were let in and have to make way for others now, ascending."""
        aside = sorted(self._aside)
        self._aside = []
        return aside

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
            self._last_step(job)
            return
        self._arrays.setdefault(job.array, LimitedGroup()).add(job.job)
        self._admit(job.array, job.limit)

    def _may_step_aside(self, job: int) -> bool:
        return self._running is not None and job not in self._running

    def _admit(self, array: int, limit: int) -> None:
        for turn in self._arrays[array].turns(limit, self._may_step_aside):
            self._turn_of_array(turn)

    def _turn_of_array(self, turn: Turn) -> None:
        if turn.instead_of is not None:
            leaving = self._jobs[turn.instead_of]
            if leaving.tenant_limit:
                of_tenant = self._tenants[leaving.tenant]
                if leaving.job in of_tenant.inside:
                    self._withdraw(leaving.job)
                of_tenant.remove(leaving.job)
                self._admit_of_tenant(leaving.tenant, leaving.tenant_limit)
            else:
                self._withdraw(leaving.job)
        self._last_step(self._jobs[turn.job])

    def _last_step(self, job: GatedJob) -> None:
        """A job waits for nothing but others of its tenant."""
        if not job.tenant_limit:
            self._let_in(job.job)
            return
        self._tenants.setdefault(job.tenant, LimitedGroup()).add(job.job)
        self._admit_of_tenant(job.tenant, job.tenant_limit)

    def _admit_of_tenant(self, tenant: str, limit: int) -> None:
        for turn in self._tenants[tenant].turns(limit, self._may_step_aside):
            if turn.instead_of is not None:
                self._withdraw(turn.instead_of)
            self._let_in(turn.job)

    def _let_in(self, job: int) -> None:
        if job in self._aside:  # the engine has not heard that it had to step aside
            self._aside.remove(job)
        else:
            self._ready.append(job)

    def _withdraw(self, job: int) -> None:
        if job in self._ready:  # the engine has not heard of it
            self._ready.remove(job)
        else:
            self._aside.append(job)

    def _enter(self, job: GatedJob) -> None:
        """A job is inside, whatever the limits say."""
        if job.array >= 0 and job.limit:
            self._arrays.setdefault(job.array, LimitedGroup()).inside.add(job.job)
        if job.tenant_limit:
            self._tenants.setdefault(job.tenant, LimitedGroup()).inside.add(job.job)
