"""The journal is shipped to a standby as it is written, and the scheduler knows whether it is still in charge.

A standby asks again and again for what was committed after the last event on its disk; the question is the receipt for
all before it. With `sync` the owner of the registry waits for that receipt before anybody hears of a commit. It waits
a moment at most: a standby that is away is told about, and commits are on one disk only until it is back.

A scheduler that has a standby is in charge as long as it hears of the standby, or of at least half of the servers: then
not more than half of them can have voted for the standby. Otherwise it ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sqlite3
import tempfile
import threading
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rota.deploy.events import SuccessionChanged
from rota.deploy.scheduler import archive, journal_layout
from rota.deploy.scheduler.backup import copy_databases
from rota.deploy.scheduler.journal import removed_through
from rota.deploy.scheduler.requests import Refused
from rota.deploy.scheduler.secrets import secrets_file
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.security.sealing import Seal
from rota.deploy.server.replication_files import FileReplication
from rota.deploy.stopping import NOT_IN_CHARGE
from rota.deploy.waiting import happens
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

SYNC_TIMEOUT_S = 2.0
"""Wall seconds that a commit waits for a standby; after that it is not waited for until it has caught up."""
_POLL_S = 0.5
"""A question without news is answered after so many seconds."""
_EVENTS_AT_ONCE = 500
_CHUNK = 1 << 20
_LAST_TERM = 1 << 53
_MOST_BYTES = 4 << 20
"""Of events in one batch; a message is at most 16 MB."""
_LARGEST_SNAPSHOT = 8 << 20
"""A larger one is not sent: the standby reads more events when it takes over."""
_LOOK_S = 0.25
_LEASE_HEARTBEATS = 1.5
_SHORTEST_LEASE_S = 2.0


def lease_s(heartbeat_s: float) -> float:
    """How long a scheduler goes on without hearing of its standby and of most servers, wall seconds."""
    return max(_SHORTEST_LEASE_S, _LEASE_HEARTBEATS * heartbeat_s)


def _succession(scheduler: Scheduler) -> tuple[int, str]:
    """Term and standby of a scheduler that is about to start."""
    known = scheduler.registry.succession
    if known is None or scheduler.options.term > known.term:  # it takes over, and nobody stands by yet
        return scheduler.options.term, ""
    return known.term, known.standby


class Replication:
    """The side of the scheduler in charge. Lives in the event loop of the server, but for `_committed`."""

    def __init__(self, scheduler: Scheduler, seal: Seal, files: FileReplication, *, sync: bool) -> None:
        self.files = files
        """What is kept beside the journal; nothing here waits for it."""
        self._scheduler = scheduler
        self._seal = seal
        self._sync = sync
        self._events = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._receipt = threading.Condition()
        self._acknowledged = 0
        self._in_step = False
        self._sent_at: dict[int, float] = {}
        self._number = 0
        self._reader = ThreadPoolExecutor(1, "replication")
        self._db: sqlite3.Connection | None = None
        self._heard = -math.inf
        """When the batch was sent for which the last receipt came, monotonic seconds."""
        self._later: set[str] = set()
        """Servers that have promised to obey a later scheduler."""
        self._nodes: tuple[str, ...] = ()
        """Servers that are up, as the standby knows it."""
        self._term, self._standby = _succession(scheduler)
        self._began = time.monotonic()
        self._confirmed = not self._standby
        self._lease_s = lease_s(scheduler.options.timing.heartbeat_s)
        if self._standby:
            self._nodes = tuple(sorted(name for name, node in scheduler.registry.nodes.items() if not node.lost))
        scheduler.journal.committed = self._committed

    # The owner of the registry

    def _committed(self, last: int) -> None:
        """Wake whoever waits for news; with `sync`, wait until the standby has it."""
        if not self._events.is_closed():
            self._events.call_soon_threadsafe(self._news.set)
        if not (self._sync and self._in_step):
            return
        with self._receipt:
            if not self._receipt.wait_for(lambda: self._acknowledged >= last or not self._in_step, SYNC_TIMEOUT_S):
                self._lose_standby(f"standby {self._standby} did not confirm event {last} within {SYNC_TIMEOUT_S:g} s")

    def _lose_standby(self, why: str) -> None:
        self._in_step = False
        log.error("%s; from here on commits are on this disk only, until it has caught up", why)

    # Who is in charge

    @property
    def term(self) -> int:
        """Of this scheduler."""
        return self._term

    def check_term(self, node: str, promised: int) -> None:
        """Refused if an agent has promised to obey a later scheduler; the end of this one if most agents have.

        One agent alone cannot end it: that would be a way to attack it.
        """
        if promised <= self._term:
            self._later.discard(node)
            return
        self._later.add(node)
        if self._standby and 2 * len(self._later.intersection(self._nodes)) > len(self._nodes):
            self._scheduler.give_way(
                f"most servers have promised to obey a later scheduler (node {node}: term {promised}); this one was in "
                f"charge in term {self._term}. Start it again with --standby-of that one"
            )
        raise Refused(
            "UNAVAILABLE",
            f"{NOT_IN_CHARGE} for node {node}, which has promised to obey a scheduler of term {promised}; this one has "
            f"term {self._term}",
        )

    def check_in_charge(self) -> None:
        """Refused as long as it is not known whether the standby has taken over while this scheduler was away."""
        if not self._confirmed:
            raise Refused(
                "UNAVAILABLE",
                f"{NOT_IN_CHARGE}: it was away, and {self._standby} may have taken over; it waits until that one or at "
                "least half of the servers are heard. Start it with --take-over if it is to be in charge all the same",
            )

    async def watch(self) -> None:
        """End the scheduler when it may have been replaced; until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if not self._standby:
                continue
            now = time.monotonic()
            standby_heard = now - self._heard <= self._lease_s
            if self._in_step and not standby_heard:
                self._lose_standby(f"standby {self._standby} was not heard for {self._lease_s:g} s")
            heard = standby_heard or self._servers_heard()
            if heard and not self._confirmed:
                self._confirmed = True
                log.warning("this scheduler is in charge, in term %d", self._term)
            if not heard and self._confirmed and now - self._began > self._lease_s:
                self._scheduler.give_way(
                    f"neither standby {self._standby} nor half of {len(self._nodes)} servers were heard for "
                    f"{self._lease_s:g} s: the standby may have taken over"
                )
                return

    def _servers_heard(self) -> bool:
        """Whether so many servers were heard that no majority can have voted for another scheduler."""
        heartbeats = self._scheduler.heartbeats
        known = [node for node in self._nodes if heartbeats.was_heard(node)]
        heard = sum(heartbeats.silent_s(node) <= self._lease_s for node in known)
        return 2 * heard >= len(self._nodes)

    def status(self) -> dict[str, Any]:
        """Fields of `StatusReply`."""
        if not self._standby:
            return {"term": self._term}
        behind = max(0, self._scheduler.journal.last - self._acknowledged)
        silent_s = time.monotonic() - max(self._heard, self._began)
        return {
            "term": self._term,
            "standby": self._standby,
            "standby_in_step": self._in_step,
            "standby_behind": behind,
            "standby_silent_s": silent_s,
        }

    # The standby

    async def replicate(self, request: pb.ReplicaRequest) -> pb.ReplicaBatch:
        """What was committed behind the last event of the standby; waits a moment if there is nothing."""
        if not request.address or not 0 <= request.term <= _LAST_TERM:
            raise Refused("INVALID_ARGUMENT", "a standby says where it listens, and no term above 2^53")
        self._take_receipt(request)
        await self._know_standby(request)
        if request.after >= self._scheduler.journal.last:
            self._news.clear()
            if request.after >= self._scheduler.journal.last:
                await happens(self._news, _POLL_S)
        batch: pb.ReplicaBatch = await self._events.run_in_executor(self._reader, self._batch, request)
        self._nodes = tuple(batch.nodes)
        self._number += 1
        batch.number = self._number
        if not batch.base_needed:
            self._sent_at[self._number] = time.monotonic()
        return batch

    def _take_receipt(self, request: pb.ReplicaRequest) -> None:
        sent = self._sent_at.get(request.seen)
        if sent is not None:
            self._heard = max(self._heard, sent)
            self._sent_at = {number: at for number, at in self._sent_at.items() if number >= request.seen}
        if request.journal != self._scheduler.journal.id:
            return
        with self._receipt:
            self._acknowledged = request.after
            # Only one that has had a batch knows the servers, without which it can take nothing over.
            caught_up = sent is not None and request.after >= self._scheduler.journal.last
            self._in_step = self._in_step or caught_up
            self._receipt.notify_all()

    async def _know_standby(self, request: pb.ReplicaRequest) -> None:
        """Write down who stands by, and a term for which some agents have voted although this one is still there."""
        if request.address == self._standby and request.term <= self._term:
            return
        term = max(self._term, request.term)
        address = request.address

        def work(now: float) -> Any:
            return [SuccessionChanged(at=now, term=term, standby=address)], lambda: None

        self._standby = address
        await asyncio.wrap_future(self._scheduler.post("standby", work))
        self._term = term
        log.warning("%s stands by, in term %d", address, term)

    def _batch(self, request: pb.ReplicaRequest) -> pb.ReplicaBatch:
        """Read in a thread of its own."""
        scheduler = self._scheduler
        up = sorted(name for name, orders in scheduler.published.items() if not orders.lost)
        batch = pb.ReplicaBatch(
            last=scheduler.journal.last, term=self._term, nodes=up, lease_s=self._lease_s, removed=0, rounds_removed=0
        )
        if request.journal != scheduler.journal.id:
            batch.base_needed = True
            return batch
        if self._db is None:
            path = scheduler.journal.path.absolute()
            self._db = sqlite3.connect(
                f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False, isolation_level=None
            )
            self._db.text_factory = archive.TEXT
        self._db.execute("BEGIN")
        try:
            fill_batch(self._db, request, batch)
        finally:
            self._db.execute("ROLLBACK")
        self._add_secrets(batch)
        return batch

    def _add_secrets(self, batch: pb.ReplicaBatch) -> None:
        names = [json.loads(row.body).get("secrets", "") for row in batch.events if row.kind == "JobAccepted"]
        wanted = [name for name in names if name]
        path = secrets_file(self._scheduler.journal.path)
        if not wanted or not path.exists():
            return
        query = "SELECT name, job, body FROM environments WHERE name IN (SELECT value FROM json_each(?))"
        with archive.reading(path) as db:
            for row in db.execute(query, (json.dumps(wanted),)):
                batch.secrets.add(data=self._seal.close(json.dumps(list(row)).encode()))

    async def base(self) -> AsyncGenerator[pb.FileChunk, None]:
        """The state file and the secrets, as they are at one event."""
        folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix=".rota-base-")
        try:
            copies = await asyncio.to_thread(copy_databases, self._scheduler.journal.path, Path(folder.name))
            for name, path in copies.items():
                if name == "forecasts.db":
                    continue
                with path.open("rb") as file:
                    while data := await asyncio.to_thread(file.read, _CHUNK):
                        secret = name == "secrets.db"
                        yield pb.FileChunk(
                            file="secrets" if secret else "state", data=self._seal.close(data) if secret else data
                        )
        finally:
            await asyncio.to_thread(folder.cleanup)

    def close(self) -> None:
        """Nobody hears of commits any more."""
        self._scheduler.journal.committed = lambda _: None
        with self._receipt:
            self._sync = False
            self._receipt.notify_all()
        self._reader.shutdown(wait=False, cancel_futures=True)
        self.files.close()


