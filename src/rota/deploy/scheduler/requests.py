"""What users and agents ask for, turned into events. Runs in the thread that owns the registry.

Every method returns the events that follow and a function that makes the answer once they are committed.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rota.core.cluster import Cluster, Server
from rota.core.errors import ConfigError, RotaError
from rota.core.job_spec import JobSpec
from rota.deploy.events import Audited, CancelAsked, DeployEvent, JobAccepted, NodeDrained, NodeJoined
from rota.deploy.scheduler.agent_reports import events_of_report
from rota.deploy.scheduler.catalogue import OpenCatalogue
from rota.deploy.scheduler.heartbeats import AgentReport, Heartbeats
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.emulate.catalogue import DeviceTimes

Answer = tuple[list[DeployEvent], Callable[[], Any]]


class Refused(ConfigError):
    """A request that cannot be granted; `status` is the name of a status of gRPC."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class Archive(Protocol):
    """Jobs that left memory."""

    def job(self, number: int) -> Job | None:
        """One of them."""

    def request(self, request: str) -> list[int] | None:
        """Jobs of a submission, by the name that the submitter gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedNode:
    """A server as its agent registers it."""

    node: str
    type: str
    devices: tuple[str, ...]
    cpus: float = 0.0
    memory_gb: float = 0.0
    storage_mbps: float = 0.0
    network_gbps: float = 0.0
    rack: str = ""
    host: str = ""
    emulated: bool = False
    limits: str = ""
    device_memory_mib: float = 0.0
    identity: str = ""


class Requests:
    """Takes requests."""

    def __init__(
        self,
        *,
        registry: Registry,
        heartbeats: Heartbeats,
        catalogue: OpenCatalogue,
        archive: Archive,
        declared: Cluster | None = None,
        time_scale: float = 1.0,
    ) -> None:
        self._registry = registry
        self._heartbeats = heartbeats
        self._catalogue = catalogue
        self._archive = archive
        self._declared = None if declared is None else {server.id: server for server in declared.servers}
        self._time_scale = time_scale

    # Users

    def submit(self, specs: Sequence[JobSpec], by: str, request: str, now: float) -> Answer:
        """Accept jobs; the same request twice is accepted once."""
        known = self._jobs_of_request(request) if request else None
        if known is not None:
            return [], lambda: known
        first = self._registry.next_job
        events: list[DeployEvent] = [
            JobAccepted(at=now, job=first + i, spec=self._checked(spec), by=by, request=request)
            for i, spec in enumerate(specs)
        ]
        return events, lambda: list(range(first, first + len(specs)))

    def _jobs_of_request(self, request: str) -> list[int] | None:
        jobs = self._registry.requests.get(request)
        return self._archive.request(request) if jobs is None else list(jobs)

    def _checked(self, spec: JobSpec) -> JobSpec:
        """The job with the full name of its profile. What can be said without a catalogue, `JobSpec` has checked."""
        try:
            profile = self._catalogue.named(spec.scheduled_profile)
            self._catalogue.check(profile, spec.gpus)
            if spec.model:
                DeviceTimes().memory(spec.model, spec.batch / spec.gpus)
        except RotaError as error:
            raise Refused("INVALID_ARGUMENT", f"{spec.label}: {error}") from error
        return replace(spec, profile=profile)

    def cancel(self, numbers: Sequence[int], by: str, tenant: str | None, now: float) -> Answer:
        """End jobs. `tenant` limits it to jobs of one tenant: others do not exist for it."""
        jobs = [self.job(number, tenant) for number in numbers]
        over = [job.id for job in jobs if job.ending]
        cancelled = [job.id for job in jobs if not job.ending]
        events: list[DeployEvent] = [CancelAsked(at=now, job=number, by=by) for number in dict.fromkeys(cancelled)]
        return events, lambda: (cancelled, over)

    def job(self, number: int, tenant: str | None) -> Job:
        """A job by number, as far as the caller may see it; one that left memory is read from the journal."""
        job = self._registry.jobs.get(number) or self._archive.job(number)
        if job is None or (tenant is not None and job.tenant != tenant):
            raise Refused("NOT_FOUND", f"there is no job {number}")
        return job

    def drain(self, name: str, by: str, now: float, *, undo: bool) -> Answer:
        """Keep jobs away from a node, or let them back."""
        node = self._registry.nodes.get(name)
        if node is None:
            known = ", ".join(sorted(self._registry.nodes)) or "none yet"
            raise Refused("NOT_FOUND", f"there is no node {name!r}; known: {known}")
        events: list[DeployEvent] = []
        if node.drained == undo:
            events.append(NodeDrained(at=now, node=name, drained=not undo, by=by))
        return events, lambda: None

    def audit(self, who: str, what: str, times: int, now: float) -> Answer:
        """Write down that somebody was refused."""
        return [Audited(at=now, who=who, what=what, times=times)], lambda: None

    def look(self, question: Callable[[Registry], Any]) -> Answer:
        """Look at the registry: `question` makes a value of it that does not change afterwards."""
        return [], lambda: question(self._registry)

    # Agents

    def register(self, offered: OfferedNode, now: float) -> Answer:
        """A server comes, or comes back; the answer is its session."""
        if not offered.node or not offered.type:
            raise Refused("INVALID_ARGUMENT", "a node needs a name and an accelerator type")
        _check_amounts(offered)
        node = offered if self._declared is None else _as_declared(offered, self._declared)
        session = uuid.uuid4().hex
        self._heartbeats.renew(node.node)
        return [_joined(node, session, now)], lambda: session

    def report(self, report: AgentReport, now: float) -> Answer:
        """What a node runs; the answer is False if it has to register again."""
        node = self._registry.nodes.get(report.node)
        if node is None or node.lost or node.joined.session != report.session:
            return [], lambda: False
        if not self._heartbeats.take(report):
            return [], lambda: True
        events = events_of_report(self._registry, self._heartbeats, report.node, now, self._time_scale)
        return events, lambda: True


def _check_amounts(offered: OfferedNode) -> None:
    """Refused if a server says to have something that no server can have."""
    for name in ("cpus", "memory_gb", "storage_mbps", "network_gbps", "device_memory_mib"):
        amount = getattr(offered, name)
        if not (math.isfinite(amount) and amount >= 0):
            message = f"node {offered.node!r}: {name} is {amount!r}; give a number from 0 on"
            raise Refused("INVALID_ARGUMENT", message)


def _as_declared(offered: OfferedNode, declared: Mapping[str, Server]) -> OfferedNode:
    """The server as the cluster file has it; Refused if it is not in there, or has less."""
    server = declared.get(offered.node)
    if server is None:
        names = ", ".join(sorted(declared)[:8])
        raise Refused("FAILED_PRECONDITION", f"the cluster file has no server {offered.node!r}; it has {names}, ...")
    have = len(offered.devices)
    if server.type != offered.type or server.capacity.gpus > have:
        raise Refused(
            "FAILED_PRECONDITION",
            f"server {offered.node!r} should have {server.capacity.gpus} x {server.type} by the cluster file; "
            f"the agent offers {have} x {offered.type}",
        )
    return replace(
        offered,
        devices=offered.devices[: server.capacity.gpus],
        rack=server.rack,
        cpus=server.capacity.cpus or offered.cpus,
        memory_gb=server.capacity.memory_gb or offered.memory_gb,
    )


def _joined(node: OfferedNode, session: str, now: float) -> NodeJoined:
    return NodeJoined(
        at=now,
        node=node.node,
        type=node.type,
        devices=node.devices,
        cpus=node.cpus,
        memory_gb=node.memory_gb,
        storage_mbps=node.storage_mbps,
        network_gbps=node.network_gbps,
        rack=node.rack,
        host=node.host,
        session=session,
        emulated=node.emulated,
        limits=node.limits,
        device_memory_mib=node.device_memory_mib,
        identity=node.identity,
    )
