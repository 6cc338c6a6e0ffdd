"""The scheduler's end of the line to the process that answers: started when somebody asks, one question at a time.

Every tenant has a budget: questions a minute, CPU seconds a minute, and one question at a time. Nothing here touches
the thread that decides, and nothing is written into the journal.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.deploy.scheduler.options import QuestionLimits
from rota.deploy.scheduler.requests import Refused

log = logging.getLogger(__name__)

Process = subprocess.Popen[bytes]

_MINUTE_S = 60.0
_LONGEST_WALL = 10.0
"""A question may take so many times its CPU seconds on the wall, on a machine that is busy ..."""
_LONGEST_START_S = 120.0
"""... and the process so long to read a large journal for the first time."""
_MOST_WAITING = 32
"""Questions of all tenants that wait for their turn."""


@dataclass(slots=True)
class Budget:
    """What a tenant asked lately."""

    limits: QuestionLimits
    busy: bool = False
    spent: deque[tuple[float, float]] = field(default_factory=deque)
    """(when, CPU seconds) of the questions of the last minute."""

    def take(self, now: float) -> None:
        """Begin a question; Refused if there is nothing left of the minute."""
        while self.spent and self.spent[0][0] <= now - _MINUTE_S:
            self.spent.popleft()
        if self.busy:
            raise Refused("RESOURCE_EXHAUSTED", "a question of this tenant is being answered; ask one at a time")
        if len(self.spent) >= self.limits.per_minute:
            self._refuse(now, f"{self.limits.per_minute} questions a minute are answered per tenant")
        if sum(cpu_s for _, cpu_s in self.spent) >= self.limits.cpu_s_per_minute:
            self._refuse(
                now, f"{self.limits.cpu_s_per_minute:g} CPU seconds a minute are spent on a tenant's questions"
            )
        self.busy = True

    def _refuse(self, now: float, what: str) -> None:
        pause = max(1.0, self.spent[0][0] + _MINUTE_S - now)
        raise Refused("RESOURCE_EXHAUSTED", f"{what}; ask again in {pause:.0f} s")

    def give_back(self, now: float, cpu_s: float) -> None:
        """A question is answered."""
        self.busy = False
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
        budget.take(self._monotonic())
        self._waiting += 1
        cpu_s = 0.0
        try:
            async with self._turn:
                limit_s = min(most_cpu_s or self._limits.cpu_s, self._limits.cpu_s)
                reply = await self._reply({"question": dict(question), "cpu_s": limit_s})
            cpu_s = float(reply.get("cpu_s", 0.0))
        finally:
            self._waiting -= 1
            budget.give_back(self._monotonic(), cpu_s)
        return _answer(reply)

    async def _reply(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        try:
            process = await self._running()
            line = (json.dumps(asked) + "\n").encode()
            return await _said(process, line, _LONGEST_WALL * self._limits.cpu_s)
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            await self.close()
            log.warning("a question was not answered: %r", error)
            return {"exhausted": "the question was not answered in time; ask again, or for less", "cpu_s": 0.0}
        except asyncio.CancelledError:  # whoever asked is gone; the answer would be taken for that of the next
            await self.close()
            raise

    async def _running(self) -> Process:
        if self._process is None or self._process.poll() is not None:
            self._process = await asyncio.to_thread(_process, self._state)
            await _said(self._process, b"", _LONGEST_START_S)
        return self._process

    async def close(self) -> None:
        """End the process."""
        process = self._process
        self._process = None
        if process is not None:
            process.kill()
            await asyncio.to_thread(process.communicate)


def _process(state: Path) -> Process:
    command = [sys.executable, "-m", "rota.deploy.questions.worker", str(state.absolute())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - our own module


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


def _answer(reply: Mapping[str, Any]) -> dict[str, Any]:
    if "refused" in reply:
        raise Refused("INVALID_ARGUMENT", str(reply["refused"]))
    if "exhausted" in reply:
        raise Refused("RESOURCE_EXHAUSTED", str(reply["exhausted"]))
    if "failed" in reply:
        raise Refused("INTERNAL", f"the question failed ({reply['failed']}); the scheduler's log has more")
    answer: dict[str, Any] = {**reply["answer"], "cpu_s": reply["cpu_s"]}
    return answer
