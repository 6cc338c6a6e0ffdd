"""A job, its attempt, and a node, as the registry keeps them. Only the registry changes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.core.job_spec import JobSpec, spec_from, spec_values
from rota.core.lifecycle import JobPhase, NodeState, StopReason, TaskCommand, advance
from rota.deploy.events import NodeJoined, Part

AttemptKey = tuple[int, int]
"""(job, epoch)"""

_LONGEST_STORY = 6


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A job on its servers, from the order to start until nothing is left of it."""

    epoch: int
    parts: tuple[Part, ...]
    started: float
    lease_until: float
    resume: str
    resume_step: int
    rate: float
    port: int
    stop_reason: StopReason | None = None
    """Why it was asked to end; None: it was not."""
    stop_detail: str = ""
    stop_asked: float = 0.0
    forgotten: set[str] = field(default_factory=set)
    """Servers whose agents know nothing of it any more."""

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end."""
        return self.stop_reason is not None

    @property
    def command(self) -> TaskCommand:
        """What its agents have to do."""
        if self.stop_reason is None:
            return TaskCommand.RUN
        return TaskCommand.KILL if self.stop_reason.kills else TaskCommand.STOP

    @property
    def nodes(self) -> list[str]:
        """Names of its servers, the one of rank 0 first."""
        return [part.node for part in self.parts]


@dataclass(slots=True, kw_only=True)
class Job:
    """A job from submission to its end. Times are engine seconds."""

    id: int
    spec: JobSpec
    submitted: float
    by: str
    request: str = ""
    phase: JobPhase = JobPhase.QUEUED
    admitted: bool = False
    """Whether the engine has heard of it."""
    parked: bool = False
    """Whether the engine was told to leave it out."""
    final_phase: JobPhase | None = None
    """How it ended, as long as the engine does not know yet."""
    epoch: int = 0
    attempt: Attempt | None = None
    saved_step: int = 0
    """Steps in a checkpoint: credited, for good."""
    reported_steps: float = 0.0
    """Steps that the engine knows of."""
    checkpoint: str = ""
    log_node: str = ""
    """Server of rank 0 in the last attempt: its logs are there."""
    restarts: int = 0
    """Attempts that failed."""
    losses: int = 0
    """Attempts in a row that were lost with their server and left nothing behind."""
    preemptions: int = 0
    started: float = -1.0
    ended: float = -1.0
    exit_code: int = 0
    reason: str = ""
    """For people."""
    wait_until: float = 0.0
    story: tuple[str, ...] = ()
    """Its last events, the newest last."""

    @property
    def over(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.phase.final

    @property
    def ending(self) -> bool:
        """Whether it is over, or will be as soon as the engine has heard of it."""
        return self.over or self.final_phase is not None

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.spec.tenant or "default"

    def move(self, to: JobPhase) -> None:
        """Go on to another phase; IllegalTransition if that cannot be."""
        self.phase = advance(self.id, self.phase, to, self.story)

    def note(self, event: Any) -> None:
        """Remember that something happened to it."""
        line = f"{type(event).__name__} at {event.at:.1f} s ({self.phase.value})"
        self.story = (*self.story[1 - _LONGEST_STORY :], line)


@dataclass(slots=True, kw_only=True)
class Node:
    """A server and its agent."""

    joined: NodeJoined
    lost: bool = False
    drained: bool = False
    reason: str = ""

    @property
    def usable(self) -> bool:
        """Whether jobs may run there."""
        return not (self.lost or self.drained)

    def state(self, *, busy: bool) -> NodeState:
        """How it is, if it has something to do or not."""
        if self.lost:
            return NodeState.LOST
        if not self.drained:
            return NodeState.UP
        return NodeState.DRAINING if busy else NodeState.DRAINED


_NOT_ARCHIVED = frozenset({"attempt", "story"})
"""An archived job has no attempt, and nothing will happen to it that would need its story."""


def job_values(job: Job) -> dict[str, Any]:
    """A job that is over as plain values, ready for JSON."""
    values = {known.name: getattr(job, known.name) for known in dataclasses.fields(job)}
    plain = {name: value for name, value in values.items() if name not in _NOT_ARCHIVED}
    final_phase = None if job.final_phase is None else job.final_phase.value
    waits = {"wait_until": max(job.wait_until, 0.0) if job.wait_until < float("inf") else 0.0}
    return {**plain, **waits, "spec": spec_values(job.spec), "phase": job.phase.value, "final_phase": final_phase}


def job_from(values: Mapping[str, Any]) -> Job:
    """The job of plain values."""
    final_phase = None if values["final_phase"] is None else JobPhase(values["final_phase"])
    read = {"spec": spec_from(values["spec"]), "phase": JobPhase(values["phase"]), "final_phase": final_phase}
    return Job(**{**values, **read})
