"""What every agent should run now: the owner of the registry writes it, streams to agents read it.

What is published is a value that never changes, so any thread may read it. Only the owner publishes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rota.core.job_spec import JobSpec
from rota.core.lifecycle import TaskCommand
from rota.deploy.numbering import first_number
from rota.deploy.scheduler.gang_stops import GangMessage, GangStops, ranks_by_part
from rota.deploy.scheduler.heartbeats import Heartbeats
from rota.deploy.scheduler.preemption import save_grace_s
from rota.deploy.scheduler.records import Attempt, Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.secrets import SecretStore


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrder:
    """One task of one agent."""

    job: int
    epoch: int
    command: TaskCommand
    lease_until: float
    """Engine seconds."""
    devices: tuple[str, ...]
    cpus: float
    memory_gb: float
    first_rank: int
    ranks: int
    world_size: int
    master_addr: str
    master_port: int
    resume: str
    resume_step: int
    rate: float
    messages: tuple[GangMessage, ...] = ()
    grace_s: float = 0.0
    """Wall seconds that it may take to save once asked to stop; 0: the agent decides."""
    job_over: bool = False
    """Whether the job will not go on after this attempt."""
    array: int = -1
    """Number of the first job of its array; -1: it is in none."""
    time_left_s: float = 0.0
    """Engine seconds that the job may run, from the start of this attempt; 0: no limit."""
    spec: JobSpec = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrders:
    """All that one agent should do, as it was published."""

    version: int
    session: str
    """Registration that it is for."""
    lost: bool
    tasks: tuple[TaskOrder, ...] = ()
    last_report: int = field(default=0, compare=False)
    """Number of the last report that had come when this was published."""
    last_report_at: float = field(default=0.0, compare=False)
    """When it came, monotonic seconds."""


class OrderBoard:
    """The orders of every node."""

    def __init__(
        self,
        registry: Registry,
        heartbeats: Heartbeats,
        gang_stops: GangStops,
        secrets: SecretStore | None = None,
        generation: int = 1,
    ) -> None:
        self._registry = registry
        self._heartbeats = heartbeats
        self._gang_stops = gang_stops
        self._secrets = secrets or SecretStore()
        self._version = first_number(generation)
        self.published: Mapping[str, NodeOrders] = {}
        """By node. Never changed, only replaced."""
        self.changed: Callable[[str], None] = lambda _: None
        """Called from the owner's thread with the name of a node whose orders changed."""

    # The owner

    def publish(self) -> None:
        """Write the orders anew; only those that changed get a new version."""
        tasks: dict[str, list[TaskOrder]] = {name: [] for name in self._registry.nodes}
        for job in self._registry.running.values():
            if job.attempt is not None:
                for node, order in self._orders(job, job.attempt):
                    if node in tasks:
                        tasks[node].append(order)
        written = {node: self._written(node, tuple(sorted(tasks[node], key=lambda task: task.job))) for node in tasks}
        before = self.published
        self.published = written
        for node, orders in written.items():
            if orders is not before.get(node):
                self.changed(node)

    def _written(self, node: str, tasks: tuple[TaskOrder, ...]) -> NodeOrders:
        """The orders of a node: those of before if they are the same."""
        before = self.published.get(node)
        record = self._registry.nodes[node]
        contact = self._heartbeats.of(node)
        orders = NodeOrders(
            version=self._version + 1 if before is None else before.version,
            session=record.joined.session,
            lost=record.lost,
            tasks=tasks,
            last_report=contact.sequence,
            last_report_at=contact.heard,
        )
        if before is not None and orders == before:
            orders = before
        else:
            self._version += 1
            orders = replace(orders, version=self._version)
        self._heartbeats.ordered(node, ((task.job, task.epoch) for task in tasks), orders.version)
        return orders

    def _orders(self, job: Job, attempt: Attempt) -> list[tuple[str, TaskOrder]]:
        """(node, order) for each server of an attempt whose agent knows of it, or should."""
        counts = ranks_by_part(job, attempt)
        orders = [self._order(job, attempt, at, counts) for at in range(len(attempt.parts))]
        pairs = zip(attempt.nodes, orders, strict=True)
        return [(node, order) for node, order in pairs if node not in attempt.forgotten]

    def _order(self, job: Job, attempt: Attempt, at: int, counts: list[int]) -> TaskOrder:
        part = attempt.parts[at]
        first = self._registry.nodes.get(attempt.parts[0].node)
        return TaskOrder(
            job=job.id,
            epoch=attempt.epoch,
            command=attempt.command,
            lease_until=attempt.lease_until,
            devices=part.devices,
            cpus=part.cpus,
            memory_gb=part.memory_gb,
            first_rank=sum(counts[:at]),
            ranks=counts[at],
            world_size=sum(counts),
            master_addr="" if first is None else first.joined.host,
            master_port=attempt.port,
            resume=attempt.resume,
            resume_step=attempt.resume_step,
            rate=attempt.rate,
            messages=self._gang_stops.messages((job.id, attempt.epoch), part.node),
            grace_s=save_grace_s(job, attempt),
            job_over=job.ending,
            array=job.array,
            time_left_s=max(job.spec.time_limit_s - job.ran_s, 0.0),
            spec=self._secrets.filled(job),
        )
