"""A blocking client of a deployed scheduler: what `rota submit`, `rota jobs` and the other verbs are made of.

    from rota.core.job_spec import JobSpec
    from rota.deploy.control import Client

    with Client("gpu-head:7070", certs="certs", token_file="token") as rota:
        (job,) = rota.submit([JobSpec(emulated=True, profile="A3C", steps=1000)])
        print(rota.wait([job])[0].phase)

Without arguments everything is found as `rota.deploy.security.client.find_settings` says. Failures that a user can
mend are ConfigError with one message.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from rota.core.errors import ConfigError, RotaError
from rota.core.job_spec import JobSpec, spec_from
from rota.core.lifecycle import FINAL_PHASES, JobPhase
from rota.deploy.job_parts import entry_heads, in_part, parts_of
from rota.deploy.log_feed import LogFeed, LogItem, LogQuery, Output, last_lines, lines_of
from rota.deploy.patience import patient_stream, patiently
from rota.deploy.security.client import ClientSettings, connect, explained, find_settings
from rota.deploy.security.failover import FailoverStub
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs
from rota.rpc.convert import spec_message

_ASKED_AT_ONCE = 1000
"""Jobs by number in one question."""
_LISTED_AT_ONCE = 2_000
"""Jobs in one answer: a message is at most 16 MB, and the scheduler does nothing else while it writes one."""
_LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_REFUSED = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
_LONGEST_ANSWER_S = 300.0
"""Seconds for which a question is waited for: others may be answered before it."""
_LOST_FOR_S = 600.0
"""Seconds for which a follower of a log looks for a scheduler that is gone."""
_AGAIN_S = 0.5
_BROKEN = (*_LOST, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN)
"""How a stream ends whose scheduler was stopped."""


class Client:
    """Talks to one scheduler."""

    def __init__(
        self,
        address: str | None = None,
        *,
        certs: str | Path | None = None,
        token_file: str | Path | None = None,
        insecure: bool = False,
        tenant: str | None = None,
        settings: ClientSettings | None = None,
    ) -> None:
        """`tenant` only matters without certificates; otherwise the token says it."""
        self.settings = settings or find_settings(address, certs, token_file, insecure=insecure)
        self._channels = [connect(one, tenant=tenant, sync=True) for one in self.settings.each()]
        several = len(self._channels) > 1
        self._stub: Any = FailoverStub(self._channels) if several else stubs.ControlStub(self._channels[0])
        self.remarks: list[str] = []
        """What the scheduler said about jobs when they were submitted last."""

    def __enter__(self) -> Client:  # noqa: PYI034 - Self is not in Python 3.10
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        for channel in self._channels:
            channel.close()

    # Jobs

    def submit(
        self, jobs: Sequence[JobSpec | Mapping[str, Any]], request: str | None = None, *, tries: int = 3
    ) -> list[int]:
        """Submit jobs; their numbers. A mapping has the fields of `JobSpec` by name.

        `request` names this submission: sent again, after a lost answer, it is not accepted twice. One is made up if it
        is not given, and a lost answer is asked for again. Jobs are accepted all or none; more than fit into one
        message are sent in parts, and if a later part is refused, the error says which were accepted before.
        """
        specs = [job if isinstance(job, JobSpec) else spec_from(job) for job in jobs]
        name = request or uuid.uuid4().hex
        accepted: list[int] = []
        self.remarks = []
        heads: list[int] = []
        for number, part_specs in enumerate(parts_of(specs)):
            messages = [spec_message(in_part(spec, heads)) for spec in part_specs]
            part = pb.SubmitRequest(jobs=messages, request=f"{name}.{number}" if number else name)
            try:
                accepted += self._submit_part(part, tries)
            except RotaError as error:
                if not accepted:
                    raise
                before = f"jobs {accepted[0]} to {accepted[-1]} of this submission were accepted, the others not"
                raise type(error)(f"{before}: {error}") from error
            heads = entry_heads(specs, accepted)
        return accepted

    def dry_run(self, jobs: Sequence[JobSpec | Mapping[str, Any]]) -> dict[str, Any]:
        """Where and when jobs would start if they were submitted now, as `what_if`; nothing is submitted.

        Raises what `submit` would raise. At most as many as fit into one submission, of 100 entries.
        """
        specs = [job if isinstance(job, JobSpec) else spec_from(job) for job in jobs]
        messages = [spec_message(spec) for spec in specs]
        self._call(self._stub.Submit, pb.SubmitRequest(jobs=messages, dry_run=True))
        return self.what_if(pb.WhatIfRequest(submit=messages))

    def _submit_part(self, message: pb.SubmitRequest, tries: int) -> list[int]:
        with self._explained():
            for left in range(tries - 1, -1, -1):
                try:
                    reply = patiently(lambda: self._stub.Submit(message))
                    self.remarks += [remark for remark in reply.remarks if remark not in self.remarks]
                    return list(reply.jobs)
                except grpc.RpcError as error:  # noqa: PERF203 - it is about trying again
                    if left == 0 or error.code() not in _LOST:
                        raise
                    time.sleep(0.3)
        raise AssertionError  # the last try returns or raises

    def jobs(self, phases: Iterable[str] = (), *, limit: int = 0, tenant: str = "") -> list[pb.JobInfo]:
        """Jobs, the newest first; `tenant` is for administrators."""
        return list(self.page(phases, limit=limit, tenant=tenant).jobs)

    def page(self, phases: Iterable[str] = (), *, limit: int = 0, tenant: str = "") -> pb.JobList:
        """The same with the number of all that there are. Many are asked for in several calls."""
        wanted = list(phases)
        whole = pb.JobList()
        below = 0
        while True:
            left = limit - len(whole.jobs) if limit else _LISTED_AT_ONCE
            size = min(left, _LISTED_AT_ONCE)
            request = pb.ListJobsRequest(phases=wanted, limit=size, tenant=tenant, below=below)
            page: pb.JobList = self._call(self._stub.ListJobs, request)
            older = [info for info in page.jobs if not below or info.job < below]
            whole.jobs.extend(older)
            whole.total = max(whole.total, page.total)
            if len(older) < size or len(whole.jobs) == limit or older[-1].job == 0:
                return whole
            below = older[-1].job  # never 0, which would mean all jobs

    def job(self, number: int) -> pb.JobInfo:
        """One job."""
        info: pb.JobInfo = self._call(self._stub.GetJob, pb.JobRequest(job=number))
        return info

    def some_jobs(self, numbers: Sequence[int]) -> list[pb.JobInfo]:
        """Jobs by number, at most 1,000 at once; those that are not there are left out."""
        return list(self._call(self._stub.ListJobs, pb.ListJobsRequest(jobs=numbers)).jobs) if numbers else []

    def cancel(self, numbers: Iterable[int]) -> tuple[list[int], list[int]]:
        """End jobs; those that end now, and those that were over already."""
        asked = list(dict.fromkeys(numbers))
        cancelled: list[int] = []
        over: list[int] = []
        for first in range(0, len(asked), _ASKED_AT_ONCE):
            request = pb.CancelRequest(jobs=asked[first : first + _ASKED_AT_ONCE])
            reply: pb.CancelReply = self._call(self._stub.Cancel, request)
            cancelled += reply.cancelled
            over += reply.over
        return cancelled, over

    def cancel_arrays(self, numbers: Iterable[int]) -> tuple[list[int], list[int]]:
        """End all jobs of arrays, each named by the number of any of its jobs; as `cancel`."""
        reply: pb.CancelReply = self._call(self._stub.Cancel, pb.CancelRequest(arrays=list(numbers)))
        return list(reply.cancelled), list(reply.over)

    def hold(self, numbers: Iterable[int], arrays: Iterable[int] = (), *, force: bool = False) -> pb.HoldReply:
        """Keep jobs from running until they are released; `arrays` by the number of any of their jobs."""
        request = pb.HoldRequest(jobs=list(numbers), arrays=list(arrays), force=force)
        reply: pb.HoldReply = self._call(self._stub.Hold, request)
        return reply

    def release(self, numbers: Iterable[int], arrays: Iterable[int] = ()) -> pb.HoldReply:
        """Let jobs that are held start again."""
        request = pb.HoldRequest(jobs=list(numbers), arrays=list(arrays), undo=True)
        reply: pb.HoldReply = self._call(self._stub.Hold, request)
        return reply

    def wait(
        self,
        numbers: Iterable[int],
        timeout_s: float | None = None,
        *,
        every_s: float = 0.5,
        watch: Callable[[int, int], None] = lambda _over, _all: None,
    ) -> list[pb.JobInfo]:
        """Wait until jobs are over; how they are then. After `timeout_s` RotaError."""
        left = dict.fromkeys(numbers)
        done: dict[int, pb.JobInfo] = {}
        until = None if timeout_s is None else time.monotonic() + timeout_s
        order = list(left)
        while True:
            for info in self._over(left):
                done[info.job] = info
                del left[info.job]
            watch(len(done), len(order))
            if not left:
                return [done[number] for number in order]
            if until is not None and time.monotonic() >= until:
                raise RotaError(f"{len(left)} of {len(order)} jobs are not over after {timeout_s:g} s")
            time.sleep(every_s)

    def _over(self, left: Mapping[int, None]) -> list[pb.JobInfo]:
        """Of some jobs those that are over. One question for many, as jobs by the thousand may be waited for."""
        numbers = list(left)
        over: list[pb.JobInfo] = []
        for first in range(0, len(numbers), _ASKED_AT_ONCE):
            request = pb.ListJobsRequest(phases=sorted(FINAL_PHASES), jobs=numbers[first : first + _ASKED_AT_ONCE])
            over += self._call(self._stub.ListJobs, request).jobs
        return [info for info in over if JobPhase(info.phase).final and info.job in left]

    def logs(self, job: int, *, rank: int = 0, follow: bool = False, tail: int = 0) -> Iterator[bytes]:
        """The output of a rank of a job, all attempts, in pieces; the last `tail` lines, 0 for all."""
        items = self.log_items(LogQuery(job=job, rank=rank, follow=follow, tail=tail))
        for item in last_lines(lines_of(items), tail, follow=follow) if tail else items:
            if isinstance(item, Output):
                yield item.data

    def log_items(self, query: LogQuery, told: Callable[[str], None] = lambda _: None) -> Iterator[LogItem]:
        """The output of a job with what there is to say about it.

        A follower whose line breaks goes on where it was as soon as a scheduler answers; `told` hears of it.
        """
        feed = LogFeed(query)
        lost_at: float | None = None
        while True:
            try:
                with self._explained():
                    request = feed.request()
                    for item in feed.items(patient_stream(lambda: self._stub.Logs(request))):  # noqa: B023 - used here
                        lost_at = None
                        yield item
                if feed.over or not query.follow:
                    return
            except RotaError as error:
                lost_at = time.monotonic() if lost_at is None else lost_at
                if not (query.follow and _passes(error)) or time.monotonic() - lost_at > _LOST_FOR_S:
                    raise
                told(str(error))
            time.sleep(_AGAIN_S)

    # Nodes and the scheduler

    def nodes(self) -> list[pb.NodeInfo]:
        """All servers."""
        return list(self._call(self._stub.ListNodes, pb.Empty()).nodes)

    def drain(self, node: str, *, undo: bool = False) -> pb.NodeInfo:
        """Keep jobs away from a server, or let them back."""
        info: pb.NodeInfo = self._call(self._stub.Drain, pb.DrainRequest(node=node, undo=undo))
        return info

    def remove_node(self, node: str) -> None:
        """Forget a lost server; it may join again."""
        self._call(self._stub.RemoveNode, pb.RemoveNodeRequest(node=node))

    def status(self) -> pb.StatusReply:
        """The scheduler itself."""
        status: pb.StatusReply = self._call(self._stub.Status, pb.Empty())
        return status

    def learned_speeds(self, tenant: str = "") -> pb.LearnedSpeedsReply:
        """How fast jobs were seen to run; `tenant` is for administrators."""
        reply: pb.LearnedSpeedsReply = self._call(self._stub.LearnedSpeeds, pb.LearnedSpeedsRequest(tenant=tenant))
        return reply

    # Questions

    def why(self, job: int) -> dict[str, Any]:
        """Why a job waits: a code, a sentence, numbers, and changes that would place it."""
        return self._answer(self._stub.Why, pb.JobRequest(job=job))

    def eta(
        self,
        jobs: Iterable[int] = (),
        *,
        futures: int | None = None,
        starts_only: bool = False,
        cpu_s: float = 0.0,
    ) -> dict[str, Any]:
        """When jobs start and end; all that wait if none are named.

        `starts_only` does not look for ends. `cpu_s` bounds the CPU seconds for it, 0: as the operator says.
        """
        request = pb.EtaRequest(jobs=list(jobs), futures=futures, starts_only=starts_only, cpu_s=cpu_s)
        return self._answer(self._stub.Eta, request)

    def eta_accuracy(self) -> dict[str, Any]:
        """How good estimates were so far."""
        return self._answer(self._stub.Eta, pb.EtaRequest(accuracy=True))

    def what_if(self, request: pb.WhatIfRequest) -> dict[str, Any]:
        """The coming rounds with and without a change."""
        return self._answer(self._stub.WhatIf, request)

    def live_settings(self) -> dict[str, Any]:
        """What decides, and what was set on the live cluster."""
        return self._settings_reply(self._stub.GetSettings, pb.Empty())

    def preview_settings(self, request: pb.SettingsRequest) -> dict[str, Any]:
        """What a change of settings would do, to settings and to jobs."""
        return self._answer(self._stub.PreviewSettings, request)

    def set_settings(self, request: pb.SettingsRequest) -> dict[str, Any]:
        """Change settings on the live cluster; what is in force then."""
        return self._settings_reply(self._stub.SetSettings, request)

    def _settings_reply(self, method: Callable[[Any], Any], request: Any) -> dict[str, Any]:
        reply: pb.SettingsReply = self._call(method, request)
        return {**json.loads(reply.json), "version": reply.version}

    def ledger(self, last_s: float = 0.0) -> dict[str, Any]:
        """GPU-hours by tenant, for the last engine seconds; 0: as far as the journal goes."""
        return self._answer(self._stub.Ledger, pb.LedgerRequest(last_s=last_s))

    def usage(self, last_s: float = 0.0, *, points: int = 0) -> dict[str, Any]:
        """GPUs, CPUs and memory over the last engine seconds, in equal steps; 0: as far as the journal goes."""
        return self._answer(self._stub.Usage, pb.UsageRequest(last_s=last_s, points=points))

    def occupancy(self, after: int = 0) -> dict[str, Any]:
        """Changes of who holds which GPUs, behind an event; `more` says whether to ask again."""
        return self._answer(self._stub.Occupancy, pb.OccupancyRequest(after=after))

    def _answer(self, method: Callable[..., Any], request: Any) -> dict[str, Any]:
        with self._explained():
            reply: pb.Answer = method(request, timeout=_LONGEST_ANSWER_S)
        return {**json.loads(reply.json), "event": reply.event, "cpu_s": reply.cpu_s}

    def events(
        self, after: int = 0, *, follow: bool = False, job: int | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """(number, fields) of what happened behind event `after`; -1: only what happens from now on."""
        for number, line in self.event_lines(after, follow=follow, job=job):
            yield number, json.loads(line)

    def event_lines(self, after: int = 0, *, follow: bool = False, job: int | None = None) -> Iterator[tuple[int, str]]:
        """The same as JSON, as it was written; with `job` only what concerns that job."""
        with self._explained():
            request = pb.EventsRequest(after=after, follow=follow, job=job)
            for line in patient_stream(lambda: self._stub.Events(request)):
                yield line.sequence, line.json

    # Inside

    def _call(self, method: Callable[[Any], Any], request: Any) -> Any:
        with self._explained():
            return patiently(lambda: method(request))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with explained(self.settings):
                yield
        except grpc.RpcError as error:
            if error.code() in _REFUSED:
                raise ConfigError(error.details()) from error
            raise RotaError(f"the scheduler: {error.details()} ({error.code().name})") from error


def _passes(error: RotaError) -> bool:
    """Whether an error is about a line or a scheduler that may come back."""
    cause = error.__cause__
    return isinstance(cause, grpc.RpcError) and cause.code() in _BROKEN
