"""Where any thread leaves work for the thread that owns the registry, and waits for the answer.

What agents report and what the scheduler itself asks goes first. Requests of users follow, each time one of the tenant
that has most of the owner's time left (`owner_time`), so that nobody waits behind all that another tenant has sent.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Container
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

from rota.deploy.scheduler.owner_time import OwnerTime, Payer
from rota.deploy.scheduler.requests import Answer, Refused
from rota.deploy.stopping import STOPPING

Work = Callable[[float], Answer]
"""From engine seconds to the events that follow and the answer."""


@dataclass(slots=True)
class Call:
    """One piece of work."""

    what: str
    """For the log, if it fails."""
    work: Work
    payer: Payer | None = None
    """Whose time it takes; None: it is of an agent, or of the scheduler itself."""
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
    """Calls that wait for their turn."""

    def __init__(self, owner_time: OwnerTime | None = None) -> None:
        self.owner_time = owner_time or OwnerTime()
        self._news = threading.Condition()
        self._first: deque[Call] = deque()
        """Of agents and of the scheduler itself."""
        self._of_users: dict[Payer, deque[Call]] = {}
        self._taken: list[Call] = []
        """Taken out by the owner and not answered yet."""
        self._closed = False

    # Any thread

    def post(self, what: str, work: Work, payer: Payer | None = None) -> Future[Any]:
        """Let the owner do something. The future holds the answer once what follows is durable."""
        call = Call(what, work, payer)
        with self._news:
            if payer is None:
                self._first.append(call)
            else:
                self._of_users.setdefault(payer, deque()).append(call)
            self._news.notify()
        if self._closed:
            self.close()
        return call.answer

    # The owner

    def wait(self, nap_s: float) -> None:
        """Return as soon as there is a call, or after so many wall seconds."""
        with self._news:
            if nap_s > 0 and not self._first and not self._of_users:
                self._news.wait(nap_s)

    def take_first(self) -> Call | None:
        """The next call of an agent or of the scheduler itself; None: there is none."""
        with self._news:
            return self._out(self._first.popleft()) if self._first else None

    def take_of_users(self, without: Container[Payer] = ()) -> Call | None:
        """The next call of a user; None: there is none. Those of some callers are left for later."""
        with self._news:
            payers = [payer for payer in self._of_users if payer not in without]
            if not payers:
                return None
            payer = max(payers, key=self.owner_time.left_s)
            calls = self._of_users[payer]
            call = calls.popleft()
            if not calls:
                del self._of_users[payer]
            return self._out(call)

    def _out(self, call: Call) -> Call:
        self._taken.append(call)
        return call

    def keep(self, unanswered: list[Call]) -> None:
        """Of all calls that were taken out these wait for their answers."""
        self._taken = unanswered

    def close(self) -> None:
        """The owner is gone: whoever still waits for an answer is told so, now and from here on."""
        self._closed = True
        with self._news:
            calls = [*self._taken, *self._first]
            for waiting in self._of_users.values():
                calls += waiting
            self._taken = []
            self._first.clear()
            self._of_users.clear()
        for call in calls:
            call.fail(Refused("UNAVAILABLE", f"{STOPPING}; this request was not taken, try again"))
