"""What agents said last, and what they were told. Kept in memory only: after a restart they say it again."""

from __future__ import annotations

import time
from collections.abc import Iterable
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

    def __init__(self, heartbeat_s: float = 2.0) -> None:
        self._all: dict[str, Contact] = {}
        self._longest_gap_s = 2 * heartbeat_s
        self.progress: dict[Key, tuple[int, float]] = {}
        """Live step of an attempt and when it last changed (monotonic); time in which nobody was heard is left out."""

    def of(self, node: str) -> Contact:
        """The contact of a node; one that was never heard counts as heard now, so that it gets its time."""
        return self._all.setdefault(node, Contact())

    def renew(self, node: str) -> None:
        """The agent registered: forget what its predecessor said."""
        self._all[node] = Contact()

    def silent_s(self, node: str) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - self.of(node).heard

    def last_word(self, node: str) -> tuple[int, float]:
        """Number and age of the last report, for any thread: read in this order, the age is never too high."""
        contact = self.of(node)
        sequence = contact.sequence
        return sequence, time.monotonic() - contact.heard

    def take(self, report: Report) -> bool:
        """Take over a report; False if a newer one was there already."""
        contact = self.of(report.node)
        if report.sequence <= contact.sequence:
            return False
        now = time.monotonic()
        unheard = max(0.0, now - contact.heard - self._longest_gap_s)
        contact.heard, contact.sequence = now, report.sequence
        contact.taken_over, contact.tasks = report.taken_over, report.tasks
        contact.lateness_s = report.lateness_s
        for key, seen in report.tasks.items():
            before = self.progress.get(key)
            if before is None or seen.step > before[0]:
                self.progress[key] = (seen.step, now)
            elif unheard:
                self.progress[key] = (before[0], before[1] + unheard)
        return True

    def idle_s(self, key: Key, nodes: Iterable[str]) -> float:
        """How long an attempt makes no step, as far as its agents say so: a line that is cut is no job that hangs."""
        seen = self.progress.get(key)
        return 0.0 if seen is None else min(self.of(node).heard for node in nodes) - seen[1]

    def forget(self, key: Key) -> None:
        """An attempt is over."""
        self.progress.pop(key, None)
        for contact in self._all.values():
            contact.ordered.pop(key, None)
