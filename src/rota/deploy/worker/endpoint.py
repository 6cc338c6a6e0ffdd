"""The agent's end of the line to the ranks on its server.

A UNIX socket that training processes connect to.

Nothing that arrives can make it fail: what cannot be read, comes too often or belongs to another
attempt is counted in `ignored`. A rank may lose its connection and come back; what it has to know
(lease, stop) is told again then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rota.client.clock import machine_s
from rota.client.wire import LONGEST_LINE, encode
from rota.core.errors import ConfigError
from rota.deploy.agreement import Agreement, Send
from rota.deploy.worker.private_socket import bind_for, bind_private
from rota.deploy.worker.rank_lines import RankConnection
from rota.deploy.worker.ranks import (
    AttemptId,
    IgnoredMessages,
    Rank,
    RankId,
    TokenBucket,
    after_message,
    read_identity,
)
from rota.deploy.worker.task_keys import TaskKeys
from rota.deploy.worker.users import JobUser

ANSWERS = frozenset({"at", "will"})
TICK_S = 0.2
HELLO_WITHIN_S = 10.0
MOST_STRANGERS = 64
"""Connections of one user's jobs that have not said hello; after it there is one for each rank."""
MOST_AT_ONCE = 32
"""Connections that are taken in before others have their turn: each holds a file handle."""
_TURNS = 20
"""Of the event loop, until a connection that waits is taken in and its first line is read."""


@dataclass(slots=True)
class _ExpectedAttempt:
    """An attempt whose ranks may connect, and what they have to know.

    `lease_end` is in seconds since boot.
    """

    world_size: int
    ranks: dict[int, Rank] = field(default_factory=dict)
    buckets: dict[int, TokenBucket] = field(default_factory=dict)
    writers: dict[int, asyncio.StreamWriter] = field(default_factory=dict)
    lease_end: float | None = None
    stopping: bool = False
    agreement: Agreement | None = None


def _inode(path: Path) -> int:
    """Tells whether a socket is still the one that was made here."""
    return path.stat().st_ino


