"""Whose turn it is in an array with a limit when GPUs are idle that those who were let in cannot use.

No GPUs are kept for jobs of an array. If one that was let in found no place, and GPUs are free that another kind of job
of the array could use, that one is let in instead. Each kind is tried once; then the lowest numbers have their turn,
until something changes. Kinds are what can matter to a placement: nobody is tried of an array of jobs that are alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from rota.core.jobs import Jobs
from rota.sim.queue_gate import GatedJob, QueueGate


@dataclass(frozen=True, slots=True)
class JobKind:
    """What can matter to a placement."""

    gpus: int
    types: tuple[str, ...]
    """Types on which it may run; empty: all."""
    others: tuple[Hashable, ...]
    """Profile, tenant, weight, priority, requests, labels."""

    def fits(self, free: Mapping[str, int]) -> bool:
        """Whether GPUs of one type are free that it could use."""
        return any(count >= self.gpus for name, count in free.items() if not self.types or name in self.types)


@dataclass(slots=True)
class IdleChoice:
    """Of the arrays of one run."""

    free: Mapping[str, int] = field(default_factory=dict)
    """GPUs by type that nobody uses in the placement in force."""
    _kinds: dict[int, JobKind] = field(default_factory=dict)
    """Of jobs of arrays with a limit that are not over."""
    _tried: dict[int, set[JobKind]] = field(default_factory=dict)
    """Kinds that found no place since something changed, by array."""
    _settled: set[int] = field(default_factory=set)
    """Arrays of which every kind was tried since then."""

    def arrive(self, first_id: int, jobs: Jobs, gated: Sequence[GatedJob]) -> None:
        """Jobs of a table are there."""
        self._changed()
        rows = [job.job - first_id for job in gated if job.array >= 0 and job.limit]
        if rows:
            types = jobs.allowed_types()
            self._kinds.update({first_id + row: _kind(jobs, row, types[row]) for row in rows})

    def over(self, job: int) -> None:
        """A job is over."""
        self._changed()
        self._kinds.pop(job, None)

    def _changed(self) -> None:
        self._tried.clear()
        self._settled.clear()

    def choose(self, gate: QueueGate) -> None:
        """Let a job in instead of one that found no place, for each array."""
        for array, idle, waiting in gate.idle_arrays():
            if array in self._settled or not any(self.free.values()):
                continue
            tried = self._tried.setdefault(array, set())
            tried |= {self._kinds[job] for job in idle if job in self._kinds}
            coming = next((job for job in waiting if self._may_try(job, tried)), None)
            if coming is not None:
                gate.make_way(array, idle[-1], coming)
            else:
                self._settled.add(array)
                gate.lowest_first(array)

    def _may_try(self, job: int, tried: set[JobKind]) -> bool:
        kind = self._kinds.get(job)
        return kind is not None and kind not in tried and kind.fits(self.free)


def _kind(jobs: Jobs, row: int, types: tuple[str, ...]) -> JobKind:
    alone = jobs.rows(row, row + 1)
    others = (
        jobs.profiles[int(jobs.profile[row])],
        jobs.tenants[int(jobs.tenant[row])],
        float(jobs.weight[row]),
        0 if jobs.priority is None else int(jobs.priority[row]),
        alone.needs()[0],
    )
    return JobKind(int(jobs.gpus[row]), types, others)
