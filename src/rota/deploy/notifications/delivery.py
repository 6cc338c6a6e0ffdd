"""A thread per target: reads the journal behind what the target was told last, and tells it the rest, one by one.

The journal is the queue, so nothing is lost by a restart and nothing piles up in memory. A target that is too far
behind is told only of the newest events, and how many were left out is logged and counted.
"""

from __future__ import annotations

import itertools
import logging
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rota.core.errors import RotaError
from rota.core.parsing import parse_json_line
from rota.deploy.clocks import wall_s
from rota.deploy.notifications.kinds import TOLD, JobFacts, Notification, event_name, jobs_of, notifications_of
from rota.deploy.notifications.positions import Positions
from rota.deploy.notifications.sending import Message, Outcome, Sender, sender_of
from rota.deploy.notifications.settings import Target
from rota.deploy.structured_logs import about

log = logging.getLogger(__name__)

DELIVERED = "delivered"
FAILED = "failed"
"""A try that may be repeated."""
GIVEN_UP = "given-up"
LEFT_OUT = "left-out"
"""Events that were too many."""
RESULTS = (DELIVERED, FAILED, GIVEN_UP, LEFT_OUT)

MOST_BEHIND = 100_000
"""Events of the journal that a target may be behind."""
_LOOK_EVERY_S = 0.25
_AT_ONCE = 200
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_JITTER = 0.2
"""Part by which pauses differ, so that targets on the same machine do not come back together."""


class Source(Protocol):
    """Where events come from, for any thread."""

    journal: str
    """Name of the journal."""

    @property
    def last(self) -> int:
        """Number of the newest event."""

    @property
    def removed(self) -> int:
        """Events up to this number are not there any more."""

    def read(self, after: int, limit: int) -> list[tuple[int, str]]:
        """(number, JSON) of some events."""

    def facts(self, jobs: Sequence[int]) -> Mapping[int, JobFacts]:
        """What is known of jobs."""

    def wall_time(self, at: float) -> float:
        """Engine seconds as seconds since 1970."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Events that were looked at, and what is to be told about them."""

    through: int
    notifications: list[Notification]


class Delivery:
    """One target."""

    def __init__(self, target: Target, source: Source, positions: Positions, sender: Sender | None = None) -> None:
        self.target = target
        self._source = source
        self._positions = positions
        self._stop = threading.Event()
        self._sender = sender or sender_of(target, self._stop.is_set)
        self._counts: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self._thread = threading.Thread(target=self._run, name=f"notifications of {target.name}", daemon=True)
        self._in_trouble = False
        self.first_pause_s = _FIRST_PAUSE_S
        """Wall seconds after the first failed try; each further one doubles it."""

    def counts(self) -> dict[str, int]:
        """Notifications by result."""
        return dict(self._counts)

    @property
    def behind(self) -> int:
        """Events of the journal that were not looked at yet."""
        return max(0, self._source.last - self._positions.of(self.target.name))

    def start(self) -> None:
        """Begin to tell."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no other try; `join` waits for the last one."""
        self._stop.set()

    def interrupt(self) -> None:
        """Let the last try end now; it is repeated after a restart."""
        self._sender.interrupt()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if not self._looks():
                    self._positions.write()
                    self._stop.wait(_LOOK_EVERY_S)
        finally:
            self._sender.close()

    def _looks(self) -> bool:
        """Look at some events; whether there were any."""
        name = self.target.name
        try:
            self._leave_out()
            if self._source.last <= self._positions.of(name):
                return False
            return self._tell(self._batch(self._positions.of(name)))
        except (RotaError, OSError, sqlite3.Error) as error:  # the scheduler stops, or the disk does not answer
            log.debug("events for %s cannot be read now: %s", name, error)
        except Exception:
            log.exception("notifications of %s are held up; tried again", name)
            self._stop.wait(_LONGEST_PAUSE_S)
        return False

    def _tell(self, batch: _Batch) -> bool:
        name = self.target.name
        following = [one.event for one in batch.notifications[1:]]
        for notification, then in itertools.zip_longest(batch.notifications, following):
            if not self._deliver(notification):
                return False
            several = then == notification.event  # about other jobs
            self._positions.advance(name, notification.event - several)
            self._positions.write()
        self._positions.advance(name, batch.through)
        return True

    def _batch(self, after: int) -> _Batch:
        lines = self._source.read(after, _AT_ONCE)
        if not lines:
            return _Batch(self._source.last, [])
        events: list[tuple[int, Mapping[str, Any]]] = [
            (number, parse_json_line(body)) for number, body in lines if event_name(body) in TOLD
        ]
        jobs = sorted({job for _, fields in events for job in jobs_of(fields)})
        facts = self._source.facts(jobs) if jobs else {}
        told = [one for number, fields in events for one in notifications_of(number, fields, facts)]
        return _Batch(lines[-1][0], [one for one in told if self.target.wants(one.kind, one.tenant)])

    def _leave_out(self) -> None:
        """Events that are gone, or too many."""
        name = self.target.name
        position = self._positions.of(name)
        begins = max(self._source.removed, self._source.last - MOST_BEHIND)
        if position < begins:
            self._counts[LEFT_OUT] += begins - position
            log.error(
                "notifications of %s are too late: events %d to %d of the journal are left out",
                name, position + 1, begins, extra=about(target=name),
            )  # fmt: skip
            self._positions.advance(name, begins)

    # One notification

    def _deliver(self, notification: Notification) -> bool:
        """Try until it is told or given up; False if the scheduler stops before."""
        happened = self._source.wall_time(notification.at)
        try:
            message = self._message(notification, happened)
        except (ValueError, OverflowError, OSError) as error:  # a time that no calendar has
            self._give_up(notification, f"it cannot be written down: {error}")
            return True
        pause_s = self.first_pause_s
        while not self._stop.is_set():
            outcome = self._try(message)
            if outcome.delivered:
                self._delivered()
                return True
            if not outcome.again or wall_s() - happened >= self.target.retry_for_s:
                self._give_up(notification, outcome.why)
                return True
            self._counts[FAILED] += 1
            self._complain(notification, outcome.why)
            self._stop.wait(max(outcome.pause_s, pause_s * random.uniform(1 - _JITTER, 1 + _JITTER)))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return False

    def _message(self, notification: Notification, happened: float) -> Message:
        journal = self._source.journal
        return Message(
            key=notification.key(journal),
            kind=notification.kind,
            event=notification.event,
            body=notification.body(journal, happened),
        )

    def _try(self, message: Message) -> Outcome:
        try:
            return self._sender.send(message)
        except Exception as error:  # whatever it is, another try may help
            log.exception("a notification of %s failed", self.target.name)
            return Outcome(why=repr(error))

    def _delivered(self) -> None:
        self._counts[DELIVERED] += 1
        if self._in_trouble:
            log.warning("notifications of %s arrive again", self.target.name, extra=about(target=self.target.name))
        self._in_trouble = False

    def _give_up(self, notification: Notification, why: str) -> None:
        self._counts[GIVEN_UP] += 1
        log.error(
            "event %d (%s) is not told to %s: %s", notification.event, notification.kind, self.target.name, why,
            extra=about(target=self.target.name, job=notification.job, tenant=notification.tenant),
        )  # fmt: skip

    def _complain(self, notification: Notification, why: str) -> None:
        """Once, until it works again."""
        if not self._in_trouble:
            log.warning(
                "%s cannot be told of event %d (%s): %s; tried again", self.target.name, notification.event,
                notification.kind, why, extra=about(target=self.target.name),
            )  # fmt: skip
        self._in_trouble = True
