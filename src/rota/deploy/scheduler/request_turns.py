"""Who is served when: agents first, then users, each tenant in its turn, for a short time between two looks at agents.

A turn has two halves, and what was done in the first one is committed between them. In the first one calls are worked
off, in the second one they are answered: whatever is only looked at is computed there. Neither half takes longer than
`_LONGEST_S` for users, but for the last request that was begun: what is left waits for the next turn. Before and after
each request of a user the calls of agents are worked off that have come meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from rota.deploy.scheduler.inbox import Call, Inbox
from rota.deploy.scheduler.owner_time import Payer
from rota.deploy.scheduler.recorder import Recorder
from rota.deploy.scheduler.requests import Refused

log = logging.getLogger(__name__)

_LONGEST_S = 0.05
"""Wall seconds for users in a half of a turn."""
_MOST_CALLS = 512
"""Of users, in a turn."""

_Answer = tuple[Call, Callable[[], Any], bool]
"""What makes the answer of a call, and whether something follows from it."""


def _nobody(_: float) -> None:
    """Nobody wants to know when the owner listens."""


class RequestTurns:
    """Works off and answers what is in the inbox. Used by the owner."""

    def __init__(
        self,
        inbox: Inbox,
        recorder: Recorder,
        now: Callable[[], float],
        listening: Callable[[float], None] = _nobody,
    ) -> None:
        """`now` gives engine seconds; `listening` hears when agents are listened to, and how long they wait then."""
        self._inbox = inbox
        self._time = inbox.owner_time
        self._recorder = recorder
        self._now = now
        self._listening = listening
        self._first: list[_Answer] = []
        self._of_users: dict[Payer, deque[_Answer]] = {}
        self._events: Counter[Payer | None] = Counter()
        """How many events followed from requests of each caller since the last commit."""

    def work_off(self, nap_s: float) -> None:
        """Wait so long for calls, and do what they ask."""
        nap_s = 0.0 if self._of_users else nap_s
        self._listening(nap_s)
        self._inbox.wait(nap_s)
        self._work_off_first()
        waiting = frozenset(self._of_users)
        until = time.monotonic() + _LONGEST_S
        for _ in range(_MOST_CALLS):
            call = self._inbox.take_of_users(waiting)
            if call is None:
                return
            self._do(call)
            self._work_off_first()
            if time.monotonic() >= until:
                return

    def _work_off_first(self) -> None:
        self._listening(0.0)
        while (call := self._inbox.take_first()) is not None:
            self._do(call)

    def _do(self, call: Call) -> None:
        if call.answer.cancelled():
            return
        try:
            with self._time.charged(call.payer):
                if call.payer is not None:
                    self._time.check(call.payer)
                events, answer = call.work(self._now())
                self._recorder.apply(events)
        except Refused as refusal:
            call.fail(refusal)
        except Exception as error:
            log.exception("request failed: %s", call.what)
            call.fail(error)
        else:
            self._remember(call, answer, len(events))

    def _remember(self, call: Call, answer: Callable[[], Any], events: int) -> None:
        self._events[call.payer] += events
        if call.payer is None:
            self._first.append((call, answer, bool(events)))
        else:
            self._of_users.setdefault(call.payer, deque()).append((call, answer, bool(events)))

    def charge_commit(self, cpu_s: float) -> None:
        """Charge callers for the commit of what followed from their requests."""
        events = self._events.total()
        for payer, count in self._events.items():
            if count and payer is not None:
                self._time.charge(payer, cpu_s * count / events)
        self._events.clear()

    def answer(self) -> None:
        """Answer calls, once what follows from them is durable; those of users as far as there is time."""
        for call, answer, _ in self._first:
            self._answer(call, answer)
        self._first = []
        until = time.monotonic() + _LONGEST_S
        while self._of_users:
            self._answer_next()
            if time.monotonic() >= until:
                break
        self._inbox.keep([call for answers in self._of_users.values() for call, _, _ in answers])

    def _answer_next(self) -> None:
        """Answer a call of the caller that has most time left. What changed nothing may be refused still."""
        payer = max(self._of_users, key=self._time.left_s)
        answers = self._of_users[payer]
        call, answer, changed = answers.popleft()
        if not answers:
            del self._of_users[payer]
        if call.answer.cancelled():
            return
        with self._time.charged(payer):
            self._answer(call, answer, None if changed else payer)

    def _answer(self, call: Call, answer: Callable[[], Any], owing: Payer | None = None) -> None:
        try:
            if owing is not None:
                self._time.check(owing)
            call.succeed(answer())
        except Refused as refusal:
            call.fail(refusal)
        except Exception as error:
            log.exception("no answer to request: %s", call.what)
            call.fail(error)
