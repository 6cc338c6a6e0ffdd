"""Results in one SQLite file.

Written as soon as a run ends, safe against kill -9, shared by several sweeps at once.

The tables are described in docs/experiments.md. Every change is one transaction in write-ahead
mode, so a process that dies leaves either all of it or nothing; readers never wait. A sweep claims
a run before it starts it; the claim of a process that is gone is void.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError, OutputError
from rota.core.parsing import parse_json
from rota.experiments.execution import UNSTABLE, RunOutcome, without_means

SCHEMA = 1
BUSY_S = 30.0
CLAIM_S = 60.0
"""A claim that was not renewed for these seconds is void, wherever its owner is."""

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    key TEXT PRIMARY KEY, status TEXT NOT NULL, config TEXT NOT NULL, metrics TEXT NOT NULL, error TEXT,
    started REAL, cpu_s REAL, wall_s REAL, host TEXT, version TEXT
);
CREATE TABLE IF NOT EXISTS jobs (
    key TEXT PRIMARY KEY REFERENCES runs (key) ON DELETE CASCADE, data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS sweeps (
    name TEXT PRIMARY KEY, spec TEXT NOT NULL, updated REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS members (
    sweep TEXT NOT NULL, point TEXT NOT NULL, key TEXT NOT NULL, position INTEGER NOT NULL,
    PRIMARY KEY (sweep, point)
);
CREATE INDEX IF NOT EXISTS members_by_key ON members (key);
CREATE TABLE IF NOT EXISTS claims (
    key TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, until REAL NOT NULL
);
"""
_COLUMNS = "config, metrics, error, started, cpu_s, wall_s, host, version"
_CLAIM = "SELECT host, pid, until FROM claims WHERE key = ?"


@dataclass(frozen=True, slots=True)
class SweepCounts:
    """How far a sweep is, in numbers of points."""

    name: str
    updated: float
    """When it was last started, seconds since 1970."""
    points: int
    done: int
    ok: int
    unstable: int
    failed: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """A row of the store: one run and what came of it."""

    key: str
    point: dict[str, Any]
    """What the sweep varied."""
    status: str | None
    """ok, failed, timeout or unstable; None as long as there is no result."""
    metrics: dict[str, Any]
    """As `--json` has them; of an unstable run those that depend on when it was stopped are in `until_stopped`."""
    error: str | None
    config: dict[str, Any]
    started: float | None = None
    cpu_s: float | None = None
    wall_s: float | None = None
    host: str | None = None
    version: str | None = None


