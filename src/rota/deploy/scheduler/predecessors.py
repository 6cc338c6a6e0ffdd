"""Jobs that come after others: whether those are over, and how they ended.

A predecessor is over as soon as its end is decided and nothing of it runs. `--after` needs all of them to have
finished; once one of them failed or was cancelled, the job can never start and is cancelled with that reason, and so on
along the chain. `--after-any` only needs them to be over. The number of the first job of an array stands for all of
them.

A predecessor that is not in memory is over and ended as it should: a job after one that did not is cancelled when it is
submitted, and jobs that others wait for do not leave memory before (`retention`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rota.core.job_arrays import array_size
from rota.core.lifecycle import JobPhase
from rota.deploy.events import CancelAsked
from rota.deploy.scheduler.endings import Ending, ending_of, phase_at_end
from rota.deploy.scheduler.node_offers import Refused
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.submission import NumberedJob

SCHEDULER = "the scheduler"
"""Who cancels jobs that can never start."""


class Predecessors:
    """Looks at the registry as it is; made anew for every question."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[int, frozenset[Ending]] = {}

    def _endings(self, number: int) -> frozenset[Ending]:
        """How far a job is, or the jobs of an array."""
        if number not in self._known:
            self._known[number] = frozenset(ending_of(job) for job in self._registry.queue.members(number))
        return self._known[number]

    def is_open(self, number: int) -> bool:
        """Whether a job, or one of an array, is not over."""
        return Ending.OPEN in self._endings(number)

    def open_ones(self, job: Job) -> list[int]:
        """Jobs and arrays that it comes after and that are not over."""
        return [number for number in (*job.spec.after, *job.spec.after_any) if self.is_open(number)]


def hopeless_dependents(registry: Registry, now: float) -> list[CancelAsked]:
    """Cancellations of jobs that can never start, as one that they come after did not finish."""
    index = registry.queue.dependencies
    words: dict[int, str] = {}
    events: list[CancelAsked] = []
    for number in sorted(index.doomed):
        job = registry.live.get(number)
        if job is None or job.ending or job.attempt is not None:
            continue
        failed = next((name for name in job.spec.after if index.is_bad(name)), None)
        if failed is None:
            continue
        if failed not in words:
            words[failed] = _why(registry, failed)
        events.append(CancelAsked(at=now, job=number, by=SCHEDULER, reason=words[failed]))
    return events


def _why(registry: Registry, number: int) -> str:
    """The reason of a cancellation."""
    bad = [job for job in registry.queue.members(number) if ending_of(job) is Ending.BADLY]
    of_array = f" of array {number}" if number in registry.queue.arrays else ""
    return _never(bad[0].id, of_array, phase_at_end(bad[0]))


def _never(number: int, of_array: str, phase: JobPhase) -> str:
    return f"cancelled: it comes after job {number}{of_array}, which {_in_words(phase)} (--after)"


def _in_words(phase: JobPhase) -> str:
    return "was cancelled" if phase is JobPhase.CANCELLED else "failed"


def unmet_dependents(registry: Registry) -> frozenset[int]:
    """Jobs that do not run and come after something that is not over, or not as it should."""
    return registry.queue.remembered("unmet dependents", lambda: _unmet(registry))


def _unmet(registry: Registry) -> frozenset[int]:
    live = registry.live
    return frozenset(
        number for number in registry.queue.dependencies.unmet if number in live and live[number].attempt is None
    )


@dataclass(frozen=True, slots=True)
class PredecessorCheck:
    """Looks at the jobs that a submission comes after."""

    registry: Registry
    look: Callable[[int, str], Job]
    """A job of a tenant by number, in memory or not, or Refused."""
    archived_phases: Callable[[Iterable[int]], Mapping[int, JobPhase]]
    """How jobs ended that left memory."""

    def check(self, jobs: Sequence[NumberedJob]) -> dict[int, str]:
        """Refused if a job comes after one that its tenant does not have. Jobs that can never start, and why.

        One of another tenant is refused with the words for one that is not there.
        """
        owners = {job.number: job.spec.tenant for job in jobs}
        specs = {id(job.spec): job.spec for job in jobs if job.spec.after or job.spec.after_any}
        known: dict[tuple[int, str], Job] = {}
        failed: dict[int, str] = {}
        reasons: dict[int, str] = {}
        for place, spec in specs.items():
            tenant = spec.tenant or "default"
            for number in (*spec.after, *spec.after_any):
                if owners.get(number, spec.tenant) != spec.tenant:
                    raise Refused("NOT_FOUND", f"there is no job {number}")
                if number not in owners and (number, tenant) not in known:
                    known[number, tenant] = self.look(number, tenant)
            for number in spec.after:
                if number not in owners and number not in failed:
                    failed[number] = self._failed(known[number, tenant])
            reasons[place] = next((failed[number] for number in spec.after if failed.get(number)), "")
        return {job.number: reasons[id(job.spec)] for job in jobs if reasons.get(id(job.spec))}

    def _failed(self, job: Job) -> str:
        """Why nothing can come after a job, or the array of which it is the first; empty: something can."""
        bad = ((number, phase) for number, phase in self._ends(job).items() if phase is not JobPhase.FINISHED)
        of_array = f" of array {job.id}" if job.array == job.id else ""
        return next((_never(number, of_array, phase) for number, phase in bad), "")

    def _ends(self, job: Job) -> dict[int, JobPhase]:
        """How the job ended, or the jobs of the array of which it is the first; those that are over."""
        numbers = range(job.id, job.id + (array_size(job.spec.array) if job.array == job.id else 1))
        known = [self.registry.jobs[number] for number in numbers if number in self.registry.jobs]
        ends = {known_one.id: phase_at_end(known_one) for known_one in known if ending_of(known_one) is not Ending.OPEN}
        missing = set(numbers) - {known_one.id for known_one in known}
        return {**ends, **(self.archived_phases(missing) if missing else {})}
