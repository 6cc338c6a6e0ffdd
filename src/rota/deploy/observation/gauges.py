"""Gauges of `rota serve --metrics`: how the cluster is at the moment of a scrape, from a copy of the registry."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from rota._version import __version__
from rota.core.lifecycle import JobPhase, NodeState
from rota.deploy.entitlement import entitled_gpus
from rota.deploy.observation.counting import Counting
from rota.deploy.observation.gpu_time import type_of
from rota.deploy.observation.labels import MOST_NODES, Labels
from rota.deploy.observation.observer import Observer
from rota.deploy.scheduler.predecessors import unmet_dependents
from rota.deploy.scheduler.reasons import ReasonCode
from rota.deploy.scheduler.records import Job, Node
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.service import Scheduler

_JOBS_AT_ONCE = 128
"""Jobs that are looked at without letting other threads go: about a millisecond."""
BUSY = "busy"
IDLE = "idle"
STRANDED = "stranded"
DRAINED = "drained"
LOST = "lost"
GPU_STATES = (BUSY, IDLE, STRANDED, DRAINED, LOST)
_LIVE_PHASES = (JobPhase.QUEUED, JobPhase.WAITING, JobPhase.RUNNING, JobPhase.STOPPING)
_LEAST_CPUS = 1.0
_LEAST_MEMORY_GB = 1.0
"""An idle GPU beside which less than this is free cannot be used by anybody."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Numbers that others count."""

    refusals: Callable[[], Mapping[str, int]] = dict
    """By reason, since the scheduler started."""
    notifications: Callable[[], Mapping[tuple[str, str], int]] = dict
    """By target and result."""
    behind: Callable[[], Mapping[str, int]] = dict
    """Events of the journal that a target of notifications has not looked at yet."""