class ResultStore:
    """The file of results. Use as a context manager."""

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            fix = f"`rota sweep --store {path}` makes one"
            raise ConfigError(f"there is no store {str(path)!r}; {fix}")
        if not self.path.parent.is_dir():
            fix = "create it first"
            what = f"cannot write {path}: the folder {self.path.parent} does not exist"
            raise OutputError(f"{what}; {fix}")
        self._me = (platform.node(), os.getpid())
        with self._explained():
            self._db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            with self._explained():
                self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        self._db.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")
        version = self._schema()
        if version is not None and version != SCHEMA:
            fix = "use another store"
            what = f"{self.path} has schema {version}, this version of Rota reads {SCHEMA}"
            raise ConfigError(f"{what}; {fix}")
        self._db.execute("PRAGMA synchronous = NORMAL")
        if version is None:
            self._write_ahead()
            with self._change():
                for statement in _TABLES.split(";\n"):
                    self._db.execute(statement)
                self._db.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(SCHEMA),))

    def _write_ahead(self) -> None:
        """The mode stays with the file.

        While another process sets it, SQLite does not wait by itself.
        """
        give_up = time.monotonic() + BUSY_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:  # noqa: PERF203 - the point of the loop
                if "locked" not in str(error) or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
            else:
                return

    def _schema(self) -> int | None:
        rows = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {name for (name,) in rows}
        if not tables:
            return None
        if not {"meta", "runs", "members"} <= tables:
            fix = "give another file"
            raise ConfigError(f"{self.path} is a database, but not a store of Rota; {fix}")
        row = self._db.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        return int(row[0]) if row is not None else -1

    def __enter__(self) -> ResultStore:  # noqa: PYI034 - Self is not in Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("DELETE FROM claims WHERE host = ? AND pid = ?", self._me)
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the database in words a user can act on."""
        try:
            yield
        except sqlite3.OperationalError as error:
            said = str(error)
            if "locked" in said:
                said = f"another program has kept it locked for {BUSY_S:g} s"
            elif "full" in said or "disk I/O" in said:
                said = f"the disk is full or the file may not grow ({error})"
            raise OutputError(
                f"cannot write the store {self.path}: {said}; results that were written are kept, "
                f"run the sweep again to go on"
            ) from error
        except sqlite3.DatabaseError as error:
            fix = "give another file"
            raise ConfigError(f"{self.path} is not a store of Rota ({error}); {fix}") from error
        except (ValueError, TypeError, OverflowError) as error:  # a value that Rota did not write
            fix = "give another file, or run the sweep into a new one"
            raise ConfigError(f"the store {self.path} is damaged ({error}); {fix}") from error

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """One transaction: all or nothing."""
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    # Sweeps

    def record_sweep(self, name: str, spec: Mapping[str, Any]) -> None:
        """Remember a sweep; its points follow."""
        with self._change():
            row = (name, _json(spec), time.time())
            self._db.execute("INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?)", row)

    def add_members(self, sweep: str, members: Iterable[tuple[Mapping[str, Any], str]]) -> None:
        """Points of a sweep and their keys.

        The same point with another key (other code) replaces the old one.
        """
        with self._change():
            query = "SELECT max(position) FROM members WHERE sweep = ?"
            (last,) = self._db.execute(query, (sweep,)).fetchone()
            first = 0 if last is None else last + 1
            rows = [(sweep, _json(point), key, first + i) for i, (point, key) in enumerate(members)]
            self._db.executemany(
                "INSERT INTO members VALUES (?, ?, ?, ?) ON CONFLICT (sweep, point) DO UPDATE SET key = excluded.key",
                rows,
            )

    def sweeps(self) -> list[SweepCounts]:
        """All sweeps, the one that was started last at the end."""
        query = """
            SELECT sweeps.name, sweeps.updated, count(members.key), sum(runs.status IS NOT NULL),
                   sum(runs.status = 'ok'), sum(runs.status = 'unstable'),
                   sum(runs.status IN ('failed', 'timeout'))
            FROM sweeps LEFT JOIN members ON members.sweep = sweeps.name
            LEFT JOIN runs ON runs.key = members.key
            GROUP BY sweeps.name ORDER BY sweeps.updated
        """
        with self._explained():
            rows = self._db.execute(query).fetchall()
            return [SweepCounts(_text(name), _seconds(at), *(n or 0 for n in counts)) for name, at, *counts in rows]

    # Runs

    def status(self, key: str) -> str | None:
        """Status of a run, None if there is no result."""
        with self._explained():
            row = self._db.execute("SELECT status FROM runs WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def write(self, key: str, config: Mapping[str, Any], outcome: RunOutcome) -> None:
        """Keep the outcome of a run and give up the claim."""
        row = (
            key, outcome.status, _json(config), _json(outcome.metrics), outcome.error, outcome.started, outcome.cpu_s,
            outcome.wall_s, outcome.host, outcome.version,
        )  # fmt: skip
        with self._change():
            self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            self._db.execute("DELETE FROM jobs WHERE key = ?", (key,))
            if outcome.jobs is not None:
                self._db.execute("INSERT INTO jobs VALUES (?, ?)", (key, outcome.jobs))
            self._db.execute("DELETE FROM claims WHERE key = ?", (key,))

    def result(self, key: str) -> Run | None:
        """One run; the first digits of its key are enough.

        Raises ConfigError if they fit several.
        """
        where = "WHERE key >= ? AND key < ? LIMIT 2"
        query = f"SELECT key, '{{}}', status, {_COLUMNS} FROM runs {where}"
        with self._explained():
            rows = self._db.execute(query, (key, key + "g")).fetchall()
            if len(rows) > 1:
                raise ConfigError(f"several runs of {self.path} begin with {key!r}; give more digits")
            return _run(rows[0]) if rows else None

    def runs(self, *, sweep: str | None = None, status: str | None = None) -> Iterator[Run]:
        """Runs of one sweep in the order of its points, those without a result included.

        Or all of the store.
        """
        if sweep is None:
            query = f"SELECT key, '{{}}', status, {_COLUMNS} FROM runs ORDER BY started"
            given: tuple[Any, ...] = ()
        else:
            query = (
                f"SELECT members.key, point, status, {_COLUMNS} FROM members "
                "LEFT JOIN runs ON runs.key = members.key WHERE sweep = ? ORDER BY position"
            )
            given = (sweep,)
        with self._explained():
            for row in self._db.execute(query, given):
                if status is None or row[2] == status:
                    yield _run(row)

    def jobs(self, key: str) -> bytes | None:
        """The packed completion times of a run."""
        with self._explained():
            row = self._db.execute("SELECT data FROM jobs WHERE key = ?", (key,)).fetchone()
            if row is not None and not isinstance(row[0], bytes):
                raise TypeError(f"the completion times of run {key[:12]} are no bytes")
        return None if row is None else row[0]

    # Claims

    def claim(self, key: str) -> bool:
        """Whether this process is the one to do the run."""
        with self._change():
            row = self._db.execute(_CLAIM, (key,)).fetchone()
            if row is not None and (row[0], row[1]) != self._me and _alive(*row):
                return False
            claim = (key, *self._me, _until())
            self._db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)", claim)
        return True

    def claimed(self, key: str) -> bool:
        """Whether another process is at it."""
        with self._explained():
            row = self._db.execute(_CLAIM, (key,)).fetchone()
        return row is not None and (row[0], row[1]) != self._me and _alive(*row)

    def renew_claims(self) -> None:
        """Say that this process is still there."""
        with self._change():
            query = "UPDATE claims SET until = ? WHERE host = ? AND pid = ?"
            self._db.execute(query, (_until(), *self._me))


_SHOWN = 40
"""Characters of a value in a message."""


def _until() -> float:
    return time.time() + CLAIM_S


def _alive(host: str, pid: int, until: float) -> bool:
    if time.time() > until:
        return False
    if host != platform.node():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(_finite(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    """JSON knows no infinity: what is not a finite number becomes null."""
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _run(row: tuple[Any, ...]) -> Run:
    key, point, status, config, metrics, error, *rest = row
    known = _object(metrics)
    started, cpu_s, wall_s, host, version = rest
    return Run(
        key=_text(key),
        point=_object(point),
        status=None if status is None else _text(status),
        metrics=without_means(known) if status == UNSTABLE else known,  # older stores have them in one
        error=None if error is None else _text(error),
        config=_object(config),
        started=None if started is None else _seconds(started),
        cpu_s=None if cpu_s is None else _seconds(cpu_s),
        wall_s=None if wall_s is None else _seconds(wall_s),
        host=None if host is None else _text(host),
        version=None if version is None else _text(version),
    )


def _object(text: Any) -> dict[str, Any]:
    value = parse_json(text) if text else {}
    if not isinstance(value, dict):
        raise TypeError(f"{str(text)[:_SHOWN]!r} is no table of values")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:_SHOWN]!r} is no text")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, float | int):
        raise TypeError(f"{str(value)[:_SHOWN]!r} is no number of seconds")
    return float(value)
