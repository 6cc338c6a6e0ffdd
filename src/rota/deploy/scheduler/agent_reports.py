"""From what agents report to events: what was saved, which attempts have ended, what that means for their jobs.

Pure: the registry and the heartbeats are read, not changed.
"""

from __future__ import annotations

from dataclasses import replace

from rota.client.stalls import StallTimes, mean_times
from rota.core.lifecycle import AttemptOutcome, StopReason, TaskPhase
from rota.deploy.events import (
    AttemptEnded,
    AttemptSaving,
    AttemptStopping,
    DeployEvent,
    JobCanSave,
    JobGivenUp,
    JobWaits,
    NodeDrained,
    StepsSaved,
)
from rota.deploy.numbering import same_generation
from rota.deploy.scheduler.heartbeats import AgentContact, Heartbeats, TaskReport
from rota.deploy.scheduler.lost_work import LostWork, cut_off, lost_work
from rota.deploy.scheduler.records import Attempt, AttemptKey, Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.time_limits import is_up, outcome_at_limit, reason_at_limit

MOST_LOSSES = 5
"""So often in a row a job may be lost with its server before it is taken for the reason."""
_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 300.0
_STOPS_BY_FAILURE = {
    StopReason.HUNG: AttemptOutcome.HUNG,
    StopReason.RANK_STOPPED: AttemptOutcome.FAILED,
    StopReason.RANK_FAILED: AttemptOutcome.FAILED,
}
"""How an attempt ended that stopped in order, if it was asked to for such a reason."""


def events_of_report(
    registry: Registry, heartbeats: Heartbeats, node: str, now: float, time_scale: float
) -> list[DeployEvent]:
    """What follows from the last report of a node."""
    events: list[DeployEvent] = []
    tasks = heartbeats.of(node).tasks
    for job, attempt in registry.attempts_on(node):
        task = tasks.get((job.id, attempt.epoch))
        if task is not None:
            events += _events_of_saving(heartbeats, job, attempt, task, now)
        events += events_of_attempt(registry, heartbeats, job, now, time_scale)
    return events


def events_of_leaving(registry: Registry, node: str, reason: str, now: float) -> list[DeployEvent]:
    """An agent goes for good: nothing starts there any more, and what runs is asked to save and stop at once."""
    events: list[DeployEvent] = [NodeDrained(at=now, node=node, drained=True, by=f"its agent: {reason}")]
    events += [
        AttemptStopping(
            at=now, job=job.id, epoch=attempt.epoch, reason=StopReason.PREEMPTED, detail=f"{node} leaves: {reason}"
        )
        for job, attempt in registry.attempts_on(node)
        if not attempt.stopping
    ]
    return events


def _events_of_saving(
    heartbeats: Heartbeats, job: Job, attempt: Attempt, task: TaskReport, now: float
) -> list[DeployEvent]:
    """What a task says about checkpoints: that it can make them, that it makes one, that one is safe."""
    events: list[DeployEvent] = []
    saved = task.saved_step > job.saved_step
    if not job.saves and (task.can_save or saved):
        how = "its command uses rota.client and saves" if task.can_save else "it saved a checkpoint"
        events.append(JobCanSave(at=now, job=job.id, how=how))
    if saved:
        path = task.saved_path or job.checkpoint
        events.append(
            StepsSaved(at=now, job=job.id, epoch=attempt.epoch, step=task.saved_step, path=path, took_s=task.save_s)
        )
    saving = any(heartbeats.is_saving(node, (job.id, attempt.epoch)) for node in attempt.nodes)
    if saving != attempt.saving:
        events.append(AttemptSaving(at=now, job=job.id, epoch=attempt.epoch, saving=saving))
    return events


def events_of_attempt(
    registry: Registry, heartbeats: Heartbeats, job: Job, now: float, time_scale: float
) -> list[DeployEvent]:
    """Whether the attempt of a job has ended, or has to."""
    attempt = job.attempt
    if attempt is None:
        return []
    key = (job.id, attempt.epoch)
    tasks = [_task(registry, heartbeats, node, key, attempt, now) for node in attempt.nodes]
    ended = [task for task in tasks if task is not None and task.phase is TaskPhase.ENDED]
    if not ended:
        return []
    worst = next((task for task in ended if not _outcome(task).well), ended[0])
    if len(ended) == len(tasks):
        lost = _lost_work(heartbeats, job, attempt, worst, ended, now)
        start_s = max(task.start_s for task in ended) * time_scale
        spent = mean_times([task.spent for task in ended])
        events = _events_of_end(job, attempt, worst, now, time_scale, lost, start_s)
        return [_with_times(event, spent) for event in events]
    return _events_of_first_end(job, attempt, _outcome(worst), now)


def _with_times(event: DeployEvent, spent: StallTimes) -> DeployEvent:
    return replace(event, **spent._asdict()) if isinstance(event, AttemptEnded) and any(spent) else event


def _lost_work(
    heartbeats: Heartbeats, job: Job, attempt: Attempt, worst: TaskReport, ended: list[TaskReport], now: float
) -> LostWork:
    outcome, _ = _how_it_ended(attempt, worst)
    if not any(task.start_s > 0 or task.step > 0 or task.detail for task in ended):
        return LostWork()  # it never began anywhere
    step = max(heartbeats.live_step((job.id, attempt.epoch)), *(task.step for task in ended), 0)
    saved_step = max(task.saved_step for task in ended)
    return lost_work(job, attempt, outcome, step=step, saved_step=saved_step, now=now)


