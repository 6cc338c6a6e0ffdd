"""What the cluster was used for over time: GPUs, CPUs and memory in equal steps, and who was entitled to what.

Every value is a mean over its step. CPUs and memory are *stranded* while no job holds them on a server all of whose
GPUs are held: a job needs a GPU, so nobody can use them. Entitled and received are those of the `ledger`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.deploy.entitlement import entitled_gpus
from rota.deploy.questions.asking_spans import HOLDS
from rota.deploy.questions.moments import ASKS, SETTINGS, moments_of, weights_from
from rota.deploy.scheduler.records import Job

KINDS = (
    "NodeJoined",
    "NodeLost",
    "NodeDrained",
    "NodeRemoved",
    "AttemptStarted",
    "AttemptResized",
    "AttemptEnded",
    *HOLDS,
    *SETTINGS,
)
"""Events that it reads."""
SUMS = ("gpus", "gpus_held", "cpus", "cpus_held", "cpus_stranded", "memory_gb", "memory_held_gb", "memory_stranded_gb")
_MOST_TENANTS = 12
"""With a line of their own; all others are one line."""
OTHERS = "others"

Sums = tuple[float, ...]


def _zeros() -> defaultdict[str, float]:
    return defaultdict(float)


@dataclass(slots=True)
class _Server:
    """A server and what is held of it."""

    gpus: int
    cpus: float
    memory_gb: float
    up: bool = True
    drained: bool = False
    owners: dict[str, list[str]] = field(default_factory=dict)
    """Tenants of the attempts that hold a device."""
    held: dict[int, tuple[float, float]] = field(default_factory=dict)
    """CPUs and memory, by job."""

    def sums(self) -> Sums:
        """What it adds to each of SUMS."""
        usable = self.up and not self.drained
        gpus_held = len(self.owners)
        cpus_held = sum(cpus for cpus, _ in self.held.values())
        memory_held = sum(memory_gb for _, memory_gb in self.held.values())
        full = usable and gpus_held >= self.gpus
        return (
            float(self.gpus if usable else gpus_held),
            float(gpus_held),
            self.cpus if usable else cpus_held,
            cpus_held,
            max(0.0, self.cpus - cpus_held) if full else 0.0,
            self.memory_gb if usable else memory_held,
            memory_held,
            max(0.0, self.memory_gb - memory_held) if full else 0.0,
        )


@dataclass(slots=True)
class Step:
    """Integrals over one step; GPU-seconds and the like."""

    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * len(SUMS))
    waiting: float = 0.0
    """Jobs that asked and did not run."""
    received: defaultdict[str, float] = field(default_factory=_zeros)
    entitled: defaultdict[str, float] = field(default_factory=_zeros)


class Usage:
    """Reads events in the order of time and cuts time into steps."""

    def __init__(self, *, weights: Mapping[str, float], begins: float, until: float, points: int) -> None:
        self._weights = weights
        self._begins = begins
        self._step_s = max((until - begins) / points, 1e-9)
        self.steps = [Step() for _ in range(points)]
        self._now = -math.inf
        self._servers: dict[str, _Server] = {}
        self._attempts: dict[int, tuple[tuple[str, tuple[str, ...]], ...]] = {}
        self._sums = [0.0] * len(SUMS)
        self._rates = _zeros()
        self._demand: dict[str, float] = {}
        self._asking = 0
        self._entitled: dict[str, float] | None = None
        self._tenants: dict[int, str] = {}

    def read(self, events: Iterable[Mapping[str, Any]], jobs: Iterable[Job], until: float) -> None:
        """Everything up to an engine second."""
        known = list(jobs)
        for job in known:
            self._tenants[job.id] = job.tenant
        for at, fields in moments_of(events, known, until):
            self._pass(at)
            self._take(fields)
        self._pass(until)

    # Time

    def _pass(self, at: float) -> None:
        now = max(self._now, self._begins)
        self._now = max(self._now, at)
        while now < at:
            place = min(int((now - self._begins) / self._step_s), len(self.steps) - 1)
            last = place == len(self.steps) - 1
            end = at if last else min(at, self._begins + (place + 1) * self._step_s)
            if end <= now:  # the edge of a step, as far as numbers can tell
                end = min(at, math.nextafter(now, math.inf))
            self._add(self.steps[place], end - now)
            now = end

    def _add(self, step: Step, seconds: float) -> None:
        step.seconds += seconds
        for place, value in enumerate(self._sums):
            step.sums[place] += value * seconds
        step.waiting += max(0, self._asking - len(self._attempts)) * seconds
        if self._entitled is None:
            self._entitled = entitled_gpus(self._demand, self._weights, self._sums[0])
        for tenant, gpus in self._entitled.items():
            step.entitled[tenant] += gpus * seconds
        for tenant, gpus in self._rates.items():
            step.received[tenant] += gpus * seconds

    # What happened

    def _take(self, fields: Mapping[str, Any]) -> None:
        kind = fields["event"]
        if kind == ASKS:
            tenant = str(fields["tenant"])
            self._demand[tenant] = self._demand.get(tenant, 0.0) + float(fields["gpus"])
            self._asking += int(fields["jobs"])
            self._entitled = None
        elif kind == "AttemptStarted":
            self._start(fields)
        elif kind == "AttemptResized":
            self._resize(fields)
        elif kind == "AttemptEnded":
            self._end(int(fields["job"]))
        elif kind in SETTINGS:
            self._weights = weights_from(fields)
            self._entitled = None
        else:
            self._change_server(kind, fields)

    def _change_server(self, kind: str, fields: Mapping[str, Any]) -> None:
        name = str(fields["node"])
        server = self._servers.get(name)
        if kind == "NodeJoined":
            new = _Server(len(fields["devices"]), float(fields.get("cpus", 0.0)), float(fields.get("memory_gb", 0.0)))
            if server is not None:
                new.drained = server.drained
                new.owners = server.owners
                new.held = server.held
                self._count(server, -1)
            self._servers[name] = new
            self._count(new, 1)
        elif server is not None:
            self._count(server, -1)
            if kind == "NodeDrained":
                server.drained = bool(fields["drained"])
            else:
                server.up = False
            self._count(server, 1)

    def _count(self, server: _Server, sign: int) -> None:
        for place, value in enumerate(server.sums()):
            self._sums[place] += sign * value
        self._entitled = None

    def _start(self, fields: Mapping[str, Any]) -> None:
        number = int(fields["job"])
        self._end(number)
        tenant = self._tenants.get(number, "default")
        held = []
        for part in fields["parts"]:
            server = self._servers.get(str(part["node"]))
            if server is None:
                continue
            self._count(server, -1)
            for device in part["devices"]:
                self._own(server, str(device), tenant, 1)
            server.held[number] = (float(part.get("cpus", 0.0)), float(part.get("memory_gb", 0.0)))
            self._count(server, 1)
            held.append((str(part["node"]), tuple(map(str, part["devices"]))))
        self._attempts[number] = tuple(held)

    def _own(self, server: _Server, device: str, tenant: str, sign: int) -> None:
        """A device gets one more owner, or one less; each has an equal part of it."""
        owners = server.owners.pop(device, [])
        for owner in owners:
            self._rates[owner] -= 1 / len(owners)
        if sign > 0:
            owners.append(tenant)
        elif tenant in owners:
            owners.remove(tenant)
        for owner in owners:
            self._rates[owner] += 1 / len(owners)
        if owners:
            server.owners[device] = owners

    def _resize(self, fields: Mapping[str, Any]) -> None:
        number = int(fields["job"])
        for part in fields["parts"]:
            server = self._servers.get(str(part["node"]))
            if server is not None and number in server.held:
                self._count(server, -1)
                server.held[number] = (float(part["cpus"]), float(part["memory_gb"]))
                self._count(server, 1)

    def _end(self, number: int) -> None:
        tenant = self._tenants.get(number, "default")
        for node, devices in self._attempts.pop(number, ()):
            server = self._servers[node]
            self._count(server, -1)
            for device in devices:
                self._own(server, device, tenant, -1)
            server.held.pop(number, None)
            self._count(server, 1)


def as_fields(usage: Usage, begins: float, until: float, *, tenant: str | None) -> dict[str, Any]:
    """Means over steps; `tenant` is whose line the caller may see, None for all."""
    steps = usage.steps
    shown = _shown_tenants(steps) if tenant is None else [tenant]
    lines = [{"tenant": name, **_line(steps, [name])} for name in shown]
    rest = sorted({name for step in steps for name in (*step.received, *step.entitled)} - set(shown))
    if rest:
        lines.append({"tenant": OTHERS, **_line(steps, rest)})
    return {
        "from_s": begins,
        "to_s": until,
        "waiting_jobs": [_mean(step.waiting, step) for step in steps] if tenant is None else None,
        **{name: [_mean(step.sums[place], step) for step in steps] for place, name in enumerate(SUMS)},
        "tenants": lines,
    }


def _shown_tenants(steps: list[Step]) -> list[str]:
    weight = _zeros()
    for step in steps:
        for tenant, seconds in (*step.received.items(), *step.entitled.items()):
            weight[tenant] += seconds
    ordered = sorted(weight, key=lambda name: (-weight[name], name))
    return sorted(ordered if len(ordered) <= _MOST_TENANTS else ordered[: _MOST_TENANTS - 1])


def _line(steps: list[Step], tenants: list[str]) -> dict[str, list[float]]:
    return {
        "entitled_gpus": [_mean(sum(step.entitled.get(name, 0.0) for name in tenants), step) for step in steps],
        "received_gpus": [_mean(sum(step.received.get(name, 0.0) for name in tenants), step) for step in steps],
    }


def _mean(integral: float, step: Step) -> float:
    return round(integral / step.seconds, 3) if step.seconds > 0 else 0.0
