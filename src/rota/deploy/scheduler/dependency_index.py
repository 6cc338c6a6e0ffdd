"""Which jobs wait for which others, kept up to date by what changes: an end costs as much as there are jobs after it.

Every job or array that somebody comes after is a name: a number. A name is open as long as a job of it is not over, and
bad once one of them ended otherwise than it should. For each job the names are counted that keep it from starting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, KeysView, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.deploy.scheduler.endings import Ending, ending_of
from rota.deploy.scheduler.records import Job


class _State(NamedTuple):
    """Of a name."""

    open: bool = False
    bad: bool = False


@dataclass(slots=True)
class _Known:
    """A job as it was when it was looked at last."""

    ending: Ending
    array: int


@dataclass(slots=True)
class _Links:
    """What a job comes after."""

    tenant: str
    after: tuple[int, ...]
    after_any: tuple[int, ...]

    @property
    def count(self) -> int:
        """Jobs and arrays."""
        return len(self.after) + len(self.after_any)


@dataclass(slots=True)
class DependencyIndex:
    """Of the jobs of one registry. A job that is over comes after nothing any more."""

    jobs: Mapping[int, Job]
    """Those in memory, as the registry keeps them."""
    edges: Counter[str] = field(default_factory=Counter)
    """By tenant: for each of its jobs that are not over, the jobs and arrays that it comes after."""
    unmet: dict[int, int] = field(default_factory=dict)
    """For each job that may not start yet: how many names keep it."""
    doomed: set[int] = field(default_factory=set)
    """Jobs that can never start, and whose end is not decided."""
    _known: dict[int, _Known] = field(default_factory=dict)
    _tallies: dict[int, Counter[Ending]] = field(default_factory=dict)
    """Jobs of each array by how far they are."""
    _links: dict[int, _Links] = field(default_factory=dict)
    _after: dict[int, set[int]] = field(default_factory=dict)
    """By name: jobs that need it to end well."""
    _after_any: dict[int, set[int]] = field(default_factory=dict)
    """By name: jobs that need it to end."""

    def __post_init__(self) -> None:
        for job in self.jobs.values():
            self._note(job.id, job)
        for job in self.jobs.values():
            self._link(job)

    @property
    def dependents(self) -> KeysView[int]:
        """Jobs that are not over and come after others."""
        return self._links.keys()

    @property
    def names(self) -> Container[int]:
        """Jobs and arrays that somebody comes after."""
        return self._after.keys() | self._after_any.keys()

    def is_bad(self, name: int) -> bool:
        """Whether a job, or one of an array, is over and did not finish."""
        return self._state(name).bad

    def enter(self, job: Job) -> None:
        """A job was accepted."""
        self.look_again([job.id])
        self._link(job)

    def look_again(self, numbers: Iterable[int]) -> None:
        """Something happened to these jobs after which they may be over, or have left memory."""
        for number in numbers:
            job = self.jobs.get(number)
            known = self._known.get(number)
            ending = None if job is None else ending_of(job)
            if ending is not (None if known is None else known.ending):
                self._change(number, job)
            if job is None or job.over:
                self._unlink(number)
            elif job.ending:
                self.doomed.discard(number)

    def _change(self, number: int, job: Job | None) -> None:
        """A job is not what it was: see who may start, or never will."""
        known = self._known.get(number)
        array = job.array if job is not None else known.array if known is not None else -1
        names = [name for name in {number, array} if name in self._after or name in self._after_any]
        before = {name: self._state(name) for name in names}
        self._note(number, job)
        for name in names:
            self._pass_on(name, before[name], self._state(name))

    def _note(self, number: int, job: Job | None) -> None:
        known = self._known.pop(number, None)
        if known is not None and known.array >= 0:
            tally = self._tallies[known.array]
            tally[known.ending] -= 1
            if not tally.total():
                del self._tallies[known.array]
        if job is not None:
            self._known[number] = _Known(ending_of(job), job.array)
            if job.array >= 0:
                self._tallies.setdefault(job.array, Counter())[self._known[number].ending] += 1

    def _state(self, name: int) -> _State:
        """How far a name is; one that is not in memory is over, and ended as it should."""
        tally = self._tallies.get(name)
        if tally is not None:
            return _State(open=tally[Ending.OPEN] > 0, bad=tally[Ending.BADLY] > 0)
        known = self._known.get(name)
        if known is None:
            return _State()
        return _State(open=known.ending is Ending.OPEN, bad=known.ending is Ending.BADLY)

    def _pass_on(self, name: int, before: _State, now: _State) -> None:
        self._count(self._after_any.get(name, ()), int(now.open) - int(before.open))
        self._count(self._after.get(name, ()), int(any(now)) - int(any(before)))
        if now.bad and not before.bad:
            self.doomed.update(number for number in self._after.get(name, ()) if not self.jobs[number].ending)

    def _count(self, numbers: Iterable[int], more: int) -> None:
        for number in numbers if more else ():
            count = self.unmet.get(number, 0) + more
            if count:
                self.unmet[number] = count
            else:
                del self.unmet[number]

    def _link(self, job: Job) -> None:
        if job.over or not (job.spec.after or job.spec.after_any):
            return
        links = _Links(job.tenant, tuple(dict.fromkeys(job.spec.after)), tuple(dict.fromkeys(job.spec.after_any)))
        self._links[job.id] = links
        self.edges[job.tenant] += links.count
        after = {name: self._state(name) for name in links.after}
        for name in links.after:
            self._after.setdefault(name, set()).add(job.id)
        for name in links.after_any:
            self._after_any.setdefault(name, set()).add(job.id)
        unmet = sum(any(state) for state in after.values())
        unmet += sum(self._state(name).open for name in links.after_any)
        self._count([job.id], unmet)
        if any(state.bad for state in after.values()) and not job.ending:
            self.doomed.add(job.id)

    def _unlink(self, number: int) -> None:
        links = self._links.pop(number, None)
        if links is None:
            return
        self.edges[links.tenant] -= links.count
        self.unmet.pop(number, None)
        self.doomed.discard(number)
        _take_out(self._after, links.after, number)
        _take_out(self._after_any, links.after_any, number)


def _take_out(index: dict[int, set[int]], names: Iterable[int], number: int) -> None:
    for name in names:
        index[name].discard(number)
        if not index[name]:
            del index[name]