class Endpoint:
    """Listens at `path` for the ranks it was told to expect.

    `on_change(rank)` is called with every new state of a rank, `on_answer(attempt, rank, message)`
    with every answer about where to stop (for gangs over several servers), `on_broken(attempt,
    reason)` when a gang here cannot agree and has to be killed. All are called from the event loop.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        on_change: Callable[[Rank], None] | None = None,
        on_answer: Callable[[AttemptId, int, dict[str, Any]], None] | None = None,
        on_broken: Callable[[AttemptId, str], None] | None = None,
        keys: TaskKeys | None = None,
    ) -> None:
        """`keys` are the secrets by which ranks are known; without them everybody is believed."""
        self.path = Path(path)
        self.ignored = IgnoredMessages()
        self._on_change = on_change
        self._on_answer = on_answer
        self._on_broken = on_broken
        self._keys = keys
        self._attempts: dict[AttemptId, _ExpectedAttempt] = {}
        self._open: dict[asyncio.Task[None], RankConnection] = {}
        self._servers: list[asyncio.Server] = []
        self._doors: dict[Path, int] = {}
        self._ticker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to listen. The folder is for this user only, and so is the socket."""
        await self._listen(self.path, bind_private(self.path))
        self._ticker = asyncio.create_task(self._tick())

    async def open_door(self, path: Path, user: JobUser) -> None:
        """Listen at another path as well, which only this user can reach; once is enough."""
        if path not in self._doors:
            await self._listen(path, bind_for(path, user))

    async def _listen(self, path: Path, listener: socket.socket) -> None:
        self._doors[path] = _inode(path)
        serve = partial(self._serve, path)
        server = await asyncio.start_unix_server(
            serve, sock=listener, limit=2 * LONGEST_LINE, backlog=MOST_AT_ONCE
        )
        self._servers.append(server)

    async def close(self) -> None:
        """Stop listening and let go of all connections. Ranks go on until their leases end."""
        for server in self._servers:
            server.close()
        running = [*self._open, *([self._ticker] if self._ticker else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for path, inode in self._doors.items():
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == inode:
                    path.unlink()

    def expect(
        self, attempt: AttemptId, ranks: Iterable[int] = (0,), world_size: int | None = None
    ) -> None:
        """These ranks of an attempt run on this server.

        Any older attempt of the job is forgotten.
        """
        numbers = list(ranks)
        older = [
            other
            for other in self._attempts
            if other.job == attempt.job and other.epoch < attempt.epoch
        ]
        for other in older:
            self.forget(other)
        size = world_size or len(numbers)
        expected = self._attempts.setdefault(attempt, _ExpectedAttempt(size))
        expected.world_size = size
        for number in numbers:
            expected.ranks.setdefault(number, Rank(attempt, number))

    async def take_in(self) -> None:
        """Read the first line of all who have called by now.

        A process may say everything and end before a busy agent has taken in its call.
        """
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def forget(self, attempt: AttemptId) -> None:
        """The attempt is over: close its connections and ignore it from now on."""
        expected = self._attempts.pop(attempt, None)
        if expected is not None:
            for writer in expected.writers.values():
                writer.close()

    def ranks(self, attempt: AttemptId) -> list[Rank]:
        """What was observed of the ranks of an attempt, in their order."""
        expected = self._attempts.get(attempt)
        return [] if expected is None else [rank for _, rank in sorted(expected.ranks.items())]

    def set_lease(self, attempt: AttemptId, seconds: float) -> None:
        """Give or renew the lease of an attempt: from now, for so many seconds."""
        self._expected(attempt).lease_end = machine_s() + seconds
        self.pass_on(attempt, {"op": "lease", "seconds": seconds})

    def stop(self, attempt: AttemptId) -> None:
        """Order a clean stop.

        A gang that is whole on this server agrees on a step; one process stops at the next.
        """
        expected = self._expected(attempt)
        if expected.world_size != len(expected.ranks):
            raise ConfigError(
                f"job {attempt.job}: {len(expected.ranks)} of {expected.world_size} ranks are on "
                "this server; it cannot stop them on one step by itself; whoever knows all of them "
                "leads, through pass_on."
            )
        expected.stopping = True
        if expected.world_size == 1:
            self.pass_on(attempt, {"op": "stop"})
        elif expected.agreement is None or expected.agreement.state == "broken":
            self._begin_agreement(attempt, expected)

    def pass_on(self, attempt: AttemptId, message: dict[str, Any], rank: int | None = None) -> None:
        """Send a message to one rank, or to all that are here.

        For instance one of an agreement that is led elsewhere.
        """
        for number in sorted(self._expected(attempt).ranks):
            if rank is None or number == rank:
                self._send(RankId(attempt, number), message)

    def lost(self, attempt: AttemptId, rank: int) -> None:
        """The process of a rank is gone. If its gang was agreeing on a step, that has failed."""
        expected = self._attempts.get(attempt)
        if expected is not None and expected.agreement is not None:
            self._move(attempt, expected.agreement, partial(expected.agreement.lost, rank))

    def _expected(self, attempt: AttemptId) -> _ExpectedAttempt:
        expected = self._attempts.get(attempt)
        if expected is None:
            raise ConfigError(
                f"job {attempt.job}, attempt {attempt.epoch}: no such task here; expect() it first."
            )
        return expected

    def _begin_agreement(self, attempt: AttemptId, expected: _ExpectedAttempt) -> None:
        now = time.monotonic()
        agreement = Agreement(sorted(expected.ranks))
        expected.agreement = agreement
        self._move(attempt, agreement, partial(agreement.begin, now))
        for rank in self.ranks(attempt):
            if rank.over:
                last_word = {"op": rank.phase.value, "step": rank.step}
                self._move(attempt, agreement, partial(agreement.answer, rank.rank, last_word, now))

    # Connections

    async def _serve(
        self, door: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        current = asyncio.current_task()
        if current is None or self._strangers(door) >= MOST_STRANGERS:
            self.ignored.strangers += 1
            writer.close()
            return
        connection = RankConnection(reader, writer, door)
        self._open[current] = connection
        try:
            # Cancelled when the endpoint closes; raising would only be logged by the server.
            with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.CancelledError):
                connection.rank_id = await asyncio.wait_for(self._meet(connection), HELLO_WITHIN_S)
                if connection.rank_id is not None:
                    await self._converse(connection, connection.rank_id)
        finally:
            self._open.pop(current, None)
            self._hang_up(connection)

    def _strangers(self, door: Path) -> int:
        """Connections through a door that have not said who they are."""
        return sum(1 for one in self._open.values() if one.door == door and one.rank_id is None)

    async def _meet(self, connection: RankConnection) -> RankId | None:
        """Hear the first line, which says who speaks; None for a stranger."""
        message = await connection.first()
        if message is None:
            self.ignored.bad_lines += 1
            return None
        return self._greet(message, connection.writer)

    async def _converse(self, connection: RankConnection, rank_id: RankId) -> None:
        bucket = self._attempts[rank_id.attempt].buckets[rank_id.rank]
        async for message in connection.messages(bucket, self.ignored):
            if self._writer(rank_id) is connection.writer:
                self._take(rank_id, message)

    def _greet(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> RankId | None:
        """Connect a rank that is expected and tell it what it has to know; None for strangers."""
        rank_id = read_identity(message) if message["op"] == "hello" else None
        expected = None if rank_id is None else self._attempts.get(rank_id.attempt)
        if rank_id is None or expected is None or rank_id.rank not in expected.ranks:
            self.ignored.strangers += 1
            return None
        if self._keys is not None and not self._keys.fits(rank_id, message.get("key")):
            self.ignored.strangers += 1
            return None
        greeted = after_message(expected.ranks[rank_id.rank], message)
        if greeted is None:
            self.ignored.bad_lines += 1
            return None
        if rank_id.rank in expected.writers:
            self.ignored.replaced += 1
            expected.writers[rank_id.rank].close()
        expected.writers[rank_id.rank] = writer
        # Of the rank and not of the connection: who floods cannot begin anew by calling again.
        expected.buckets.setdefault(rank_id.rank, TokenBucket(at=time.monotonic()))
        self._update(expected, greeted)
        self._brief(rank_id, expected)
        return rank_id

    def _brief(self, rank_id: RankId, expected: _ExpectedAttempt) -> None:
        """Tell a rank that has just connected its lease, and whether it has to stop."""
        now = time.monotonic()
        if expected.lease_end is not None:
            left = max(expected.lease_end - machine_s(), 0.0)
            self._send(rank_id, {"op": "lease", "seconds": left})
        if expected.agreement is not None:
            self._send_all(rank_id.attempt, expected.agreement.rejoined(rank_id.rank, now))
        elif expected.stopping:
            self._send(rank_id, {"op": "stop"})

    def _take(self, rank_id: RankId, message: dict[str, Any]) -> None:
        expected = self._attempts[rank_id.attempt]
        if message["op"] in ANSWERS:
            if self._on_answer is not None:
                self._on_answer(rank_id.attempt, rank_id.rank, message)
        else:
            changed = after_message(expected.ranks[rank_id.rank], message)
            if changed is None:
                self.ignored.unknown_operations += 1
                return
            self._update(expected, changed)
        agreement = expected.agreement
        if agreement is not None:
            answer = partial(agreement.answer, rank_id.rank, message, time.monotonic())
            self._move(rank_id.attempt, agreement, answer)

    def _hang_up(self, connection: RankConnection) -> None:
        connection.writer.close()
        rank_id = connection.rank_id
        if rank_id is not None and self._writer(rank_id) is connection.writer:
            expected = self._attempts[rank_id.attempt]
            del expected.writers[rank_id.rank]
            self._update(expected, replace(expected.ranks[rank_id.rank], connected=False))

    def _writer(self, rank_id: RankId) -> asyncio.StreamWriter | None:
        expected = self._attempts.get(rank_id.attempt)
        return None if expected is None else expected.writers.get(rank_id.rank)

    def _update(self, expected: _ExpectedAttempt, rank: Rank) -> None:
        if rank == expected.ranks[rank.rank]:
            return
        expected.ranks[rank.rank] = rank
        if self._on_change is not None:
            self._on_change(rank)

    # Agreements

    def _move(
        self, attempt: AttemptId, agreement: Agreement, move: Callable[[], list[Send] | None]
    ) -> None:
        """Let an agreement make a move, send what it says, and tell when that broke it."""
        state_before = agreement.state
        self._send_all(attempt, move() or [])
        if agreement.state == "broken" != state_before and self._on_broken is not None:
            self._on_broken(attempt, agreement.reason or "")

    def _send_all(self, attempt: AttemptId, sends: list[Send]) -> None:
        for rank, message in sends:
            self._send(RankId(attempt, rank), message)

    def _send(self, rank_id: RankId, message: dict[str, Any]) -> None:
        """Send if connected.

        A rank that does not read is cut off, and asked to come back with a clean line.
        """
        writer = self._writer(rank_id)
        if writer is None or writer.is_closing():
            return
        if writer.transport.get_write_buffer_size() > LONGEST_LINE:
            writer.transport.abort()
            return
        writer.write(encode(message))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            for attempt, expected in list(self._attempts.items()):
                agreement = expected.agreement
                if agreement is not None:
                    self._move(attempt, agreement, partial(agreement.tick, time.monotonic()))
