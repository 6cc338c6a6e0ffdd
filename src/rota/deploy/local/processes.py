"""Processes that `rota up` starts: their logs, a bounded number of restarts, and an end in order.

Only processes started here are ever signalled, by their own numbers. Each has a session of its own, so that Ctrl-C on a
terminal reaches `rota up` alone. All of them read one pipe that nobody writes to: should `rota up` be killed, they see
it end and stop by themselves.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rota.core.errors import ConfigError, RotaError

GRACE_S = 10.0
"""Between TERM and KILL."""
RESTARTS = 5
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_SETTLED_S = 60.0
"""A process that ran so long gets all its restarts back."""
USAGE = 2
"""Exit code of a process that will say the same when it is started again."""


class Lifeline:
    """A pipe whose end tells every child that its parent is gone."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()

    def close(self) -> None:
        """Let go of both ends."""
        for end in (self.reader, self._writer):
            with contextlib.suppress(OSError):
                os.close(end)


@dataclass(kw_only=True)
class Child:
    """One process, started again when it dies."""

    name: str
    command: Sequence[str]
    log: Path
    lifeline: Lifeline
    restarts: int = 0
    given_up: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _started: float = 0.0
    _again_at: float = 0.0
    _heard: bytes = b""

    def start(self) -> None:
        """Start it; what it says goes to the end of its log."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                list(self.command), stdin=self.lifeline.reader, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._started = time.monotonic()
        self._again_at = 0.0
        self._heard = b""

    @property
    def pid(self) -> int:
        """Number of the process; 0 if there is none."""
        return self.process.pid if self.process is not None and self.process.poll() is None else 0

    @property
    def ended_well(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.process is not None and self.process.poll() == 0

    def said(self, timeout_s: float = 0.0) -> str | None:
        """The first line on its standard output, which says that it is ready; None as long as there is none."""
        process = self.process
        if process is None or process.stdout is None or process.stdout.closed:
            return None
        until, pipe = time.monotonic() + timeout_s, process.stdout.fileno()
        while b"\n" not in self._heard:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(pipe, 4096) if ready else b""
            if not piece:
                return None
            self._heard += piece
        return self._heard.partition(b"\n")[0].decode("utf-8", "replace")

    def tend(self) -> str | None:
        """Start it again if it died, after a pause that grows; what happened, if anything did."""
        now = time.monotonic()
        if self.given_up or self.process is None or (code := self.process.poll()) is None:
            return None
        if self._again_at == 0.0:
            if now - self._started > _SETTLED_S:
                self.restarts = 0
            if self.restarts >= RESTARTS or code == USAGE:
                self.given_up = True
                return f"{self.name} ended with code {code} and is not started again; see {self.log}"
            pause = min(_FIRST_PAUSE_S * 2**self.restarts, _LONGEST_PAUSE_S)
            self._again_at = now + pause
            return f"{self.name} ended with code {code}, starting again in {pause:g} s; see {self.log}"
        if now >= self._again_at:
            self.restarts += 1
            self.forget()
            self.start()
        return None

    def forget(self) -> None:
        """Let go of the pipe of a process that has ended."""
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()

    def failure(self, patience_s: float = 5.0) -> RotaError:
        """Why it does not start: what it said last, as an error of the same kind."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.process is not None:
                self.process.wait(patience_s)
        code = None if self.process is None else self.process.poll()
        said = self.last_words().removeprefix("rota: ").removeprefix("error: ")
        error_type = ConfigError if code == USAGE else RotaError
        return error_type(f"{self.name} does not start: {said or 'it says nothing'} (all of it: {self.log})")

    def last_words(self) -> str:
        """The last error in its log, else its last line."""
        with contextlib.suppress(OSError):
            text = self.log.read_text(encoding="utf-8", errors="replace")
            lines = [line for line in text.split("\n") if line.strip()][-20:]
            errors = [line for line in lines if line.startswith("rota: error: ")]
            return (errors or lines or [""])[-1]
        return ""


def stop(children: Iterable[Child], grace_s: float = GRACE_S) -> list[str]:
    """End processes: TERM to all, KILL to those that are there after the grace; the names of the latter."""
    alive = [child for child in children if child.pid]
    for child in alive:
        assert child.process is not None  # it has a number
        child.process.terminate()
    until = time.monotonic() + grace_s
    late = []
    for child in alive:
        assert child.process is not None  # it has a number
        try:
            child.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            late.append(child.name)
            child.process.kill()
            child.process.wait()
        child.forget()
    return late
