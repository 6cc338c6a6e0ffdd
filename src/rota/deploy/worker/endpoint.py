"""The agent's end of the line to the ranks on its server: a UNIX socket that training processes connect to.

Nothing that arrives can make it fail: what cannot be read, comes too often or belongs to another attempt is counted in
`ignored`. A rank may lose its connection and come back; what it has to know (lease, stop) is told again then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rota.client.link import connect, short_path
from rota.client.wire import LONGEST_LINE, Lines, encode
from rota.core.errors import ConfigError
from rota.deploy.agreement import Agreement, Send
from rota.deploy.worker.ranks import Bucket, Counters, Rank, Task, heard, identity

ANSWERS = frozenset({"at", "will"})
TICK_S = 0.2
HELLO_WITHIN_S = 10.0
MOST_CONNECTIONS = 1024


class Endpoint:
    """Listens at `path` for the ranks it was told to expect.

    `on_change(rank)` is called with every new state of a rank, `on_answer(task, rank, message)` with every answer about
    where to stop (for gangs over several servers), `on_broken(task, reason)` when a gang here cannot agree and has to
    be killed. All are called from the event loop.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        on_change: Callable[[Rank], None] | None = None,
        on_answer: Callable[[Task, int, dict[str, Any]], None] | None = None,
        on_broken: Callable[[Task, str], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.ignored = Counters()
        self._on_change, self._on_answer, self._on_broken = on_change, on_answer, on_broken
        self._ranks: dict[tuple[Task, int], Rank] = {}
        self._sizes: dict[Task, int] = {}
        self._lease_ends: dict[Task, float] = {}
        self._stopping: set[Task] = set()
        self._agreements: dict[Task, Agreement] = {}
        self._lines: dict[tuple[Task, int], asyncio.StreamWriter] = {}
        self._open: set[asyncio.Task[None]] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._server: asyncio.Server | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._inode = 0

    async def start(self) -> None:
        """Begin to listen. The folder is for this user only, and so is the socket."""
        _own_folder(self.path.parent)
        listener = _listen(self.path)
        self._inode = self.path.stat().st_ino
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=2 * LONGEST_LINE)
        self._ticker = asyncio.create_task(self._tick())

    async def close(self) -> None:
        """Stop listening and let go of all connections. Ranks go on until their leases end."""
        if self._server is not None:
            self._server.close()
        running = [*self._open, *([self._ticker] if self._ticker else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            if self.path.stat().st_ino == self._inode:
                self.path.unlink()

    def expect(self, task: Task, ranks: Iterable[int] = (0,), world_size: int | None = None) -> None:
        """These ranks of a task run on this server. Any older attempt of the job is forgotten."""
        numbers = list(ranks)
        for other in [t for t in self._sizes if t.job == task.job and t.epoch < task.epoch]:
            self.forget(other)
        self._sizes[task] = world_size or len(numbers)
        for number in numbers:
            self._ranks.setdefault((task, number), Rank(task, number))

    def forget(self, task: Task) -> None:
        """The task is over: close its connections and ignore it from now on."""
        for key in [key for key in self._ranks if key[0] == task]:
            del self._ranks[key]
            if key in self._lines:
                self._lines.pop(key).close()
        for table in (self._sizes, self._lease_ends, self._agreements):
            table.pop(task, None)
        self._stopping.discard(task)

    def ranks(self, task: Task) -> list[Rank]:
        """What was observed of the ranks of a task."""
        return [rank for (owner, _), rank in sorted(self._ranks.items()) if owner == task]

    def agreement(self, task: Task) -> Agreement | None:
        """How far the ranks of a local gang are with agreeing on the step to stop at."""
        return self._agreements.get(task)

    def set_lease(self, task: Task, seconds: float) -> None:
        """Give or renew the lease of a task: from now, for so many seconds."""
        self._known(task)
        self._lease_ends[task] = time.monotonic() + seconds
        for rank in self.ranks(task):
            self._send(task, rank.rank, {"op": "lease", "seconds": seconds})

    def stop(self, task: Task) -> None:
        """Order a clean stop. A gang that is whole on this server agrees on a step; one process stops at the next."""
        size = self._known(task)
        numbers = [rank.rank for rank in self.ranks(task)]
        if size != len(numbers):
            raise ConfigError(
                f"job {task.job}: {len(numbers)} of {size} ranks are on this server; it cannot stop them on one step "
                "by itself; whoever knows all of them uses ask, propose and commit."
            )
        self._stopping.add(task)
        if size == 1:
            self._send(task, numbers[0], {"op": "stop"})
        elif task not in self._agreements or self._agreements[task].state == "broken":
            now = time.monotonic()
            agreement = self._agreements[task] = Agreement(numbers)
            self._step(task, agreement, partial(agreement.begin, now))
            for rank in self.ranks(task):
                if rank.over:
                    last = {"op": rank.phase, "step": rank.step}
                    self._step(task, agreement, partial(agreement.answer, rank.rank, last, now))

    def ask(self, task: Task) -> None:
        """Ask the ranks here how far they are; the answers go to `on_answer`."""
        self.pass_on(task, {"op": "where"})

    def propose(self, task: Task, number: int, step: int) -> None:
        """Propose a step to stop at to the ranks here; the answers go to `on_answer`."""
        self.pass_on(task, {"op": "stop_at", "id": number, "step": step})

    def commit(self, task: Task, number: int) -> None:
        """Tell the ranks here that all of the gang accepted a proposal."""
        self.pass_on(task, {"op": "commit", "id": number})

    def pass_on(self, task: Task, message: dict[str, Any], rank: int | None = None) -> None:
        """Send a message of an agreement that is led elsewhere to one rank, or to all that are here."""
        self._known(task)
        for known in self.ranks(task):
            if rank is None or known.rank == rank:
                self._send(task, known.rank, message)

    def lost(self, task: Task, rank: int) -> None:
        """The process of a rank is gone. If its gang was agreeing on a step, that has failed."""
        agreement = self._agreements.get(task)
        if agreement is not None:
            self._step(task, agreement, lambda: agreement.lost(rank))

    async def wait_for(self, test: Callable[[], bool], timeout: float) -> bool:
        """Wait until something holds that changes with the ranks; whether it came true in time."""
        end = time.monotonic() + timeout
        while not test():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait_for(waiter, end - time.monotonic())
            except asyncio.TimeoutError:
                return test()
            finally:
                self._waiters.discard(waiter)
        return True

    def _known(self, task: Task) -> int:
        if task not in self._sizes:
            raise ConfigError(f"job {task.job}, attempt {task.epoch}: no such task here; expect() it first.")
        return self._sizes[task]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        current = asyncio.current_task()
        if current is None or len(self._open) >= MOST_CONNECTIONS:
            self.ignored.strangers += 1
            writer.close()
            return
        self._open.add(current)
        key: tuple[Task, int] | None = None
        lines, bucket = Lines(), Bucket(at=time.monotonic())
        try:
            while data := await asyncio.wait_for(reader.read(LONGEST_LINE), None if key else HELLO_WITHIN_S):
                bad = lines.bad
                for message in lines.feed(data):
                    if not bucket.take(time.monotonic()):
                        self.ignored.floods += 1
                    elif key is None:
                        key = self._greet(message, writer)
                        if key is None:
                            return
                    elif self._lines.get(key) is writer:
                        self._take(key, message)
                self.ignored.bad_lines += lines.bad - bad
                await asyncio.sleep(0)  # let others speak while one floods
        except (OSError, asyncio.TimeoutError):
            pass
        except asyncio.CancelledError:
            pass  # the endpoint is closing; raising would only be logged by the server
        finally:
            self._open.discard(current)
            self._hang_up(key, writer)

    def _greet(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> tuple[Task, int] | None:
        """Connect a rank that is expected and tell it what it has to know; None for strangers."""
        key = identity(message) if message["op"] == "hello" else None
        if key is None or key not in self._ranks:
            self.ignored.strangers += 1
            return None
        state = heard(self._ranks[key], message)
        if state is None:
            self.ignored.bad_lines += 1
            return None
        task, rank = key
        if key in self._lines:
            self.ignored.replaced += 1
            self._lines[key].close()
        self._lines[key] = writer
        self._update(key, state)
        if task in self._lease_ends:
            left = max(self._lease_ends[task] - time.monotonic(), 0.0)
            self._send(task, rank, {"op": "lease", "seconds": left})
        agreement = self._agreements.get(task)
        if agreement is not None:
            self._send_all(task, agreement.rejoined(rank, time.monotonic()))
        elif task in self._stopping:
            self._send(task, rank, {"op": "stop"})
        return key

    def _take(self, key: tuple[Task, int], message: dict[str, Any]) -> None:
        task, rank = key
        agreement = self._agreements.get(task)
        if message["op"] in ANSWERS:
            if self._on_answer is not None:
                self._on_answer(task, rank, message)
        else:
            state = heard(self._ranks[key], message)
            if state is None:
                self.ignored.unknown_operations += 1
                return
            self._update(key, state)
        if agreement is not None:
            self._step(task, agreement, lambda: agreement.answer(rank, message, time.monotonic()))

    def _step(self, task: Task, agreement: Agreement, move: Callable[[], list[Send] | None]) -> None:
        """Let an agreement make a move, send what it says, and tell when that broke it."""
        before = agreement.state
        self._send_all(task, move() or [])
        if agreement.state == "broken" != before and self._on_broken is not None:
            self._on_broken(task, agreement.reason or "")

    def _update(self, key: tuple[Task, int], state: Rank) -> None:
        if state == self._ranks.get(key):
            return
        self._ranks[key] = state
        if self._on_change is not None:
            self._on_change(state)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _send_all(self, task: Task, sends: list[Send]) -> None:
        for rank, message in sends:
            self._send(task, rank, message)

    def _send(self, task: Task, rank: int, message: dict[str, Any]) -> None:
        """Send if connected; a rank that does not read is cut off, and asked to come back with a clean line."""
        writer = self._lines.get((task, rank))
        if writer is None or writer.is_closing():
            return
        if writer.transport.get_write_buffer_size() > LONGEST_LINE:
            writer.transport.abort()
            return
        writer.write(encode(message))

    def _hang_up(self, key: tuple[Task, int] | None, writer: asyncio.StreamWriter) -> None:
        writer.close()
        if key is not None and self._lines.get(key) is writer:
            del self._lines[key]
            if key in self._ranks:
                state = self._ranks[key]
                self._update(key, replace(state, connected=False))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            for task, agreement in list(self._agreements.items()):
                self._step(task, agreement, partial(agreement.tick, time.monotonic()))


def _own_folder(folder: Path) -> None:
    """Make the folder for this user only; refuse one that others may enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"{folder}: a socket of jobs needs a folder that only this user may enter, and this one has owner "
            f"{found.st_uid} and mode {stat.S_IMODE(found.st_mode):03o}. Choose another, or chmod 700 it."
        )


def _listen(path: Path) -> socket.socket:
    """A listening socket at a path of any length, in place of one that a dead agent left."""
    if path.exists():
        _clear(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(str(path)) as short:
            listener.bind(short)
        path.chmod(0o600)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConfigError(f"{path}: cannot listen there ({error.strerror or error}). Choose a shorter path.") from error
    listener.setblocking(False)
    return listener


def _clear(path: Path) -> None:
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise ConfigError(f"{path}: this is a file and no socket; choose another path.")
    try:
        connect(str(path)).close()
    except OSError:
        path.unlink()
        return
    raise ConfigError(f"{path}: another agent listens there. End it, or choose another path.")
