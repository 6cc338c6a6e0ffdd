"""What the services share: who calls, work for the owner of the registry, and answers when something goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import grpc

from rota.core.errors import ConfigError
from rota.deploy.scheduler.inbox import Work
from rota.deploy.scheduler.owner_time import OverShare
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.requests import Refused
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.security.admission import RETRY_AFTER, current_payer
from rota.deploy.stopping import STOPPING
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

T = TypeVar("T")
_LONGEST_REQUEST = 500
"""Characters of a request in the log."""


class Caller(Protocol):
    """Who calls, as far as security has established it."""

    name: str
    tenant: str
    admin: bool
    node: str | None
    """For agents: the only node they may speak for; None if that cannot be known."""


Identify = Callable[[Any], Caller]


class Handlers:
    """Base of the services."""

    def __init__(self, scheduler: Scheduler, identify: Identify) -> None:
        self._scheduler = scheduler
        self.identify = identify

    async def _do(self, what: str, work: Work) -> Any:
        """Let the owner do it; Refused if it cannot be done."""
        if not self._scheduler.alive():
            raise Refused("UNAVAILABLE", STOPPING)
        return await asyncio.wrap_future(self._scheduler.post(what, work, current_payer()))

    async def _look(self, what: str, question: Callable[[Registry], Any]) -> Any:
        """A value that the owner makes of its registry."""
        return await self._do(what, lambda _: self._scheduler.requests.look(question))


async def once_it_may(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer within a stream: a caller that owes the owner time waits for it, and keeps its stream."""
    while True:
        try:
            return await ask()
        except OverShare as share:  # noqa: PERF203 - it is about trying again
            await asyncio.sleep(share.retry_after_s)


def answered(method: Callable[[Any, Any, Any], Coroutine[Any, Any, T]]) -> Callable[[Any, Any, Any], Any]:
    """A handler that never fails without an answer: a refusal becomes its status, anything else INTERNAL and a log."""

    @functools.wraps(method)
    async def handler(self: Any, request: Any, context: Any) -> T:
        try:
            return await method(self, request, context)
        except Exception as error:
            await _abort(self, method.__name__, request, context, error)
            raise

    return handler


def streamed(method: Callable[[Any, Any, Any], AsyncGenerator[T, None]]) -> Callable[[Any, Any, Any], AsyncIterator[T]]:
    """The same for a handler with a stream of answers."""

    @functools.wraps(method)
    async def handler(self: Any, request: Any, context: Any) -> AsyncIterator[T]:
        try:
            async with contextlib.aclosing(method(self, request, context)) as messages:
                async for message in messages:
                    yield message
        except Exception as error:  # noqa: BLE001 - everything gets an answer
            await _abort(self, method.__name__, request, context, error)

    return handler


def _shown(request: Any) -> str:
    """A request for the log; of jobs only how many, as there are secrets in them."""
    if isinstance(request, pb.SubmitRequest):
        return f"{len(request.jobs)} jobs, request {request.request!r}"
    return " ".join(str(request).split())[:_LONGEST_REQUEST]


async def _abort(handlers: Handlers, name: str, request: Any, context: Any, error: Exception) -> None:
    """Answer with an error; always raises."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, Refused):
        waits = ((RETRY_AFTER, f"{error.retry_after_s:.3f}"),) if isinstance(error, OverShare) else ()
        await context.abort(grpc.StatusCode[error.status], str(error), waits)
    if isinstance(error, ConfigError):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    shown = _shown(request)
    log.error("%s failed: %s", name, shown, exc_info=error)
    # Words of an exception may be about anybody's jobs.
    why = f"{type(error).__name__}: {error}" if handlers.identify(context).admin else type(error).__name__
    what = f"{name} failed inside the scheduler ({why}); its log has more"
    await context.abort(grpc.StatusCode.INTERNAL, what)
