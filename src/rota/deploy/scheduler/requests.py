"""What users and agents ask for, turned into events. Runs in the thread that owns the registry.

Every method returns the events that follow and a function that makes the answer once they are committed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from rota.core.cluster import Cluster
from rota.core.errors import ConfigError, OutputError, RotaError
from rota.core.job_spec import HIDDEN, UNPROFILED, JobSpec, with_hidden_values
from rota.core.lifecycle import JobPhase
from rota.deploy.events import Audited, CancelAsked, DeployEvent, JobAccepted, NodeDrained, NodeRemoved, NodeTroubled
from rota.deploy.scheduler import holding
from rota.deploy.scheduler.agent_reports import events_of_leaving, events_of_report
from rota.deploy.scheduler.catalogue import OpenCatalogue
from rota.deploy.scheduler.heartbeats import AgentReport, Heartbeats
from rota.deploy.scheduler.node_identity import in_use, may_take_over
from rota.deploy.scheduler.node_offers import OfferedNode, Refused, as_declared, check_amounts, joined
from rota.deploy.scheduler.node_remarks import address_remark, type_remark
from rota.deploy.scheduler.predecessors import SCHEDULER, PredecessorCheck
from rota.deploy.scheduler.records import Job, Node
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.secrets import SecretStore
from rota.deploy.scheduler.speed_measuring import SpeedMeter
from rota.deploy.scheduler.speed_names import full_profile, speed_name
from rota.deploy.scheduler.submission import NumberedJob, numbered_jobs, numbers_of_jobs
from rota.deploy.scheduler.tenant_limits import QueueLimits, TenantLimits
from rota.deploy.structured_logs import about
from rota.deploy.tenants import Tenants
from rota.emulate.catalogue import DeviceTimes

__all__ = ["Answer", "Archive", "OfferedNode", "Refused", "Requests"]

log = logging.getLogger(__name__)

Answer = tuple[list[DeployEvent], Callable[[], Any]]

_MOST_REMARKS = 3
"""On the jobs of one submission."""


class Archive(Protocol):
    """Jobs that left memory."""

    def job(self, number: int) -> Job | None:
        """One of them."""

    def request(self, request: str) -> list[int] | None:
        """Jobs of a submission, by the name that the submitter gave it."""

    def phases(self, numbers: Iterable[int]) -> Mapping[int, JobPhase]:
        """How those of these jobs ended that are there."""


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
        secrets: SecretStore | None = None,
        dead_after_s: float = 10.0,
        limits: QueueLimits | None = None,
        meter: SpeedMeter | None = None,
    ) -> None:
        self._registry = registry
        self._heartbeats = heartbeats
        self._catalogue = catalogue
        self._archive = archive
        self._declared = None if declared is None else {server.id: server for server in declared.servers}
        self._declared_types = () if declared is None else declared.types
        self._time_scale = time_scale
        self._secrets = secrets or SecretStore()
        self._dead_after_s = dead_after_s
        self._predecessors = PredecessorCheck(registry, self.job, archive.phases)
        self._meter = meter
        self._limits = limits or QueueLimits(registry=registry, limits=TenantLimits(Tenants()), secrets=self._secrets)

    # Users

    def submit(self, specs: Sequence[JobSpec], by: str, request: str, now: float) -> Answer:
        """Accept jobs; the same request twice is accepted once."""
        known = self._jobs_of_request(request) if request else None
        if known is not None:
            return [], lambda: known
        jobs = self._numbered(specs)
        never = self._predecessors.check(jobs)
        numbers = [job.number for job in jobs]
        kept = self._keep_secrets({job.number: job.spec for job in jobs})
        events: list[DeployEvent] = [
            JobAccepted(
                at=now,
                job=job.number,
                spec=with_hidden_values(job.spec),
                by=by,
                request=request,
                secrets=kept.get(job.number, ""),
                array=job.array,
            )
            for job in jobs
        ]
        events += [CancelAsked(at=now, job=number, by=SCHEDULER, reason=never[number]) for number in never]
        return events, lambda: numbers

    def dry_run(self, specs: Sequence[JobSpec]) -> Answer:
        """Refuse what `submit` would refuse, and accept nothing; the numbers that the jobs would have."""
        jobs = self._numbered(specs)
        never = self._predecessors.check(jobs)
        for number, reason in never.items():
            raise Refused("FAILED_PRECONDITION", f"job {number} would not start, but be {reason}")
        numbers = [job.number for job in jobs]
        return [], lambda: numbers

    def _numbered(self, specs: Sequence[JobSpec]) -> list[NumberedJob]:
        """All jobs of a submission with their numbers, or Refused; limits are looked at before arrays become jobs."""
        try:
            self._limits.check(specs, numbers_of_jobs(specs))
            return numbered_jobs([self._checked(spec) for spec in specs], self._registry.next_job)
        except Refused:
            raise
        except ConfigError as error:
            raise Refused("INVALID_ARGUMENT", str(error)) from error

    def _keep_secrets(self, specs: Mapping[int, JobSpec]) -> dict[int, str]:
        """Write values of environments down before the jobs are accepted; the names under which they are kept."""
        for spec in specs.values():
            hidden = sorted(name for name, value in spec.env.items() if value == HIDDEN)
            if hidden:
                problem = (
                    f"{spec.label}: the value of {hidden[0]} is {HIDDEN}, by which lists hide values; give its own"
                )
                raise Refused("INVALID_ARGUMENT", problem)
        try:
            return self._secrets.put({number: spec.env for number, spec in specs.items()})
        except OutputError as error:
            raise Refused("RESOURCE_EXHAUSTED", f"no job was accepted: {error}") from error

    def _jobs_of_request(self, request: str) -> list[int] | None:
        jobs = self._registry.requests.get(request)
        return self._archive.request(request) if jobs is None else list(jobs)

    def _checked(self, spec: JobSpec) -> JobSpec:
        """The job with the full name of its profile. What can be said without a catalogue, `JobSpec` has checked."""
        try:
            profile = full_profile(self._catalogue, spec)
            self._catalogue.check(profile, spec.gpus)
            if spec.model:
                DeviceTimes().memory(spec.model, spec.batch / spec.gpus)
        except RotaError as error:
            raise Refused("INVALID_ARGUMENT", f"{spec.label}: {error}") from error
        return replace(spec, profile=profile)

    def remarks_on(self, specs: Sequence[JobSpec]) -> list[str]:
        """What whoever submits these jobs should know about their profiles."""
        new = sorted({name for spec in specs if (name := self._new_name(spec))})
        remarks = [
            f"profile {name!r} is not in catalogue {self._catalogue.name!r}: its speed is learned under that name "
            f"while the job runs{self._catalogue.hint(name)}"
            for name in new[:_MOST_REMARKS]
        ]
        more = len(new) - len(remarks)
        return [*remarks, f"... and {more} more names that are not in it"] if more else remarks

    def _new_name(self, spec: JobSpec) -> str:
        if spec.scheduled_profile == UNPROFILED or not speed_name(spec) or self._catalogue.means(spec.profile):
            return ""
        return spec.profile

    def cancel(
        self, numbers: Sequence[int], by: str, tenant: str | None, now: float, arrays: Sequence[int] = ()
    ) -> Answer:
        """End jobs, and all jobs of arrays. `tenant` limits it to jobs of one tenant: others do not exist for it."""
        jobs = self.jobs_named(numbers, arrays, tenant)
        over = [job.id for job in jobs if job.ending]
        cancelled = [job.id for job in jobs if not job.ending]
        events: list[DeployEvent] = [CancelAsked(at=now, job=number, by=by) for number in dict.fromkeys(cancelled)]
        return events, lambda: (cancelled, over)

    def hold(
        self,
        numbers: Sequence[int],
        arrays: Sequence[int],
        by: str,
        tenant: str | None,
        now: float,
        *,
        force: bool = False,
    ) -> Answer:
        """Keep jobs from running until they are released. `tenant` limits it as in `cancel`; None: an administrator."""
        jobs = self.jobs_named(numbers, arrays, tenant)
        events, answer = holding.hold(jobs, by, now, admin=tenant is None, force=force)
        return events, lambda: answer

    def release(self, numbers: Sequence[int], arrays: Sequence[int], by: str, tenant: str | None, now: float) -> Answer:
        """Let jobs that are held start again."""
        jobs = self.jobs_named(numbers, arrays, tenant)
        events, answer = holding.release(jobs, by, now, admin=tenant is None)
        return events, lambda: answer

    def jobs_named(self, numbers: Sequence[int], arrays: Sequence[int], tenant: str | None) -> list[Job]:
        """Jobs by number, and those in memory of the arrays that jobs belong to, each once."""
        jobs = {number: self.job(number, tenant) for number in dict.fromkeys(numbers)}
        heads: dict[int, None] = {}
        for number in dict.fromkeys(arrays):
            of_array = self.job(number, tenant)
            if of_array.array < 0:
                raise Refused("INVALID_ARGUMENT", f"job {number} is not in an array; name it without --array")
            heads[of_array.array] = None
        for array in heads:
            jobs |= {job.id: job for job in self._registry.queue.members(array)}
        return list(jobs.values())

    def job(self, number: int, tenant: str | None) -> Job:
        """A job by number, as far as the caller may see it; one that left memory is read from the journal."""
        job = self._registry.jobs.get(number) or self._archive.job(number)
        if job is None or (tenant is not None and job.tenant != tenant):
            raise Refused("NOT_FOUND", f"there is no job {number}")
        return job

    def drain(self, name: str, by: str, now: float, *, undo: bool) -> Answer:
        """Keep jobs away from a node, or let them back."""
        node = self._node(name)
        events: list[DeployEvent] = []
        if node.drained == undo:
            events.append(NodeDrained(at=now, node=name, drained=not undo, by=by))
        return events, lambda: None

    def remove_node(self, name: str, by: str, now: float) -> Answer:
        """Forget a node that is lost."""
        node = self._node(name)
        if not node.lost:
            raise Refused(
                "FAILED_PRECONDITION",
                f"node {name!r} was heard {self._heartbeats.silent_s(name):.1f} s ago; only a lost one can be removed. "
                "Stop its agent and wait until `rota nodes` shows it as lost",
            )
        held = sorted(job.id for job, _ in self._registry.attempts_on(name))
        if held:
            raise Refused(
                "FAILED_PRECONDITION",
                f"job {held[0]} has a part on node {name!r} and others on servers that are still there, which have to "
                "end first; try again in a moment",
            )
        return [NodeRemoved(at=now, node=name, by=by)], lambda: None

    def _node(self, name: str) -> Node:
        node = self._registry.nodes.get(name)
        if node is None:
            known = ", ".join(sorted(self._registry.nodes)) or "none yet"
            raise Refused("NOT_FOUND", f"there is no node {name!r}; known: {known}")
        return node

    def remark(self, name: str) -> str:
        """What an operator should know about a node; empty: nothing."""
        node = self._registry.nodes[name]
        remarks = (node.trouble, self._type_remark(node.joined.type), address_remark(self._registry, name))
        return "; ".join(remark for remark in remarks if remark)

    def _type_remark(self, gpu_type: str) -> str:
        return type_remark(gpu_type, self._catalogue.name, self._catalogue.types, self._declared_types)

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
        check_amounts(offered)
        node = offered if self._declared is None else as_declared(offered, self._declared)
        self._check_alone(node)
        session = uuid.uuid4().hex
        self._heartbeats.renew(node.node)
        remark = self._type_remark(node.type)
        if remark:
            log.warning("node %s: %s", node.node, remark, extra=about(node=node.node))
        return [joined(node, session, now)], lambda: session

    def _check_alone(self, offered: OfferedNode) -> None:
        """Refused if another agent speaks for the node, or may do so any moment."""
        before = self._registry.nodes.get(offered.node)
        if before is None or before.lost or may_take_over(before.joined, offered):
            return
        silent_s = self._heartbeats.silent_s(offered.node)
        if silent_s <= self._dead_after_s:
            raise Refused("ALREADY_EXISTS", in_use(before.joined, silent_s, self._dead_after_s))

    def report(self, report: AgentReport, now: float) -> Answer:
        """What a node runs; the answer is False if it has to register again."""
        node = self._registry.nodes.get(report.node)
        if node is None or node.lost or node.joined.session != report.session:
            return [], lambda: False
        if not self._heartbeats.take(report):
            return [], lambda: True
        events: list[DeployEvent] = []
        if report.trouble != node.trouble:
            log.warning(
                "node %s: %s", report.node, report.trouble or "its trouble is over", extra=about(node=report.node)
            )
            events.append(NodeTroubled(at=now, node=report.node, trouble=report.trouble))
        if report.leaving and not node.drained:
            log.warning("node %s leaves: %s", report.node, report.leaving, extra=about(node=report.node))
            events += events_of_leaving(self._registry, report.node, report.leaving, now)
        if self._meter is not None:
            events += self._meter.measured(report.node, now)
        events += events_of_report(self._registry, self._heartbeats, report.node, now, self._time_scale)
        return events, lambda: True
