"""Who had how much: GPU-hours by tenant, entitled and received, and what became of the rest.

From the events of attempts and servers, which say to the moment which GPUs were held by whom. In every stretch between
two events

    capacity = received of all tenants + idle = entitled of all tenants + unclaimed

A tenant is entitled to G_t = min(D_t, l W_t): as much as it asks for, but no more than its part by weight while others
ask for more than theirs (as in `policies/fair_by_tenant`). Two jobs on the same GPUs have half of them each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.deploy.entitlement import entitled_gpus
from rota.deploy.questions.asking_spans import HOLDS
from rota.deploy.questions.moments import ASKS, SETTINGS, moments_of, weights_from
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry

KINDS = (
    "NodeJoined",
    "NodeLost",
    "NodeDrained",
    "NodeRemoved",
    "AttemptStarted",
    "AttemptEnded",
    *HOLDS,
    *SETTINGS,
)
"""Events that it reads."""


@dataclass(slots=True, kw_only=True)
class Account:
    """One tenant; GPU-seconds."""

    entitled: float = 0.0
    received: float = 0.0
    lost: float = 0.0
    cost: float = 0.0
    unpriced: float = 0.0
    """Received of types whose price nobody has said."""


@dataclass(slots=True)
class _Server:
    gpu_type: str
    devices: frozenset[str]
    up: bool = True
    drained: bool = False
    owners: dict[str, list[str]] = field(default_factory=dict)
    """Tenants of the attempts that hold a device."""

    @property
    def usable(self) -> bool:
        return self.up and not self.drained


@dataclass(frozen=True, slots=True)
class _Attempt:
    tenant: str
    devices: tuple[tuple[str, str], ...]
    """(server, device)"""


@dataclass(kw_only=True)
class Ledger:
    """Adds up stretches of time."""

    weights: Mapping[str, float]
    """Those of the moment; until an event tells of others."""
    prices: Mapping[str, float]
    """Of a GPU-hour, by type, as far as they are known."""
    begins: float
    """Engine second from which on it counts."""
    accounts: dict[str, Account] = field(default_factory=dict)
    capacity: float = 0.0
    idle: float = 0.0
    unclaimed: float = 0.0
    now: float = 0.0

    def __post_init__(self) -> None:
        self._servers: dict[str, _Server] = {}
        self._attempts: dict[int, _Attempt] = {}
        self._rates: dict[tuple[str, str], float] = {}
        """GPUs held, by tenant and type."""
        self._demand: dict[str, int] = {}
        self._tenants: dict[int, str] = {}
        self._gpus: dict[int, int] = {}

    def read(self, events: Iterable[Mapping[str, Any]], jobs: Iterable[Job], until: float) -> None:
        """Everything up to an engine second."""
        known = list(jobs)
        for job in known:
            self._tenants[job.id] = job.tenant
            self._gpus[job.id] = job.spec.gpus
        for at, fields in moments_of(events, known, until):
            self._pass(at)
            self._take(fields)
        self._pass(until)

    # Time

    def _pass(self, at: float) -> None:
        seconds = at - max(self.now, self.begins)
        self.now = max(self.now, at)
        if seconds <= 0:
            return
        up = sum(len(server.devices) for server in self._servers.values() if server.usable)
        beyond = sum(len(server.owners) for server in self._servers.values() if not server.usable)
        held = sum(len(server.owners) for server in self._servers.values())
        capacity = float(up + beyond)
        self.capacity += capacity * seconds
        self.idle += (capacity - held) * seconds
        for (tenant, gpu_type), gpus in self._rates.items():
            self._receive(tenant, gpu_type, gpus * seconds)
        for tenant, gpus in entitled_gpus(self._demand, self.weights, capacity).items():
            self._account(tenant).entitled += gpus * seconds
            capacity -= gpus
        self.unclaimed += capacity * seconds

    def _receive(self, tenant: str, gpu_type: str, seconds: float) -> None:
        account = self._account(tenant)
        account.received += seconds
        if gpu_type in self.prices:
            account.cost += seconds / 3600.0 * self.prices[gpu_type]
        else:
            account.unpriced += seconds

    def _account(self, tenant: str) -> Account:
        return self.accounts.setdefault(tenant, Account())

    # What happened

    def _take(self, fields: Mapping[str, Any]) -> None:
        kind = fields["event"]
        if kind == ASKS:
            tenant = str(fields["tenant"])
            self._demand[tenant] = self._demand.get(tenant, 0) + int(fields["gpus"])
        elif kind == "AttemptStarted":
            self._start(fields)
        elif kind == "AttemptEnded":
            self._end(fields)
        elif kind in SETTINGS:
            self.weights = weights_from(fields)
        else:
            self._server(kind, fields)

    def _server(self, kind: str, fields: Mapping[str, Any]) -> None:
        name = str(fields["node"])
        known = self._servers.get(name)
        if kind == "NodeJoined":
            drained = known is not None and known.drained
            owners = {} if known is None else known.owners
            self._servers[name] = _Server(str(fields["type"]), frozenset(fields["devices"]), True, drained, owners)
        elif known is not None and kind == "NodeDrained":
            known.drained = bool(fields["drained"])
        elif known is not None:  # lost or removed
            known.up = False

    def _start(self, fields: Mapping[str, Any]) -> None:
        number = int(fields["job"])
        devices = [(str(part["node"]), str(device)) for part in fields["parts"] for device in part["devices"]]
        there = tuple(place for place in devices if place[0] in self._servers)
        attempt = _Attempt(self._tenants.get(number, "default"), there)
        self._attempts[number] = attempt
        self._hold(attempt, 1)

    def _hold(self, attempt: _Attempt, change: int) -> None:
        """GPUs get one more owner, or one less."""
        for node, device in attempt.devices:
            server = self._servers[node]
            owners = server.owners.pop(device, [])
            self._rate(server.gpu_type, owners, -1)
            if change > 0:
                owners.append(attempt.tenant)
            else:
                owners.remove(attempt.tenant)
            self._rate(server.gpu_type, owners, 1)
            if owners:
                server.owners[device] = owners

    def _rate(self, gpu_type: str, owners: list[str], sign: int) -> None:
        for owner in owners:
            key = (owner, gpu_type)
            self._rates[key] = self._rates.get(key, 0.0) + sign / len(owners)

    def _end(self, fields: Mapping[str, Any]) -> None:
        number = int(fields["job"])
        attempt = self._attempts.pop(number, None)
        if attempt is not None:
            self._hold(attempt, -1)
        lost_s = float(fields.get("lost_s", 0.0))
        if lost_s > 0 and float(fields["at"]) >= self.begins:
            self._account(self._tenants.get(number, "default")).lost += lost_s * self._gpus.get(number, 1)


def before(rows: Iterable[Mapping[str, Any]], registry: Registry, begins: float) -> list[Mapping[str, Any]]:
    """What is there since before the first event that was kept: servers and attempts as the registry has them."""
    told = list(rows)
    joined = {row["node"] for row in told if row["event"] == "NodeJoined"}
    started = {(row["job"], row["epoch"]) for row in told if row["event"] == "AttemptStarted"}
    missing: list[Mapping[str, Any]] = [
        {
            "event": "NodeJoined",
            "at": begins,
            "node": name,
            "type": node.joined.type,
            "devices": node.joined.devices,
            "cpus": node.joined.cpus,
            "memory_gb": node.joined.memory_gb,
        }
        for name, node in registry.nodes.items()
        if name not in joined and not node.lost
    ]
    for job in registry.running.values():
        attempt = job.attempt
        if attempt is not None and (job.id, attempt.epoch) not in started:
            parts = [dataclasses.asdict(part) for part in attempt.parts]
            at = max(attempt.started, begins)
            missing.append({"event": "AttemptStarted", "at": at, "job": job.id, "epoch": attempt.epoch, "parts": parts})
    return missing


def as_fields(ledger: Ledger, *, tenant: str | None) -> dict[str, Any]:
    """The accounts in GPU-hours; `tenant` is whose account the caller may see, None for all."""
    rows = [{"tenant": name, **_row(account)} for name, account in sorted(ledger.accounts.items())]
    ratios = [_ratio(account) for account in ledger.accounts.values() if account.entitled > 0]
    if tenant is not None:
        others = _sum(account for name, account in ledger.accounts.items() if name != tenant)
        rows = [row for row in rows if row["tenant"] == tenant]
        rows += [{"tenant": "others", **_row(others)}] if len(ledger.accounts) > len(rows) else []
    return {
        "from_s": ledger.begins,
        "to_s": ledger.now,
        "capacity_gpu_h": ledger.capacity / 3600.0,
        "idle_gpu_h": ledger.idle / 3600.0,
        "unclaimed_gpu_h": ledger.unclaimed / 3600.0,
        "fairness": _jain(ratios),
        "tenants": rows,
    }


def _row(account: Account) -> dict[str, Any]:
    return {
        "entitled_gpu_h": account.entitled / 3600.0,
        "received_gpu_h": account.received / 3600.0,
        "owed_gpu_h": (account.entitled - account.received) / 3600.0,
        "received_of_entitled": _ratio(account) if account.entitled > 0 else None,
        "lost_gpu_h": account.lost / 3600.0,
        "cost": None if account.unpriced > 0 else account.cost,
    }


def _ratio(account: Account) -> float:
    return account.received / account.entitled


def _sum(accounts: Iterable[Account]) -> Account:
    total = Account()
    for account in accounts:
        total.entitled += account.entitled
        total.received += account.received
        total.lost += account.lost
        total.cost += account.cost
        total.unpriced += account.unpriced
    return total


def _jain(ratios: list[float]) -> float | None:
    """Jain's index of received over entitled: 1 if all tenants have the same part of what they are entitled to."""
    squares = sum(ratio * ratio for ratio in ratios)
    return sum(ratios) ** 2 / (len(ratios) * squares) if squares > 0 else None
