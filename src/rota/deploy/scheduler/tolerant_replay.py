"""Reads a journal of which something is lost: what can be known is kept, what cannot is said.

Events that only save work are left out. A job whose own events are lost is given up, with the reason; a job whose
submission is lost is there as a job without a name, and given up. If an event of the engine is lost, its state cannot
be trusted: it begins anew, and all jobs that are not over are submitted to it again with the steps they have saved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from rota.core.errors import IllegalTransition
from rota.core.events import JobsDropped
from rota.core.job_spec import JobSpec
from rota.deploy.events import KINDS, JobGivenUp, NodeJoined
from rota.deploy.scheduler.records import Job, Node
from rota.deploy.scheduler.recovery import UNREADABLE, Recovered, Recovery
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.salvage import SalvagedEvent
from rota.engine.log import LineReader

_SAID_AGAIN = frozenset({"SolveFailed", "PlacementFailed", "RunEnded"})
"""Events of the engine that change nothing in its state."""
_DECIDES_A_FATE = frozenset({"JobAccepted", "CancelAsked", "JobGivenUp", "AttemptStarted", "AttemptEnded"})
"""Events of a deployment without which nobody knows how it is with a job. The others are said again, or save work."""
_JOB = re.compile(r'"job":\s?(\d+)')
_EPOCHS_SKIPPED = 1000
"""Attempts that were started after an event that is lost have lower numbers than those that come now."""


@dataclass(slots=True, kw_only=True)
class Losses:
    """What is lost."""

    events: list[SalvagedEvent] = field(default_factory=list)
    """After the snapshot; those before it are history only."""
    not_applied: list[str] = field(default_factory=list)
    """Events that make no sense without those that are lost."""
    unknown_fate: set[int] = field(default_factory=set)
    """Jobs."""
    engine_from: int = 0
    """Number of the event from which on the state of the engine is unknown; 0: it is known."""
    leases: bool = False

    @property
    def serious(self) -> bool:
        """Whether something is lost about which nobody can say which job it was about."""
        return any(not event.kind or event.kind in _DECIDES_A_FATE for event in self.events)


class TolerantReplay:
    """Takes over events one by one."""

    def __init__(self, recovery: Recovery, recovered: Recovered) -> None:
        self._recovery = recovery
        self._reader = LineReader()
        self.recovered = recovered
        self.losses = Losses()

    def take(self, events: Iterable[SalvagedEvent]) -> None:
        """Take over what can be taken over."""
        for event in events:
            if event.problem:
                self._lose(event)
            else:
                self._apply(event)

    def _lose(self, event: SalvagedEvent) -> None:
        self.losses.events.append(event)
        self.recovered.last_at = max(self.recovered.last_at, event.at)
        self.losses.leases = self.losses.leases or event.kind == "LeasesExtended"
        if event.kind not in KINDS and event.kind not in _SAID_AGAIN:
            self._give_up_engine(event.number)
        named = _JOB.search(event.body)
        if event.kind in _DECIDES_A_FATE and named:
            self.losses.unknown_fate.add(int(named[1]))

    def _apply(self, event: SalvagedEvent) -> None:
        for _ in range(len(self.recovered.registry.jobs) + 1000):
            try:
                refused = self._recovery.replay(self.recovered, self._reader, event.fields)
            except KeyError as error:  # noqa: PERF203 - each job that is missing by itself
                if not self._stand_in(error, event):
                    return
            except UNREADABLE as error:
                self._skip(event, error)
                return
            else:
                if refused is not None and refused.job is not None and self.losses.events:
                    self.losses.unknown_fate.add(refused.job)
                return

    def _stand_in(self, error: KeyError, event: SalvagedEvent) -> bool:
        """Put a job in the place of one whose submission is lost; False if that is not what is missing."""
        number = error.args[0]
        registry = self.recovered.registry
        if not isinstance(number, int) or number in registry.jobs or event.kind not in KINDS:
            self._skip(event, error)
            return False
        stand_in(registry, number, event.at)
        self.losses.unknown_fate.add(number)
        return True

    def _skip(self, event: SalvagedEvent, error: Exception) -> None:
        self.losses.not_applied.append(f"{event.number} {event.kind}: {type(error).__name__}: {error}")
        if event.kind not in KINDS:
            self._give_up_engine(event.number)
        elif event.kind in _DECIDES_A_FATE:
            named = _JOB.search(event.body)
            self.losses.unknown_fate |= {int(named[1])} if named else set()

    def _give_up_engine(self, number: int) -> None:
        if not self.losses.engine_from:
            self.losses.engine_from = number
        self.recovered.state = None
        self.recovered.trigger = None


def stand_in(registry: Registry, number: int, at: float) -> None:
    """A job of which only the number is known."""
    job = Job(id=number, spec=JobSpec(name="lost", emulated=True, steps=1), submitted=at, by="")
    registry.jobs[number] = job
    registry.live[number] = job
    registry.next_job = max(registry.next_job, number + 1)


def _unknown_node(name: str, at: float) -> Node:
    """A server of which only the name is known, until its agent registers again."""
    joined = NodeJoined(
        at=at, node=name, type="unknown", devices=(), cpus=0.0, memory_gb=0.0, storage_mbps=0.0, network_gbps=0.0,
        rack="", host="", session="", emulated=False, limits="",
    )  # fmt: skip
    return Node(joined=joined)


def settle(recovered: Recovered, losses: Losses, archived: frozenset[int]) -> list[JobGivenUp]:
    """Bring what was read into a state from which a scheduler can go on; the jobs that are given up for that.

    `archived` are the jobs in the table of finished ones: they are over, whatever the events say.
    """
    registry = recovered.registry
    both = archived & registry.live.keys() & registry.jobs.keys()
    for number in both:
        del registry.jobs[number]
        registry.archived += 1
    if both and not losses.engine_from:
        losses.engine_from = 1
    _complete(registry, recovered.last_at)
    if losses.engine_from:
        recovered.state = None
        recovered.trigger = None
        _submit_again(registry, recovered.last_at)
    if losses.serious:
        for job in registry.live.values():
            job.epoch += _EPOCHS_SKIPPED if job.attempt is None else 0
    return _give_up(registry, losses.unknown_fate, recovered.last_at)


def _complete(registry: Registry, at: float) -> None:
    """Leave out jobs that left memory, which were over, and put in servers that attempts speak of."""
    for selection in (registry.live, registry.running, registry.ended):
        for number in selection.keys() - registry.jobs.keys():
            del selection[number]
    for job in registry.running.values():
        for node in [] if job.attempt is None else job.attempt.nodes:
            registry.nodes.setdefault(node, _unknown_node(node, at))


def _give_up(registry: Registry, jobs: set[int], at: float) -> list[JobGivenUp]:
    given_up = []
    for number in sorted(jobs & registry.live.keys()):
        if registry.live[number].final_phase is None:
            reason = "the journal was damaged: what became of this job is not known; submit it again"
            given_up.append(JobGivenUp(at=at, job=number, reason=reason))
            registry.apply(given_up[-1])
    return given_up


def _submit_again(registry: Registry, at: float) -> None:
    """The engine begins anew: it hears of every job that is not over as of a new one."""
    for job in list(registry.live.values()):
        if job.final_phase is not None:
            dropped = JobsDropped(at=at, jobs=np.array([job.id]), reason=job.reason)
            _end(registry, dropped)
        job.admitted = False
        job.parked = False
        job.reported_steps = 0.0


def _end(registry: Registry, dropped: JobsDropped) -> None:
    try:
        registry.apply(dropped)
    except IllegalTransition:  # its phase is one of those that are lost; it is given up afterwards
        for number in dropped.jobs.tolist():
            registry.jobs[number].final_phase = None
