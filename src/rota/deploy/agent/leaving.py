"""How an agent goes for good, because whoever lent it the machine wants it back.

It tells the scheduler, which asks its jobs to save and stop at once and starts nothing more here. Then it waits until
nothing runs any more. A scheduler that does not answer is not waited for: the agent asks its jobs itself. In the end
everything that it started is killed, before the machine is somebody else's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from rota.deploy.agent.link import Link
from rota.deploy.agent.tasks import Tasks

log = logging.getLogger(__name__)

_ANSWER_S = 3.0
"""Seconds that the scheduler may take to ask jobs to stop before the agent does it; at most a quarter of the time."""
_KILL_S = 1.5
"""Seconds before the end at which what still runs is killed."""
_LAST_WORDS_S = 3.0
"""Seconds for the scheduler to hear how the jobs ended."""
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveTimes:
    """Seconds from a signal until nothing of the agent may be there any more."""

    term_s: float
    """After TERM."""
    notice_s: float = 0.0
    """After USR1, which comes earlier; 0: as after TERM."""


class Killer(Protocol):
    """What ends all processes of jobs."""

    def kill_all(self) -> None:
        """Without asking (reads files; called in a thread)."""


class Departure:
    """When and why an agent has to be gone. May be told so again, and then has less time, never more."""

    def __init__(self) -> None:
        self.reason = ""
        self._until = float("inf")
        self._asked = asyncio.Event()

    def ask(self, reason: str, within_s: float) -> None:
        """Be gone within so many seconds."""
        self.reason = self.reason or reason
        self._until = min(self._until, time.monotonic() + within_s)
        self._asked.set()

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self._until - time.monotonic()

    async def carry_out(self, link: Link, tasks: Tasks, processes: Killer | None) -> None:
        """Wait until asked, then leave; returns when nothing of any job runs here."""
        await self._asked.wait()
        log.warning("leaving within %.0f s: %s", self.left_s, self.reason)
        link.leaving = self.reason
        link.changed()
        answer_until = time.monotonic() + min(_ANSWER_S, self.left_s / 4)
        while tasks.unended() and self.left_s > _KILL_S:
            if time.monotonic() >= answer_until or not link.connected.is_set():
                for runner in tasks.unended():
                    runner.stop(self.reason)
            await asyncio.sleep(_LOOK_S)
        if tasks.unended() and processes is not None:
            log.warning("%d jobs did not stop in time and are killed", len(tasks.unended()))
            for runner in tasks.unended():
                runner.stop(self.reason, at_once=True)
            await asyncio.to_thread(processes.kill_all)
        await self._last_words(link, tasks)

    async def _last_words(self, link: Link, tasks: Tasks) -> None:
        """Let the scheduler hear of every end: it takes a task off the list then."""
        link.changed()
        until = time.monotonic() + min(_LAST_WORDS_S, max(self.left_s, 0.5))
        while tasks.running() and link.connected.is_set() and time.monotonic() < until:  # noqa: ASYNC110 - several things
            await asyncio.sleep(_LOOK_S)
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(link.said_goodbye.wait(), max(0.1, until - time.monotonic()))


def leave_on_signals(times: LeaveTimes, departures: Sequence[Departure]) -> None:
    """TERM, Ctrl-C and USR1 mean to go for good."""
    loop = asyncio.get_running_loop()

    def ask(reason: str, within_s: float) -> None:
        for departure in departures:
            departure.ask(reason, within_s)

    notice_s = times.notice_s or times.term_s
    loop.add_signal_handler(signal.SIGUSR1, partial(ask, "its time here ends soon", notice_s))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, partial(ask, "it was told to stop", times.term_s))
