"""From the placement in force to what every attempt should do: start, stop, go on with other CPUs.

Level-triggered: the same question at any time, after any crash, leads to the same place. Pure: the answer is a list of
events.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rota.core.cluster import Cluster
from rota.core.lifecycle import STOP_REASON_OF_FINAL_PHASE, StopReason
from rota.core.placement import Placement
from rota.deploy.events import AttemptResized, AttemptStarted, AttemptStopping, DeployEvent, Part
from rota.deploy.scheduler.records import Attempt, Job
from rota.deploy.scheduler.registry import Registry

_FIRST_PORT = 29500
_PORTS = 2000
_SAME_RATE = 1e-9
"""Relative; a rate that differs by less is the same."""
_SAME_AMOUNT = 1e-6
"""CPUs or GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredAttempt:
    """What a job should hold in this round."""

    gpus_by_node: tuple[tuple[str, int], ...]
    """(node, GPUs), the server with most of them first."""
    cpus: Mapping[str, float]
    """By node."""
    memory_gb: Mapping[str, float]
    """By node."""
    partner: int
    """The job with which it shares its GPUs; -1: none."""
    rate: float
    """Steps per engine second that the profiles promise."""


def desired_attempts(
    placement: Placement | None, cluster: Cluster, rates: Mapping[int, float]
) -> dict[int, DesiredAttempt]:
    """What every job of the placement should hold."""
    desired: dict[int, DesiredAttempt] = {}
    for task in range(0 if placement is None else len(placement)):
        assert placement is not None  # there are tasks
        gpus = _gpus_by_node(placement, cluster, task)
        if not sum(gpus.values()):
            continue
        first = int(placement.first[task])
        second = int(placement.second[task])
        of_task = DesiredAttempt(
            gpus_by_node=tuple(sorted(gpus.items(), key=lambda part: (-part[1], part[0]))),
            cpus=_beside_gpus(placement.cpus, cluster.server_cpus, placement, task, gpus, cluster),
            memory_gb=_beside_gpus(placement.memory_gb, cluster.server_memory_gb, placement, task, gpus, cluster),
            partner=-1,
            rate=0.0,
        )
        for job, partner in ((first, second), (second, first)):
            if job >= 0:
                desired[job] = replace(of_task, partner=partner, rate=rates.get(job, 0.0))
    return desired


def _gpus_by_node(placement: Placement, cluster: Cluster, task: int) -> dict[str, int]:
    slots = range(int(placement.slot_start[task]), int(placement.slot_start[task + 1]))
    return {cluster.ordered[int(placement.slot_server[slot])].id: int(placement.slot_gpus[slot]) for slot in slots}


def _beside_gpus(
    given: np.ndarray | None,
    of_server: np.ndarray,
    placement: Placement,
    task: int,
    gpus: Mapping[str, int],
    cluster: Cluster,
) -> dict[str, float]:
    """CPUs or memory on every server of a task: what the mechanism gave, or the share of its GPUs."""
    total = sum(gpus.values())
    if given is not None and not math.isnan(float(given[task])):
        return {node: float(given[task]) * count / total for node, count in gpus.items()}
    slots = slice(int(placement.slot_start[task]), int(placement.slot_start[task + 1]))
    share = {}
    for index in placement.slot_server[slots].tolist():
        server = cluster.ordered[index]
        share[server.id] = float(of_server[index]) * gpus[server.id] / max(server.capacity.gpus, 1)
    return share


def reconcile(
    registry: Registry,
    desired: Mapping[int, DesiredAttempt],
    now: float,
    lease_until: float,
    silent: Container[str] = (),
) -> list[DeployEvent]:
    """What has to be begun now so that attempts become what is desired; nothing new starts on a silent server."""
    changes = _stops_and_resizes(registry, desired, now)
    stopping = {event.job for event in changes if isinstance(event, AttemptStopping)}
    starts = _Starts(registry, desired, stopping, silent)
    return [*changes, *starts.events(now, lease_until)]


def _stops_and_resizes(
    registry: Registry, desired: Mapping[int, DesiredAttempt], now: float
) -> list[AttemptStopping | AttemptResized]:
    events: list[AttemptStopping | AttemptResized] = []
    for job in registry.running.values():
        attempt = job.attempt
        if attempt is None or attempt.stopping:
            continue
        want = None if job.final_phase or job.held_by else desired.get(job.id)
        if want is None or _shape(attempt) != want.gpus_by_node:
            reason = _stop_reason(job, want)
            events.append(AttemptStopping(at=now, job=job.id, epoch=attempt.epoch, reason=reason))
        elif _differs(attempt, want):
            parts = tuple(_resized(part, want) for part in attempt.parts)
            events.append(AttemptResized(at=now, job=job.id, epoch=attempt.epoch, parts=parts, rate=want.rate))
    return events


