"""The line to the agent.

A thread that connects, reports, answers, and connects again when the agent went away.

Nothing is queued. The link knows what is true (steps, last checkpoint, how it ended) and what the
other side was told over this connection; it tells the difference. So a new connection repeats what
matters and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from rota.client.gate import Gate
from rota.client.wire import Lines, encode
from rota.core.unix_sockets import connect

PROGRESS_EVERY_S = 0.5
SAVING_EVERY_S = 1.0
SAVING_PART = 0.1  # of the time, at most, goes into looking at what is written
SEND_TIMEOUT_S = 5.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


class AgentLink:
    """The connection of one rank to its agent."""

    def __init__(
        self,
        path: str,
        gate: Gate,
        identity: dict[str, Any],
        account: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """`account` says what goes along with every report of progress; the link's thread asks."""
        self._path = path
        self._account = account
        self._gate = gate
        self._identity = identity
        self._saved: dict[str, Any] | None = None
        self._saving: tuple[int, Callable[[], int]] | None = None
        self._look_at_save_after = 0.0
        self._last: dict[str, Any] | None = None
        self._told: dict[str, Any] = {}
        self._told_at = 0.0
        self._deadline: float | None = None
        self._connection: socket.socket | None = None
        self._bell, self._ring = os.pipe()
        os.set_blocking(self._ring, False)
        self._thread = threading.Thread(target=self._run, name="rota-link", daemon=True)

    def open(self) -> None:
        """Begin to talk. A forked child, such as a worker of a data loader, lets go of the line."""
        own = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _let_go_of(own()))
        self._thread.start()

    def saving(self, step: int, amount: Callable[[], int]) -> None:
        """A checkpoint is begun; `amount` says how much of it is written, in any unit.

        It is called by the thread of the link, which tells the agent that the writing goes on.
        """
        self._saving = (step, amount)
        self._wake()

    def saved(self, step: int, path: str, seconds: float = 0.0) -> None:
        """A checkpoint is safe on disk; it took so many seconds."""
        self._saving = None
        self._saved = {"op": "saved", "step": step, "path": path, "seconds": round(seconds, 3)}
        self._wake()

    def conclude(self, message: dict[str, Any]) -> None:
        """The last word of this rank: done, stopped or failed. The first one stands."""
        self._last = self._last or message
        self._wake()

    def close(self, linger_s: float = 2.0) -> None:
        """Let the last word out, for at most `linger_s`, and end the thread."""
        self._deadline = time.monotonic() + linger_s
        self._wake()
        if self._thread.is_alive():
            self._thread.join(linger_s + SEND_TIMEOUT_S)

    def let_go(self) -> None:
        """In a forked child: the connection is the parent's."""
        if self._connection is not None:
            self._connection.close()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._ring, b"!")

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._over():
            if self._connect_and_talk():
                pause = FIRST_PAUSE_S
            if not self._over():
                self._sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)

    def _connect_and_talk(self) -> bool:
        """One connection from its beginning to its end.

        Says whether the other side ever said something.
        """
        try:
            with connect(self._path) as connection:
                self._connection = connection
                self._told = {}
                return self._talk(connection)
        except OSError:
            return False
        finally:
            self._connection = None

    def _over(self) -> bool:
        """Closed, and nothing left to say or no time left to say it."""
        if self._deadline is None:
            return False
        return self._everything_told() or time.monotonic() >= self._deadline

    def _everything_told(self) -> bool:
        return self._told.get("last") == self._last and self._told.get("saved") == self._saved

    def _talk(self, connection: socket.socket) -> bool:
        """Serve a connection until either side leaves it.

        Says whether the other side ever said something.
        """
        connection.settimeout(SEND_TIMEOUT_S)
        connection.sendall(
            encode(
                {
                    "op": "hello",
                    **self._identity,
                    "step": self._gate.step,
                    "begun": self._gate.begun,
                }
            )
        )
        self._told["step"] = self._gate.step
        self._told_at = time.monotonic()
        lines = Lines()
        heard = False
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        while True:
            for message in self._news():
                connection.sendall(encode(message))
            if self._over():
                return heard
            ready = {handle for handle, _ in poll.poll(PROGRESS_EVERY_S * 1000)}
            if self._bell in ready:
                os.read(self._bell, 4096)
            if connection.fileno() in ready:
                data = connection.recv(65536)
                if not data:
                    return heard
                for message in lines.feed(data):
                    heard = True
                    self._reply(connection, message)

    def _reply(self, connection: socket.socket, message: dict[str, Any]) -> None:
        answer = self._gate.receive(message)
        if answer is not None:
            connection.sendall(encode(answer))

    def _news(self) -> Iterator[dict[str, Any]]:
        """What is true and was not told over this connection yet, the last word last."""
        saved = self._saved
        last = self._last
        step, step_at = self._gate.last_step()
        now = time.monotonic()
        if step != self._told.get("step") and (
            now - self._told_at >= PROGRESS_EVERY_S or last is not None
        ):
            self._told["step"] = step
            self._told_at = now
            yield {"op": "progress", "step": step, "at": round(step_at, 6), **self._account()}
        yield from self._news_of_saving(now)
        if saved != self._told.get("saved"):
            yield saved or {}
            self._told["saved"] = saved
        if last != self._told.get("last"):
            yield last or {}
            self._told["last"] = last

    def _news_of_saving(self, now: float) -> Iterator[dict[str, Any]]:
        """That a checkpoint is being written, at once, and after that how much of it is."""
        saving = self._saving
        if saving is None or self._last is not None:
            return
        step, amount = saving
        told_step, told_amount = self._told.get("saving", (None, 0))
        if told_step == step and now < self._look_at_save_after:
            return
        written = amount()
        took_s = time.monotonic() - now
        self._look_at_save_after = now + max(SAVING_EVERY_S, took_s / SAVING_PART)
        if (told_step, told_amount) != (step, written):
            self._told["saving"] = (step, written)
            yield {"op": "saving", "step": step, "written": written}

    def _sleep(self, seconds: float) -> None:
        if self._deadline is not None:
            seconds = min(seconds, max(self._deadline - time.monotonic(), 0.0), 0.1)
        if select.select([self._bell], [], [], seconds)[0]:
            os.read(self._bell, 4096)

    def __del__(self) -> None:
        os.close(self._bell)
        os.close(self._ring)


def _let_go_of(link: AgentLink | None) -> None:
    if link is not None:
        link.let_go()
