"""What the scheduler knows about jobs, attempts and nodes beside the engine's state.

Like the state it changes only through events, those of the engine included, so a journal rebuilds it. What an agent
says from moment to moment (steps on the way, signs of life) is kept beside it and may be lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.core.events import (
    JobsDropped,
    JobsFinished,
    JobsParked,
    JobsRejected,
    JobsReturned,
    JobsSubmitted,
    Planned,
    ProgressMade,
    RoundsRan,
)
from rota.deploy import events as happened

OVER = ("finished", "failed", "cancelled")
RANK_ENDED = "a rank ended: "
"""Why an attempt has to end, with the outcome of the rank."""


@dataclass(slots=True, kw_only=True)
class Part:
    """What an attempt holds of one server."""

    node: str
    devices: list[str]
    cpus: float
    memory_gb: float

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Part:
        """From plain values."""
        return Part(
            node=str(fields["node"]),
            devices=list(fields["devices"]),
            cpus=float(fields["cpus"]),
            memory_gb=float(fields["memory_gb"]),
        )

    def fields(self) -> dict[str, Any]:
        """As plain values."""
        return {"node": self.node, "devices": self.devices, "cpus": self.cpus, "memory_gb": self.memory_gb}


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A job on its servers, from the order to start until nothing is left of it."""

    epoch: int
    parts: list[Part]
    started: float
    lease_until: float
    resume: str
    resume_step: int
    rate: float
    port: int
    stopping: str = ""
    """Why it was asked to end; empty: it was not."""
    stop_asked: float = 0.0
    forgotten: set[str] = field(default_factory=set)
    """Servers whose agents lost their memory of it."""

    @property
    def broken(self) -> bool:
        """Whether ranks are left that wait for one which is dead: there is nothing to save and nobody to agree with."""
        return self.stopping.startswith(RANK_ENDED) and not self.stopping.endswith("stopped")

    @property
    def nodes(self) -> list[str]:
        """Names of its servers, the one of rank 0 first."""
        return [part.node for part in self.parts]


