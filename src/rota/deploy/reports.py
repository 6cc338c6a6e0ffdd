"""From what agents report to events. Pure: the book and the contacts are read, not changed."""

from __future__ import annotations

from rota.deploy.book import RANK_ENDED, Attempt, Book, Job
from rota.deploy.contacts import Contacts, Seen
from rota.deploy.events import (
    AttemptEnded,
    AttemptStopping,
    DeployEvent,
    JobGivenUp,
    JobWaits,
    StepsSaved,
)

MOST_LOSSES = 5
"""So often in a row a job may be lost with its server before it is taken for the reason."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 300.0


def read_report(book: Book, contacts: Contacts, node: str, now: float, scale: float) -> list[DeployEvent]:
    """What follows from the last report of a node."""
    events: list[DeployEvent] = []
    contact = contacts.of(node)
    concerned = [job for job in book.running.values() if job.attempt is not None and node in job.attempt.nodes]
    for job in concerned:
        attempt = job.attempt
        assert attempt is not None  # that is how they were chosen
        seen = contact.tasks.get((job.id, attempt.epoch))
        if seen is not None and seen.saved_step > job.credited:
            events.append(
                StepsSaved(
                    at=now,
                    job=job.id,
                    epoch=attempt.epoch,
                    step=seen.saved_step,
                    path=seen.saved_path or job.checkpoint,
                )
            )
        events += judge(book, contacts, job, now, scale)
    return events


def judge(book: Book, contacts: Contacts, job: Job, now: float, scale: float) -> list[DeployEvent]:
    """Whether the attempt of a job has ended, or has to."""
    attempt = job.attempt
    if attempt is None:
        return []
    key = (job.id, attempt.epoch)
    states = [_state(book, contacts, node, key, attempt) for node in attempt.nodes]
    ended = [state for state in states if state is not None and state.phase == "ended"]
    if not ended:
        return []
    worst = next((s for s in ended if s.outcome not in ("completed", "stopped")), ended[0])
    if len(ended) < len(states):
        well = worst.outcome in ("completed", "stopped")
        if attempt.broken or worst.outcome == "completed" or (attempt.stopping and well):
            return []
        return [AttemptStopping(at=now, job=job.id, epoch=attempt.epoch, reason=f"{RANK_ENDED}{worst.outcome}")]
    return _close(job, attempt, worst, now, scale)


def _state(book: Book, contacts: Contacts, node: str, key: tuple[int, int], attempt: Attempt) -> Seen | None:
    """A task as its agent sees it; one that an agent should know of and does not is lost."""
    if book.nodes[node].lost:
        return Seen(phase="ended", outcome="lost", detail=f"{node} is lost ({book.nodes[node].reason})")
    if node in attempt.forgotten:
        return Seen(phase="ended", outcome="lost", detail=f"the agent of {node} lost its memory: its folder is new")
    contact = contacts.of(node)
    seen = contact.tasks.get(key)
    if seen is None and key in contact.ordered and contact.taken_over >= contact.ordered[key]:
        return Seen(phase="ended", outcome="lost", detail=f"the agent of {node} does not know it any more")
    return seen


def _close(job: Job, attempt: Attempt, last: Seen, now: float, scale: float) -> list[DeployEvent]:
    """The end of an attempt and what it means for the job."""
    outcome, detail = last.outcome, last.detail
    if attempt.stopping.startswith(("hung", RANK_ENDED)) and outcome == "stopped":
        outcome = "hung" if attempt.stopping.startswith("hung") else "failed"
        detail = attempt.stopping.removeprefix("hung: ")
    detail = detail or (attempt.stopping if outcome == "failed" else "")
    ended = AttemptEnded(
        at=now, job=job.id, epoch=attempt.epoch, outcome=outcome, exit_code=last.exit_code, detail=detail
    )
    if job.verdict or outcome in ("completed", "stopped"):
        return [ended]
    if outcome == "lost":
        if job.losses + 1 < MOST_LOSSES:
            return [ended]
        reason = f"lost {MOST_LOSSES} times in a row without saving a step ({detail})"
        return [ended, JobGivenUp(at=now, job=job.id, reason=reason)]
    failures, allowed = job.restarts + 1, int(job.spec.get("max_restarts", 3))
    what = f"{outcome}: {detail}" if detail else f"{outcome} (exit code {last.exit_code})"
    if failures > allowed:
        return [ended, JobGivenUp(at=now, job=job.id, reason=f"{what}; {failures} failed attempts")]
    pause = min(_FIRST_PAUSE_S * 2 ** (failures - 1), _LONGEST_PAUSE_S) * scale
    return [ended, JobWaits(at=now, job=job.id, until=now + pause, reason=f"{what}; tried again after a pause")]
