"""How a state file is laid out: tables, versions, checksums, and what brings an older file up to date.

| table | what |
|---|---|
| `events` | one row per event: number, engine second, kind, JSON, CRC-32 of the three (NULL: written before layout 3) |
| `snapshots` | the last two states: number of the last event in it, format, SHA-256, compressed JSON (`snapshots.py`) |
| `finished_jobs` | jobs that left memory (`archive.py`) |
| `meta` | facts about the file by name: id, format of events, up to where events were removed, CRC-32 of them |
"""

from __future__ import annotations

import hashlib
import sqlite3
import uuid
import zlib
from collections.abc import Mapping
from pathlib import Path

from rota.core.errors import ConfigError
from rota.core.parsing import is_count
from rota.deploy.scheduler import archive

MARK = 0x524F5441
LAYOUT = 3
EVENT_FORMAT = 1
"""Of the JSON of events. Fields with defaults may be added; what an older version would misread is a new number."""
_OLDER_LAYOUTS = frozenset({1, 2})
"""Layouts that are brought up to date when they are opened; `old_journals` reads their events."""
_VACUUM_BELOW = 256 << 20
"""A smaller file of an older layout is rewritten once, so that it can shrink; larger ones use free pages again."""

ID = "id"
EVENT_FORMAT_NAME = "event_format"
REMOVED = "removed_through"
"""Number of the last event before which all events were removed."""
ROUNDS_REMOVED = "rounds_removed_through"
"""The same for events that every round has."""
FACTS_CHECKSUM = "crc"
"""CRC-32 of all other facts."""
_FACTS = frozenset({ID, EVENT_FORMAT_NAME, REMOVED, ROUNDS_REMOVED, FACTS_CHECKSUM})

SCHEMA = f"""
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, crc INTEGER);
CREATE TABLE IF NOT EXISTS snapshots (
    seq INTEGER PRIMARY KEY, format INTEGER NOT NULL, checksum TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
{archive.SCHEMA}
"""


def event_checksum(at: float, kind: str, body: str) -> int:
    """CRC-32 of an event."""
    return zlib.crc32(f"{float(at)!r} {kind} {body}".encode("utf-8", "surrogatepass"))


def snapshot_checksum(number: int, format_: int, body: bytes) -> str:
    """SHA-256 of a snapshot, with its place."""
    return hashlib.sha256(b"%d %d " % (number, format_) + body).hexdigest()


def begin(db: sqlite3.Connection) -> None:
    """Make a new file ours, before there is any table."""
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # first: once there is a page, it takes a VACUUM
    db.execute(f"PRAGMA application_id = {MARK}")


def check_ours(db: sqlite3.Connection, path: Path) -> int:
    """The layout of a file. ConfigError if it is not ours, or of a later version."""
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    (layout,) = db.execute("PRAGMA user_version").fetchone()
    if mark != MARK:
        raise ConfigError(f"{path} is not a state file of Rota; name another one")
    if layout != LAYOUT and layout not in _OLDER_LAYOUTS:
        raise ConfigError(
            f"{path} has layout {layout}; this version of Rota reads layout {LAYOUT} and older ones. "
            "Start the version that wrote it, or a newer one."
        )
    if layout == LAYOUT:
        _check_event_format(db, path)
    return int(layout)


def _check_event_format(db: sqlite3.Connection, path: Path) -> None:
    written = read_meta(db).get(EVENT_FORMAT_NAME, str(EVENT_FORMAT))
    if not is_count(written) or int(written) > EVENT_FORMAT:
        raise ConfigError(
            f"{path} has events of format {written}; this version of Rota reads format {EVENT_FORMAT} and older ones. "
            "Start the version that wrote it, or a newer one."
        )


def check_pages(db: sqlite3.Connection, path: Path) -> None:
    """ConfigError if SQLite finds the file damaged; indices, by which jobs are found, are compared with their rows."""
    checks = ["PRAGMA quick_check(1)"]
    checks += ["PRAGMA integrity_check(finished_jobs)"] if _has_table(db, "finished_jobs") else []
    for check in checks:
        (verdict,) = db.execute(check).fetchone()
        if verdict != "ok":
            raise ConfigError(f"{path} is damaged ({verdict}); {what_to_do(path)}")


def check_facts(db: sqlite3.Connection, path: Path) -> None:
    """ConfigError if what the file says about itself is not as it was written."""
    if facts_damaged(read_meta(db)):
        raise ConfigError(f"{path} is damaged (the table of facts about the file); {what_to_do(path)}")


def facts_damaged(facts: Mapping[str, str]) -> bool:
    """Whether facts are not as they were written; earlier versions wrote no checksum."""
    written = facts.get(FACTS_CHECKSUM)
    return ID not in facts or not facts.keys() <= _FACTS or written not in (None, _facts_checksum(facts))


def _facts_checksum(facts: Mapping[str, str]) -> str:
    text = "\n".join(f"{name}={facts[name]}" for name in sorted(facts) if name != FACTS_CHECKSUM)
    return str(zlib.crc32(text.encode("utf-8", "surrogatepass")))


def what_to_do(path: Path) -> str:
    """The end of a message about a file that cannot be read."""
    return f"see what is wrong with `rota journal check {path}`, mend it with `rota journal repair {path}`"


def bring_up_to_date(db: sqlite3.Connection, path: Path, layout: int) -> None:
    """Give an older file the tables and columns of this layout, in one piece; a new file all of them."""
    if layout == LAYOUT:
        return
    old = layout in _OLDER_LAYOUTS
    db.execute("BEGIN IMMEDIATE")
    if old:
        db.execute("DROP TABLE IF EXISTS snapshots")  # they only saved time, and nobody reads them any more
        db.execute("ALTER TABLE events ADD COLUMN crc INTEGER")
        if _has_table(db, "finished_jobs"):
            db.execute("ALTER TABLE finished_jobs ADD COLUMN crc INTEGER")
            db.execute("ALTER TABLE finished_jobs ADD COLUMN ended REAL")
            db.execute("UPDATE finished_jobs SET ended = json_extract(body, '$.ended')")
    for statement in SCHEMA.split(";\n"):
        db.execute(statement)
    write_meta(db, {ID: uuid.uuid4().hex, EVENT_FORMAT_NAME: str(EVENT_FORMAT)})
    db.execute(f"PRAGMA user_version = {LAYOUT}")
    db.execute("COMMIT")
    if old and path.stat().st_size < _VACUUM_BELOW:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("VACUUM")


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone()
    return found is not None


def read_meta(db: sqlite3.Connection) -> dict[str, str]:
    """Facts about the file."""
    try:
        return {str(name): str(value) for name, value in db.execute("SELECT name, value FROM meta")}
    except UnicodeDecodeError as error:  # of a name in the list of tables, with which sqlite3 makes its message
        raise sqlite3.DatabaseError("the list of tables is damaged") from error


def write_meta(db: sqlite3.Connection, facts: Mapping[str, str]) -> None:
    """Change some of them, within the transaction of the caller."""
    statement = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
    db.executemany(statement, list(facts.items()))
    db.execute(statement, (FACTS_CHECKSUM, _facts_checksum(read_meta(db))))
