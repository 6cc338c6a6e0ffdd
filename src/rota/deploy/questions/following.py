"""Reads a journal as it grows, at a committed event, without ever writing to it or holding up who does.

The same code that lets a scheduler read itself back rebuilds its state here, so a question is about exactly what the
scheduler knew.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError
from rota.deploy.questions.fork import Fork, fork_of
from rota.deploy.questions.latencies import Latencies
from rota.deploy.questions.moments import SETTINGS
from rota.deploy.questions.occupancy import OccupancyLog
from rota.deploy.questions.setup import Setup, setup_of
from rota.deploy.scheduler import archive, journal_layout
from rota.deploy.scheduler.journal import StoredSnapshot, removed_through
from rota.deploy.scheduler.recovery import UNREADABLE, Recovered, Recovery
from rota.deploy.scheduler.snapshots import config_of
from rota.engine.log import LineReader


class ReadOnlyJournal:
    """The journal as `Recovery` wants it, for reading only."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path = path
        self._db = db

    def events(self, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """(number, fields) of the events behind `after`."""
        query = "SELECT seq, body FROM events WHERE seq > ? ORDER BY seq"
        for number, body in self._db.execute(query, (after,)):
            yield int(number), json.loads(body)

    @property
    def begins_after(self) -> int:
        """Number of the event before which events are missing."""
        return max(removed_through(journal_layout.read_meta(self._db)))

    def snapshots(self) -> Sequence[StoredSnapshot]:
        """Those that are whole, the newest first."""
        rows = self._db.execute("SELECT seq, format, checksum, body FROM snapshots ORDER BY seq DESC").fetchall()
        return [
            StoredSnapshot(number=int(number), format=int(format_), body=bytes(body))
            for number, format_, checksum, body in rows
            if checksum == journal_layout.snapshot_checksum(int(number), int(format_), bytes(body))
        ]

    def save_snapshot(self, format_: int, body: bytes) -> None:
        """Never: somebody else owns the file."""
        raise NotImplementedError

    def config(self) -> Mapping[str, Any] | None:
        """The settings of the scheduler that wrote last; None: none has started yet."""
        query = "SELECT body FROM events WHERE kind IN (?, ?) ORDER BY seq DESC LIMIT 1"
        row = self._db.execute(query, SETTINGS).fetchone()
        if row is not None:
            config: Mapping[str, Any] = json.loads(row[0])["config"]
            return config
        stored = self.snapshots()
        return config_of(stored[0].body) if stored else None


class Follower:
    """The state of a scheduler, read from its journal and brought up to date as it grows."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.event = 0
        """Number of the last event that was read."""
        self.setup: Setup | None = None
        self.recovered = Recovered()
        self._recovery: Recovery | None = None
        self._reader = LineReader()
        self.latencies = Latencies()
        self.occupancy = OccupancyLog(self.path)

    def _emulated_steps(self, number: int) -> int:
        job = self.recovered.registry.jobs.get(number)
        return job.spec.steps if job is not None and job.spec.emulated else 0

    def catch_up(self) -> None:
        """Read what was committed since the last time, in one read transaction. Raises ConfigError."""
        try:
            with archive.reading(self.path) as db:
                db.execute("BEGIN")
                self._catch_up(ReadOnlyJournal(self.path, db))
        except sqlite3.Error as error:
            raise ConfigError(f"cannot read the journal {self.path}: {error}") from error

    def _catch_up(self, journal: ReadOnlyJournal) -> None:
        news: list[tuple[int, dict[str, Any]]] = []
        if self._recovery is None or journal.begins_after > self.event:
            self._begin(journal)
        else:
            news = list(journal.events(self.event))
            if any(fields["event"] in SETTINGS for _, fields in news):  # perhaps with other settings
                self._begin(journal)
        if self._recovery is None:
            return
        for number, fields in list(journal.events(self.event)):
            try:
                self.latencies.observe(fields, self._emulated_steps)
                self._recovery.replay(self.recovered, self._reader, fields)
            except UNREADABLE as error:
                self._recovery = None
                raise ConfigError(f"{self.path}: event {number} cannot be read ({error})") from error
            self.event = number

    def _begin(self, journal: ReadOnlyJournal) -> None:
        config = journal.config()
        if config is None:
            return
        self.setup = setup_of(config)
        setup = self.setup
        self._recovery = Recovery(journal, setup.catalogue, setup.rules, setup.state, ways_of=setup.ways)
        self._reader = LineReader()
        self.recovered, self.event = self._recovery.start()
        self.latencies = Latencies()

    def fork(self, now: float, live_steps: Mapping[int, int] | None = None) -> Fork:
        """The deployment at engine second `now`, or at its last event if that is later. Raises ConfigError."""
        recovered = self.recovered
        if self.setup is None or recovered.state is None or recovered.trigger is None:
            raise ConfigError("no server has joined yet, so nothing was ever decided; ask again when one is up")
        return fork_of(
            self.setup,
            recovered.registry,
            recovered.state,
            recovered.trigger,
            now=max(now, recovered.last_at),
            live_steps=live_steps,
            latencies=self.latencies,
        )
