"""The gateway: the page and its data over HTTP on loopback, with the certificate and token of whoever started it.

Every right is the scheduler's to give: the gateway asks as its user and passes on what it is told. `access` keeps
everybody else out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.core.errors import ConfigError, RotaError
from rota.dashboard import page
from rota.dashboard.access import HEADERS, Access
from rota.dashboard.details import job_details, node_details
from rota.dashboard.differences import Viewer
from rota.dashboard.log_stream import log_messages
from rota.dashboard.past_rounds import PastRounds
from rota.dashboard.picture import SHOWN, SORTS, TableQuery
from rota.dashboard.watching import Watcher

if TYPE_CHECKING:
    from rota.deploy.control import Client

log = logging.getLogger(__name__)

_TICK_S = 0.5
"""Between two looks at the picture for a page that is open."""
_SIGN_OF_LIFE_S = 5.0
"""A page that hears nothing for longer takes the gateway for gone."""
_MOST_STREAMS = 32
_MOST_LOGS = 8
_LONGEST_BODY = 4096
_LARGEST_JOB = 2**62
_MOST_PAGES = 100_000


class Guarded:
    """Checks every request before a handler sees it, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._access.refusal(scope["method"], scope["path"], headers)
        if refusal is not None:
            await PlainTextResponse(refusal.why + "\n", refusal.status)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


class Gateway:
    """The handlers."""

    def __init__(self, client: Client, watcher: Watcher, access: Access, another: Callable[[], Client]) -> None:
        """`another` opens one more client with the same rights, for a stream that may have to be broken off."""
        self._client = client
        self._watcher = watcher
        self._access = access
        self._another = another
        self._past = PastRounds(watcher.questions)
        self._streams = 0
        self._logs = 0

    def app(self) -> ASGIApp:
        """The application."""
        routes = [
            Route("/", self._document),
            Route("/assets/dashboard.js", self._script),
            Route("/assets/dashboard.css", self._style),
            Route("/favicon.ico", self._no_icon),
            Route("/api/enter", self._enter, methods=["POST"]),
            Route("/api/ticket", self._ticket, methods=["POST"]),
            Route("/api/return", self._return, methods=["POST"]),
            Route("/api/stream", self._stream),
            Route("/api/job/{job:int}", self._job),
            Route("/api/job/{job:int}/why", self._why),
            Route("/api/job/{job:int}/log", self._log),
            Route("/api/node/{node}", self._node),
            Route("/api/round", self._round),
            Route("/api/cancel", self._cancel, methods=["POST"]),
            Route("/api/drain", self._drain, methods=["POST"]),
        ]
        handlers: Mapping[Any, Any] = {RotaError: _refused, ConfigError: _refused, _BadRequest: _refused}
        return Guarded(Starlette(routes=routes, exception_handlers=handlers), self._access)

    # The page

    async def _document(self, _: Request) -> Response:
        return Response(page.document(), media_type="text/html")

    async def _script(self, _: Request) -> Response:
        return Response(page.script(), media_type="text/javascript")

    async def _style(self, _: Request) -> Response:
        return Response(page.style(), media_type="text/css")

    async def _no_icon(self, _: Request) -> Response:
        return Response(status_code=204)

    async def _enter(self, request: Request) -> Response:
        key = self._access.enter(_text(await _body(request), "secret"))
        if key is None:
            return PlainTextResponse("this link was used already, or is of an earlier start of `rota dashboard`\n", 401)
        return JSONResponse({"key": key})

    async def _ticket(self, _: Request) -> Response:
        ticket = self._access.ticket()
        return JSONResponse({} if ticket is None else {"name": ticket.name, "secret": ticket.secret})

    async def _return(self, request: Request) -> Response:
        """Two steps: without a proof the gateway proves who it is, with one the page does."""
        body = await _body(request)
        name, number, theirs, proof = (_text(body, field) for field in ("name", "number", "theirs", "proof"))
        if proof:
            known = self._access.come_back(name, number, theirs, proof)
            return JSONResponse({}) if known else PlainTextResponse("this is not the proof of that ticket\n", 401)
        answer = self._access.answer(name, number)
        if answer is None:
            return PlainTextResponse("this gateway knows no such ticket\n", 401)
        return JSONResponse({"theirs": answer[0], "proof": answer[1]})

    # What is told again and again

    async def _stream(self, request: Request) -> Response:
        if self._streams >= _MOST_STREAMS:
            return PlainTextResponse(f"{_MOST_STREAMS} pages are open already; close one\n", 429)
        return StreamingResponse(self._news(Viewer(table_query(request.query_params))), media_type="text/event-stream")

    async def _news(self, viewer: Viewer) -> AsyncIterator[str]:
        self._streams += 1
        version = -1
        quiet_s = 0.0
        try:
            while True:
                picture = self._watcher.look()
                if picture.version != version:
                    version = picture.version
                    for message in viewer.news(picture):
                        quiet_s = 0.0
                        yield f"data: {json.dumps(message, separators=(',', ':'))}\n\n"
                if quiet_s >= _SIGN_OF_LIFE_S:
                    quiet_s = 0.0
                    yield ": \n\n"
                await asyncio.sleep(_TICK_S)
                quiet_s += _TICK_S
        finally:
            self._streams -= 1

    # One job, one server, one round

    async def _job(self, request: Request) -> Response:
        number = _job_number(request)
        return JSONResponse(job_details(await run_in_threadpool(self._client.job, number)))

    async def _why(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._watcher.questions.why, _job_number(request)))

    async def _node(self, request: Request) -> Response:
        details = node_details(self._watcher.look(), request.path_params["node"])
        if details is None:
            return PlainTextResponse("there is no server of that name\n", 404)
        return JSONResponse(details)

    async def _round(self, request: Request) -> Response:
        at_s = _number(request.query_params.get("at_s", "inf"))
        if request.query_params.get("fresh") == "1":
            await run_in_threadpool(self._past.read_on)
        found = await run_in_threadpool(self._past.at, min(at_s, self._past.span["to_s"]))
        return JSONResponse(found)

    async def _log(self, request: Request) -> Response:
        number = _job_number(request)
        if self._logs >= _MOST_LOGS:
            return PlainTextResponse(f"{_MOST_LOGS} logs are read already; close one\n", 429)
        await run_in_threadpool(self._client.job, number)  # one that is not there is said so
        return StreamingResponse(self._lines(number), media_type="text/event-stream")

    async def _lines(self, number: int) -> AsyncIterator[str]:
        self._logs += 1
        try:
            with contextlib.closing(await run_in_threadpool(self._another)) as client:
                async for message in log_messages(client, number):
                    yield f"data: {json.dumps(message)}\n\n" if message else ": \n\n"
        finally:
            self._logs -= 1

    # What changes something

    async def _cancel(self, request: Request) -> Response:
        job = (await _body(request)).get("job")
        if not isinstance(job, int) or isinstance(job, bool) or not 0 <= job < _LARGEST_JOB:
            raise _BadRequest(f"job is {job!r}; give its number")
        cancelled, over = await run_in_threadpool(self._client.cancel, [job])
        self._watcher.soon([job])
        return JSONResponse({"cancelled": cancelled, "over": over})

    async def _drain(self, request: Request) -> Response:
        body = await _body(request)
        node = _text(body, "node")
        undo = body.get("undo", False)
        if not node or not isinstance(undo, bool):
            raise _BadRequest("give the name of a server as node, and undo as true or false")
        state = (await run_in_threadpool(lambda: self._client.drain(node, undo=undo))).state
        return JSONResponse({"node": node, "state": state})