def fill_batch(db: sqlite3.Connection, request: pb.ReplicaRequest, batch: pb.ReplicaBatch) -> None:
    """What a standby lacks of a journal, within one read transaction."""
    removed, rounds_removed = removed_through(journal_layout.read_meta(db))
    before = db.execute("SELECT at, kind, body, crc FROM events WHERE seq = ?", (request.after,)).fetchone()
    known = before is None or checksum_of(before) == request.crc
    if request.after < max(removed, rounds_removed) or request.after > batch.last or not known:
        batch.base_needed = True
        return
    batch.removed = removed
    batch.rounds_removed = rounds_removed
    _add_events(db, request, batch)
    _add_archived(db, batch)
    newest = db.execute("SELECT seq, format, checksum, body FROM snapshots ORDER BY seq DESC LIMIT 1").fetchone()
    reached = batch.events[-1].seq if batch.events else request.after
    if newest is not None and request.snapshot < newest[0] <= reached and len(newest[3]) <= _LARGEST_SNAPSHOT:
        batch.snapshot.CopyFrom(pb.SnapshotRow(seq=newest[0], format=newest[1], checksum=newest[2], body=newest[3]))


def _add_events(db: sqlite3.Connection, request: pb.ReplicaRequest, batch: pb.ReplicaBatch) -> None:
    query = "SELECT seq, at, kind, body, crc FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
    size = 0
    for seq, at, kind, body, crc in db.execute(query, (request.after, _EVENTS_AT_ONCE)):
        size += len(body)
        if size > _MOST_BYTES and batch.events:
            break
        batch.events.add(seq=seq, at=at, kind=kind, body=body, crc=crc)


def _add_archived(db: sqlite3.Connection, batch: pb.ReplicaBatch) -> None:
    """Jobs that left memory with these events, and how far jobs were forgotten."""
    moves = [json.loads(row.body)["jobs"] for row in batch.events if row.kind == "JobsArchived"]
    for row in archive.rows_of(db, [job for jobs in moves for job in jobs]):
        names = ("job", "tenant", "phase", "request", "body", "crc", "ended")
        batch.archived.add(**dict(zip(names, row, strict=True)))
    if any(row.kind == "JobsForgotten" for row in batch.events):
        (oldest,) = db.execute("SELECT min(ended) FROM finished_jobs").fetchone()
        batch.oldest_end = oldest or 0.0


def checksum_of(row: tuple[float, str, str, int | None]) -> int:
    """CRC-32 of an event, also of one that an older version wrote without."""
    at, kind, body, crc = row
    return journal_layout.event_checksum(at, kind, body) if crc is None else int(crc)
