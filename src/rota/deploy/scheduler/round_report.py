"""What the engine is told at the end of a round, or within one: the world's side of `Clock.advance`.

Pure: computed from the registry and the state, so that a scheduler which died in the middle of telling tells the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rota.clusters import types_by_speed
from rota.clusters.accelerators import described
from rota.core.arrays import IntArray
from rota.core.cluster import AcceleratorType, Cluster, Resources, Server
from rota.core.events import (
    ClusterChanged,
    Event,
    JobsDropped,
    JobsFinished,
    JobsParked,
    JobsPinned,
    JobsReturned,
    JobsSubmitted,
    ProgressMade,
    RoundsRan,
    SpeedsLearned,
)
from rota.core.jobs import Jobs, table
from rota.core.lifecycle import JobPhase
from rota.core.ports import Throughputs
from rota.deploy.events import DeployEvent
from rota.deploy.scheduler.job_kinds import JobKind, can_run, kind_of, requests_of
from rota.deploy.scheduler.preemption import preemptible
from rota.deploy.scheduler.queue_holds import PARKED, QueueHold, queue_holds
from rota.deploy.scheduler.records import Job, Node, gpus_on
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.speed_estimates import SpeedEstimates
from rota.deploy.scheduler.speed_names import belief_of, engine_profile
from rota.deploy.scheduler.tenant_limits import Hold, TenantLimits
from rota.deploy.tenants import Tenants
from rota.engine.live_state import LiveState

_MOST_KINDS = 2_000
"""Kinds of jobs of which it is remembered whether they fit; beyond that those of jobs that are gone are forgotten."""


def cluster_now(registry: Registry, declared: Cluster | None, catalogue: Throughputs) -> Cluster | None:
    """The servers that are up, their types from slow to fast; None if there is none.

    One on which nothing new can start has the GPUs that are held there.
    """
    usable = {name: _gpus(registry, name, node) for name, node in sorted(registry.nodes.items()) if node.usable}
    servers = tuple(
        Server(
            id=name,
            type=node.joined.type,
            capacity=Resources(
                gpus,
                node.joined.cpus,
                node.joined.memory_gb,
                node.joined.storage_mbps,
                node.joined.network_gbps,
            ),
            rack=node.joined.rack or "rack0",
            labels=node.joined.labels,
        )
        for name, gpus in usable.items()
        if gpus and (node := registry.nodes[name])
    )
    if not servers:
        return None
    known: tuple[AcceleratorType, ...] = () if declared is None else declared.accelerators
    facts = described((server.type for server in servers), known)
    name = "live" if declared is None else declared.name
    return types_by_speed(Cluster(name=name, servers=servers, accelerators=facts), catalogue)


def _gpus(registry: Registry, name: str, node: Node) -> int:
    return (
        gpus_on(name, (attempt for _, attempt in registry.attempts_on(name)))
        if node.trouble
        else len(node.joined.devices)
    )


def has_servers(registry: Registry) -> bool:
    """Whether there is a server that is up."""
    return any(node.usable and node.joined.devices for node in registry.nodes.values())


class RoundReport:
    """Says what happened since the last round."""

    def __init__(
        self,
        registry: Registry,
        catalogue: Throughputs,
        declared: Cluster | None,
        round_s: float,
        limits: TenantLimits | None = None,
    ) -> None:
        self._limits = limits or TenantLimits(Tenants())
        self._registry = registry
        self._catalogue = catalogue
        self._declared = declared
        self.round_s = round_s
        self._fit: dict[JobKind, bool] = {}
        self._fit_for: Cluster | None = None
        self._estimates = SpeedEstimates(registry.speeds, catalogue)
        self.next_return = math.inf
        """Engine second at which the first of the jobs that wait after a failure is to be tried again."""

    def events(self, state: LiveState, now: float, since: float) -> list[Event]:
        """Events for the engine, in an order in which each makes sense after the ones before."""
        live = list(self._registry.live.values())
        if len(self._fit) > max(_MOST_KINDS, 4 * len(live)):
            self._fit = {}
        known = [job for job in live if job.admitted]
        over = [job for job in known if job.final_phase is not None and job.attempt is None]
        numbers_over = {job.id for job in over}
        rest = [job for job in live if job.id not in numbers_over]
        cluster = cluster_now(self._registry, self._declared, self._catalogue)
        target = state.cluster if cluster is None else cluster
        events: list[Event] = [*self._ran(state, now, since), *self._progress(known, now), *_ended(over, now)]
        held = self.held_back(cluster, now)
        events += self._aside(rest, cluster, held, now)
        if target != state.cluster:
            events.append(ClusterChanged(at=now, cluster=target))
        if cluster is not None:
            allowed = [job for job in rest if job.id not in held]
            events += self._back(allowed, target, now)
            events += self._new(allowed, target, now)
        events += self._speeds(state, now)
        events += self._pins(now)
        later = [job.wait_until for job in rest if job.wait_until > now]
        self.next_return = min(later, default=math.inf)
        return events

    def _ran(self, state: LiveState, now: float, since: float) -> list[Event]:
        """Time that tasks held their slots. Steps are told apart from it: they count when they are saved."""
        placement = state.placement
        if placement is None or len(placement) == 0:
            return []
        active = state.view(now).jobs
        members = np.concatenate([placement.first, placement.second[placement.second >= 0]])
        if not np.isin(members, active).all():
            return []  # somebody left without a plan after it; that round is not accounted
        seconds = np.array([self._held(int(job), now, since) for job in placement.first])
        nothing = np.zeros(len(placement))
        ran = RoundsRan(
            at=now,
            start=since,
            rounds=math.floor(now / self.round_s) - math.floor(since / self.round_s),
            steps=nothing,
            partner_steps=nothing,
            seconds=seconds,
            lost=np.zeros(0, dtype=np.int64),
        )
        return [ran]

    def _held(self, number: int, now: float, since: float) -> float:
        """From the plan on, slots are held for the job, whether it has started or not; until it has ended."""
        job = self._registry.jobs[number]
        over = job.attempt is None and job.ended > 0
        return max(0.0, min(now, job.ended) - since) if over else now - since

    def _progress(self, jobs: list[Job], now: float) -> list[Event]:
        """Steps that were saved, and that the engine does not know of yet."""
        news = [job for job in jobs if job.saved_step > job.reported_steps]
        if not news:
            return []
        news.sort(key=lambda job: job.id)
        steps = np.array([job.saved_step - job.reported_steps for job in news], dtype=np.float64)
        return [ProgressMade(at=now, jobs=_ids(news), steps=steps)]

    def held_back(self, cluster: Cluster | None, now: float) -> Mapping[int, Hold | QueueHold]:
        """Jobs that could start and must not: their owners say so, or their tenant has all that it may have."""

        def could_start(job: Job) -> bool:
            return job.wait_until <= now and cluster is not None and self._fits(job, cluster)

        holds = queue_holds(self._registry, could_start)
        of_tenants = self._limits.held_back(self._registry, lambda job: job.id not in holds and could_start(job))
        return {**of_tenants, **holds}

    def _aside(
        self, jobs: list[Job], cluster: Cluster | None, held: Mapping[int, Hold | QueueHold], now: float
    ) -> list[Event]:
        """Jobs that wait for something no policy should know about."""
        inside = [job for job in jobs if job.admitted and not job.parked]
        stuck = [job for job in inside if cluster is None or not self._fits(job, cluster)]
        ids = {job.id for job in stuck}
        paused = [job for job in inside if job.wait_until > now and job.id not in ids]
        ids |= {job.id for job in paused}
        groups = {"no server that is up could hold it": stuck, "it waits after a failure": paused}
        for job in inside:
            if job.id in held and job.id not in ids:
                groups.setdefault(_why_parked(held[job.id]), []).append(job)
        return [JobsParked(at=now, jobs=_ids(group), reason=reason) for reason, group in groups.items() if group]

    def _back(self, jobs: list[Job], cluster: Cluster, now: float) -> list[Event]:
        ready = [job for job in jobs if job.parked and job.wait_until <= now and self._fits(job, cluster)]
        return [JobsReturned(at=now, jobs=_ids(ready))] if ready else []

    def _new(self, jobs: list[Job], cluster: Cluster, now: float) -> list[Event]:
        """New jobs, one event for each run of consecutive numbers."""
        new = [job for job in jobs if not job.admitted and job.final_phase is None and self._fits(job, cluster)]
        new.sort(key=lambda job: job.id)
        runs: list[list[Job]] = []
        for job in new:
            if runs and runs[-1][-1].id == job.id - 1:
                runs[-1].append(job)
            else:
                runs.append([job])
        return [JobsSubmitted(at=now, first_id=run[0].id, jobs=_table(run)) for run in runs]

    def _pins(self, now: float) -> list[Event]:
        """Jobs that must not be stopped for others from now on, and those that may be again."""
        running = [job for job in self._registry.running.values() if job.admitted and not job.parked]
        pinned = [job for job in running if not preemptible(job, now)]
        numbers = {job.id for job in pinned}
        groups = {
            True: [job for job in pinned if not job.pinned],
            False: [job for job in self._registry.live.values() if job.pinned and job.id not in numbers],
        }
        return [JobsPinned(at=now, jobs=_ids(jobs), pinned=pin) for pin, jobs in groups.items() if jobs]

    def _speeds(self, state: LiveState, now: float) -> list[Event]:
        """What was found out about the speeds of jobs, and the engine does not know yet."""
        rows: list[tuple[str, str, int, str, float]] = []
        for tenant, profile, gpus in self._registry.speeds.kinds(None):
            rates = self._estimates.news(state.classes, profile, tenant, gpus)
            rows += [(profile, tenant, gpus, gpu_type, rate) for gpu_type, rate in sorted(rates.items())]
        if not rows:
            return []
        profiles, beliefs, counts, types, rates_of_rows = zip(*rows, strict=True)
        learned = SpeedsLearned(
            at=now,
            profiles=profiles,
            beliefs=beliefs,
            gpus=np.array(counts, dtype=np.int64),
            types=types,
            rates=np.array(rates_of_rows, dtype=np.float64),
        )
        return [learned]

    def wrong_profiles(self, state: LiveState, now: float) -> list[DeployEvent]:
        """Jobs that run and turned out to be faster or slower than their profile says, each told once."""
        untold = (job for job in self._registry.running.values() if job.profile_wrong is None)
        events = [self._estimates.wrong_profile(job, state.classes, now) for job in untold]
        return [event for event in events if event is not None]

    def _fits(self, job: Job, cluster: Cluster) -> bool:
        if cluster is not self._fit_for:
            if cluster != self._fit_for:
                self._fit = {}
            self._fit_for = cluster
        kind = kind_of(job.spec)
        if kind not in self._fit:
            self._fit[kind] = can_run(self._catalogue, kind, cluster)
        return self._fit[kind]


def _why_parked(hold: Hold | QueueHold) -> str:
    return PARKED[hold] if isinstance(hold, QueueHold) else "its tenant has all that it may have"


def _ended(over: list[Job], now: float) -> list[Event]:
    """Jobs that are done, then those that were given up or cancelled, by reason."""
    events: list[Event] = []
    parked = [job for job in over if job.parked]
    if parked:
        events.append(JobsReturned(at=now, jobs=_ids(parked)))
    done = sorted((job for job in over if job.final_phase is JobPhase.FINISHED), key=lambda job: job.id)
    if done:
        times = np.array([min(job.ended, now) for job in done])
        events.append(JobsFinished(at=now, jobs=_ids(done), finished_at=times))
    reasons: dict[str, list[Job]] = {}
    for job in over:
        if job.final_phase is not JobPhase.FINISHED:
            reasons.setdefault(job.reason, []).append(job)
    events += [JobsDropped(at=now, jobs=_ids(group), reason=reason) for reason, group in reasons.items()]
    return events


def table_of(job: Job) -> Jobs:
    """One job as the engine hears of it."""
    return _table([job])


def _ids(jobs: list[Job]) -> IntArray:
    return np.array(sorted(job.id for job in jobs), dtype=np.int64)


def _table(jobs: list[Job]) -> Jobs:
    deadlines = [job.spec.deadline_s for job in jobs]
    kinds = [kind_of(job.spec) for job in jobs]
    return table(
        profile_names=[engine_profile(job.spec) for job in jobs],
        beliefs=[belief_of(job.spec) for job in jobs],
        gpus=[job.spec.gpus for job in jobs],
        total_steps=[float(job.spec.expected_steps) for job in jobs],
        submitted=[job.submitted for job in jobs],
        weight=[job.spec.weight for job in jobs],
        duration=[deadline or np.nan for deadline in deadlines],
        slo=[1.0 if deadline else np.nan for deadline in deadlines],
        tenant_names=[job.tenant for job in jobs],
        requests=requests_of(kinds),
        labels=[kind.needs.labels for kind in kinds],
        priority=[job.spec.priority for job in jobs],
        allowed_types=[kind.types for kind in kinds],
    )
