"""The output of a job for a page: a thread reads it, and it ends when nobody looks any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any

from rota.core.control_characters import without_colours
from rota.core.errors import RotaError
from rota.deploy.log_feed import AttemptBegins, AttemptEnds, JobOver, LogItem, LogQuery, Missing, Output, lines_of

if TYPE_CHECKING:
    from rota.deploy.control import Client

_LINES = 500
"""From the end at first."""
_MOST_WAITING = 1_000
"""Messages that a slow page has not taken yet; then reading waits."""
_SIGN_OF_LIFE_S = 5.0

LogMessage = dict[str, Any]


async def log_messages(client: Client, job: int) -> AsyncIterator[LogMessage | None]:
    """Lines and remarks until the job is over; None from time to time, so that a page that is gone is noticed.

    The client has to be closed afterwards, which ends the thread.
    """
    waiting: asyncio.Queue[LogMessage | None] = asyncio.Queue(_MOST_WAITING)
    gone = threading.Event()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(client, job, waiting, loop, gone), daemon=True).start()
    try:
        while True:
            try:
                message = await asyncio.wait_for(waiting.get(), _SIGN_OF_LIFE_S)
            except asyncio.TimeoutError:
                yield None
                continue
            if message is None:
                return
            yield message
    finally:
        gone.set()


def _read(
    client: Client,
    job: int,
    waiting: asyncio.Queue[LogMessage | None],
    loop: asyncio.AbstractEventLoop,
    gone: threading.Event,
) -> None:
    """In a thread: put messages into the queue until the log ends or nobody takes them."""

    def put(message: LogMessage | None) -> bool:
        if loop.is_closed():
            return False
        putting = asyncio.run_coroutine_threadsafe(waiting.put(message), loop)
        while not gone.is_set():
            try:
                putting.result(0.5)
            except NotYet:
                continue
            return True
        putting.cancel()
        return False

    query = LogQuery(job=job, rank=None, follow=True, tail=_LINES)
    try:
        for item in lines_of(client.log_items(query)):
            message = _message(item)
            if message is not None and not put(message):
                return
    except (RotaError, ValueError) as error:  # ValueError: the client was closed
        put({"note": f"the log ended: {error}"})
    put(None)


def _message(item: LogItem) -> LogMessage | None:
    if isinstance(item, Output):
        text = without_colours(item.data.decode("utf-8", "replace").rstrip("\n"))
        return {"line": text, "rank": item.rank, "attempt": item.attempt, "stream": item.stream, "at": item.at}
    if isinstance(item, Missing):
        return {"note": f"{item.size:,} bytes were dropped"}
    if isinstance(item, AttemptBegins):
        nodes = ", ".join(place.node for place in item.info.places)
        return {"note": f"attempt {item.info.attempt} on {nodes}"}
    if isinstance(item, AttemptEnds):
        outcome = item.info.outcome or "unknown"
        return {"note": f"attempt {item.info.attempt} ended: {outcome} {item.info.detail}".strip()}
    if isinstance(item, JobOver):
        return {"note": f"the job is over: {item.outcome.phase}"}
    return None
