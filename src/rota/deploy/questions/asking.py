"""The scheduler's end of the line to the process that answers: started when somebody asks, one question at a time.

Every tenant has a budget: questions a minute, CPU seconds a minute, and one question at a time; a few more wait.
Nothing here touches the thread that decides, and nothing is written into the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.deploy import structured_logs
from rota.deploy.questions.breaking_off import BREAK_OFF
from rota.deploy.scheduler.options import QuestionLimits
from rota.deploy.scheduler.requests import Refused

log = logging.getLogger(__name__)

Process = subprocess.Popen[bytes]

_MINUTE_S = 60.0
_BREAKING_OFF_S = 10.0
"""The process ends its thoughts within this time when nobody waits for them any more, or is ended."""
_LONGEST_WALL = 10.0
"""A question may take so many times its CPU seconds on the wall, on a machine that is busy ..."""
_LONGEST_START_S = 120.0
"""... and the process so long to read a large journal for the first time."""
_MOST_OF_A_TENANT = 4
"""Questions of one tenant at the same time: those of a page and of a terminal or two."""
_MOST_WAITING = 32
"""Questions of all tenants that wait for their turn."""


@dataclass(slots=True)
class Budget:
    """What a tenant asked lately."""

    limits: QuestionLimits
    asked: int = 0
    """Questions that are being answered or wait for those before them."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One question of a tenant is answered at a time."""
    spent: deque[tuple[float, float]] = field(default_factory=deque)
    """(when, CPU seconds) of the questions of the last minute."""

    @contextlib.asynccontextmanager
    async def in_turn(self) -> AsyncIterator[None]:
        """Wait for the questions that this tenant asked before; Refused if there are too many of them."""
        if self.asked >= _MOST_OF_A_TENANT:
            some = f"{self.asked} questions of this tenant are being answered"
            raise Refused("RESOURCE_EXHAUSTED", f"{some}; wait for one of them")
        self.asked += 1
        try:
            async with self.turn:
                yield
        finally:
            self.asked -= 1

    def check(self, now: float) -> None:
        """Refused if there is nothing left of the minute."""
        while self.spent and self.spent[0][0] <= now - _MINUTE_S:
            self.spent.popleft()
        if len(self.spent) >= self.limits.per_minute:
            self._refuse(now, f"{self.limits.per_minute} questions a minute are answered per tenant")
        if sum(cpu_s for _, cpu_s in self.spent) >= self.limits.cpu_s_per_minute:
            self._refuse(
                now, f"{self.limits.cpu_s_per_minute:g} CPU seconds a minute are spent on a tenant's questions"
            )

    def _refuse(self, now: float, what: str) -> None:
        pause = max(1.0, self.spent[0][0] + _MINUTE_S - now)
        raise Refused("RESOURCE_EXHAUSTED", f"{what}; ask again in {pause:.0f} s")

    def give_back(self, now: float, cpu_s: float) -> None:
        """A question is answered."""
        self.spent.append((now, cpu_s))


class Questions:
    """Asks the process."""

    def __init__(self, state: Path, limits: QuestionLimits, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._limits = limits
        self._monotonic = monotonic
        self._budgets: dict[str, Budget] = {}
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def ask(self, question: Mapping[str, Any], asker: str, most_cpu_s: float = 0.0) -> dict[str, Any]:
        """The answer to a question; Refused if there is none. `asker` is the tenant whose budget it is.

        `most_cpu_s` is the bound of who asks, 0: none but the operator's.
        """
        if self._limits.per_minute == 0:
            raise Refused("FAILED_PRECONDITION", "this scheduler answers no questions (--questions-per-minute 0)")
        if self._waiting >= _MOST_WAITING:
            raise Refused("RESOURCE_EXHAUSTED", "too many questions wait to be answered; ask again in a minute")
        budget = self._budgets.setdefault(asker, Budget(self._limits))
        async with budget.in_turn():
            budget.check(self._monotonic())
            self._waiting += 1
            try:
                async with self._turn:
                    limit_s = min(most_cpu_s or self._limits.cpu_s, self._limits.cpu_s)
                    reply = await self._reply({"question": dict(question), "cpu_s": limit_s}, budget)
            finally:
                self._waiting -= 1
        return _answer(reply, all_may_be_told=question.get("tenant") is None)

    async def _reply(self, asked: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """What the process says. It is charged to the budget whoever still waits for it."""
        reply: dict[str, Any] = {"exhausted": "the question was not answered in time; ask again, or for less"}
        began = self._monotonic()
        try:
            process = await self._running()
            line = (json.dumps(asked) + "\n").encode()
            said = asyncio.create_task(_said(process, line, _LONGEST_WALL * self._limits.cpu_s))
            try:
                reply = await asyncio.shield(said)
            except asyncio.CancelledError:
                reply = await self._broken_off(process, said)
                raise
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            log.warning("a question was not answered: %r", error)
            await self.close()
        except asyncio.CancelledError:
            if "cpu_s" not in reply:  # it said nothing, and what it says later would be taken for the next answer
                await self.close()
            raise
        finally:
            at_most_s = min(self._monotonic() - began, float(asked["cpu_s"]))
            budget.give_back(self._monotonic(), float(reply.setdefault("cpu_s", at_most_s)))
        return reply

    async def _broken_off(self, process: Process, said: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
        """What the process says when it is told that nobody waits any more; nothing if it does not hear that."""
        process.send_signal(BREAK_OFF)
        try:
            return await asyncio.wait_for(said, _BREAKING_OFF_S)
        except (OSError, ValueError, asyncio.TimeoutError):
            return {}

    async def _running(self) -> Process:
        if self._process is None or self._process.poll() is not None:
            self._process = await asyncio.to_thread(_process, self._state)
            await _said(self._process, b"", _LONGEST_START_S)
        return self._process

    async def close(self) -> None:
        """End the process, and what it started."""
        process = self._process
        self._process = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.to_thread(_let_go, process)


def _let_go(process: Process) -> None:
    """Wait for its end, and close what led to it."""
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()


def _process(state: Path) -> Process:
    log_format = structured_logs.format_in_use()
    command = [sys.executable, "-m", "rota.deploy.questions.worker", str(state.absolute()), log_format]
    return subprocess.Popen(  # noqa: S603 - our own module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )


async def _said(process: Process, line: bytes, timeout_s: float) -> dict[str, Any]:
    """What the process says next, after it was told a line."""

    def talk() -> bytes:
        assert process.stdin is not None  # pipes were asked for
        assert process.stdout is not None  # likewise
        process.stdin.write(line)
        process.stdin.flush()
        return process.stdout.readline()

    said = await asyncio.wait_for(asyncio.to_thread(talk), timeout_s)
    if not said:
        raise OSError("the process that answers questions has ended")
    answer: dict[str, Any] = json.loads(said)
    return answer


def _answer(reply: Mapping[str, Any], *, all_may_be_told: bool) -> dict[str, Any]:
    if "refused" in reply:
        raise Refused("INVALID_ARGUMENT", str(reply["refused"]))
    if "exhausted" in reply:
        raise Refused("RESOURCE_EXHAUSTED", str(reply["exhausted"]))
    if "failed" in reply:
        # Words of an exception may be about anybody's jobs.
        why = str(reply["failed"]) if all_may_be_told else str(reply["failed"]).partition(":")[0]
        raise Refused("INTERNAL", f"the question failed ({why}); the scheduler's log has more")
    answer: dict[str, Any] = {**reply["answer"], "cpu_s": reply["cpu_s"]}
    return answer
