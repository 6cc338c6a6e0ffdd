"""Events that nobody needs any more are removed from the journal, in small batches.

Only events that are in both snapshots may go: whichever of the two a restart reads, all events after it are there. Of
those, events that every round has go earlier than the rest, and if the file is too large the oldest go before their
time. Pages that become free are given back to the disk, or used again.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from dataclasses import dataclass

from rota.core.errors import OutputError
from rota.deploy.scheduler import journal_layout
from rota.deploy.scheduler.journal import Journal, removed_through

ROUND_EVENTS = ("Allocated", "LeasesExtended", "Planned", "ProgressMade", "RoundsRan")
"""Kinds of events that come with every round."""

_WINDOW = 500
"""Events that are looked at in one statement."""
_PAGES_AT_ONCE = 256
_FEW_FREE_PAGES = 64
"""So many, or a tenth of the file, may stay free: they are used again soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may stay."""

    events_since: float
    """Engine second; older events may go."""
    rounds_since: float
    """The same for events that every round has."""
    most_bytes: float


class Compaction:
    """Removes events. Used by the thread that owns the journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def step(self, limits: Limits, budget_s: float) -> int:
        """Remove events for at most so long, in one transaction; how many there were. Raises OutputError."""
        ends = time.perf_counter() + budget_s
        with self._journal.transaction(f"cannot remove events from {self._journal.path}") as db:
            through = _in_both_snapshots(db)
            facts = journal_layout.read_meta(db)
            removed = 0
            for name, kinds, since in (
                (journal_layout.ROUNDS_REMOVED, ROUND_EVENTS, limits.rounds_since),
                (journal_layout.REMOVED, (), limits.events_since),
            ):
                cursor = _Cursor(db, name, int(facts.get(name, 0)), through, kinds)
                while time.perf_counter() < ends and cursor.advance(
                    since, too_large=used_bytes(db) > limits.most_bytes
                ):
                    pass
                removed += cursor.removed
            facts = journal_layout.read_meta(db)
        self._journal.removed = removed_through(facts)
        self._shrink()
        return removed

    def too_large(self, limits: Limits) -> bool:
        """Whether the file holds more than it may, although all events that can go are gone."""
        with self._journal.transaction(f"cannot read {self._journal.path}") as db:
            return used_bytes(db) > limits.most_bytes

    def _shrink(self) -> None:
        """Give free pages back. A file of an older version keeps them and uses them again."""
        with contextlib.suppress(sqlite3.Error, OutputError):
            self._journal.give_back(_PAGES_AT_ONCE, _FEW_FREE_PAGES)


@dataclass(slots=True)
class _Cursor:
    """Goes over the events from the oldest on, as far as it may."""

    db: sqlite3.Connection
    name: str
    at: int
    through: int
    kinds: tuple[str, ...]
    removed: int = 0

    def advance(self, since: float, *, too_large: bool) -> bool:
        """Remove one window of events; False if there is none that may go."""
        end = min(self.at + _WINDOW, self.through)
        if end <= self.at:
            return False
        window = "FROM events WHERE seq > ? AND seq <= ?"
        (newest,) = self.db.execute(f"SELECT max(at) {window}", (self.at, end)).fetchone()
        if newest is not None and newest >= since and not too_large:
            return False
        kinds = f" AND kind IN ({', '.join('?' * len(self.kinds))})" if self.kinds else ""
        deleted = self.db.execute(f"DELETE {window}{kinds}", (self.at, end, *self.kinds))
        self.removed += deleted.rowcount
        self.at = end
        journal_layout.write_meta(self.db, {self.name: str(end)})
        return True


def _in_both_snapshots(db: sqlite3.Connection) -> int:
    """Number of the last event that is in both snapshots; 0 as long as there are not two."""
    numbers = [int(number) for (number,) in db.execute("SELECT seq FROM snapshots ORDER BY seq")]
    return numbers[0] if len(numbers) > 1 else 0


def used_bytes(db: sqlite3.Connection) -> int:
    """Bytes of the file that hold something."""
    (size,) = db.execute("PRAGMA page_size").fetchone()
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    return int(size * (pages - free))
