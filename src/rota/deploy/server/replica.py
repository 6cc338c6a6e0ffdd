"""The journal of another scheduler on the disk of its standby."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from rota.core.errors import OutputError
from rota.core.files import replacing
from rota.deploy.scheduler import archive, journal_layout
from rota.deploy.scheduler.compaction import ROUND_EVENTS
from rota.deploy.scheduler.journal import Journal
from rota.deploy.scheduler.secrets import secrets_file
from rota.deploy.security.sealing import Seal
from rota.deploy.server.replication import checksum_of
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)


class Replica:
    """The journal of another scheduler, on this machine's disk. Used by one thread at a time."""

    def __init__(self, path: Path, seal: Seal) -> None:
        self.path = path
        self._seal = seal
        self._journal: Journal | None = None
        if path.exists():
            self._journal = Journal(path)

    @property
    def journal(self) -> str:
        """Its id; empty: there is none yet."""
        return "" if self._journal is None else self._journal.id

    def request(self) -> pb.ReplicaRequest:
        """What is here, as the other scheduler has to know it."""
        journal = self._journal
        if journal is None:
            return pb.ReplicaRequest()
        with archive.reading(self.path) as db:
            query = "SELECT at, kind, body, crc FROM events WHERE seq = ?"
            row = db.execute(query, (journal.last,)).fetchone()
        crc = 0 if row is None else checksum_of(row)
        return pb.ReplicaRequest(after=journal.last, crc=crc, journal=journal.id, snapshot=journal.snapshot_at)

    def apply(self, batch: pb.ReplicaBatch) -> None:
        """Put a batch on the disk, in one piece. Raises OutputError."""
        journal = self._journal
        assert journal is not None  # a batch comes after the file
        self._keep_secrets(batch)
        if not (batch.events or batch.HasField("snapshot") or batch.removed > journal.removed[0]):
            return
        events = [
            (row.seq, row.at, row.kind, row.body, row.crc if row.HasField("crc") else None) for row in batch.events
        ]
        with journal.transaction(f"cannot write to {self.path}") as db:
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", events)
            db.executemany(
                "INSERT OR REPLACE INTO finished_jobs VALUES (?, ?, ?, ?, ?, ?, ?)", map(_archived, batch.archived)
            )
            if batch.oldest_end:
                db.execute("DELETE FROM finished_jobs WHERE ended < ?", (batch.oldest_end,))
            if batch.HasField("snapshot"):
                _keep_snapshot(db, batch.snapshot)
            _remove(db, batch)
        journal.last = max(journal.last, int(events[-1][0]) if events else 0)
        journal.removed = (batch.removed, batch.rounds_removed)

    def _keep_secrets(self, batch: pb.ReplicaBatch) -> None:
        """Before the events that name them, as the scheduler does it."""
        if not batch.secrets:
            return
        rows = [json.loads(self._seal.open(secret.data)) for secret in batch.secrets]
        path = secrets_file(self.path)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        try:
            with contextlib.closing(sqlite3.connect(path)) as db, db:
                db.execute(
                    "CREATE TABLE IF NOT EXISTS environments "
                    "(name TEXT PRIMARY KEY, job INTEGER NOT NULL, body TEXT NOT NULL)"
                )
                db.executemany("INSERT OR REPLACE INTO environments VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise OutputError(f"cannot write to {path}: {error}") from error

    async def begin(self, chunks: AsyncIterator[pb.FileChunk]) -> None:
        """Begin with the whole file; one that went another way is kept beside it."""
        self.close()
        parts = {"state": self.path, "secrets": secrets_file(self.path)}
        with contextlib.ExitStack() as stack:
            files: dict[str, Any] = {}
            async for chunk in chunks:
                if chunk.file not in files:
                    files[chunk.file] = stack.enter_context(replacing(_beside(parts[chunk.file]), mode=0o600))
                data = self._seal.open(chunk.data) if chunk.file == "secrets" else chunk.data
                await asyncio.to_thread(files[chunk.file].write, data)
        self._put_aside()
        for name in files:
            _beside(parts[name]).replace(parts[name])
        self._journal = Journal(self.path)
        log.warning("%s: the journal up to event %d is here", self.path, self._journal.last)

    def _put_aside(self) -> None:
        """What is here already went another way than the scheduler in charge: it is kept, and not used."""
        if not self.path.exists():
            return
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.other-{number}")).exists():
            number += 1
        self.path.rename(aside)
        for end in ("-wal", "-shm"):
            beside = self.path.with_name(self.path.name + end)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + end))
        log.warning("%s is not what the scheduler in charge has; it is kept as %s", self.path, aside)

    def close(self) -> None:
        """Let go of the files."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.coming")


def _archived(row: pb.ArchivedRow) -> tuple[Any, ...]:
    crc = row.crc if row.HasField("crc") else None
    ended = row.ended if row.HasField("ended") else None
    return row.job, row.tenant, row.phase, row.request, row.body, crc, ended


def _keep_snapshot(db: sqlite3.Connection, row: pb.SnapshotRow) -> None:
    values = (row.seq, row.format, row.checksum, row.body)
    db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", values)
    db.execute("DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 2)")


def _remove(db: sqlite3.Connection, batch: pb.ReplicaBatch) -> None:
    """Events that were removed there, as far as a snapshot here goes beyond them."""
    numbers = [int(number) for (number,) in db.execute("SELECT seq FROM snapshots ORDER BY seq")]
    through = numbers[0] if len(numbers) > 1 else 0
    removed = min(batch.removed, through)
    rounds = min(batch.rounds_removed, through)
    facts = journal_layout.read_meta(db)
    if removed > int(facts.get(journal_layout.REMOVED, 0)):
        db.execute("DELETE FROM events WHERE seq <= ?", (removed,))
        journal_layout.write_meta(db, {journal_layout.REMOVED: str(removed)})
    if rounds > int(facts.get(journal_layout.ROUNDS_REMOVED, 0)):
        marks = ", ".join("?" * len(ROUND_EVENTS))
        db.execute(f"DELETE FROM events WHERE seq <= ? AND kind IN ({marks})", (rounds, *ROUND_EVENTS))  # noqa: S608
        journal_layout.write_meta(db, {journal_layout.ROUNDS_REMOVED: str(rounds)})
