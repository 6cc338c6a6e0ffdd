"""All jobs, attempts and nodes that the scheduler keeps in memory, beside the engine's state.

Like that state it changes only through events, those of the engine included, so a journal rebuilds it. What an agent
says from moment to moment (steps on the way, signs of life) is in `heartbeats` and may be lost.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.core import events as engine_events
from rota.core.errors import IllegalTransition
from rota.core.job_spec import bytes_of
from rota.core.lifecycle import FINAL_PHASES, JobPhase
from rota.deploy import events as deploy_events
from rota.deploy.scheduler import attempt_accounts
from rota.deploy.scheduler.attempt_accounts import RestartTimes
from rota.deploy.scheduler.clock import ClockReading
from rota.deploy.scheduler.learned_speeds import LearnedSpeeds
from rota.deploy.scheduler.node_events import NODE_HANDLERS
from rota.deploy.scheduler.queue_index import QueueIndex
from rota.deploy.scheduler.records import (
    MOST_ATTEMPTS,
    Attempt,
    AttemptRecord,
    FailedDecisions,
    Job,
    Node,
    SetLive,
    places_of,
)


@dataclass(kw_only=True)
class Registry:
    """Jobs and nodes."""

    jobs: dict[int, Job] = field(default_factory=dict)
    """All in memory: those that are not over, and those that are not over for long."""
    live: dict[int, Job] = field(default_factory=dict)
    """Those that are not over."""
    running: dict[int, Job] = field(default_factory=dict)
    """Those with an attempt."""
    ended: dict[int, Job] = field(default_factory=dict)
    """Those that are over, in the order of their ends."""
    nodes: dict[str, Node] = field(default_factory=dict)
    requests: dict[str, list[int]] = field(default_factory=dict)
    """Jobs by the name that the submitter gave the request."""
    next_job: int = 0
    archived: int = 0
    """Jobs that left memory."""
    last_round: float = 0.0
    """When the engine decided last."""
    begun: float = 0.0
    config: Mapping[str, Any] = field(default_factory=dict)
    counts: dict[JobPhase, int] = field(default_factory=lambda: dict.fromkeys(sorted(FINAL_PHASES), 0))
    """Jobs that are over, those that left memory included."""
    failed_decisions: FailedDecisions = field(default_factory=FailedDecisions)
    checkpoints: str = ""
    """The folder of checkpoints that is ours."""
    own_checkpoints_from: int = 0
    """Folders of unknown jobs with lower numbers may be somebody else's."""
    restart_times: RestartTimes = field(default_factory=RestartTimes)
    generation: int = 0
    """How often a scheduler was started on this journal."""
    clock: ClockReading | None = None
    """All clocks when that happened last."""
    clock_sets: int = 0
    """How often the wall clock of the scheduler's machine was set."""
    last_clock_set: deploy_events.ClockSet | None = None
    first_epoch: int = 1
    """Numbers of attempts that are started are not below it."""
    succession: deploy_events.SuccessionChanged | None = None
    """The term of the scheduler and its standby; None: there was never one."""
    set_live: SetLive = field(default_factory=SetLive)
    speeds: LearnedSpeeds = field(default_factory=LearnedSpeeds)

    def __post_init__(self) -> None:
        self._apply = self._handlers()
        # Number of the jobs of each tenant that are not over.
        self.live_by_tenant = Counter(job.tenant for job in self.live.values())
        self.queue = QueueIndex(self.jobs)
        # Size of the jobs that are over, in bytes.
        self.ended_bytes = sum(bytes_of(job.spec) for job in self.ended.values())
        self.changes = 0  # Number of events that were applied.

    def _handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            **{kind: functools.partial(handle, self) for kind, handle in NODE_HANDLERS.items()},
            deploy_events.ServiceStarted: self._service_started,
            deploy_events.ClockSet: self._clock_set,
            deploy_events.SettingsChanged: self._settings_changed,
            deploy_events.EventsLost: self._events_lost,
            deploy_events.SuccessionChanged: self._succession_changed,
            deploy_events.JobAccepted: self._accepted,
            deploy_events.CancelAsked: self._cancelled,
            deploy_events.JobGivenUp: self._given_up,
            deploy_events.JobWaits: self._waits,
            deploy_events.JobsArchived: self._archived,
            deploy_events.JobsForgotten: self._forgotten,
            deploy_events.CheckpointsClaimed: self._claimed,
            deploy_events.AttemptStarted: self._started,
            deploy_events.AttemptResized: self._resized,
            deploy_events.AttemptStopping: self._stopping,
            deploy_events.StepsSaved: self._saved,
            deploy_events.AttemptEnded: self._attempt_ended,
            deploy_events.LeasesExtended: self._extended,
            deploy_events.JobCanSave: self._can_save,
            deploy_events.AttemptSaving: self._saving,
            deploy_events.SpeedMeasured: self._speed_seen,
            deploy_events.ProfileWrong: self._speed_seen,
            engine_events.JobsSubmitted: self._submitted,
            engine_events.JobsRejected: self._rejected,
            engine_events.JobsDropped: self._rejected,
            engine_events.JobsFinished: self._finished,
            engine_events.JobsParked: self._parked,
            engine_events.JobsPinned: self._pinned,
            engine_events.JobsReturned: self._returned,
            engine_events.Planned: self._decided,
            engine_events.RoundsRan: self._decided,
            engine_events.ProgressMade: self._progressed,
            engine_events.SolveFailed: self._decision_failed,
            engine_events.PlacementFailed: self._decision_failed,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the table of handlers."""
        return {name: value for name, value in self.__dict__.items() if name != "_apply"}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved, _apply=self._handlers())

    def apply(self, event: Any) -> None:
        """Take over what happened. After IllegalTransition the job that it names is in the phase in which it was."""
        handler = self._apply.get(type(event))
        self.changes += 1
        try:
            if handler is not None:
                handler(event)
        except IllegalTransition:
            self.queue.look_again(event)  # the other jobs that it is about have changed
            raise
        self.queue.take(event)

    def attempts_on(self, node: str) -> list[tuple[Job, Attempt]]:
        """Jobs with an attempt that has a part on a node."""
        held = ((job, job.attempt) for job in self.running.values())
        return [(job, attempt) for job, attempt in held if attempt is not None and node in attempt.nodes]

    # Jobs

    def _accepted(self, event: deploy_events.JobAccepted) -> None:
        if event.job in self.jobs:
            raise IllegalTransition(f"job {event.job} is accepted a second time", self.jobs[event.job].story, event.job)
        job = Job(
            id=event.job,
            spec=event.spec,
            submitted=event.at,
            by=event.by,
            request=event.request,
            secrets=event.secrets,
            array=event.array,
        )
        self.jobs[event.job] = job
        self.live[event.job] = job
        self.live_by_tenant[job.tenant] += 1
        self.next_job = max(self.next_job, event.job + 1)
        if event.request:
            self.requests.setdefault(event.request, []).append(event.job)
        job.note(event)

    def _cancelled(self, event: deploy_events.CancelAsked) -> None:
        self._conclude(event, JobPhase.CANCELLED, event.reason or f"cancelled by {event.by}")
        if not self.jobs[event.job].admitted:
            self._end(event.job, event.at, JobPhase.CANCELLED)

    def _given_up(self, event: deploy_events.JobGivenUp) -> None:
        self._conclude(event, JobPhase.FAILED, event.reason)
        if not self.jobs[event.job].admitted:
            self._end(event.job, event.at, JobPhase.FAILED)

    def _conclude(self, event: Any, final_phase: JobPhase, reason: str) -> None:
        """How a job ends is decided; the engine hears of it at the end of the round."""
        job = self.jobs[event.job]
        if job.over:
            job.move(final_phase)
        job.note(event)
        job.final_phase = final_phase
        job.reason = reason
        job.ended = event.at

    def _waits(self, event: deploy_events.JobWaits) -> None:
        job = self.jobs[event.job]
        job.move(JobPhase.WAITING)
        job.note(event)
        job.wait_until = math.inf if event.until < 0 else event.until
        job.reason = event.reason

    def _end(self, number: int, at: float, phase: JobPhase, reason: str = "") -> None:
        job = self.live.get(number)
        if job is None:
            return
        try:
            job.move(job.final_phase or phase)
        except IllegalTransition:
            job.admitted = False  # the engine has let go of it all the same
            raise
        del self.live[number]
        self.live_by_tenant[job.tenant] -= 1
        if not self.live_by_tenant[job.tenant]:
            del self.live_by_tenant[job.tenant]
        self.ended[number] = job
        self.ended_bytes += bytes_of(job.spec)
        job.reason = job.reason if job.final_phase else reason
        job.ended = at if job.ended < 0 else job.ended
        self.counts[job.phase] += 1

    def _archived(self, event: deploy_events.JobsArchived) -> None:
        for number in event.jobs:
            job = self.jobs.pop(number)
            if self.ended.pop(number, None) is not None:
                self.ended_bytes -= bytes_of(job.spec)
            self.archived += 1
            jobs = self.requests.get(job.request, ())
            if jobs and not any(other in self.jobs for other in jobs):
                del self.requests[job.request]

    def _forgotten(self, event: deploy_events.JobsForgotten) -> None:
        self.archived -= event.count

    def _claimed(self, event: deploy_events.CheckpointsClaimed) -> None:
        self.checkpoints = event.folder
        self.own_checkpoints_from = event.own_from
        self.next_job = max(self.next_job, event.next_job)

    # What the engine says

    def _submitted(self, event: engine_events.JobsSubmitted) -> None:
        for number in range(event.first_id, event.first_id + len(event.jobs)):
            self.jobs[number].admitted = True

    def _rejected(self, event: engine_events.JobsRejected | engine_events.JobsDropped) -> None:
        self._each(event.jobs.tolist(), lambda number: self._end(number, event.at, JobPhase.FAILED, event.reason))

    def _finished(self, event: engine_events.JobsFinished) -> None:
        finished_at = dict(zip(event.jobs.tolist(), event.finished_at.tolist(), strict=True))
        self._each(finished_at, lambda number: self._end(number, finished_at[number], JobPhase.FINISHED))

    @staticmethod
    def _each(numbers: Iterable[int], change: Callable[[int], None]) -> None:
        """Change several jobs; if one of them cannot be changed so, the others are, and then that is said."""
        refused: IllegalTransition | None = None
        for number in numbers:
            try:
                change(number)
            except IllegalTransition as error:  # noqa: PERF203 - each job by itself
                refused = error
        if refused is not None:
            raise refused

    def _decided(self, event: engine_events.Planned | engine_events.RoundsRan) -> None:
        self.last_round = event.at

    def _decision_failed(self, event: Any) -> None:
        self.failed_decisions.add(event.at, event.reason)

    def _progressed(self, event: engine_events.ProgressMade) -> None:
        for number, steps in zip(event.jobs.tolist(), event.steps.tolist(), strict=True):
            self.jobs[number].reported_steps += steps

    def _parked(self, event: engine_events.JobsParked) -> None:
        for number in event.jobs.tolist():
            self.jobs[number].parked = True
            self.jobs[number].pinned = False

    def _pinned(self, event: engine_events.JobsPinned) -> None:
        for number in event.jobs.tolist():
            self.jobs[number].pinned = event.pinned

    def _returned(self, event: engine_events.JobsReturned) -> None:
        for number in event.jobs.tolist():
            job = self.jobs[number]
            if job.phase is JobPhase.WAITING:
                job.move(JobPhase.QUEUED)
            job.parked = False
            job.wait_until = 0.0
            job.reason = "" if job.final_phase is None else job.reason

    # Attempts

    def _attempt(self, event: Any) -> Attempt | None:
        """The attempt an event speaks of, if it is the current one."""
        attempt = self.jobs[event.job].attempt
        return attempt if attempt is not None and attempt.epoch == event.epoch else None

    def _started(self, event: deploy_events.AttemptStarted) -> None:
        job = self.jobs[event.job]
        job.move(JobPhase.RUNNING)
        job.note(event)
        job.epoch = event.epoch
        job.log_node = event.parts[0].node
        job.started = event.at if job.started < 0 else job.started
        job.wait_until = 0.0
        job.reason = ""
        job.usual_restart_s = self.restart_times.stop_s + self.restart_times.start_s
        job.attempt = Attempt(
            epoch=event.epoch,
            parts=event.parts,
            started=event.at,
            lease_until=event.lease_until,
            resume=event.resume,
            resume_step=event.resume_step,
            rate=event.rate,
            port=event.port,
            least_turn_until=event.at + attempt_accounts.least_turn_s(job, self.config),
            saved_at=event.at,
        )
        self.running[event.job] = job
        record = AttemptRecord(epoch=event.epoch, places=places_of(job.spec, event.parts), started=event.at)
        job.attempts = (*job.attempts[1 - MOST_ATTEMPTS :], record)

    def _resized(self, event: deploy_events.AttemptResized) -> None:
        attempt = self._attempt(event)
        if attempt is not None:
            attempt.parts = event.parts
            attempt.rate = event.rate

    def _stopping(self, event: deploy_events.AttemptStopping) -> None:
        job = self.jobs[event.job]
        attempt = self._attempt(event)
        if attempt is None:
            return
        if not job.over:
            job.move(JobPhase.STOPPING)
        job.note(event)
        attempt.stop_reason = event.reason
        attempt.stop_detail = event.detail
        attempt.stop_asked = event.at

    def _saved(self, event: deploy_events.StepsSaved) -> None:
        job = self.jobs[event.job]
        if event.epoch == job.epoch and event.step > job.saved_step:
            attempt_accounts.count_saved(job, event)

    def _can_save(self, event: deploy_events.JobCanSave) -> None:
        self.jobs[event.job].seen_saving = event.how

    def _saving(self, event: deploy_events.AttemptSaving) -> None:
        attempt = self._attempt(event)
        if attempt is not None:
            attempt.saving = event.saving

    def _speed_seen(self, event: deploy_events.SpeedMeasured | deploy_events.ProfileWrong) -> None:
        attempt_accounts.take_speed(self.speeds, self.jobs[event.job], event)

    def _attempt_ended(self, event: deploy_events.AttemptEnded) -> None:
        job = self.jobs[event.job]
        attempt = self._attempt(event)
        if attempt is None:
            return
        if not job.over:
            job.move(JobPhase.QUEUED)
        job.note(event)
        job.attempt = None
        job.exit_code = event.exit_code
        del self.running[event.job]
        attempt_accounts.close_account(self.restart_times, job, attempt, event)

    def _extended(self, event: deploy_events.LeasesExtended) -> None:
        for number, epoch in event.attempts:
            attempt = self.jobs[number].attempt
            if attempt is not None and attempt.epoch == epoch:
                attempt.lease_until = max(attempt.lease_until, event.until)

    # The scheduler itself

    def _service_started(self, event: deploy_events.ServiceStarted) -> None:
        self.begun = event.begun
        self.generation = max(self.generation + 1, event.generation)
        wall = event.begun + event.at / float(event.config.get("time_scale", 1.0))
        self.clock = ClockReading(at=event.at, wall=wall, boot=event.boot, machine_s=event.machine_s)
        self.config = event.config

    def _clock_set(self, event: deploy_events.ClockSet) -> None:
        self.clock_sets += 1
        self.last_clock_set = event

    def _settings_changed(self, event: deploy_events.SettingsChanged) -> None:
        self.config = event.config
        self.set_live = SetLive(settings=dict(event.live), times=self.set_live.times + 1, by=event.by, at=event.at)

    def _events_lost(self, event: deploy_events.EventsLost) -> None:
        self.next_job = max(self.next_job, event.next_job)
        self.first_epoch = max(self.first_epoch, event.first_epoch)

    def _succession_changed(self, event: deploy_events.SuccessionChanged) -> None:
        self.succession = event
