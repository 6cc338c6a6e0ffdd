"""The durable store: one SQLite file with every event, committed before anybody acts on it.

Events are appended; those behind the older of two snapshots may be removed (`compaction`). A restart reads the newest
snapshot that is whole and the events after it. `journal_layout` says what is in the file. It carries our mark, so a
foreign or damaged one is refused, and two locks keep a second scheduler away, whatever name it has for the file.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError, OutputError
from rota.deploy.events import EventRow
from rota.deploy.locks import hold, hold_itself
from rota.deploy.scheduler import archive, journal_layout, write_ahead_log
from rota.deploy.scheduler.records import Job

_SNAPSHOTS = 2
"""Kept: should the last one be damaged, the one before it and the events since then give the same."""

_LARGEST_LOG = 4 << 20
"""Bytes to which SQLite's own write-ahead log is cut back."""
_OTHER_WRITER = (
    "This scheduler did not write what it found there: another process writes to the same file, perhaps under another "
    "name or from another machine. Nothing was overwritten; stop that process, then start one scheduler again."
)
_DAMAGED = '{"event":"Damaged","at":0.0}'
"""What readers get of an event that is not as it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSnapshot:
    """A snapshot as the file has it, whole by its checksum."""

    number: int
    """Of the last event in it."""
    format: int
    body: bytes


class Journal:
    """Events of one deployment, in order. Used by one thread, but for `read`, which opens its own connection."""

    def __init__(self, path: str | Path, *, checked: bool = False) -> None:
        """`checked`: all pages were checked a moment ago, and only this process has written since."""
        self.path = Path(path)
        self._checked = checked
        self._lock = lock(self.path, new=True)
        try:
            self._db = self._open()
            facts = journal_layout.read_meta(self._db)
            self.last = self._last_number(facts)
        except BaseException:
            self._lock.close()
            raise
        self.id = facts[journal_layout.ID]
        """Made with the file; other files that belong to it say it, too."""
        self.committed: Callable[[int], None] = lambda _: None
        """Hears of every commit, by the number of its last event, before anybody else does."""
        self.removed = removed_through(facts)
        """Up to which numbers all events, and those that every round has, were removed."""

    def _last_number(self, facts: Mapping[str, str]) -> int:
        (last,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
        (behind,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM snapshots").fetchone()
        return max(int(last), int(behind), int(facts.get(journal_layout.REMOVED, 0)))

    def _open(self) -> sqlite3.Connection:
        fresh = not self.path.exists() or self.path.stat().st_size == 0
        log_damage = "" if fresh else write_ahead_log.damage(self.path)
        if log_damage:
            raise ConfigError(f"{log_damage}; {journal_layout.what_to_do(self.path)}")
        db: sqlite3.Connection | None = None
        try:
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            db.text_factory = archive.TEXT
            self._prepare(db, fresh=fresh)
        except BaseException as error:
            if db is not None:
                db.close()
            _explain(error, self.path)
            raise
        return db

    def _prepare(self, db: sqlite3.Connection, *, fresh: bool) -> None:
        layout = 0
        if fresh:
            journal_layout.begin(db)
        else:
            layout = journal_layout.check_ours(db, self.path)
            if not self._checked:
                journal_layout.check_pages(db, self.path)
            if layout == journal_layout.LAYOUT:
                journal_layout.check_facts(db, self.path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA journal_size_limit = {_LARGEST_LOG}")
        journal_layout.bring_up_to_date(db, self.path, layout)
        if fresh:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # whatever becomes of the log, the file says what it is

    # Events

    def append(self, rows: Iterable[EventRow], archived: Iterable[Job] = (), forgotten: Iterable[int] = ()) -> int:
        """Commit events in one piece, and with them jobs that leave memory and those that leave the archive.

        The number of the last event.
        """
        numbered = [(self.last + 1 + i, *row, journal_layout.event_checksum(*row)) for i, row in enumerate(rows)]
        if not numbered:
            return self.last
        problem = f"cannot write to state file {self.path}"
        with self.transaction(problem, "Nothing was lost; free space and start again.") as db:
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", numbered)
            archive.insert(db, archived)
            archive.remove(db, forgotten)
        self.last = int(numbered[-1][0])
        self.committed(self.last)
        return self.last

    @contextlib.contextmanager
    def transaction(self, problem: str, advice: str = "") -> Iterator[sqlite3.Connection]:
        """What happens in the block is committed in one piece, or not at all. OutputError if it cannot be."""
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            if isinstance(error, sqlite3.IntegrityError):
                advice = _OTHER_WRITER
            raise OutputError(f"{problem}: {error}. {advice}".strip()) from error
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def events(self, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """(number, fields) of the events behind `after`. ConfigError if one of them is missing or damaged."""
        expected = after
        query = "SELECT seq, at, kind, body, crc FROM events WHERE seq > ? ORDER BY seq"
        try:
            for number, at, kind, body, crc in self._db.execute(query, (after,)):
                expected += 1
                if number != expected:
                    raise ValueError("it is missing")  # noqa: TRY301 - the same message as below
                if not _whole((number, at, kind, body, crc)):
                    raise ValueError("its checksum is another one")  # noqa: TRY301 - the same message as below
                yield number, json.loads(body)
        except (ValueError, TypeError, sqlite3.Error) as error:
            advice = journal_layout.what_to_do(self.path)
            raise ConfigError(f"{self.path}: event {expected} is damaged ({error}); {advice}") from error
        if expected < self.last:
            advice = journal_layout.what_to_do(self.path)
            raise ConfigError(f"{self.path}: events after {expected} are missing; {advice}")

    def read(self, after: int, limit: int) -> list[tuple[int, str]]:
        """(number, JSON) of some events, for other threads. One that is damaged says only that."""
        query = "SELECT seq, at, kind, body, crc FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        with archive.reading(self.path) as db:
            rows = db.execute(query, (after, limit))
            return [(int(row[0]), row[3] if _whole(row) else _DAMAGED) for row in rows]

    def damage(self, through: int) -> list[str]:
        """What is not as it was written, of that on which nothing depends: events up to a number, and finished jobs."""
        query = "SELECT seq, at, kind, body, crc FROM events WHERE seq <= ? ORDER BY seq"
        events = [f"event {row[0]}" for row in self._db.execute(query, (through,)) if not _whole(row)]
        return events + [f"job {number} in the archive" for number in archive.JobArchive(self.path).damaged()]

    # Snapshots

    def save_snapshot(self, format_: int, body: bytes) -> None:
        """Keep the state as it is after the last event; of older snapshots one stays."""
        checksum = journal_layout.snapshot_checksum(self.last, format_, body)
        with self.transaction(f"cannot write a snapshot to {self.path}") as db:
            db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", (self.last, format_, checksum, body))
            newest = "SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?"
            db.execute(f"DELETE FROM snapshots WHERE seq NOT IN ({newest})", (_SNAPSHOTS,))  # noqa: S608 - fixed text

    @property
    def snapshot_at(self) -> int:
        """Number of the last event in the newest snapshot; 0 without one."""
        (number,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM snapshots").fetchone()
        return int(number)

    def snapshots(self) -> list[StoredSnapshot]:
        """Those that are whole, the newest first."""
        rows = self._db.execute("SELECT seq, format, checksum, body FROM snapshots ORDER BY seq DESC")
        found = [(int(number), int(format_), checksum, bytes(body)) for number, format_, checksum, body in rows]
        return [
            StoredSnapshot(number=number, format=format_, body=body)
            for number, format_, checksum, body in found
            if checksum == journal_layout.snapshot_checksum(number, format_, body)
        ]

    @property
    def begins_after(self) -> int:
        """Number of the event before which events are missing, so that a snapshot is needed; 0: all are there."""
        return max(self.removed)

    def give_back(self, pages: int, spare: int) -> None:
        """Shrink the file by some of its free pages, if there are more of them than `spare` and a tenth of all."""
        (free,) = self._db.execute("PRAGMA freelist_count").fetchone()
        (count,) = self._db.execute("PRAGMA page_count").fetchone()
        if free > max(spare, count // 10):
            # As a script, which runs to its end: `execute` frees one page, as the statement gives back no column.
            self._db.executescript(f"PRAGMA incremental_vacuum({pages})")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
        self._lock.close()


def _whole(row: Sequence[Any]) -> bool:
    """Whether a row of events is as it was written; those of earlier layouts have no checksum."""
    _, at, kind, body, crc = row
    if not (isinstance(at, float | int) and isinstance(kind, str) and isinstance(body, str)):
        return False
    return crc is None or crc == journal_layout.event_checksum(at, kind, body)


def removed_through(facts: Mapping[str, str]) -> tuple[int, int]:
    """Up to which numbers all events, and those that every round has, were removed."""
    return int(facts.get(journal_layout.REMOVED, 0)), int(facts.get(journal_layout.ROUNDS_REMOVED, 0))


def lock(path: Path, *, new: bool = False) -> contextlib.ExitStack:
    """Hold the file until this is closed or the process ends; `new`: it is made if it is not there.

    The lock beside it is that of the file to which links lead, and says who holds it. The lock on the file itself is
    that of its device and inode, for whoever has another name of it.
    """
    real = path.resolve()
    try:
        with contextlib.ExitStack() as held:
            held.enter_context(hold(beside(path), lambda owner: _taken(path, owner)))
            if new or real.exists():
                held.enter_context(hold_itself(real, _taken_by_another_name(path)))
            return held.pop_all()
    except OSError as error:
        if not real.parent.exists():
            gone = f"cannot use state file {path}: the folder {real.parent} does not exist; create it first"
            raise ConfigError(gone) from error
        raise ConfigError(f"cannot use state file {path}: {error.strerror or error}") from error


def beside(path: Path) -> Path:
    """The lock file of a state file."""
    real = path.resolve()
    return real.with_name(real.name + ".lock")


def _taken(path: Path, owner: str) -> str:
    return f"another scheduler (process {owner}) runs on {path}; stop it first, or give another --state"


def _taken_by_another_name(path: Path) -> str:
    return (
        f"another scheduler runs on {path} under another name of the same file (a hard link); stop it first, or give "
        "another --state. `find -samefile` shows the names"
    )


def _explain(error: BaseException, path: Path) -> None:
    """Raise ConfigError for what can go wrong when a file is opened."""
    if isinstance(error, sqlite3.OperationalError):
        raise ConfigError(
            f"cannot use state file {path}: {error}. Nothing was changed; see that its disk has room and can "
            "be written, and start again."
        ) from error
    if isinstance(error, sqlite3.DatabaseError):
        raise ConfigError(
            f"{path} is not a state file of Rota, or it is damaged ({error}); {journal_layout.what_to_do(path)}, "
            "move it away to start anew, or restore it from a copy."
        ) from error
    if isinstance(error, OSError):
        raise ConfigError(f"cannot open state file {path}: {error.strerror or error}") from error