class _BadRequest(RotaError):
    """A request of the page that makes no sense."""


async def _refused(_: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", 400)


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type") != "application/json":
        raise _BadRequest("the body of a request is JSON, and its content type says so")
    raw = b""
    async for piece in request.stream():
        raw += piece
        if len(raw) > _LONGEST_BODY:
            raise _BadRequest(f"the body of a request is longer than {_LONGEST_BODY:,} bytes")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _BadRequest(f"the body of the request is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise _BadRequest("the body of a request is a JSON object")
    return body


def _text(body: Mapping[str, Any], field: str) -> str:
    value = body.get(field, "")
    if not isinstance(value, str) or not value.isascii():
        raise _BadRequest(f"{field} is no plain text")
    return value


def _job_number(request: Request) -> int:
    number = int(request.path_params["job"])
    if number >= _LARGEST_JOB:
        raise _BadRequest(f"there is no job {number}")
    return number


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise _BadRequest(f"at_s is {text[:40]!r}; give engine seconds")
    return value


def table_query(given: Mapping[str, str]) -> TableQuery:
    """The query of a page. Raises RotaError with the value and what it may be."""
    show = given.get("show", "waiting")
    sort = given.get("sort", "job")
    page_number = given.get("page", "0")
    if show not in SHOWN:
        raise _BadRequest(f"show is {show[:40]!r}; give one of {', '.join(SHOWN)}")
    if sort not in SORTS:
        raise _BadRequest(f"sort is {sort[:40]!r}; give one of {', '.join(SORTS)}")
    if not page_number.isascii() or not page_number.isdecimal() or int(page_number[:9]) > _MOST_PAGES:
        raise _BadRequest(f"page is {page_number[:40]!r}; give 0 to {_MOST_PAGES:,}")
    search = given.get("search", "")[:200]
    return TableQuery(show=show, sort=sort, search=search, down=given.get("down") == "1", page=int(page_number))
