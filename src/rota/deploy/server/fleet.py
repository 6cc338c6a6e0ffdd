"""The service for agents: they register, watch their orders, report what runs, and upload its output."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

from rota.deploy.clocks import wall_date
from rota.deploy.repetition import Repetition
from rota.deploy.scheduler.requests import OfferedNode, Refused
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.security.audit import Audit, RefusalReason
from rota.deploy.security.joining import JoinAuthority, TicketRefused
from rota.deploy.server.handlers import Handlers, Identify, answered, streamed
from rota.deploy.server.logs import LogService
from rota.deploy.server.messages import agent_report, desired_message, offered_node
from rota.deploy.server.replication import Replication
from rota.deploy.structured_logs import about
from rota.deploy.waiting import happens
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

log = logging.getLogger(__name__)

_QUIET_S = 5.0
"""A stream without news looks after itself so often."""


class Fleet(Handlers, stubs.FleetServicer):  # type: ignore[misc]
    """For agents."""

    def __init__(
        self,
        scheduler: Scheduler,
        identify: Identify,
        logs: LogService,
        audit: Audit,
        joins: JoinAuthority | None = None,
        replication: Replication | None = None,
    ) -> None:
        """Without `joins` no ticket is accepted; without `replication` there is no standby."""
        super().__init__(scheduler, identify)
        self._joins = joins
        self._replication = replication
        self._logs = logs
        self._audit = audit
        self._said = Repetition()
        self._news: dict[str, asyncio.Event] = {}
        self._events = asyncio.get_running_loop()
        scheduler.board.changed = self._changed

    def _changed(self, node: str) -> None:
        """Called by the owner of the registry, from its thread."""
        if not self._events.is_closed():
            self._events.call_soon_threadsafe(self._wake, node)

    def _wake(self, node: str) -> None:
        event = self._news.get(node)
        if event is not None:
            event.set()

    def _check(self, node: str, context: Any) -> None:
        """An agent speaks for the node of its certificate and for no other."""
        own = self.identify(context).node
        if own is not None and own != node:
            raise Refused("PERMISSION_DENIED", f"this certificate is for {own}, not for {node}")

    def _term(self, node: str, promised: int) -> int:
        """The term of this scheduler. Refused if an agent has promised to obey a later one."""
        if self._replication is None:
            return 0
        self._replication.check_term(node, promised)
        return self._replication.term

    @answered
    async def Vote(self, request: pb.VoteRequest, context: Any) -> pb.VoteReply:
        """Say that this scheduler is in charge; it needs no vote."""
        self._check(request.node, context)
        return pb.VoteReply(active=True, term=self._term(request.node, request.term))

    @answered
    async def Register(self, request: pb.RegisterRequest, context: Any) -> pb.RegisterReply:
        """A server comes."""
        self._check(request.node, context)
        scheduler = self._scheduler
        term = self._term(request.node, request.term)
        offered = offered_node(request)
        try:
            session = await self._do(
                f"Register of {request.node}", lambda now: scheduler.requests.register(offered, now)
            )
        except Refused as refusal:
            self._tell_of_second_agent(offered, refusal, context)
            raise
        log.info(
            "node %s joined with %d x %s",
            request.node,
            len(request.devices),
            request.type,
            extra=about(node=request.node, type=request.type),
        )
        return pb.RegisterReply(
            session=session,
            heartbeat_s=scheduler.options.timing.heartbeat_s,
            dead_after_s=scheduler.options.timing.dead_after_s,
            checkpoints=scheduler.options.checkpoints,
            time_scale=scheduler.clock.scale,
            job_log_bytes=scheduler.options.log_limits.job_bytes,
            log_segment_bytes=scheduler.options.log_limits.segment_bytes,
            term=term,
        )

    def _tell_of_second_agent(self, offered: OfferedNode, refusal: Refused, context: Any) -> None:
        """Two agents with one certificate are a matter for the operator; at growing intervals, as they try for ever."""
        if refusal.status == "ALREADY_EXISTS" and self._said.due(f"{offered.node} {offered.instance}"):
            why = f"agent at {offered.place or 'an unknown place'}: {refusal}"
            self._audit.refused(context.peer(), "Register", RefusalReason.CERTIFICATE_IN_USE, why)

    @answered
    async def Report(self, request: pb.Observed, context: Any) -> pb.ReportReply:
        """What a server runs."""
        self._check(request.node, context)
        self._term(request.node, request.term)
        report = agent_report(request)
        requests = self._scheduler.requests
        known = await self._do(f"Report of {request.node}", lambda now: requests.report(report, now))
        return pb.ReportReply(known=bool(known))

    @streamed
    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncGenerator[pb.Desired, None]:
        """What a server should run, whenever that changes."""
        self._check(request.node, context)
        news = self._news.setdefault(request.node, asyncio.Event())
        sent = -1
        while self._scheduler.alive():
            news.clear()
            orders = self._scheduler.published.get(request.node)
            if orders is None or orders.lost or orders.session != request.session:
                return  # the agent will find out and register again
            if orders.version != sent:
                sent = orders.version
                desired = desired_message(orders, self._scheduler.clock)
                desired.term = 0 if self._replication is None else self._replication.term
                yield desired
            await happens(news, _QUIET_S)

    @answered
    async def UploadLogs(self, request: pb.LogUpload, context: Any) -> pb.LogUploadReply:
        """Output of jobs that ran on a server, from that server."""
        self._check(request.node, context)
        return await self._logs.upload(request.node, request)

    @answered
    async def Join(self, request: pb.JoinRequest, context: Any) -> pb.JoinReply:
        """A server shows its ticket and gets the certificate of an agent."""
        self._check(request.node, context)
        if self._joins is None:
            fix = "its operator has to start it with --sign-joins, where the key of the authority (ca.key) is"
            raise Refused("FAILED_PRECONDITION", f"this scheduler signs no certificates; {fix}")
        ticket = context.auth_context()["x509_pem_cert"][0]
        now = wall_date().replace(microsecond=0)
        try:
            certificate = await asyncio.to_thread(
                self._joins.exchange, ticket, request.node, request.request, request.valid_s, now
            )
        except TicketRefused as refusal:
            self._audit.refused(context.peer(), "Join", RefusalReason.BAD_TICKET, str(refusal))
            raise Refused("PERMISSION_DENIED", str(refusal)) from refusal
        log.info("node %s has a certificate by its join ticket", request.node, extra=about(node=request.node))
        return pb.JoinReply(certificate=certificate)

    @answered
    async def PushLog(self, request: pb.LogChunk, context: Any) -> pb.Empty:
        """Nobody asks agents for output any more; this one is of an older version."""
        del request, context
        return pb.Empty()
