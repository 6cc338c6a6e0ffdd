"""A journal whose newest events may be missing: restored from a backup, or taken over by a standby that was behind.

Agents may run jobs and attempts that such a journal does not know. Their numbers must not be given again, or an agent
would take one for the other. A mark beside the state file tells the next start of it.
"""

from __future__ import annotations

from pathlib import Path

from rota.core.files import write_text
from rota.deploy.events import EventsLost
from rota.deploy.scheduler.registry import Registry

_JOBS_SKIPPED = 100_000
"""Job numbers that may have been given in events that are missing: ten of the largest submissions."""
_EPOCHS_SKIPPED = 1_000
"""The same for attempts of one job."""


def mark_of(state: Path) -> Path:
    """Where the mark of a state file is."""
    return state.with_name(f"{state.name}.events-lost")


def mark(state: Path, why: str) -> None:
    """The next start goes on behind numbers that may be in use. Raises OSError."""
    write_text(mark_of(state), f"{why}\n", mode=0o600)


def event_of_loss(state: Path, registry: Registry, at: float) -> EventsLost | None:
    """What a start writes down if there is a mark; it is taken away once that is committed."""
    path = mark_of(state)
    if not path.exists():
        return None
    why = " ".join(path.read_text(encoding="utf-8", errors="replace").split())[:200]
    newest = max((job.epoch for job in registry.jobs.values()), default=0)
    return EventsLost(
        at=at,
        why=why,
        next_job=registry.next_job + _JOBS_SKIPPED,
        first_epoch=max(newest, registry.first_epoch) + _EPOCHS_SKIPPED,
    )


def forget(state: Path) -> None:
    """The loss is written down."""
    mark_of(state).unlink(missing_ok=True)
