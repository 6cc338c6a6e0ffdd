"""The service for users: jobs, nodes, events, logs, status."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from rota.core.lifecycle import JobPhase
from rota.deploy.questions.asking import Questions
from rota.deploy.scheduler.archive import JobFilter
from rota.deploy.scheduler.inbox import Work
from rota.deploy.scheduler.reasons import Explanation
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.requests import Answer, Refused
from rota.deploy.scheduler.secrets import without_values
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.scheduler.speed_estimates import finding
from rota.deploy.server.handlers import Handlers, Identify, answered, once_it_may, streamed
from rota.deploy.server.holds import hold_reply, hold_work
from rota.deploy.server.job_events import narrowed
from rota.deploy.server.listing import newest
from rota.deploy.server.log_reading import JobFacts, LogReading, facts_of, question_of
from rota.deploy.server.logs import LogService
from rota.deploy.server.messages import attempt_message, job_counts, job_message, node_message, status_message
from rota.deploy.server.question_handlers import QuestionHandlers
from rota.deploy.server.questions import QuestionDesk
from rota.deploy.server.replication import Replication
from rota.deploy.server.settings import SettingsDesk
from rota.deploy.server.speed_messages import speeds_message
from rota.deploy.server.submission_limits import check_allowed, check_dependencies, for_tenant
from rota.deploy.stopping import STOPPING
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs
from rota.rpc.convert import spec_of

_LINES_AT_ONCE = 500
_NEWS_EVERY_S = 0.2
_PHASES = {phase.value: phase for phase in JobPhase}


class Control(QuestionHandlers, Handlers, stubs.ControlServicer):  # type: ignore[misc]
    """For users."""

    def __init__(
        self,
        scheduler: Scheduler,
        identify: Identify,
        logs: LogService,
        questions: Questions,
        replication: Replication,
    ) -> None:
        super().__init__(scheduler, identify)
        self._replication = replication
        self._logs = logs
        self._desk = QuestionDesk(scheduler, questions)
        self._settings = SettingsDesk(scheduler, self._desk)

    async def _do(self, what: str, work: Work) -> Any:
        """Let the owner do it; Refused if it cannot be done, or if another scheduler may be in charge."""
        self._replication.check_in_charge()
        return await super()._do(what, work)

    def _visible_tenant(self, context: Any) -> str | None:
        """The tenant whose jobs the caller may see; None for all."""
        caller = self.identify(context)
        return None if caller.admin else caller.tenant

    # Jobs

    @answered
    async def Submit(self, request: pb.SubmitRequest, context: Any) -> pb.SubmitReply:
        """Accept jobs."""
        caller = self.identify(context)
        check_dependencies(request, caller, self._scheduler.options.tenants)
        specs = [for_tenant(spec_of(message), caller) for message in request.jobs]
        for spec in specs:
            check_allowed(spec, caller, self._scheduler.options.tenants)
        key = f"{caller.tenant}/{request.request}" if request.request else ""
        requests = self._scheduler.requests
        what = f"Submit of {len(specs)} jobs by {caller.name}"
        dry = request.dry_run
        jobs = await self._do(
            what, lambda now: requests.dry_run(specs) if dry else requests.submit(specs, caller.name, key, now)
        )
        remarks = [] if dry else await self._look(what, lambda _: requests.remarks_on(specs))
        return pb.SubmitReply(jobs=jobs, remarks=remarks)

    @answered
    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.JobList:
        """Jobs, the newest first: those in memory, and those that left it."""
        wanted = JobFilter(
            tenant=self._visible_tenant(context) or request.tenant,
            phases=frozenset(_PHASES[name] for name in request.phases if name in _PHASES),
            jobs=frozenset(request.jobs),
            below=request.below,
        )
        if request.phases and not wanted.phases:
            return pb.JobList()

        limit = request.limit or None

        def in_memory(registry: Registry) -> tuple[dict[int, pb.JobInfo], int]:
            jobs, count = newest(registry, wanted, limit, self._scheduler.reasons)
            reasons = self._scheduler.reasons() if jobs else None
            return {job.id: self._message(job, reasons.explain(job)) for job in jobs if reasons is not None}, count

        # In this order, so that a job which leaves memory meanwhile is not missed.
        messages, total = await self._look("ListJobs", in_memory)
        archived, more = await self._archived_jobs(wanted, request.limit)
        total += more
        for job in archived:
            total -= job.id in messages
            messages.setdefault(job.id, self._archived_message(job))
        return pb.JobList(jobs=[messages[number] for number in sorted(messages, reverse=True)[:limit]], total=total)

    async def _archived_jobs(self, wanted: JobFilter, limit: int) -> tuple[list[Job], int]:
        if wanted.phases and not any(phase.final for phase in wanted.phases):
            return [], 0
        return await asyncio.to_thread(self._scheduler.archive.select, wanted, limit)

    @answered
    async def GetJob(self, request: pb.JobRequest, context: Any) -> pb.JobInfo:
        """One job."""

        def question(job: Job) -> pb.JobInfo:
            whole = self._message(job, self._scheduler.reasons().explain(job))
            clock = self._scheduler.clock
            if job.attempt is not None:
                used = self._scheduler.heartbeats.live_use((job.id, job.epoch))
                whole.cpu_used_s = used.cpu_s
                whole.memory_used_gb = used.memory_gb
            whole.attempts.extend(attempt_message(record, clock, job.epoch) for record in job.attempts)
            return whole

        message: pb.JobInfo = await self._of_job(request.job, context, question)
        return message

    async def _of_job(self, number: int, context: Any, question: Callable[[Job], Any]) -> Any:
        """A value that the owner makes of a job, as far as the caller may see it."""
        tenant = self._visible_tenant(context)
        requests = self._scheduler.requests

        def work(_: float) -> Answer:
            job = requests.job(number, tenant)
            return [], lambda: question(job)

        return await self._do(f"look at job {number}", work)

    def _message(self, job: Job, explanation: Explanation) -> pb.JobInfo:
        """Called by the owner."""
        heartbeats = self._scheduler.heartbeats
        key = (job.id, job.epoch)
        live_step = 0 if job.over else heartbeats.live_step(key)
        live_spent = None if job.attempt is None else heartbeats.live_spent(key)
        in_memory = job.id in self._scheduler.registry.jobs
        remark = self._scheduler.speeds.remark(job) if in_memory else finding(job)
        return job_message(job, self._scheduler.clock, explanation, live_step, live_spent, remark)

    def _archived_message(self, job: Job) -> pb.JobInfo:
        """Of a job that left memory; for any thread."""
        return job_message(job, self._scheduler.clock, Explanation.of_archived(job), speed_remark=finding(job))

    @answered
    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelReply:
        """End jobs."""
        caller = self.identify(context)
        tenant = self._visible_tenant(context)
        numbers, arrays = list(request.jobs), list(request.arrays)
        requests = self._scheduler.requests
        what = f"Cancel of {numbers or arrays} by {caller.name}"
        cancelled, over = await self._do(what, lambda now: requests.cancel(numbers, caller.name, tenant, now, arrays))
        return pb.CancelReply(cancelled=cancelled, over=over)

    @answered
    async def Hold(self, request: pb.HoldRequest, context: Any) -> pb.HoldReply:
        """Keep jobs from running, or release them."""
        return hold_reply(
            await self._do(*hold_work(self._scheduler, request, self._visible_tenant(context), self.identify(context)))
        )

    # Nodes and the scheduler

    @answered
    async def ListNodes(self, request: pb.Empty, context: Any) -> pb.NodeList:
        """All servers."""
        del request
        tenant = self._visible_tenant(context)
        nodes = await self._look(
            "ListNodes",
            lambda registry: [self._node_message(registry, name, tenant) for name in sorted(registry.nodes)],
        )
        return pb.NodeList(nodes=nodes)

    def _node_message(self, registry: Registry, name: str, tenant: str | None) -> pb.NodeInfo:
        """Called by the owner."""
        return node_message(registry, self._scheduler.heartbeats, name, self._scheduler.requests.remark(name), tenant)

    @answered
    async def RemoveNode(self, request: pb.RemoveNodeRequest, context: Any) -> pb.Empty:
        """Forget a lost server."""
        caller = self.identify(context)
        if not caller.admin:
            raise Refused("PERMISSION_DENIED", "only an admin may remove a node")
        requests = self._scheduler.requests
        what = f"RemoveNode of {request.node} by {caller.name}"
        await self._do(what, lambda now: requests.remove_node(request.node, caller.name, now))
        return pb.Empty()

    @answered
    async def Drain(self, request: pb.DrainRequest, context: Any) -> pb.NodeInfo:
        """Keep jobs away from a server."""
        caller = self.identify(context)
        if not caller.admin:
            raise Refused("PERMISSION_DENIED", "only an admin may drain a node")
        requests = self._scheduler.requests
        what = f"Drain of {request.node} by {caller.name}"
        await self._do(what, lambda now: requests.drain(request.node, caller.name, now, undo=request.undo))
        node: pb.NodeInfo = await self._look(what, lambda registry: self._node_message(registry, request.node, None))
        return node

    @answered
    async def Status(self, request: pb.Empty, context: Any) -> pb.StatusReply:
        """The scheduler itself."""
        del request
        caller = self.identify(context)
        tenant = self._visible_tenant(context)
        scheduler = self._scheduler
        archived = {} if tenant is None else await asyncio.to_thread(scheduler.archive.counts, tenant)

        def question(registry: Registry) -> pb.StatusReply:
            return status_message(scheduler, registry, job_counts(registry, tenant, archived), caller)

        reply: pb.StatusReply = await self._look("Status", question)
        reply.MergeFrom(pb.StatusReply(**self._replication.status()))
        return reply

    @answered
    async def LearnedSpeeds(self, request: pb.LearnedSpeedsRequest, context: Any) -> pb.LearnedSpeedsReply:
        """How fast jobs were seen to run."""
        tenant = self._visible_tenant(context) or request.tenant or None
        reply: pb.LearnedSpeedsReply = await self._look(
            "LearnedSpeeds", lambda registry: speeds_message(registry.speeds, self._scheduler.speeds, tenant)
        )
        return reply

    # A standby

    @answered
    async def Replicate(self, request: pb.ReplicaRequest, context: Any) -> pb.ReplicaBatch:
        """What was committed since."""
        del context
        if not self._scheduler.alive():
            raise Refused("UNAVAILABLE", STOPPING)
        return await self._replication.replicate(request)

    @answered
    async def ReplicateFiles(self, request: pb.ReplicaFilesRequest, context: Any) -> pb.ReplicaFilesReply:
        """Output of jobs, and what is kept beside the journal."""
        del context
        if not self._scheduler.alive():
            raise Refused("UNAVAILABLE", STOPPING)
        return await self._replication.files.reply(request)

    @streamed
    async def ReplicaBase(self, request: pb.ReplicaBaseRequest, context: Any) -> AsyncGenerator[pb.FileChunk, None]:
        """The whole state file."""
        del request, context
        async with contextlib.aclosing(self._replication.base()) as chunks:
            async for chunk in chunks:
                yield chunk

    # Settings

    @answered
    async def GetSettings(self, request: pb.Empty, context: Any) -> pb.SettingsReply:
        """What decides."""
        del request
        return await self._settings.show(self.identify(context))

    @answered
    async def PreviewSettings(self, request: pb.SettingsRequest, context: Any) -> pb.Answer:
        """What a change of settings would do."""
        return await self._settings.preview(request, self.identify(context))

    @answered
    async def SetSettings(self, request: pb.SettingsRequest, context: Any) -> pb.SettingsReply:
        """Change settings on the live cluster."""
        return await self._settings.set(request, self.identify(context))

    # Streams

    @streamed
    async def Events(self, request: pb.EventsRequest, context: Any) -> AsyncGenerator[pb.EventLine, None]:
        """What happened, and what happens."""
        tenant = self._visible_tenant(context)
        journal = self._scheduler.journal
        after = request.after
        if request.HasField("job"):
            await self._of_job(request.job, context, lambda job: job.id)  # one that is not there is said so
        if after < 0:
            after = await self._look("Events", lambda _: journal.last)
        while self._scheduler.alive():
            lines = await asyncio.to_thread(journal.read, after, _LINES_AT_ONCE)
            wanted = await asyncio.to_thread(narrowed, lines, request.job) if request.HasField("job") else lines
            visible = wanted if tenant is None else await self._of_tenant(wanted, tenant)
            for number, body in visible:
                yield pb.EventLine(sequence=number, json=without_values(body))
            after = lines[-1][0] if lines else after
            if not lines:
                if not request.follow:
                    return
                await asyncio.sleep(_NEWS_EVERY_S)

    async def _of_tenant(self, lines: list[tuple[int, str]], tenant: str) -> list[tuple[int, str]]:
        """The lines about jobs of a tenant."""
        job_of_line = {number: json.loads(body).get("job", -1) for number, body in lines}
        numbers = set(job_of_line.values()) - {-1}

        def in_memory(registry: Registry) -> dict[int, str]:
            return {number: registry.jobs[number].tenant for number in numbers if number in registry.jobs}

        tenants: dict[int, str] = await once_it_may(lambda: self._look("Events", in_memory))
        missing = numbers - tenants.keys()
        if missing:
            tenants |= await asyncio.to_thread(self._scheduler.archive.tenants, missing)
        return [(number, body) for number, body in lines if tenants.get(job_of_line[number]) == tenant]

    @streamed
    async def Logs(self, request: pb.LogsRequest, context: Any) -> AsyncGenerator[pb.LogChunk, None]:
        """The output of a job, all attempts of it, from the archive."""
        question = question_of(request)
        clock = self._scheduler.clock

        async def ask() -> JobFacts:
            job = request.job
            facts: JobFacts = await once_it_may(
                lambda: self._of_job(job, context, lambda it: facts_of(it, clock.now()))
            )
            return facts

        reading = LogReading(question=question, logs=self._logs, clock=clock, ask=ask)
        async with contextlib.aclosing(reading.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk
