"""The durable store: one SQLite file with every event, committed before anybody acts on it.

`events` is append-only; `snapshots` only make a restart faster and may be thrown away; `finished_jobs` has the jobs
that left memory (`archive`). The file carries our mark, so a foreign or damaged one is refused, and a lock beside it
keeps a second scheduler away.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from rota.core.errors import ConfigError, OutputError
from rota.deploy.events import EventRow
from rota.deploy.locks import hold
from rota.deploy.scheduler import archive
from rota.deploy.scheduler.records import Job

_MARK = 0x524F5441
_LAYOUT = 2
_OLDER_LAYOUTS = frozenset({1})
"""Layouts that are brought up to date when they are opened; `old_journals` reads their events."""
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (seq INTEGER PRIMARY KEY, version TEXT NOT NULL, body BLOB NOT NULL);
{archive.SCHEMA}
"""


class Journal:
    """Events of one deployment, in order. Used by one thread, but for `read`, which opens its own connection."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = _lock(self.path)
        try:
            self._db = self._open()
        except BaseException:
            self._lock.close()
            raise
        self.last = int(self._db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])

    def _open(self) -> sqlite3.Connection:
        fresh = not self.path.exists() or self.path.stat().st_size == 0
        try:
            if fresh:
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            if fresh:
                db.execute(f"PRAGMA application_id = {_MARK}")
            else:
                _check(db, self.path)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.executescript(_SCHEMA)
            db.execute(f"PRAGMA user_version = {_LAYOUT}")
        except sqlite3.OperationalError as error:
            raise ConfigError(
                f"cannot use state file {self.path}: {error}. Nothing was changed; see that its disk has room and can "
                "be written, and start again."
            ) from error
        except sqlite3.DatabaseError as error:
            raise ConfigError(
                f"{self.path} is not a state file of Rota, or it is damaged ({error}). "
                "Move it away to start anew, or restore it from a copy."
            ) from error
        except OSError as error:
            raise ConfigError(f"cannot open state file {self.path}: {error.strerror or error}") from error
        return db

    def append(self, rows: Iterable[EventRow], archived: Iterable[Job] = ()) -> int:
        """Commit events, and jobs that leave memory with them, in one piece; the number of the last event."""
        numbered = [(self.last + 1 + i, *row) for i, row in enumerate(rows)]
        if not numbered:
            return self.last
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", numbered)
            archive.insert(self._db, archived)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise OutputError(
                f"cannot write to state file {self.path}: {error}. Nothing was lost; free space and start again."
            ) from error
        self.last = int(numbered[-1][0])
        return self.last

    def events(self, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """(number, fields) of the events behind `after`."""
        number = after
        try:
            for number, body in self._db.execute("SELECT seq, body FROM events WHERE seq > ? ORDER BY seq", (after,)):
                yield number, json.loads(body)
        except (ValueError, sqlite3.Error) as error:
            raise ConfigError(f"{self.path}: event {number} is damaged ({error}); restore a copy") from error

    def read(self, after: int, limit: int) -> list[tuple[int, str]]:
        """(number, JSON) of some events, for other threads."""
        query = "SELECT seq, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        with archive.reading(self.path) as db:
            return [(int(number), str(body)) for number, body in db.execute(query, (after, limit))]

    def save_snapshot(self, version: str, body: bytes) -> None:
        """Keep the state as it is after the last event; older snapshots go."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (self.last, version, body))
            self._db.execute("DELETE FROM snapshots WHERE seq < ?", (self.last,))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise OutputError(f"cannot write a snapshot to {self.path}: {error}") from error

    def snapshot(self, version: str) -> tuple[int, bytes] | None:
        """The newest snapshot of this version of Rota, if there is one."""
        row = self._db.execute(
            "SELECT seq, body FROM snapshots WHERE version = ? ORDER BY seq DESC LIMIT 1", (version,)
        ).fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
        self._lock.close()


def _lock(path: Path) -> IO[str]:
    """Hold the lock beside the file for as long as the process lives."""
    beside = path.with_name(path.name + ".lock")
    try:
        return hold(beside, lambda owner: _taken(path, owner))
    except OSError as error:
        raise ConfigError(f"cannot use state file {path}: {error.strerror or error}") from error


def _taken(path: Path, owner: str) -> str:
    return f"another scheduler (process {owner}) runs on {path}; stop it first, or give another --state"


def _check(db: sqlite3.Connection, path: Path) -> None:
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    (layout,) = db.execute("PRAGMA user_version").fetchone()
    if mark != _MARK:
        raise ConfigError(f"{path} is a database, but not a state file of Rota; give another --state")
    if layout != _LAYOUT and layout not in _OLDER_LAYOUTS:
        raise ConfigError(
            f"{path} has layout {layout}; this version of Rota reads layout {_LAYOUT} and older ones. "
            "Start the version that wrote it, or a newer one."
        )
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise ConfigError(f"{path} is damaged ({verdict}); restore it from a copy, or move it away to start anew")
