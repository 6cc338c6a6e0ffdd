"""Makes events happen: first the registry takes them over, then they are committed in one piece, then somebody hears.

An event that a job's phase does not allow is a bug somewhere. It is left out and the job is given up with the story of
what led there; everybody else goes on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from rota.core.errors import IllegalTransition
from rota.core.events import Event
from rota.deploy.events import (
    AttemptEnded,
    AttemptSaving,
    Audited,
    CancelAsked,
    CheckpointsClaimed,
    ClockSet,
    DeployEvent,
    EventRow,
    JobAccepted,
    JobCanSave,
    JobGivenUp,
    JobReleased,
    JobsArchived,
    JobsForgotten,
    NodeDrained,
    NodeJoined,
    NodeLost,
    NodeTroubled,
    ProfileWrong,
    SpeedMeasured,
    StepsSaved,
    SuccessionChanged,
    TimeLimitNear,
    to_fields,
)
from rota.deploy.scheduler.heartbeats import Heartbeats
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.structured_logs import about
from rota.engine.log import LineWriter

log = logging.getLogger(__name__)

_LETS_JOBS_START = (
    JobAccepted,
    AttemptEnded,
    CancelAsked,
    JobGivenUp,
    JobReleased,
    NodeJoined,
    NodeDrained,
    NodeLost,
    NodeTroubled,
)
"""Events after which a job may find GPUs that it did not find before, or others may find its own."""
_QUIET = (
    JobAccepted,
    StepsSaved,
    JobsArchived,
    JobsForgotten,
    CheckpointsClaimed,
    Audited,
    JobCanSave,
    AttemptSaving,
    ClockSet,
    TimeLimitNear,
    SuccessionChanged,
    SpeedMeasured,
    ProfileWrong,
)
"""Events that change nothing for what should run before the next round."""


def _nobody(_: Sequence[Any]) -> None:
    """Nobody listens."""


class EventLog(Protocol):
    """Where events are committed: the journal."""

    def append(self, rows: Iterable[EventRow], archived: Iterable[Job] = (), forgotten: Iterable[int] = ()) -> int:
        """Commit events in one piece, and with them jobs that leave memory, or the archive. Raises OutputError."""


class Recorder:
    """Applies events and writes them down. Used by the thread that owns the registry."""

    def __init__(self, registry: Registry, heartbeats: Heartbeats, journal: EventLog) -> None:
        self._registry = registry
        self._heartbeats = heartbeats
        self._journal = journal
        self._lines = LineWriter(memory=True)
        self._applied: list[DeployEvent] = []
        self._archived: list[Job] = []
        self._forgotten: list[int] = []
        self._news: list[Any] = []
        self.listener: Callable[[Sequence[Any]], None] = _nobody
        """Hears of events of both kinds once they are committed, in the order in which the registry took them over.
        Must not wait, and must not change them: the round does not go on before."""

    @property
    def moving(self) -> bool:
        """Whether something was applied since the last commit that changes what should run."""
        return any(not isinstance(event, _QUIET) for event in self._applied)

    @property
    def lets_jobs_start(self) -> bool:
        """Whether something was applied since the last commit after which a job may find GPUs."""
        return any(isinstance(event, _LETS_JOBS_START) for event in self._applied)

    @property
    def pending(self) -> bool:
        """Whether something was applied that is not committed yet."""
        return bool(self._applied)

    # Events of the deployment

    def apply(self, events: Iterable[DeployEvent]) -> None:
        """Let the registry take over events; `commit` writes them down, before anybody hears of them."""
        for event in events:
            try:
                self._registry.apply(event)
            except IllegalTransition as error:
                self._give_up(error, event.at, type(event).__name__)
                continue
            self._applied.append(event)
            self._news.append(event)
            if isinstance(event, AttemptEnded):
                self._heartbeats.forget((event.job, event.epoch))

    def archive(self, jobs: Sequence[Job], now: float) -> None:
        """Move jobs that are over from memory to the table of finished jobs, with the next commit."""
        self._archived += jobs
        self.apply([JobsArchived(at=now, jobs=tuple(job.id for job in jobs))])

    def forget(self, jobs: Sequence[int], now: float) -> None:
        """Take jobs out of the table of finished jobs, with the next commit."""
        self._forgotten += jobs
        self.apply([JobsForgotten(at=now, count=len(jobs))])

    def commit(self) -> None:
        """Write down what was applied. Raises OutputError."""
        if self._applied:
            self._journal.append([event_row(event) for event in self._applied], self._archived, self._forgotten)
        self._applied = []
        self._archived = []
        self._forgotten = []
        self._tell()

    def _tell(self) -> None:
        news = self._news
        if news:
            self._news = []
            self.listener(news)

    def record(self, event: DeployEvent) -> None:
        """Make a single event happen."""
        self.apply([event])
        self.commit()

    # Events of the engine

    def commit_engine_event(self, event: Event) -> None:
        """Write down an event of the engine, before its state has it."""
        self._journal.append([(event.at, type(event).__name__, self._lines.write(event))])

    def apply_engine_event(self, event: Event) -> None:
        """Let the registry take over an event of the engine, once the state has it."""
        self._news.append(event)
        try:
            self._registry.apply(event)
        except IllegalTransition as error:
            self._give_up(error, event.at, type(event).__name__)
            self.commit()
        except Exception:
            log.exception("the registry cannot take over %s; the scheduler goes on", type(event).__name__)
        if not self._applied:
            self._tell()

    def write_next_plan_in_full(self) -> None:
        """Whoever reads on from a snapshot has not seen the plan before."""
        self._lines = LineWriter(memory=True)

    def _give_up(self, error: IllegalTransition, at: float, what: str) -> None:
        log.error("%s was left out: %s", what, error, extra=about(job=error.job, event=what))
        job = None if error.job is None else self._registry.live.get(error.job)
        if job is None or job.final_phase is not None:
            return
        given_up = JobGivenUp(at=at, job=job.id, reason=f"internal error: {what} was impossible: {error}")
        self._registry.apply(given_up)
        self._applied.append(given_up)
        self._news.append(given_up)


def event_row(event: DeployEvent) -> EventRow:
    """An event as it is committed."""
    fields = to_fields(event)
    return event.at, fields["event"], json.dumps(fields, separators=(",", ":"))
