"""From the placement in force to what every attempt should do: start, stop, go on with other CPUs.

Level-triggered: the same question at any time, after any crash, leads to the same place. Nothing here has effects; the
answer is a list of events.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from rota.core.cluster import Cluster
from rota.core.placement import Placement
from rota.deploy.book import Attempt, Book, Job, Part
from rota.deploy.events import (
    AttemptResized,
    AttemptStarted,
    AttemptStopping,
    DeployEvent,
    LeasesExtended,
)

_FIRST_PORT, _PORTS = 29500, 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What a job should hold in this round."""

    shape: tuple[tuple[str, int], ...]
    """(node, GPUs), the server with most of them first."""
    cpus: Mapping[str, float]
    memory_gb: Mapping[str, float]
    partner: int
    rate: float
    """Steps per engine second that the profiles promise."""


def wants(placement: Placement | None, cluster: Cluster, rates: Mapping[int, float]) -> dict[int, Want]:
    """What every job of the placement should hold."""
    if placement is None:
        return {}
    found: dict[int, Want] = {}
    servers = cluster.ordered
    for task in range(len(placement)):
        slots = range(int(placement.slot_start[task]), int(placement.slot_start[task + 1]))
        held = {servers[int(placement.slot_server[s])].id: int(placement.slot_gpus[s]) for s in slots}
        shape = tuple(sorted(held.items(), key=lambda part: (-part[1], part[0])))
        total = sum(held.values())
        first, second = int(placement.first[task]), int(placement.second[task])
        cpus = _beside(placement.cpus, cluster.server_cpus, placement, task, held, cluster)
        memory = _beside(placement.memory_gb, cluster.server_memory_gb, placement, task, held, cluster)
        for job, partner in ((first, second), (second, first)):
            if job >= 0 and total:
                rate = rates.get(job, 0.0)
                found[job] = Want(shape=shape, cpus=cpus, memory_gb=memory, partner=partner, rate=rate)
    return found


def _beside(
    given: np.ndarray | None,
    of_server: np.ndarray,
    placement: Placement,
    task: int,
    held: Mapping[str, int],
    cluster: Cluster,
) -> dict[str, float]:
    """CPUs or memory on every server of a task: what the mechanism gave, or the share of its GPUs."""
    total = sum(held.values())
    if given is not None and not math.isnan(float(given[task])):
        return {node: float(given[task]) * gpus / total for node, gpus in held.items()}
    at = [int(s) for s in placement.slot_server[placement.slot_start[task] : placement.slot_start[task + 1]]]
    share = {}
    for server in at:
        node = cluster.ordered[server]
        share[node.id] = float(of_server[server]) * held[node.id] / max(node.capacity.gpus, 1)
    return share


def reconcile(
    book: Book, wanted: Mapping[int, Want], now: float, lease_until: float, silent: Container[str] = ()
) -> list[DeployEvent]:
    """What has to be begun now so that attempts become what is wanted; nothing new starts on a silent server."""
    events: list[DeployEvent] = []
    for job in book.running.values():
        attempt = job.attempt
        if attempt is None or attempt.stopping:
            continue
        want = None if job.verdict else wanted.get(job.id)
        if want is None or _shape(attempt) != want.shape:
            reason = job.verdict or ("preempted" if want is None else "moved")
            events.append(AttemptStopping(at=now, job=job.id, epoch=attempt.epoch, reason=reason))
        elif _differs(attempt, want):
            parts = [_resized(part, want).fields() for part in attempt.parts]
            events.append(AttemptResized(at=now, job=job.id, epoch=attempt.epoch, parts=parts, rate=want.rate))
    stopping = {e.job for e in events if isinstance(e, AttemptStopping)}
    return events + _starts(book, wanted, stopping, now, lease_until, silent)


