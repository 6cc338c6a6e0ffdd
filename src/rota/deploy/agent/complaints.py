"""Why an agent cannot work with its scheduler, in its log: at once, again at growing intervals, and when it is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import grpc

from rota.deploy.repetition import Repetition
from rota.deploy.stopping import NOT_IN_CHARGE, STOPPING

log = logging.getLogger(__name__)

Diagnosis = Callable[[], str]
"""One sentence about what fails on the way to the scheduler. It may block for some seconds."""
_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_PATIENCE_S = 1.0
"""Seconds without an answer after which one looks why."""


class Complaints:
    """What an agent says about its line."""

    def __init__(self, diagnosis: Diagnosis | None = None) -> None:
        self._diagnosis = diagnosis
        self._said = Repetition()
        self._looking: asyncio.Task[None] | None = None

    def begin_to_wait(self) -> None:
        """An answer is waited for; if it does not come soon, one looks why."""
        self._look("it does not answer", _PATIENCE_S)

    def about(self, error: grpc.aio.AioRpcError) -> None:
        """A call failed."""
        details = error.details() or error.code().name
        if error.code() in _UNREACHABLE and not details.startswith((STOPPING, NOT_IN_CHARGE)):
            self._look(details, 0.0)
            return
        if self._looking is not None:
            self._looking.cancel()
        if self._said.due(error.code().name):  # numbers in the details change
            log.warning("the scheduler refuses this agent: %s; trying again", details)

    def over(self) -> None:
        """Scheduler and agent understand each other."""
        if self._looking is not None:
            self._looking.cancel()
        if not self._said.silent:
            log.warning("the scheduler is there again")
            self._said.forget()

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def _look(self, otherwise: str, after_s: float) -> None:
        """Find out what is wrong, without anybody waiting for it."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._find_out(otherwise, after_s))

    async def _find_out(self, otherwise: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        why = otherwise if self._diagnosis is None else await asyncio.to_thread(self._diagnosis)
        if self._said.due(why):
            log.warning("cannot talk to the scheduler: %s; trying again", why)
