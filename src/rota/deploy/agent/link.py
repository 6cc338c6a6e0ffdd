"""The line to the scheduler: register, take over lists, report. It comes back by itself, as often as it takes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from rota.deploy.agent.complaints import Complaints
from rota.deploy.agent.schedulers import Schedulers
from rota.deploy.agent.tasks import Tasks
from rota.deploy.clocks import machine_s
from rota.deploy.structured_logs import about
from rota.deploy.waiting import happens
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_CALL_S = 10.0
_TOGETHER_S = 0.02
"""Changes within so short a time are reported together."""
_FATAL = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
)


class Link:
    """Keeps scheduler and agent in step over one channel."""

    def __init__(
        self,
        channel: Any,
        hello: Callable[[], pb.RegisterRequest],
        registered: Callable[[pb.RegisterReply], None],
        lateness: Callable[[], float],
        trouble: Callable[[], str] = str,
        complaints: Complaints | None = None,
        schedulers: Schedulers | None = None,
    ) -> None:
        """`channel` is to the only scheduler, unless there are several `schedulers`."""
        self._schedulers = schedulers or Schedulers([channel])
        self._hello = hello
        self._node = ""
        self._registered = registered
        self._lateness = lateness
        self._trouble = trouble
        self._complaints = complaints or Complaints()
        self._session = ""
        self._sequence = 0
        self._sent: dict[int, float] = {}
        """When reports were sent that the scheduler may still name."""
        self._heartbeat_s = 2.0
        self._dirty = asyncio.Event()
        self._renew = asyncio.Event()
        self.tasks: Tasks | None = None
        self.connected = asyncio.Event()
        self.leaving = ""
        """Why this agent goes for good; empty: it stays."""
        self.said_goodbye = asyncio.Event()
        """Whether the scheduler has heard that it goes."""

    def changed(self) -> None:
        """Something is worth a report."""
        self._dirty.set()

    async def run(self) -> None:
        """Serve until cancelled. A refusal that will not get better ends it with the error."""
        assert self.tasks is not None  # set right after it is made
        watching = asyncio.ensure_future(self._schedulers.watch())
        try:
            await self._serve()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._complaints.close()

    async def _serve(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            try:
                await self._schedulers.usable()
                self._schedulers.changed.clear()
                await self._register()
                pause = _FIRST_PAUSE_S
                await self._session_long()
            except grpc.aio.AioRpcError as error:
                if error.code() in _FATAL and not self._session:
                    raise  # it may not join; a report that is refused is tried again
                self._complaints.about(error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _register(self) -> None:
        if self._session:
            return  # the scheduler may be a new one that knows us: it says so if not
        self._complaints.begin_to_wait()
        hello = await asyncio.to_thread(self._hello)
        hello.term = self._schedulers.term
        reply = await self._unless_changed(self._schedulers.stub.Register(hello, timeout=_CALL_S))
        if reply is None or not self._schedulers.obeys(reply.term):
            return
        self._node = hello.node
        self._session = reply.session
        self._sequence = 0
        self._sent.clear()
        self._heartbeat_s = reply.heartbeat_s or self._heartbeat_s
        self._schedulers.usual_s = self._heartbeat_s
        self._registered(reply)
        log.info("registered as %s", self._node, extra=about(node=self._node))

    async def _unless_changed(self, call: Any) -> Any:
        """The answer to a call, or None if another scheduler is in charge meanwhile."""
        answering = asyncio.ensure_future(call)
        changed = asyncio.ensure_future(self._schedulers.changed.wait())
        try:
            await asyncio.wait({answering, changed}, return_when=asyncio.FIRST_COMPLETED)
            return answering.result() if answering.done() else None
        finally:
            answering.cancel()
            changed.cancel()
            await asyncio.gather(answering, changed, return_exceptions=True)

    async def _session_long(self) -> None:
        """Watch and report side by side until one of them fails or we are not known any more."""
        if not self._session:
            return
        self._renew.clear()
        parts: list[Awaitable[None]] = [self._watch(), self._report(), self._renewed(), self._changed()]
        running = [asyncio.ensure_future(part) for part in parts]
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            self.connected.clear()
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _renewed(self) -> None:
        await self._renew.wait()
        self._session = ""

    async def _changed(self) -> None:
        await self._schedulers.changed.wait()

    async def _watch(self) -> None:
        assert self.tasks is not None  # see run
        request = pb.WatchRequest(node=self._node, session=self._session)
        opened = machine_s()
        async for desired in self._schedulers.stub.Watch(request):
            if not self._schedulers.obeys(desired.term):
                return
            self.connected.set()
            self._complaints.over()
            self._shorten(desired, opened)
            self.tasks.take(desired)

    def _shorten(self, desired: pb.Desired, opened: float) -> None:
        """Count leases from when the list was written, however long it was on its way.

        It was not written before the report that it names was sent, nor before it was asked for.
        """
        sent = self._sent.get(desired.heard)
        written = opened if sent is None else sent + desired.heard_ago_s
        late = max(0.0, machine_s() - written)
        for order in desired.tasks:
            order.lease_s -= late
        self._sent = {number: at for number, at in self._sent.items() if number >= desired.heard}

    async def _report(self) -> None:
        assert self.tasks is not None  # see run
        while True:
            self._dirty.clear()
            self._sequence += 1
            observed = pb.Observed(
                node=self._node,
                session=self._session,
                sequence=self._sequence,
                seen=self.tasks.taken_over,
                tasks=self.tasks.states(),
                lateness_s=self._lateness(),
                trouble=self._trouble(),
                leaving=self.leaving,
                term=self._schedulers.term,
            )
            self._sent[self._sequence] = machine_s()
            reply = await self._schedulers.stub.Report(observed, timeout=_CALL_S)
            self._schedulers.heard()
            if observed.leaving:
                self.said_goodbye.set()
            if not reply.known:
                self._renew.set()
                return
            began = time.monotonic()
            if await happens(self._dirty, self._heartbeat_s):
                await asyncio.sleep(max(0.0, _TOGETHER_S - (time.monotonic() - began)))
