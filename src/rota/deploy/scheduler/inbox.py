"""Where any thread leaves work for the thread that owns the registry, and waits for the answer."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

from rota.deploy.scheduler.requests import Answer, Refused
from rota.deploy.stopping import STOPPING

_LARGEST_BATCH = 512

Work = Callable[[float], Answer]
"""From engine seconds to the events that follow and the answer."""


@dataclass(slots=True)
class Call:
    """One piece of work."""

    what: str
    """For the log, if it fails."""
    work: Work
    answer: Future[Any] = field(default_factory=Future)

    def succeed(self, value: Any) -> None:
        """Let the caller have the answer, if it still waits."""
        with contextlib.suppress(InvalidStateError):
            self.answer.set_result(value)

    def fail(self, error: Exception) -> None:
        """Let the caller have the error, if it still waits."""
        with contextlib.suppress(InvalidStateError):
            self.answer.set_exception(error)


class Inbox:
    """Calls in the order in which they came."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._taken: list[Call] = []
        """Taken out by the owner and not answered yet."""
        self._closed = False

    # Any thread

    def post(self, what: str, work: Work) -> Future[Any]:
        """Let the owner do something. The future holds the answer once what follows is durable."""
        call = Call(what, work)
        self._calls.put(call)
        if self._closed:
            self.close()
        return call.answer

    # The owner

    def take(self, nap_s: float) -> list[Call]:
        """All calls that are there, after waiting so long for the first one."""
        calls: list[Call] = []
        try:
            calls.append(self._calls.get(timeout=nap_s) if nap_s > 0 else self._calls.get_nowait())
            while len(calls) < _LARGEST_BATCH:
                calls.append(self._calls.get_nowait())
        except queue.Empty:
            pass
        self._taken = calls
        return calls

    def all_answered(self) -> None:
        """The calls that were taken out last have their answers."""
        self._taken = []

    def close(self) -> None:
        """The owner is gone: whoever still waits for an answer is told so, now and from here on."""
        self._closed = True
        calls = self._taken
        self._taken = []
        with contextlib.suppress(queue.Empty):
            while True:
                calls.append(self._calls.get_nowait())
        for call in calls:
            call.fail(Refused("UNAVAILABLE", f"{STOPPING}; this request was not taken, try again"))
