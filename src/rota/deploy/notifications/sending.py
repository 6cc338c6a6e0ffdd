"""One try to tell somebody: a POST that never follows anywhere else, or a command without a shell."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Protocol

from rota._version import __version__
from rota.deploy.clocks import wall_s
from rota.deploy.notifications.settings import CommandSettings, Target, WebhookSettings

_MOST_ANSWER = 64_000
"""Bytes of an answer that are read, to use the connection again."""
_NEVER_BETTER = frozenset({400, 413, 422})
"""Answers about what was sent: the same again will get the same."""
_LONGEST_PAUSE_S = 300.0
"""The longest pause that a target may ask for (Retry-After)."""
_SHOWN = 300
"""Characters of what somebody said that are logged."""
_LAST_WORDS = 2_000
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""Variables that a command gets of the scheduler's; others may be secrets."""
_SHORTEST_POLL_S = 0.005
_POLL_S = 0.1
_STOP_S = 2.0
"""Wall seconds that a command may go on when the scheduler stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent."""

    key: str
    """The same whenever this is sent again."""
    kind: str
    event: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a try ended."""

    delivered: bool = False
    again: bool = True
    """If it was not delivered: whether another try may help."""
    pause_s: float = 0.0
    """Wall seconds that the target asks to be left alone."""
    why: str = ""


class Sender(Protocol):
    """Tries once."""

    def send(self, message: Message) -> Outcome:
        """Tell somebody; whatever goes wrong is an outcome."""

    def interrupt(self) -> None:
        """Let a try that is under way end soon. Any thread."""

    def close(self) -> None:
        """Let go of what is open."""


def sender_of(target: Target, stopping: Callable[[], bool]) -> Sender:
    """What reaches a target."""
    if isinstance(target.how, WebhookSettings):
        return Webhook(target.how, target.timeout_s)
    return Command(target.how, target.timeout_s, stopping)


class Webhook:
    """POSTs to one address, over one connection as long as it holds."""

    def __init__(self, settings: WebhookSettings, timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._interrupted = False

    def send(self, message: Message) -> Outcome:
        """One request."""
        reused = self._connection is not None
        began = time.monotonic()
        try:
            return self._post(message)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            if time.monotonic() - began >= self._timeout_s:
                return self._too_late()
            if reused and isinstance(error, ConnectionError) and not self._interrupted:
                return self.send(message)  # it was closed for being idle; the key is the same
            return Outcome(why=_shown(str(error) or repr(error)))

    def _post(self, message: Message) -> Outcome:
        connection = self._connection or self._connect()
        self._connection = connection
        with self._within_time(connection) as cut:
            connection.request("POST", self._settings.path, body=message.body, headers=self._headers(message))
            answer = connection.getresponse()
            said = answer.read(_MOST_ANSWER)
        if cut.is_set():  # what was read of it may look like a whole one
            self.close()
            return self._too_late()
        if answer.will_close or not answer.isclosed():
            self.close()
        return _judged(answer.status, answer.headers.get("Retry-After") or "", said)

    def _too_late(self) -> Outcome:
        return Outcome(why=f"no answer within {self._timeout_s:g} s")

    def _connect(self) -> http.client.HTTPConnection:
        settings = self._settings
        if settings.tls is None:
            return http.client.HTTPConnection(settings.host, settings.port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(settings.host, settings.port, timeout=self._timeout_s, context=settings.tls)

    @contextlib.contextmanager
    def _within_time(self, connection: http.client.HTTPConnection) -> Iterator[threading.Event]:
        """End a request that takes too long as a whole; the time limit of a socket is about each piece of it."""
        cut = threading.Event()
        end = threading.Timer(self._timeout_s, _cut, [connection, cut])
        end.daemon = True
        end.start()
        try:
            yield cut
        finally:
            end.cancel()

    def _headers(self, message: Message) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"rota/{__version__}",
            "Idempotency-Key": message.key,
            "X-Rota-Event": str(message.event),
            "X-Rota-Kind": message.kind,
        }
        if self._settings.secret:
            moment = str(int(wall_s()))
            headers["X-Rota-Timestamp"] = moment
            headers["X-Rota-Signature"] = signature(self._settings.secret, moment, message.body)
        return headers

    def interrupt(self) -> None:
        """Hang up, from another thread."""
        self._interrupted = True
        connection = self._connection
        if connection is not None:
            _cut(connection, threading.Event())

    def close(self) -> None:
        """Hang up."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            connection.close()


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """`sha256=HEX`: HMAC-SHA256 of the timestamp, a full stop, and the body."""
    digest = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


def _cut(connection: http.client.HTTPConnection, cut: threading.Event) -> None:
    cut.set()
    sock = connection.sock
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _judged(status: int, retry_after: str, said: bytes) -> Outcome:
    if 200 <= status < 300:
        return Outcome(delivered=True)
    words = said.decode("utf-8", "replace").strip()
    why = f"answer {status}" + (f": {_shown(words)}" if words else "")
    if 300 <= status < 400:
        return Outcome(why=f"answer {status}: redirects are not followed; give the address itself")
    pause_s = float(retry_after) if retry_after.isascii() and retry_after.isdecimal() and len(retry_after) < 9 else 0.0
    return Outcome(again=status not in _NEVER_BETTER, pause_s=min(pause_s, _LONGEST_PAUSE_S), why=why)


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:_SHOWN])


class Command:
    """Runs a program with the message on standard input; all that it started ends with it."""

    def __init__(self, settings: CommandSettings, timeout_s: float, stopping: Callable[[], bool]) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._stopping = stopping

    def send(self, message: Message) -> Outcome:
        """One run."""
        program = self._settings.argv[0]
        try:
            process = self._start(message)
        except OSError as error:
            return Outcome(why=f"{program} cannot be run: {error.strerror}")
        words = _LastWords(process.stderr)
        try:
            _feed(process, message.body)
            code = self._wait(process)
        finally:
            _end(process)
        last = words.text()
        if code == 0:
            return Outcome(delivered=True)
        ended = f"did not end within {self._timeout_s:g} s" if code is None else f"ended with code {code}"
        return Outcome(why=f"{program} {ended}" + (f": {_shown(last)}" if last else ""))

    def _start(self, message: Message) -> subprocess.Popen[bytes]:
        own = {"ROTA_KIND": message.kind, "ROTA_EVENT": str(message.event), "ROTA_NOTIFICATION_ID": message.key}
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return subprocess.Popen(  # noqa: S603 - the operator's own program, without a shell
            self._settings.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**inherited, **own},
            cwd="/",
            start_new_session=True,
        )

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        """Its exit code; None if it takes too long.

        Its number is not given back yet, so that no other group of processes can have it.
        """
        until = time.monotonic() + self._timeout_s
        pause_s = _SHORTEST_POLL_S
        while time.monotonic() < until:
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            if self._stopping():
                until = min(until, time.monotonic() + _STOP_S)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)
        return None

    def interrupt(self) -> None:
        """A command sees by itself that the scheduler stops."""

    def close(self) -> None:
        """Nothing is open between two runs."""


class _LastWords:
    """Reads what a command says, and keeps the beginning of it."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        assert pipe is not None  # it was asked for
        self._pipe = pipe
        self._kept = b""
        self._thread = threading.Thread(target=self._run, name="words of a command", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._pipe:
            while piece := os.read(self._pipe.fileno(), 4096):
                self._kept = (self._kept + piece)[:_LAST_WORDS]

    def text(self) -> str:
        self._thread.join(1.0)
        return self._kept.decode("utf-8", "replace").strip()


def _feed(process: subprocess.Popen[bytes], body: bytes) -> None:
    """Bodies are smaller than a pipe, so this does not wait for the command."""
    assert process.stdin is not None  # it was asked for
    with contextlib.suppress(OSError), process.stdin:
        process.stdin.write(body)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started, if something is left."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
