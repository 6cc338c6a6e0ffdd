"""The line to the agent: a thread that connects, reports, answers, and connects again when the agent went away.

Nothing is queued. The link knows what is true (steps, last checkpoint, how it ended) and what the other side was told
over this connection; it tells the difference. So a new connection repeats what matters and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

from rota.client.gate import Gate
from rota.client.wire import Lines, encode
from rota.core.unix_sockets import connect

PROGRESS_EVERY_S = 0.5
SEND_TIMEOUT_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0


class AgentLink:
    """The connection of one rank to its agent."""

    def __init__(self, path: str, gate: Gate, identity: dict[str, Any]) -> None:
        self._path = path
        self._gate = gate
        self._identity = identity
        self._saved: dict[str, Any] | None = None
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
        os.register_at_fork(after_in_child=lambda: _let_go(own()))
        self._thread.start()

    def saved(self, step: int, path: str) -> None:
        """A checkpoint is safe on disk."""
        self._saved = {"op": "saved", "step": step, "path": path}
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

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._ring, b"!")

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._over():
            try:
                with connect(self._path) as connection:
                    self._connection, self._told = connection, {}
                    if self._talk(connection):
                        pause = FIRST_PAUSE_S
            except OSError:
                pass
            finally:
                self._connection = None
            if not self._over():
                self._sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)

    def _over(self) -> bool:
        """Closed, and nothing left to say or no time left to say it."""
        if self._deadline is None:
            return False
        return self._everything_told() or time.monotonic() >= self._deadline

    def _everything_told(self) -> bool:
        return self._told.get("last") == self._last and self._told.get("saved") == self._saved

    def _talk(self, connection: socket.socket) -> bool:
        """Serve a connection until either side leaves it; whether the other side ever said something."""
        connection.settimeout(SEND_TIMEOUT_S)
        connection.sendall(
            encode({"op": "hello", **self._identity, "step": self._gate.step, "begun": self._gate.begun})
        )
        self._told["step"], self._told_at = self._gate.step, time.monotonic()
        lines, heard = Lines(), False
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
                    answer = self._gate.receive(message)
                    if answer is not None:
                        connection.sendall(encode(answer))

    def _news(self) -> Iterator[dict[str, Any]]:
        """What is true and was not told over this connection yet, the last word last."""
        saved, last, step, now = self._saved, self._last, self._gate.step, time.monotonic()
        if step != self._told.get("step") and (now - self._told_at >= PROGRESS_EVERY_S or last is not None):
            self._told["step"], self._told_at = step, now
            yield {"op": "progress", "step": step}
        if saved != self._told.get("saved"):
            yield saved or {}
            self._told["saved"] = saved
        if last != self._told.get("last"):
            yield last or {}
            self._told["last"] = last

    def _sleep(self, seconds: float) -> None:
        if self._deadline is not None:
            seconds = min(seconds, max(self._deadline - time.monotonic(), 0.0), 0.1)
        if select.select([self._bell], [], [], seconds)[0]:
            os.read(self._bell, 4096)

    def __del__(self) -> None:
        os.close(self._bell)
        os.close(self._ring)


def _let_go(link: AgentLink | None) -> None:
    connection = link._connection if link is not None else None  # noqa: SLF001 - own class
    if connection is not None:
        connection.close()
