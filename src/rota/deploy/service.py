"""The gRPC side of the scheduler: handlers that translate, post to the owner and translate back."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import grpc

from rota._version import __version__
from rota.deploy.board import LogOrder, Order, Sheet
from rota.deploy.book import Book, Job, Node
from rota.deploy.contacts import Report, Seen
from rota.deploy.desk import Answer, Refused
from rota.deploy.scheduler import Scheduler
from rota.deploy.stopping import STOPPING
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs
from rota.rpc.convert import node_fields, spec_fields, spec_message

log = logging.getLogger(__name__)

_QUIET_S = 5.0
"""A stream without news looks after itself so often."""
_LINES = 500


class Caller(Protocol):
    """Who calls, as far as security has established it."""

    name: str
    tenant: str
    admin: bool
    node: str | None
    """For agents: the only node they may speak for; None if that cannot be known."""


Identify = Callable[[Any], Caller]


class Handlers:
    """What both services share."""

    def __init__(self, scheduler: Scheduler, identify: Identify) -> None:
        self._scheduler, self._identify = scheduler, identify

    async def _do(self, context: Any, work: Callable[[float], Answer]) -> Any:
        """Let the owner do it; a refusal becomes a status."""
        if not self._scheduler.alive():
            await context.abort(grpc.StatusCode.UNAVAILABLE, STOPPING)
        try:
            return await asyncio.wrap_future(self._scheduler.floor.post(work))
        except Refused as refusal:
            await context.abort(grpc.StatusCode[refusal.kind], str(refusal))

    async def _look(self, context: Any, question: Callable[[Book], Any]) -> Any:
        desk = self._scheduler.floor.desk
        return await self._do(context, lambda _: desk.ask(question))


class Fleet(Handlers, stubs.FleetServicer):  # type: ignore[misc]
    """For agents."""

    def __init__(self, scheduler: Scheduler, identify: Identify, logs: Logs) -> None:
        super().__init__(scheduler, identify)
        self._logs = logs
        self._news: dict[str, asyncio.Event] = {}
        loop = asyncio.get_running_loop()
        scheduler.board.changed = lambda node: _threadsafe(loop, self._wake, node)

    def _wake(self, node: str) -> None:
        event = self._news.get(node)
        if event is not None:
            event.set()

    async def _check(self, node: str, context: Any) -> None:
        """An agent speaks for the node of its certificate and for no other."""
        own = self._identify(context).node
        if own is not None and own != node:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"this certificate is for {own}, not for {node}")

    async def Register(self, request: pb.RegisterRequest, context: Any) -> pb.RegisterReply:
        """A server comes."""
        await self._check(request.node, context)
        scheduler, fields = self._scheduler, node_fields(request)
        session = await self._do(context, lambda now: scheduler.floor.desk.register(fields, now))
        timing = scheduler.options.timing
        log.info("node %s joined with %d x %s", request.node, len(request.devices), request.type)
        return pb.RegisterReply(
            session=session,
            heartbeat_s=timing.heartbeat_s,
            dead_after_s=timing.dead_after_s,
            checkpoints=scheduler.options.checkpoints,
            time_scale=scheduler.clock.scale,
        )

    async def Report(self, request: pb.Observed, context: Any) -> pb.ReportReply:
        """What a server runs."""
        await self._check(request.node, context)
        report, scheduler = _report(request), self._scheduler
        scale = scheduler.clock.scale
        known = await self._do(context, lambda now: scheduler.floor.desk.report(report, now, scale))
        return pb.ReportReply(known=bool(known))

    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.Desired]:
        """What a server should run, whenever that changes."""
        await self._check(request.node, context)
        event = self._news.setdefault(request.node, asyncio.Event())
        sent = -1
        while self._scheduler.alive():
            node = self._scheduler.floor.book.nodes.get(request.node)
            if node is None or node.lost or node.joined.session != request.session:
                return  # the agent will find out and register again
            event.clear()
            sheet = self._scheduler.board.sheet(request.node)
            if sheet is not None and sheet.version != sent:
                sent = sheet.version
                yield self._desired(sheet, request.node)
            try:
                await asyncio.wait_for(event.wait(), _QUIET_S)
            except asyncio.TimeoutError:
                continue

    def _desired(self, sheet: Sheet, node: str) -> pb.Desired:
        clock = self._scheduler.clock
        now = clock.now()
        tasks = [_order(order, clock.wall_seconds(order.lease_until - now), clock.scale) for order in sheet.orders]
        logs = [pb.LogRequest(id=w.id, job=w.job, rank=w.rank, offset=w.offset, follow=w.follow) for w in sheet.logs]
        sequence, ago = self._scheduler.contacts.last_word(node)
        return pb.Desired(version=sheet.version, tasks=tasks, logs=logs, heard=sequence, heard_ago_s=ago)

    async def PushLog(self, request: pb.LogChunk, context: Any) -> pb.Empty:
        """Part of a log that somebody asked for, from the server that was asked."""
        own = self._identify(context).node
        asked = self._logs.node(request.id)
        if own is not None and asked is not None and own != asked:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"nobody asked {own} for this log")
        await self._logs.push(request)
        return pb.Empty()


class Logs:
    """Log readers that wait for agents."""

    def __init__(self) -> None:
        self._queues: dict[int, asyncio.Queue[pb.LogChunk]] = {}
        self._nodes: dict[int, str] = {}
        self._numbers = itertools.count(1)

    def open(self, node: str) -> tuple[int, asyncio.Queue[pb.LogChunk]]:
        """A number and the queue of the chunks that a node will send."""
        number = next(self._numbers)
        self._queues[number] = asyncio.Queue(64)
        self._nodes[number] = node
        return number, self._queues[number]

    def node(self, number: int) -> str | None:
        """Who was asked."""
        return self._nodes.get(number)

    def close(self, number: int) -> None:
        """Nobody reads any more."""
        self._queues.pop(number, None)
        self._nodes.pop(number, None)

    async def push(self, chunk: pb.LogChunk) -> None:
        """Hand a chunk to its reader; a slow reader slows the agent down."""
        found = self._queues.get(chunk.id)
        if found is not None:
            await found.put(chunk)


class Control(Handlers, stubs.ControlServicer):  # type: ignore[misc]
    """For users."""

    def __init__(self, scheduler: Scheduler, identify: Identify, logs: Logs) -> None:
        super().__init__(scheduler, identify)
        self._logs = logs

    def _limit(self, context: Any) -> str | None:
        """The tenant whose jobs the caller may see; None for all."""
        who = self._identify(context)
        return None if who.admin else who.tenant

    async def Submit(self, request: pb.SubmitRequest, context: Any) -> pb.SubmitReply:
        """Accept jobs."""
        who = self._identify(context)
        specs = []
        for message in request.jobs:
            spec = spec_fields(message)
            if spec.get("tenant") and not who.admin and spec["tenant"] != who.tenant:
                reason = f"this token submits for tenant {who.tenant!r}, not for {spec['tenant']!r}"
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
            spec["tenant"] = spec.get("tenant") or who.tenant
            specs.append(spec)
        desk, key = self._scheduler.floor.desk, f"{who.tenant}/{request.request}" if request.request else ""
        jobs = await self._do(context, lambda now: desk.submit(specs, who.name, key, now))
        return pb.SubmitReply(jobs=jobs)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.JobList:
        """Jobs, newest first."""
        only, phases = self._limit(context) or request.tenant, set(request.phases)

        def found(book: Book) -> tuple[list[pb.JobInfo], int]:
            fits = [
                job
                for job in reversed(book.jobs.values())
                if (not only or job.tenant == only) and (not phases or job.phase in phases)
            ]
            some = fits[: request.limit] if request.limit else fits
            return [self._info(job) for job in some], len(fits)

        jobs, total = await self._look(context, found)
        return pb.JobList(jobs=jobs, total=total)

    async def GetJob(self, request: pb.JobRequest, context: Any) -> pb.JobInfo:
        """One job."""
        only, desk = self._limit(context), self._scheduler.floor.desk

        def work(_: float) -> Answer:
            job = desk.job(request.job, only)
            return [], lambda: self._info(job)

        found: pb.JobInfo = await self._do(context, work)
        return found

    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelReply:
        """End jobs."""
        who, only, desk = self._identify(context), self._limit(context), self._scheduler.floor.desk
        cancelled, over = await self._do(context, lambda now: desk.cancel(list(request.jobs), who.name, only, now))
        return pb.CancelReply(cancelled=cancelled, over=over)

    async def ListNodes(self, request: pb.Empty, context: Any) -> pb.NodeList:
        """All servers."""
        del request
        nodes = await self._look(context, lambda book: [self._node(book, n) for n in sorted(book.nodes)])
        return pb.NodeList(nodes=nodes)

    async def Drain(self, request: pb.DrainRequest, context: Any) -> pb.NodeInfo:
        """Keep jobs away from a server."""
        who, desk = self._identify(context), self._scheduler.floor.desk
        if not who.admin:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "only an admin may drain a node")
        await self._do(context, lambda now: desk.drain(request.node, who.name, now, undo=request.undo))
        found: pb.NodeInfo = await self._look(context, lambda book: self._node(book, request.node))
        return found

    async def Status(self, request: pb.Empty, context: Any) -> pb.StatusReply:
        """The scheduler itself."""
        del request
        scheduler, who = self._scheduler, self._identify(context)
        options, rules = scheduler.options, scheduler.rules

        def found(book: Book) -> pb.StatusReply:
            return pb.StatusReply(
                version=__version__, now_s=scheduler.clock.now(), time_scale=options.time_scale,
                round_s=rules.round_s, policy=options.policy, mechanism=options.mechanism or rules.mechanism,
                rounds=int(scheduler.floor.now() / rules.round_s), queued=len(book.live) - len(book.running),
                running=len(book.running), finished=book.counts["finished"], events=scheduler.journal.last,
                last_decision_s=scheduler.floor.decided_s, late_solves=scheduler.late_solves,
                tenant=who.tenant, admin=who.admin,
            )  # fmt: skip

        reply: pb.StatusReply = await self._look(context, found)
        return reply

    async def Events(self, request: pb.EventsRequest, context: Any) -> AsyncIterator[pb.EventLine]:
        """What happened, and what happens."""
        only, journal = self._limit(context), self._scheduler.journal
        after = journal.last if request.after < 0 else request.after
        while self._scheduler.alive():
            lines = await asyncio.to_thread(journal.read, after, _LINES)
            for number, body in lines:
                after = number
                if only is None or self._concerns(body, only):
                    yield pb.EventLine(sequence=number, json=body)
            if not lines:
                if not request.follow:
                    return
                await asyncio.sleep(0.2)

    def _concerns(self, body: str, tenant: str) -> bool:
        job = self._scheduler.floor.book.jobs.get(json.loads(body).get("job", -1))
        return job is not None and job.tenant == tenant

    async def Logs(self, request: pb.LogsRequest, context: Any) -> AsyncIterator[pb.LogChunk]:
        """The output of a job, from the server of its last attempt."""
        only, desk = self._limit(context), self._scheduler.floor.desk

        def work(_: float) -> Answer:
            job = desk.job(request.job, only)
            return [], lambda: (job.home, job.phase)

        node, phase = await self._do(context, work)
        if not node:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"job {request.job} has not run yet ({phase})")
        number, chunks = self._logs.open(node)
        wish = LogOrder(id=number, job=request.job, rank=request.rank, offset=-request.tail, follow=request.follow)
        self._scheduler.board.ask_log(node, wish)
        try:
            while True:
                try:
                    chunk = await asyncio.wait_for(chunks.get(), 2 * _QUIET_S)
                except asyncio.TimeoutError:
                    if request.follow and not self._scheduler.floor.book.nodes[node].lost:
                        continue  # a job may be silent; its node may not
                    await context.abort(grpc.StatusCode.ABORTED, f"node {node} does not answer; see `rota nodes`")
                if chunk.error:
                    await context.abort(grpc.StatusCode.NOT_FOUND, chunk.error)
                yield chunk
                if chunk.end:
                    return
        finally:
            self._logs.close(number)
            self._scheduler.board.drop_log(node, number)

    # Answers

    def _info(self, job: Job) -> pb.JobInfo:
        clock, attempt = self._scheduler.clock, job.attempt
        key = (job.id, job.epoch)
        live = self._scheduler.contacts.progress.get(key, (0, 0.0))[0]
        parts = [] if attempt is None else attempt.parts
        return pb.JobInfo(
            job=job.id, spec=spec_message(job.spec), phase=job.phase, reason=job.reason,
            submitted_at=clock.wall_time(job.submitted),
            started_at=clock.wall_time(job.started) if job.started >= 0 else 0.0,
            ended_at=clock.wall_time(job.ended) if job.ended >= 0 else 0.0,
            step=max(live, job.credited), saved_step=job.credited, restarts=job.restarts,
            preemptions=job.preemptions, epoch=job.epoch, exit_code=job.exit_code,
            parts=[pb.Part(node=p.node, devices=p.devices, cpus=p.cpus, memory_gb=p.memory_gb) for p in parts],
            submitted_s=job.submitted, ended_s=max(job.ended, 0.0),
        )  # fmt: skip

    def _node(self, book: Book, name: str) -> pb.NodeInfo:
        node: Node = book.nodes[name]
        there = [job for job in book.running.values() if job.attempt is not None and name in job.attempt.nodes]
        held = {d for job in there if job.attempt for p in job.attempt.parts if p.node == name for d in p.devices}
        drained = "draining" if there else "drained"
        contacts = self._scheduler.contacts
        return pb.NodeInfo(
            node=name, type=node.joined.type, gpus=len(node.joined.devices), busy=len(held), cpus=node.joined.cpus,
            memory_gb=node.joined.memory_gb, storage_mbps=node.joined.storage_mbps,
            state="lost" if node.lost else drained if node.drained else "up", last_seen_s=contacts.silent_s(name),
            jobs=sorted(job.id for job in there), emulated=node.joined.emulated, limits=node.joined.limits,
            lateness_s=contacts.of(name).lateness_s,
        )  # fmt: skip


def _order(order: Order, lease_s: float, scale: float) -> pb.TaskOrder:
    return pb.TaskOrder(
        job=order.job, epoch=order.epoch, state=order.state, lease_s=lease_s, devices=order.devices, cpus=order.cpus,
        memory_gb=order.memory_gb, first_rank=order.first_rank, ranks=order.ranks, world_size=order.world_size,
        master_addr=order.master_addr, master_port=order.master_port, resume=order.resume,
        resume_step=order.resume_step, spec=spec_message(order.spec), rate=order.rate * scale,
        messages=[pb.GangMessage(id=number, rank=rank, json=text) for number, rank, text in order.messages],
    )  # fmt: skip


def _report(message: pb.Observed) -> Report:
    tasks = {
        (t.job, t.epoch): Seen(
            phase=t.phase, step=t.step, saved_step=t.saved_step, saved_path=t.saved_path, outcome=t.outcome,
            exit_code=t.exit_code, detail=t.detail, answers=tuple((a.rank, a.json) for a in t.answers),
        )
        for t in message.tasks
    }  # fmt: skip
    return Report(
        node=message.node, session=message.session, sequence=message.sequence, taken_over=message.seen, tasks=tasks,
        lateness_s=message.lateness_s,
    )  # fmt: skip


def _threadsafe(loop: asyncio.AbstractEventLoop, call: Callable[[str], None], node: str) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, node)
