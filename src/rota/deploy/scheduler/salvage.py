"""What can still be read of a state file, row by row, whatever has become of its pages. Nothing is changed."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError
from rota.core.parsing import is_count
from rota.deploy.scheduler import archive, journal_layout, write_ahead_log
from rota.deploy.scheduler.journal import StoredSnapshot

_AT_ONCE = 1000
"""Rows that are asked for together; where that fails, each is asked for by itself."""
_LARGEST_GAP = 20_000
"""Rows that may be missing one after another; behind a larger gap are numbers that nobody gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedEvent:
    """One event, or what is known about one that cannot be read."""

    number: int
    at: float = 0.0
    kind: str = ""
    body: str = ""
    crc: int | None = None
    problem: str = ""
    """Why it cannot be read; empty: it can."""

    @property
    def fields(self) -> dict[str, Any]:
        """Of an event that can be read."""
        fields: dict[str, Any] = json.loads(self.body)
        return fields


@dataclass(slots=True, kw_only=True)
class SalvagedFile:
    """All that can be read."""

    layout: int = journal_layout.LAYOUT
    pages: list[str] = field(default_factory=list)
    """What SQLite says about damaged pages."""
    events: list[SalvagedEvent] = field(default_factory=list)
    """By number, without gaps: those that cannot be read are there with their problem."""
    snapshots: list[StoredSnapshot] = field(default_factory=list)
    """Those that are whole, the newest first."""
    bad_snapshots: int = 0
    jobs: list[tuple[Any, ...]] = field(default_factory=list)
    """Rows of finished jobs that are whole."""
    bad_jobs: list[int] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def bad_events(self) -> list[SalvagedEvent]:
        """Those that cannot be read."""
        return [event for event in self.events if event.problem]

    @property
    def removed_through(self) -> int:
        """Number of the last event before which all were removed on purpose."""
        return _number(self.facts, journal_layout.REMOVED)

    @property
    def rounds_removed_through(self) -> int:
        """The same for events that every round has."""
        return _number(self.facts, journal_layout.ROUNDS_REMOVED)


def salvage(path: Path) -> SalvagedFile:
    """Read what can be read. ConfigError if the file is not ours, is of a later version, or cannot be opened."""
    if not path.is_file():
        raise ConfigError(f"there is no state file {path}")
    log_damage = write_ahead_log.damage(path) and write_ahead_log.damage(path)  # twice: a scheduler may be writing
    try:
        with archive.reading(path) as db:
            db.execute("BEGIN")  # all that follows is of the same moment, should a scheduler be at work
            found = SalvagedFile(layout=_layout(db, path))
            found.pages = _page_problems(db) + ([log_damage] if log_damage else [])
            found.facts = _facts(db)
            _read_snapshots(db, found)
            _read_events(db, found)
            _read_jobs(db, found)
            return found
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a state file of Rota, or nothing of it can be read ({error})") from error


def _layout(db: sqlite3.Connection, path: Path) -> int:
    db.execute("PRAGMA application_id").fetchone()  # raises if it is no database at all
    try:
        return journal_layout.check_ours(db, path)
    except sqlite3.DatabaseError:  # the table of facts is damaged; the mark was read before
        return journal_layout.LAYOUT


def _page_problems(db: sqlite3.Connection) -> list[str]:
    try:
        lines = [str(line) for (line,) in db.execute("PRAGMA integrity_check(20)")]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return [str(error)]
    return [] if lines == ["ok"] else lines


def _facts(db: sqlite3.Connection) -> dict[str, str]:
    with contextlib.suppress(sqlite3.DatabaseError):
        return journal_layout.read_meta(db)
    return {}


def _number(facts: dict[str, str], name: str) -> int:
    text = facts.get(name, "0")
    return int(text) if is_count(text) else 0


# Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Rows by number."""

    name: str
    column: str
    query: str
    """Rows from one number to another."""
    gaps_through: int
    """Up to this number rows may be missing on purpose."""

    def rows(self, db: sqlite3.Connection, first: int, last: int) -> Iterator[tuple[int, tuple[Any, ...] | None]]:
        """Rows from `first` to `last`; None for those that cannot be reached and should be there.

        Ends where so many are missing that the numbers that follow make no sense.
        """
        missing = 0
        number = first
        while number <= last and missing <= _LARGEST_GAP:
            end = min(number + _AT_ONCE - 1, last)
            there: dict[int, tuple[Any, ...]] = {}
            if not _several(db, self.query, (number, end), there):
                for one in range(number, end + 1):
                    _several(db, self.query, (one, one), there)
            elif not there:
                number = max(self._next(db, number, last), end + 1) if end <= self.gaps_through else number
            for one in range(number, end + 1):
                missing = 0 if one in there else missing + (one > self.gaps_through)
                if one in there or one > self.gaps_through:
                    yield one, there.get(one)
            number = max(number, end + 1)

    def _next(self, db: sqlite3.Connection, number: int, last: int) -> int:
        """The first row from a number on, at most the one after the last."""
        with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
            query = f"SELECT min({self.column}) FROM {self.name} WHERE {self.column} >= ?"  # noqa: S608 - fixed texts
            (found,) = db.execute(query, (number,)).fetchone()
            return found if isinstance(found, int) and found <= last else last + 1
        return number