def _starts(
    book: Book,
    wanted: Mapping[int, Want],
    stopping: set[int],
    now: float,
    lease_until: float,
    silent: Container[str],
) -> list[DeployEvent]:
    held = _held(book)
    begun: dict[int, list[Part]] = {}
    events: list[DeployEvent] = []
    for number in sorted(wanted):
        job, want = book.live.get(number), wanted[number]
        if job is None or job.attempt is not None or job.verdict or job.wait_until > now:
            continue
        if any(node in silent for node, _ in want.shape):
            continue  # a new lease there would only put off that the server is given up
        shared = _partner_parts(book, want, stopping, begun)
        parts = _choose(book, want, held) if shared is None else shared
        if parts is None:
            continue
        begun[number] = parts
        for part in parts:
            held.setdefault(part.node, set()).update(part.devices)
        events.append(_start(job, parts, want, now, lease_until))
    return events


def _start(job: Job, parts: list[Part], want: Want, now: float, lease_until: float) -> AttemptStarted:
    epoch = job.epoch + 1
    return AttemptStarted(
        at=now,
        job=job.id,
        epoch=epoch,
        parts=[part.fields() for part in parts],
        resume=job.checkpoint,
        resume_step=job.credited,
        lease_until=lease_until,
        rate=want.rate,
        port=_FIRST_PORT + (job.id * 31 + epoch) % _PORTS,
    )


def _partner_parts(book: Book, want: Want, stopping: set[int], begun: Mapping[int, list[Part]]) -> list[Part] | None:
    """The parts of the job it shares GPUs with, if that one holds them already."""
    if want.partner < 0:
        return None
    if want.partner in begun:
        return [_resized(part, want) for part in begun[want.partner]]
    partner = book.live.get(want.partner)
    attempt = None if partner is None else partner.attempt
    if attempt is None or attempt.stopping or want.partner in stopping or _shape(attempt) != want.shape:
        return None
    return [_resized(part, want) for part in attempt.parts]


def _choose(book: Book, want: Want, held: Mapping[str, set[str]]) -> list[Part] | None:
    """Free devices for a job; None if its servers are not free or not up yet."""
    parts = []
    for node, gpus in want.shape:
        known = book.nodes.get(node)
        if known is None or not known.usable:
            return None
        free = [d for d in known.joined.devices if d not in held.get(node, ())]
        if len(free) < gpus:
            return None
        part = Part(node=node, devices=free[:gpus], cpus=0.0, memory_gb=0.0)
        parts.append(_resized(part, want))
    return parts


def _held(book: Book) -> dict[str, set[str]]:
    """Devices in use, by node: those of stopping attempts, too."""
    held: dict[str, set[str]] = {}
    for job in book.running.values():
        if job.attempt is not None:
            for part in job.attempt.parts:
                held.setdefault(part.node, set()).update(part.devices)
    return held


def _shape(attempt: Attempt) -> tuple[tuple[str, int], ...]:
    return tuple((part.node, len(part.devices)) for part in attempt.parts)


def _resized(part: Part, want: Want) -> Part:
    cpus, memory = want.cpus[part.node], want.memory_gb[part.node]
    return Part(node=part.node, devices=part.devices, cpus=cpus, memory_gb=memory)


def _differs(attempt: Attempt, want: Want) -> bool:
    if abs(attempt.rate - want.rate) > 1e-9 * max(attempt.rate, want.rate):
        return True
    return any(
        abs(part.cpus - want.cpus[part.node]) > 1e-6 or abs(part.memory_gb - want.memory_gb[part.node]) > 1e-6
        for part in attempt.parts
    )


def extended(book: Book, reachable: set[str], now: float, until: float) -> LeasesExtended | None:
    """Longer leases for attempts that go on and whose agents are all heard of."""
    going = [
        [job.id, job.attempt.epoch]
        for job in book.running.values()
        if job.attempt is not None
        and not job.attempt.stopping
        and job.attempt.lease_until < until
        and all(node in reachable for node in job.attempt.nodes)
    ]
    return LeasesExtended(at=now, until=until, attempts=going) if going else None