def _outcome(task: TaskReport) -> AttemptOutcome:
    return AttemptOutcome.FAILED if task.outcome is None else task.outcome


def _task(
    registry: Registry, heartbeats: Heartbeats, node: str, key: AttemptKey, attempt: Attempt, now: float
) -> TaskReport | None:
    """A task as its agent sees it; one that an agent should know of and does not is lost."""
    record = registry.nodes.get(node)
    if record is None:
        return _lost(f"{node} was removed")
    if record.lost:
        return _lost(f"{node} is lost ({record.reason})")
    if node in attempt.forgotten:
        if attempt.lease_until > now:
            return None  # what the agent before this one started may run until then
        return _lost(f"the agent of {node} has a new folder and knows nothing of it")
    contact = heartbeats.of(node)
    task = contact.tasks.get(key)
    if task is None and _acknowledged(contact, key):
        return _lost(f"the agent of {node} does not know it any more")
    return task


def _acknowledged(contact: AgentContact, key: AttemptKey) -> bool:
    """Whether an agent has carried out a list with this task on it."""
    ordered = contact.ordered.get(key)
    if ordered is None or not same_generation(contact.acknowledged, ordered):
        return False
    return contact.acknowledged >= ordered


def _lost(detail: str) -> TaskReport:
    return TaskReport(phase=TaskPhase.ENDED, outcome=AttemptOutcome.LOST, detail=detail)


def _events_of_first_end(job: Job, attempt: Attempt, worst: AttemptOutcome, now: float) -> list[DeployEvent]:
    """Some ranks have ended and others have not: whether the others have to end."""
    if attempt.stop_reason is StopReason.RANK_FAILED or worst is AttemptOutcome.COMPLETED:
        return []
    if attempt.stopping and worst.well:
        return []
    reason = StopReason.RANK_STOPPED if worst is AttemptOutcome.STOPPED else StopReason.RANK_FAILED
    detail = f"a rank ended: {worst.value}"
    return [AttemptStopping(at=now, job=job.id, epoch=attempt.epoch, reason=reason, detail=detail)]


def _events_of_end(
    job: Job, attempt: Attempt, last: TaskReport, now: float, time_scale: float, lost: LostWork, start_s: float
) -> list[DeployEvent]:
    """The end of an attempt and what it means for the job."""
    outcome, detail = _how_it_ended(attempt, last)
    if cut_off(job, outcome, lost):
        outcome = AttemptOutcome.CUT_OFF
        why = f" ({detail})" if detail else ""
        detail = f"stopped before its checkpoint was complete: {lost.steps:,} steps lost{why}"
    outcome = outcome_at_limit(job, attempt, outcome, now)
    ended = AttemptEnded(
        at=now,
        job=job.id,
        epoch=attempt.epoch,
        outcome=outcome,
        exit_code=last.exit_code,
        detail=detail,
        lost_steps=lost.steps,
        lost_s=lost.seconds,
        times_to_zero=lost.times_to_zero,
        start_s=start_s,
    )
    if not (job.ending or outcome is AttemptOutcome.COMPLETED) and is_up(job, now):
        return [ended, JobGivenUp(at=now, job=job.id, reason=reason_at_limit(job, last.saved_step, now))]
    if job.ending or outcome.well or outcome is AttemptOutcome.CUT_OFF:
        return [ended]
    if outcome is AttemptOutcome.LOST:
        if job.losses + 1 < MOST_LOSSES:
            return [ended]
        reason = f"lost {MOST_LOSSES} times in a row without saving a step ({detail})"
        return [ended, JobGivenUp(at=now, job=job.id, reason=reason)]
    failures = job.failures + 1
    what = f"{outcome.value}: {detail}" if detail else f"{outcome.value} (exit code {last.exit_code})"
    if failures > job.spec.max_restarts:
        return [ended, JobGivenUp(at=now, job=job.id, reason=f"{what}; {_counted(failures)}")]
    until = now + pause_s(failures) * time_scale
    return [ended, JobWaits(at=now, job=job.id, until=until, reason=what)]


def _counted(failures: int) -> str:
    return f"{failures} failed attempts" + (" in a row without saving a step" if failures > 1 else "")


def _how_it_ended(attempt: Attempt, last: TaskReport) -> tuple[AttemptOutcome, str]:
    """Outcome and detail. An attempt that stopped in order because something was wrong with it has failed."""
    outcome = _outcome(last)
    if outcome is AttemptOutcome.STOPPED and attempt.stop_reason in _STOPS_BY_FAILURE:
        return _STOPS_BY_FAILURE[attempt.stop_reason], attempt.stop_detail
    if outcome is AttemptOutcome.FAILED and not last.detail and attempt.stop_reason is not None:
        return outcome, attempt.stop_detail or attempt.stop_reason.value
    return outcome, last.detail


def pause_s(failures: int) -> float:
    """Wall seconds that a job waits after its n-th failure."""
    return float(min(_FIRST_PAUSE_S * 2 ** min(failures - 1, 16), _LONGEST_PAUSE_S))
