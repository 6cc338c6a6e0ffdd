"""Counters and histograms of `rota serve --metrics`, fed with events. They begin at 0 when the scheduler starts."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from rota.core.lifecycle import FINAL_PHASES, AttemptOutcome, StopReason
from rota.deploy import events as deploy_events
from rota.deploy.observation.estimates import OpenEstimates
from rota.deploy.observation.gpu_time import GpuTime, type_of
from rota.deploy.observation.labels import MOST_TENANTS, Labels
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.records import Attempt, Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.stage_times import Stage

_LONG_S = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800)
"""Waiting and running: from a second to a week."""
_SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_COMMIT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_ERROR_S = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)

PREEMPTED = "preempted"
MOVED = "moved"
DRAINED = "drained"
_CAUSES = {StopReason.PREEMPTED: PREEMPTED, StopReason.MOVED: MOVED}
_STAGES = tuple(stage for stage in Stage if stage is not Stage.COMMIT)


class Counting:
    """Watches events and counts. Times of jobs are those of the scheduler's clock."""

    def __init__(self, collectors: CollectorRegistry, clock: WallClock, estimates: OpenEstimates) -> None:
        self._clock = clock
        self._estimates = estimates
        self.tenants = Labels(MOST_TENANTS)
        self.gpu_time = GpuTime()
        self._make_counters(collectors)
        self._make_histograms(collectors)
        self._show_zeros()

    def _make_counters(self, collectors: CollectorRegistry) -> None:
        self.submitted = Counter(
            "rota_jobs_submitted_total", "Jobs that were accepted.", ["tenant"], registry=collectors
        )
        self.over = Counter(
            "rota_jobs_ended_total", "Jobs that are over, by how they ended.", ["tenant", "phase"], registry=collectors
        )
        self.preemptions = Counter(
            "rota_preemptions_total",
            "Attempts that were asked to stop for the sake of others: preempted, moved, or off a drained server.",
            ["cause"],
            registry=collectors,
        )
        self.attempts_ended = Counter(
            "rota_attempts_ended_total", "Attempts that ended, by outcome.", ["reason"], registry=collectors
        )
        self.lost = Counter(
            "rota_lost_gpu_seconds_total",
            "GPU-seconds of work behind the last checkpoint that were lost with attempts, by outcome.",
            ["reason"],
            registry=collectors,
        )
        self.nodes_lost = Counter(
            "rota_nodes_lost_total", "Servers that were not heard of for too long.", registry=collectors
        )

    def _make_histograms(self, collectors: CollectorRegistry) -> None:
        self.wait = Histogram(
            "rota_job_wait_seconds",
            "From the submission of a job to its first start.",
            buckets=_LONG_S,
            registry=collectors,
        )
        self.completion = Histogram(
            "rota_job_completion_seconds",
            "From the submission of a job to its end, of jobs that finished.",
            buckets=_LONG_S,
            registry=collectors,
        )
        self.round = Histogram(
            "rota_round_seconds",
            "Wall seconds of the stages of a decision.",
            ["stage"],
            buckets=_SHORT_S,
            registry=collectors,
        )
        self.commit = Histogram(
            "rota_journal_commit_seconds",
            "Wall seconds of a commit to the state file.",
            buckets=_COMMIT_S,
            registry=collectors,
        )
        self.eta_error = Histogram(
            "rota_eta_error_seconds",
            "How far estimates of `rota eta` were from the start of the job.",
            buckets=_ERROR_S,
            registry=collectors,
        )

    def _show_zeros(self) -> None:
        """Series whose labels are known in advance begin at 0, so that the first increase is one."""
        for cause in (PREEMPTED, MOVED, DRAINED):
            self.preemptions.labels(cause)
        for outcome in AttemptOutcome:
            self.attempts_ended.labels(outcome.value)
            self.lost.labels(outcome.value)
        for stage in _STAGES:
            self.round.labels(stage.value)

    # What happens

    def copied(self, registry: Registry) -> None:
        """The copy of the registry is a new one."""
        for job in registry.live.values():
            self._show_tenant(self.tenants.of(job.tenant))
        self.gpu_time.begin(registry, self._clock.now(), self.tenants.of)

    def happens(self, event: Any, registry: Registry) -> None:
        """Count an event that the registry has not taken over yet."""
        if isinstance(event, deploy_events.JobAccepted):
            label = self.tenants.of(event.spec.tenant or "default")
            self._show_tenant(label)
            self.submitted.labels(label).inc()
        elif isinstance(event, deploy_events.AttemptStarted):
            self._started(event, registry)
        elif isinstance(event, deploy_events.AttemptStopping):
            self._stopping(event, registry)
        elif isinstance(event, deploy_events.AttemptEnded):
            self._attempt_ended(event, registry)
        elif isinstance(event, deploy_events.NodeLost):
            self.nodes_lost.inc()

    def _show_tenant(self, label: str) -> None:
        self.submitted.labels(label)
        for phase in FINAL_PHASES:
            self.over.labels(label, phase.value)

    def _started(self, event: deploy_events.AttemptStarted, registry: Registry) -> None:
        job = registry.jobs.get(event.job)
        if job is None:
            return
        if job.started < 0:
            self.wait.observe(max(0.0, event.at - job.submitted))
        for error_s in self._estimates.errors_s(event.job, event.at):
            self.eta_error.observe(error_s)
        key = (self.tenants.of(job.tenant), type_of(registry, event.parts))
        self.gpu_time.started(event.job, key, event.parts, event.at)

    def _stopping(self, event: deploy_events.AttemptStopping, registry: Registry) -> None:
        cause = _CAUSES.get(event.reason)
        attempt = _attempt_of(registry, event.job, event.epoch)
        if cause is None or attempt is None:
            return
        nodes = (registry.nodes.get(name) for name in attempt.nodes)
        drained = any(node is not None and node.drained for node in nodes)
        self.preemptions.labels(DRAINED if drained else cause).inc()

    def _attempt_ended(self, event: deploy_events.AttemptEnded, registry: Registry) -> None:
        attempt = _attempt_of(registry, event.job, event.epoch)
        if attempt is None:
            return
        self.attempts_ended.labels(event.outcome.value).inc()
        gpus = sum(len(part.devices) for part in attempt.parts)
        self.lost.labels(event.outcome.value).inc(max(0.0, event.lost_s) * gpus)
        self.gpu_time.ended(event.job, event.at)

    def ended(self, job: Job) -> None:
        """A job is over."""
        self._estimates.forget(job.id)
        self.over.labels(self.tenants.of(job.tenant), job.phase.value).inc()
        if job.phase.value == "finished":
            self.completion.observe(max(0.0, job.ended - job.submitted))

    def took(self, stage: Stage, seconds: float) -> None:
        """A stage took so long."""
        if stage is Stage.COMMIT:
            self.commit.observe(seconds)
        else:
            self.round.labels(stage.value).observe(seconds)


def _attempt_of(registry: Registry, number: int, epoch: int) -> Attempt | None:
    job = registry.jobs.get(number)
    attempt = None if job is None else job.attempt
    return attempt if attempt is not None and attempt.epoch == epoch else None
