"""A job, its attempt, and a node, as the registry keeps them. Only the registry changes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.core.job_spec import JobSpec, Preemptible, RankLayout, spec_values, with_hidden_values
from rota.core.lifecycle import JobPhase, NodeState, StopReason, TaskCommand, advance
from rota.deploy.events import NodeJoined, Part, ProfileWrong
from rota.deploy.scheduler.old_journals import lenient_spec

AttemptKey = tuple[int, int]
"""(job, epoch)"""

_LONGEST_STORY = 6
MOST_ATTEMPTS = 200
"""Attempts of a job that are remembered after their end; older ones are in the events only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The ranks of an attempt on one server."""

    node: str
    first_rank: int
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """What is remembered of an attempt: where it ran, and how it ended. Times are engine seconds."""

    epoch: int
    places: tuple[Place, ...]
    started: float
    ended: float = -1.0
    outcome: str = ""
    """One of AttemptOutcome; empty: it has not ended."""
    exit_code: int = 0
    detail: str = ""
    stop_reason: str = ""
    """Why it was asked to end, one of StopReason; empty: it was not."""

    @property
    def ranks(self) -> int:
        """Processes on all its servers."""
        return sum(place.ranks for place in self.places)


def places_of(spec: JobSpec, parts: tuple[Part, ...]) -> tuple[Place, ...]:
    """Which ranks run where."""
    places: list[Place] = []
    first = 0
    for part in parts:
        ranks = len(part.devices) if spec.ranks is RankLayout.GPU else 1
        places.append(Place(node=part.node, first_rank=first, ranks=ranks))
        first += ranks
    return tuple(places)


_WARN_AFTER = 2
"""So often a job may be thrown back to its start before its owner is told what to do."""


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
    least_turn_until: float = 0.0
    """Before this time it is not preempted."""
    saved_at: float = 0.0
    """When its last checkpoint was heard of; at first, when it was started."""
    saving: bool = False
    """Whether a checkpoint is being written."""

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
    pinned: bool = False
    """Whether the engine was told to leave it where it runs."""
    final_phase: JobPhase | None = None
    """How it ended, as long as the engine does not know yet."""
    epoch: int = 0
    attempt: Attempt | None = None
    saved_step: int = 0
    """Steps in a checkpoint: credited, for good."""
    reported_steps: float = 0.0
    """Steps that the engine knows of."""
    counted_steps: int = 0
    """The last step that was saved. When a job that never said how many steps it has is done, `saved_step` becomes the
    number by which it was scheduled; this does not."""
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
    secrets: str = ""
    """Name under which the values of its environment are kept."""
    story: tuple[str, ...] = ()
    """Its last events, the newest last."""
    failures: int = 0
    """Attempts in a row that failed and left nothing behind."""
    attempts: tuple[AttemptRecord, ...] = ()
    """Its last attempts, the newest last."""
    seen_saving: str = ""
    """By which sign it is known that its command can save; empty: it is not."""
    longest_save_s: float = 0.0
    """Wall seconds that its longest checkpoint took; 0: not known."""
    stop_s: float = -1.0
    """Engine seconds that it took to stop, the last time; -1: not known."""
    start_s: float = -1.0
    """Engine seconds from the order to its first step, the last time; -1: not known."""
    usual_restart_s: float = 0.0
    """Engine seconds that jobs in general took for both, when it was started."""
    thrown_back: int = 0
    """Attempts whose work was lost by a stop or with their server, in part or all of it."""
    thrown_back_to_zero: int = 0
    """Those of them after which there was no checkpoint."""
    lost_steps: int = 0
    """Steps that had to be done again, failures included."""
    compute_s: float = 0.0
    """Wall seconds that its training loop computed in attempts that are over; all 0: not measured."""
    prepare_s: float = 0.0
    """... waited for data that was being decoded."""
    storage_s: float = 0.0
    """... waited for data that was being read."""
    lost_s: float = 0.0
    """Engine seconds of work that were lost, failures included."""
    last_cut: str = ""
    """What was lost when it was last stopped before its checkpoint was complete, for people; empty: never."""
    array: int = -1
    """Number of the first job of its array; -1: it is in none."""
    held_by: str = ""
    """Who holds it: it does not start until it is released; empty: nobody."""
    held_by_admin: bool = False
    """Whether only an administrator can release it."""
    ran_s: float = 0.0
    """Engine seconds of its attempts that are over."""
    limit_told: bool = False
    """Whether it was said that its time limit is near."""
    profile_wrong: ProfileWrong | None = None
    """How far its profile is off, if that was noticed."""

    @property
    def saves(self) -> bool:
        """Whether it is known to make checkpoints, whatever its owner says about preemption."""
        return self.spec.emulated or bool(self.seen_saving)

    @property
    def can_save(self) -> bool:
        """Whether it may be stopped and go on later: as its owner says, else as far as it is known."""
        if self.spec.preemptible is not Preemptible.AUTO:
            return self.spec.preemptible is Preemptible.YES
        return self.saves

    @property
    def can_save_why(self) -> str:
        """Why it can save or cannot, for people."""
        if self.spec.preemptible is not Preemptible.AUTO:
            return f"submitted with --preemptible {self.spec.preemptible.value}"
        if self.spec.emulated:
            return "it is an emulated job"
        return self.seen_saving or "it was not seen using rota.client and saved no checkpoint"

    @property
    def warning(self) -> str:
        """What its owner should change; empty: nothing."""
        if self.over or self.saved_step > 0:
            return ""
        return to_zero_warning(self.thrown_back_to_zero, saves=self.saves)

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
class FailedDecisions:
    """How often a policy or mechanism failed, and the last time."""

    count: int = 0
    last_at: float = 0.0
    """Engine seconds."""
    last_reason: str = ""

    def add(self, at: float, reason: str) -> None:
        """One more."""
        self.count += 1
        self.last_at = at
        self.last_reason = reason


def troubled(nodes: Mapping[str, Node]) -> set[str]:
    """Servers on which nothing new can start."""
    return {name for name, node in nodes.items() if node.trouble}


def gpus_on(node: str, attempts: Iterable[Attempt]) -> int:
    """GPUs of a server that attempts hold."""
    parts = (part for attempt in attempts for part in attempt.parts if part.node == node)
    return len({device for part in parts for device in part.devices})


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLive:
    """What administrators set on the live cluster; it counts more than what `rota serve` is started with."""

    settings: dict[str, Any] = field(default_factory=dict)
    """By name, as in `live_settings`; empty: nothing."""
    times: int = 0
    """How often something was changed."""
    by: str = ""
    """Who changed something last."""
    at: float = 0.0
    """When that was, engine seconds."""


@dataclass(slots=True, kw_only=True)
class Node:
    """A server and its agent."""

    joined: NodeJoined
    lost: bool = False
    drained: bool = False
    reason: str = ""
    trouble: str = ""
    """Why nothing new can start there, as its agent says; what runs there goes on."""

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


def to_zero_warning(times: int, *, saves: bool) -> str:
    """What to do about a job that begins anew again and again; empty as long as it may be bad luck."""
    if times < _WARN_AFTER:
        return ""
    what = f"it was thrown back to its start {times} times, as it had no checkpoint"
    if saves:
        return f"{what}; give it more time with --save-grace, let it save sooner with --checkpoint-every"
    return f"{what}; submit it with --preemptible no, or let it save with rota.client"


_NOT_ARCHIVED = frozenset({"attempt", "story"})
"""An archived job has no attempt, and nothing will happen to it that would need its story."""


def job_values(job: Job) -> dict[str, Any]:
    """A job that is over as plain values, ready for JSON."""
    values = {known.name: getattr(job, known.name) for known in dataclasses.fields(job)}
    plain = {name: value for name, value in values.items() if name not in _NOT_ARCHIVED}
    final_phase = None if job.final_phase is None else job.final_phase.value
    waits = {"wait_until": max(job.wait_until, 0.0) if job.wait_until < float("inf") else 0.0}
    attempts = [dataclasses.asdict(record) for record in job.attempts]
    wrong = None if job.profile_wrong is None else dataclasses.asdict(job.profile_wrong)
    words = {"phase": job.phase.value, "final_phase": final_phase, "profile_wrong": wrong}
    return {**plain, **waits, **words, "spec": spec_values(with_hidden_values(job.spec)), "attempts": attempts}


def job_from(values: Mapping[str, Any]) -> Job:
    """The job of plain values."""
    final_phase = None if values["final_phase"] is None else JobPhase(values["final_phase"])
    spec = lenient_spec(values["spec"])
    read = {"spec": spec, "phase": JobPhase(values["phase"]), "final_phase": final_phase}
    counted = {"counted_steps": values["saved_step"] if spec.steps else 0}  # of a job that an older version wrote
    attempts = tuple(_attempt_from(record) for record in values.get("attempts", ()))
    said = values.get("profile_wrong")
    wrong = None if said is None else ProfileWrong(**said)
    return Job(**{**counted, **values, **read, "attempts": attempts, "profile_wrong": wrong})


def _attempt_from(values: Mapping[str, Any]) -> AttemptRecord:
    places = tuple(Place(**place) for place in values["places"])
    return AttemptRecord(**{**values, "places": places})