def _stop_reason(job: Job, want: DesiredAttempt | None) -> StopReason:
    if job.final_phase is not None:
        return STOP_REASON_OF_FINAL_PHASE[job.final_phase]
    if job.held_by:
        return StopReason.HELD
    return StopReason.PREEMPTED if want is None else StopReason.MOVED


@dataclass(slots=True)
class _Starts:
    """Attempts that can start now: jobs one after the other take devices that are free."""

    registry: Registry
    desired: Mapping[int, DesiredAttempt]
    stopping: set[int]
    silent: Container[str]
    held: dict[str, set[str]] = field(default_factory=dict)
    """Devices in use, by node: those of stopping attempts, too."""
    begun: dict[int, tuple[Part, ...]] = field(default_factory=dict)

    def events(self, now: float, lease_until: float) -> list[AttemptStarted]:
        """One for each job that can start."""
        for job in self.registry.running.values():
            self._hold(() if job.attempt is None else job.attempt.parts)
        events: list[AttemptStarted] = []
        for number in sorted(self.desired):
            job_or_none = self.registry.live.get(number)
            if job_or_none is None or not self._may_start(job_or_none, now):
                continue
            parts = self._parts(self.desired[number])
            if parts is None:
                continue
            self.begun[number] = parts
            self._hold(parts)
            epoch = max(job_or_none.epoch + 1, self.registry.first_epoch)
            events.append(_start(job_or_none, epoch, parts, self.desired[number].rate, now, lease_until))
        return events

    def _may_start(self, job: Job, now: float) -> bool:
        if job.attempt is not None or job.final_phase is not None or job.wait_until > now or job.held_by:
            return False
        # A new lease on a silent server would only put off that the server is given up.
        return not any(node in self.silent for node, _ in self.desired[job.id].gpus_by_node)

    def _hold(self, parts: tuple[Part, ...]) -> None:
        for part in parts:
            self.held.setdefault(part.node, set()).update(part.devices)

    def _parts(self, want: DesiredAttempt) -> tuple[Part, ...] | None:
        shared = self._parts_of_partner(want)
        return self._free_parts(want) if shared is None else shared

    def _parts_of_partner(self, want: DesiredAttempt) -> tuple[Part, ...] | None:
        """The parts of the job it shares GPUs with, if that one holds them already."""
        if want.partner < 0:
            return None
        if want.partner in self.begun:
            return tuple(_resized(part, want) for part in self.begun[want.partner])
        partner = self.registry.live.get(want.partner)
        attempt = None if partner is None else partner.attempt
        if attempt is None or attempt.stopping or want.partner in self.stopping:
            return None
        return tuple(_resized(part, want) for part in attempt.parts) if _shape(attempt) == want.gpus_by_node else None

    def _free_parts(self, want: DesiredAttempt) -> tuple[Part, ...] | None:
        """Free devices for a job; None if its servers are not free or not up yet."""
        parts = []
        for name, gpus in want.gpus_by_node:
            node = self.registry.nodes.get(name)
            if node is None or not node.usable:
                return None
            free = [device for device in node.joined.devices if device not in self.held.get(name, ())]
            if len(free) < gpus:
                return None
            part = Part(node=name, devices=tuple(free[:gpus]), cpus=0.0, memory_gb=0.0)
            parts.append(_resized(part, want))
        return tuple(parts)


def _start(
    job: Job, epoch: int, parts: tuple[Part, ...], rate: float, now: float, lease_until: float
) -> AttemptStarted:
    return AttemptStarted(
        at=now,
        job=job.id,
        epoch=epoch,
        parts=parts,
        resume=job.checkpoint,
        resume_step=job.saved_step,
        lease_until=lease_until,
        rate=rate,
        port=_FIRST_PORT + (job.id * 31 + epoch) % _PORTS,
    )


def _shape(attempt: Attempt) -> tuple[tuple[str, int], ...]:
    return tuple((part.node, len(part.devices)) for part in attempt.parts)


def _resized(part: Part, want: DesiredAttempt) -> Part:
    return replace(part, cpus=want.cpus[part.node], memory_gb=want.memory_gb[part.node])


def _differs(attempt: Attempt, want: DesiredAttempt) -> bool:
    if abs(attempt.rate - want.rate) > _SAME_RATE * max(attempt.rate, want.rate):
        return True
    return any(
        abs(part.cpus - want.cpus[part.node]) > _SAME_AMOUNT
        or abs(part.memory_gb - want.memory_gb[part.node]) > _SAME_AMOUNT
        for part in attempt.parts
    )
