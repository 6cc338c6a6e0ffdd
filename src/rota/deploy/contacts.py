"""What agents said last, and what they were told. Kept in memory only: after a restart they say it again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

Key = tuple[int, int]
"""(job, epoch)"""


@dataclass(slots=True, kw_only=True)
class Seen:
    """A task as its agent sees it."""

    phase: str = "starting"
    step: int = 0
    saved_step: int = 0
    saved_path: str = ""
    outcome: str = ""
    exit_code: int = 0
    detail: str = ""
    answers: tuple[tuple[int, str], ...] = ()
    """(rank, JSON): what ranks of a gang said about where to stop."""


@dataclass(slots=True, kw_only=True)
class Contact:
    """One agent."""

    heard: float = field(default_factory=time.monotonic)
    sequence: int = 0
    taken_over: int = 0
    """The newest order it has acted on."""
    tasks: dict[Key, Seen] = field(default_factory=dict)
    ordered: dict[Key, int] = field(default_factory=dict)
    """Since which order a task is on its list."""
    lateness_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Report:
    """What an agent says it runs: the whole picture."""

    node: str
    session: str
    sequence: int
    taken_over: int
    tasks: dict[Key, Seen]
    lateness_s: float = 0.0


class Contacts:
    """All agents."""

    def __init__(self) -> None:
        self._all: dict[str, Contact] = {}
        self.progress: dict[Key, tuple[int, float]] = {}
        """Live step of an attempt and when it last changed (monotonic)."""

    def of(self, node: str) -> Contact:
        """The contact of a node; one that was never heard counts as heard now, so that it gets its time."""
        return self._all.setdefault(node, Contact())

    def renew(self, node: str) -> None:
        """The agent registered: forget what its predecessor said."""
        self._all[node] = Contact()

    def silent_s(self, node: str) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - self.of(node).heard

    def take(self, report: Report) -> bool:
        """Take over a report; False if a newer one was there already."""
        contact = self.of(report.node)
        if report.sequence <= contact.sequence:
            return False
        contact.heard, contact.sequence = time.monotonic(), report.sequence
        contact.taken_over, contact.tasks = report.taken_over, report.tasks
        contact.lateness_s = report.lateness_s
        for key, seen in report.tasks.items():
            before = self.progress.get(key)
            if before is None or seen.step > before[0]:
                self.progress[key] = (seen.step, contact.heard)
        return True

    def forget(self, key: Key) -> None:
        """An attempt is over."""
        self.progress.pop(key, None)
        for contact in self._all.values():
            contact.ordered.pop(key, None)