def _several(db: sqlite3.Connection, query: str, numbers: tuple[int, int], there: dict[int, tuple[Any, ...]]) -> bool:
    """Put rows into `there`; whether nothing failed. Rows whose number makes no sense are left out."""
    first, last = numbers
    try:
        there |= {
            row[0]: row for row in db.execute(query, numbers) if isinstance(row[0], int) and first <= row[0] <= last
        }
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    return True


def _bound(db: sqlite3.Connection, table: str, column: str, function: str) -> int:
    with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
        (number,) = db.execute(f"SELECT {function}({column}) FROM {table}").fetchone()  # noqa: S608 - fixed texts
        return int(number) if isinstance(number, int) else 0
    return 0


def _read_events(db: sqlite3.Connection, found: SalvagedFile) -> None:
    """Every event from the first that should be there. Where the end is damaged, numbers tell how far it goes."""
    newest = max((stored.number for stored in found.snapshots), default=0)
    last = max(_bound(db, "events", "seq", "max"), newest)
    crc = "crc" if found.layout == journal_layout.LAYOUT else "NULL"
    query = f"SELECT seq, at, kind, body, {crc} FROM events WHERE seq BETWEEN ? AND ?"  # noqa: S608 - fixed texts
    table = _Table(name="events", column="seq", query=query, gaps_through=found.rounds_removed_through)
    for number, row in table.rows(db, found.removed_through + 1, last):
        found.events.append(SalvagedEvent(number=number, problem="missing") if row is None else _event(row))


def _event(row: tuple[Any, ...]) -> SalvagedEvent:
    number, at, kind, body, crc = row
    if not (isinstance(at, float | int) and isinstance(kind, str) and isinstance(body, str)):
        return SalvagedEvent(number=number, problem="not an event")
    known = {"number": number, "at": float(at), "kind": kind, "body": body, "crc": crc}
    if crc is not None and crc != journal_layout.event_checksum(float(at), kind, body):
        return SalvagedEvent(**known, problem="its checksum is another one")
    try:
        fields = json.loads(body)
        if fields["event"] != kind or not isinstance(fields["at"], float | int):
            return SalvagedEvent(**known, problem="it contradicts itself")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return SalvagedEvent(**known, problem=f"not JSON of an event ({error})")
    return SalvagedEvent(**known)


def _read_snapshots(db: sqlite3.Connection, found: SalvagedFile) -> None:
    if found.layout != journal_layout.LAYOUT:
        return
    numbers: list[int] = []
    with contextlib.suppress(sqlite3.Error, UnicodeDecodeError, TypeError, ValueError):
        numbers = [int(number) for (number,) in db.execute("SELECT seq FROM snapshots ORDER BY seq DESC")]
    for number in numbers:
        stored = _snapshot(db, number)
        found.bad_snapshots += stored is None
        found.snapshots += [] if stored is None else [stored]


def _snapshot(db: sqlite3.Connection, number: int) -> StoredSnapshot | None:
    with contextlib.suppress(sqlite3.Error, TypeError, ValueError):
        query = "SELECT format, checksum, body FROM snapshots WHERE seq = ?"
        format_, checksum, body = db.execute(query, (number,)).fetchone()
        if checksum == journal_layout.snapshot_checksum(number, format_, bytes(body)):
            return StoredSnapshot(number=number, format=int(format_), body=bytes(body))
    return None


def _read_jobs(db: sqlite3.Connection, found: SalvagedFile) -> None:
    last = _bound(db, "finished_jobs", "job", "max")
    new = found.layout == journal_layout.LAYOUT
    columns = "crc, ended" if new else "NULL, json_extract(body, '$.ended')"
    query = f"SELECT job, tenant, phase, request, body, {columns} FROM finished_jobs WHERE job BETWEEN ? AND ?"  # noqa: S608 - fixed texts
    table = _Table(name="finished_jobs", column="job", query=query, gaps_through=last)
    for number, row in table.rows(db, 0, last):
        if row is None:
            continue  # cannot be reached; the events of the journal say what it was
        if archive.whole(row):
            found.jobs.append(row)
        else:
            found.bad_jobs.append(number)