@dataclass(kw_only=True, eq=False)
class Gauges:
    """A collector: `collect` is called for every scrape that is not answered from memory."""

    scheduler: Scheduler
    observer: Observer
    counting: Counting
    beside: Beside
    nodes: Labels = field(default_factory=lambda: Labels(MOST_NODES))

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All gauges, and counters that are kept elsewhere."""
        with self.observer.lock:
            registry = self.observer.registry
            families = [
                *self._jobs(registry),
                *self._servers(registry),
                *self._shares(registry),
                *self._gpu_time(),
                self._info(registry),
                _counter("rota_decisions_failed", "Answers of the policy or the mechanism that failed, ever.",
                         registry.failed_decisions.count),
            ]  # fmt: skip
        yield from families
        yield from self._scheduler()
        yield from self._kept_elsewhere()

    # Jobs

    def _jobs(self, registry: Registry) -> Iterator[Metric]:
        reasons = self.scheduler.reasons(registry)
        phases: Counter[tuple[str, str]] = Counter()
        waiting: Counter[tuple[str, str]] = Counter()
        for count, job in enumerate(registry.live.values()):
            if count % _JOBS_AT_ONCE == 0:
                time.sleep(0)  # let the thread that decides go first
            label = self.counting.tenants.of(job.tenant)
            explanation = reasons.explain(job)
            phases[label, explanation.phase.value] += 1
            if job.attempt is None and explanation.code is not ReasonCode.NONE:
                waiting[label, explanation.code.value] += 1
        tenants = {label for label, _ in phases} | self.counting.tenants.known
        shown = {(label, phase.value): 0 for label in tenants for phase in _LIVE_PHASES} | dict(phases)
        yield _gauge("rota_jobs", "Jobs that are not over.", ("tenant", "phase"), shown)
        yield _gauge("rota_jobs_waiting", "Jobs that do not run, by reason.", ("tenant", "reason"), waiting)

    @staticmethod
    def _info(registry: Registry) -> Metric:
        family = GaugeMetricFamily(
            "rota_job_info",
            "Jobs that run, one series for each: the only metric with numbers of jobs.",
            labels=("job", "tenant", "type", "gpus", "node"),
        )
        for job in registry.running.values():
            if job.attempt is not None:
                family.add_metric(_facts(job, registry), 1.0)
        return family

    # Servers

    def _servers(self, registry: Registry) -> Iterator[Metric]:
        held = _held_by_node(registry)
        gpus: Counter[tuple[str, str]] = Counter()
        states: Counter[tuple[str]] = Counter({(state.value,): 0 for state in NodeState})
        silences = self.scheduler.heartbeats.silences_s()
        silence: dict[tuple[str], float] = {}
        for name, node in registry.nodes.items():
            taken = held.get(name, _Held())
            states[node.state(busy=bool(taken.devices)).value,] += 1
            for state, count in {**dict.fromkeys(GPU_STATES, 0), **gpu_states(node, taken)}.items():
                gpus[node.joined.type, state] += count
            label = (self.nodes.of(name),)
            silence[label] = max(silence.get(label, 0.0), silences.get(name, 0.0))
        yield _gauge("rota_gpus", "GPUs of all servers, by state.", ("type", "state"), gpus)
        yield _gauge("rota_nodes", "Servers, by state.", ("state",), states)
        troubled = sum(bool(node.trouble) for node in registry.nodes.values())
        yield _single("rota_nodes_in_trouble", "Servers that say that nothing new can start there.", troubled)
        what = "Wall seconds since the agent of a server was last heard of."
        yield _gauge("rota_agent_silence_seconds", what, ("node",), silence)

    def _shares(self, registry: Registry) -> Iterator[Metric]:
        weights = self.scheduler.options.tenants.weights()
        capacity = sum(len(node.joined.devices) for node in registry.nodes.values() if node.usable)
        aside = unmet_dependents(registry) | registry.queue.held  # nobody means to start them now
        asked: Counter[str] = Counter()
        for job in registry.live.values():
            if job.id not in aside:
                asked[job.tenant] += job.spec.gpus
        shares: dict[tuple[str], float] = {}
        for tenant, share in entitled_gpus(asked, weights, float(capacity)).items():
            label = (self.counting.tenants.of(tenant),)
            shares[label] = shares.get(label, 0.0) + share
        what = "GPUs that a tenant is entitled to: what it asks for, at most its part by weight."
        yield _gauge("rota_fair_share_gpus", what, ("tenant",), shares)
        held = self.counting.gpu_time.held()
        yield _gauge("rota_allocated_gpus", "GPUs that jobs of a tenant hold.", ("tenant", "type"), held)

    def _gpu_time(self) -> Iterator[Metric]:
        gpu_time = self.counting.gpu_time
        gpu_time.advance(self.scheduler.clock.now())
        what = "GPU-seconds of the scheduler's clock that jobs held GPUs."
        yield _gauge("rota_gpu_seconds", what, ("tenant", "type"), gpu_time.total, family=CounterMetricFamily)

    # The scheduler itself

    def _scheduler(self) -> Iterator[Metric]:
        scheduler = self.scheduler
        clock = scheduler.clock
        yield _counter("rota_solves_late", "Answers of the policy that did not come in time.", scheduler.late_solves)
        yield _counter("rota_journal_events", "Events in the journal, ever.", scheduler.journal.last)
        yield _single("rota_round_length_seconds", "Wall seconds of a round.", scheduler.rules.round_s / clock.scale)
        age_s = max(0.0, clock.wall_seconds(clock.now() - scheduler.round_start))
        yield _single("rota_round_age_seconds", "Wall seconds since the round of now began.", age_s)
        yield _single("rota_time_scale", "Seconds of the scheduler's clock per second on the wall.", clock.scale)
        copies = self.observer.copies
        yield _counter("rota_metrics_copies", "Times that metrics had to begin with a fresh copy.", copies)
        labels = ("version", "policy", "mechanism")
        values = {(__version__, scheduler.options.policy, scheduler.mechanism_name): 1}
        yield _gauge("rota_build_info", "What runs here.", labels, values)

    def _kept_elsewhere(self) -> Iterator[Metric]:
        refused = {(reason,): count for reason, count in self.beside.refusals().items()}
        what = "Connections and calls that were refused."
        yield _gauge("rota_auth_refusals", what, ("reason",), refused, family=CounterMetricFamily)
        what = "Notifications, by target and result."
        told = self.beside.notifications()
        yield _gauge("rota_notifications", what, ("target", "result"), told, family=CounterMetricFamily)
        what = "Events of the journal that a target of notifications has not looked at yet."
        behind = {(target,): count for target, count in self.beside.behind().items()}
        yield _gauge("rota_notification_lag_events", what, ("target",), behind)


@dataclass(slots=True)
class _Held:
    """What attempts hold of a server."""

    devices: set[str] = field(default_factory=set)
    cpus: float = 0.0
    memory_gb: float = 0.0


def _held_by_node(registry: Registry) -> dict[str, _Held]:
    held: dict[str, _Held] = {}
    for job in registry.running.values():
        for part in job.attempt.parts if job.attempt is not None else ():
            taken = held.setdefault(part.node, _Held())
            taken.devices.update(part.devices)
            taken.cpus += part.cpus
            taken.memory_gb += part.memory_gb
    return held


def gpu_states(node: Node, held: _Held) -> dict[str, int]:
    """GPUs of a server by state."""
    count = len(node.joined.devices)
    if node.lost:
        return {LOST: count}
    busy = len(held.devices)
    idle = max(0, count - busy)
    if node.drained:
        return {BUSY: busy, DRAINED: idle}
    usable = 0 if node.trouble else min(idle, _usable(node, held))
    return {BUSY: busy, IDLE: usable, STRANDED: idle - usable}


def _usable(node: Node, held: _Held) -> int:
    """Idle GPUs beside which CPUs and memory are left."""
    cpus = int((node.joined.cpus - held.cpus + 1e-6) / _LEAST_CPUS)
    memory = int((node.joined.memory_gb - held.memory_gb + 1e-6) / _LEAST_MEMORY_GB)
    return max(0, min(cpus, memory))


def _facts(job: Job, registry: Registry) -> tuple[str, ...]:
    assert job.attempt is not None  # the caller has looked
    parts = job.attempt.parts
    gpus = sum(len(part.devices) for part in parts)
    return str(job.id), job.tenant, type_of(registry, parts), str(gpus), parts[0].node if parts else ""


def _gauge(
    name: str,
    what: str,
    labels: tuple[str, ...],
    values: Mapping[Any, float],
    family: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    made = family(name, what, labels=labels)
    for key, value in values.items():
        made.add_metric(key, value)
    return made


def _single(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(name, what, value=value)


def _counter(name: str, what: str, value: float) -> Metric:
    return CounterMetricFamily(name, what, value=value)