@dataclass(slots=True, kw_only=True)
class Job:
    """A job from submission to its end."""

    id: int
    spec: Mapping[str, Any]
    submitted: float
    by: str
    admitted: bool = False
    """Whether the engine has heard of it."""
    epoch: int = 0
    credited: int = 0
    """Steps in a checkpoint."""
    told: float = 0.0
    """Steps the engine knows of."""
    checkpoint: str = ""
    home: str = ""
    """Server of rank 0 in the last attempt: there are its logs."""
    attempt: Attempt | None = None
    restarts: int = 0
    """Attempts that failed."""
    losses: int = 0
    """Attempts in a row that were lost with their server and left nothing behind."""
    preemptions: int = 0
    started: float = -1.0
    ended: float = -1.0
    exit_code: int = 0
    reason: str = ""
    verdict: str = ""
    """How it ended, as far as the engine does not know yet: finished, failed or cancelled."""
    phase: str = "queued"
    """queued, waiting, running, stopping, finished, failed or cancelled."""
    wait_until: float = 0.0
    parked: bool = False
    """Whether the engine was told to leave it out."""

    @property
    def over(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.phase in OVER

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return str(self.spec.get("tenant") or "default")

    def describe(self) -> None:
        """Bring `phase` up to date."""
        if self.phase in OVER:
            return
        if self.attempt is not None:
            self.phase = "stopping" if self.attempt.stopping else "running"
        else:
            self.phase = "waiting" if self.wait_until > 0 else "queued"


@dataclass(slots=True, kw_only=True)
class Node:
    """A server and its agent."""

    joined: happened.NodeJoined
    lost: bool = False
    drained: bool = False
    reason: str = ""

    @property
    def usable(self) -> bool:
        """Whether jobs may run there."""
        return not (self.lost or self.drained)


@dataclass(kw_only=True)
class Book:
    """All jobs and nodes."""

    jobs: dict[int, Job] = field(default_factory=dict)
    live: dict[int, Job] = field(default_factory=dict)
    """Those that are not over."""
    running: dict[int, Job] = field(default_factory=dict)
    """Those with an attempt."""
    nodes: dict[str, Node] = field(default_factory=dict)
    requests: dict[str, list[int]] = field(default_factory=dict)
    """Jobs by the name that the submitter gave the request."""
    next_job: int = 0
    last_round: float = 0.0
    """When the engine decided last."""
    begun: float = 0.0
    config: Mapping[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OVER, 0))

    def __post_init__(self) -> None:
        self._apply = self._handlers()

    def _handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            happened.ServiceStarted: self._began,
            happened.JobAccepted: self._accepted,
            happened.CancelAsked: self._cancelled,
            happened.JobGivenUp: self._given_up,
            happened.JobWaits: self._waits,
            happened.NodeJoined: self._joined,
            happened.NodeLost: self._lost,
            happened.NodeDrained: self._drained,
            happened.AttemptStarted: self._started,
            happened.AttemptResized: self._resized,
            happened.AttemptStopping: self._stopping,
            happened.StepsSaved: self._saved,
            happened.AttemptEnded: self._ended,
            happened.LeasesExtended: self._extended,
            JobsSubmitted: self._submitted,
            JobsRejected: self._rejected,
            JobsDropped: self._rejected,
            JobsFinished: self._finished,
            JobsParked: self._parked,
            JobsReturned: self._returned,
            Planned: self._decided,
            RoundsRan: self._decided,
            ProgressMade: self._progressed,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the table of handlers."""
        return {name: value for name, value in self.__dict__.items() if name != "_apply"}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)
        self._apply = self._handlers()

    def apply(self, event: Any) -> None:
        """Take over what happened."""
        handler = self._apply.get(type(event))
        if handler is not None:
            handler(event)

    # Jobs

    def _accepted(self, event: happened.JobAccepted) -> None:
        job = Job(id=event.job, spec=event.spec, submitted=event.at, by=event.by)
        self.jobs[event.job] = self.live[event.job] = job
        self.next_job = max(self.next_job, event.job + 1)
        if event.request:
            self.requests.setdefault(event.request, []).append(event.job)

    def _cancelled(self, event: happened.CancelAsked) -> None:
        job = self.jobs[event.job]
        job.verdict, job.reason, job.ended = "cancelled", f"cancelled by {event.by}", event.at
        if not job.admitted:
            self._end(event.job, event.at, "cancelled")

    def _given_up(self, event: happened.JobGivenUp) -> None:
        job = self.jobs[event.job]
        job.verdict, job.reason, job.ended = "failed", event.reason, event.at

    def _waits(self, event: happened.JobWaits) -> None:
        job = self.jobs[event.job]
        job.wait_until, job.reason = (math.inf if event.until < 0 else event.until), event.reason
        job.describe()

    def _end(self, number: int, at: float, phase: str, reason: str = "") -> None:
        job = self.live.pop(number, None)
        if job is None:
            return
        job.phase = job.verdict or phase
        job.reason = job.reason if job.verdict else reason
        job.ended = at if job.ended < 0 else job.ended
        self.counts[job.phase] += 1

    # What the engine says

    def _submitted(self, event: JobsSubmitted) -> None:
        for number in range(event.first_id, event.first_id + len(event.jobs)):
            self.jobs[number].admitted = True

    def _rejected(self, event: JobsRejected | JobsDropped) -> None:
        for number in event.jobs.tolist():
            self._end(number, event.at, "failed", event.reason)

    def _finished(self, event: JobsFinished) -> None:
        for number, at in zip(event.jobs.tolist(), event.finished_at.tolist(), strict=True):
            self._end(number, at, "finished")

    def _decided(self, event: Planned | RoundsRan) -> None:
        self.last_round = event.at

    def _progressed(self, event: ProgressMade) -> None:
        for number, steps in zip(event.jobs.tolist(), event.steps.tolist(), strict=True):
            self.jobs[number].told += steps

    def _parked(self, event: JobsParked) -> None:
        for number in event.jobs.tolist():
            self.jobs[number].parked = True

    def _returned(self, event: JobsReturned) -> None:
        for number in event.jobs.tolist():
            job = self.jobs[number]
            job.parked, job.wait_until, job.reason = False, 0.0, ""
            job.describe()

    # Attempts

    def _attempt(self, event: Any) -> Attempt | None:
        """The attempt an event speaks of, if it is the current one."""
        attempt = self.jobs[event.job].attempt
        return attempt if attempt is not None and attempt.epoch == event.epoch else None

    def _started(self, event: happened.AttemptStarted) -> None:
        job = self.jobs[event.job]
        job.epoch, job.home = event.epoch, str(event.parts[0]["node"])
        job.started = event.at if job.started < 0 else job.started
        job.attempt = Attempt(
            epoch=event.epoch,
            parts=[Part.of(p) for p in event.parts],
            started=event.at,
            lease_until=event.lease_until,
            resume=event.resume,
            resume_step=event.resume_step,
            rate=event.rate,
            port=event.port,
        )
        job.wait_until, job.reason = 0.0, ""
        self.running[event.job] = job
        job.describe()

    def _resized(self, event: happened.AttemptResized) -> None:
        attempt = self._attempt(event)
        if attempt is not None:
            attempt.parts, attempt.rate = [Part.of(p) for p in event.parts], event.rate

    def _stopping(self, event: happened.AttemptStopping) -> None:
        attempt = self._attempt(event)
        if attempt is not None:
            attempt.stopping, attempt.stop_asked = event.reason, event.at
            self.jobs[event.job].describe()

    def _saved(self, event: happened.StepsSaved) -> None:
        job = self.jobs[event.job]
        if event.epoch == job.epoch and event.step > job.credited:
            job.credited, job.checkpoint, job.losses = event.step, event.path, 0

    def _ended(self, event: happened.AttemptEnded) -> None:
        job, attempt = self.jobs[event.job], self._attempt(event)
        if attempt is None:
            return
        job.attempt, job.exit_code = None, event.exit_code
        del self.running[event.job]
        if event.outcome == "completed" and not job.verdict:
            job.verdict, job.ended = "finished", event.at
            job.credited = max(job.credited, int(job.spec.get("steps") or 0))
        elif event.outcome == "stopped":
            job.preemptions += 1
        elif event.outcome == "lost":
            job.losses += 1
        elif not job.verdict:
            job.restarts += 1
            job.reason = f"{event.outcome}: {event.detail}" if event.detail else event.outcome
        job.describe()

    def _extended(self, event: happened.LeasesExtended) -> None:
        for number, epoch in event.attempts:
            attempt = self.jobs[number].attempt
            if attempt is not None and attempt.epoch == epoch:
                attempt.lease_until = max(attempt.lease_until, event.until)

    # Nodes

    def _joined(self, event: happened.NodeJoined) -> None:
        before = self.nodes.get(event.node)
        if before is not None and before.joined.memory not in ("", event.memory):
            for job in self.running.values():
                if job.attempt is not None and event.node in job.attempt.nodes:
                    job.attempt.forgotten.add(event.node)
        self.nodes[event.node] = Node(joined=event, drained=before is not None and before.drained)

    def _lost(self, event: happened.NodeLost) -> None:
        node = self.nodes[event.node]
        node.lost, node.reason = True, event.reason

    def _drained(self, event: happened.NodeDrained) -> None:
        self.nodes[event.node].drained = event.drained

    def _began(self, event: happened.ServiceStarted) -> None:
        self.begun, self.config = event.begun, event.config
