"""Any past round: changes of who held which GPUs, read from the scheduler once and then as they grow, played again."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rota.dashboard.picture import cells

if TYPE_CHECKING:
    from rota.dashboard.questions import Questions

_MOST_CHANGES = 200_000
_MOST_WAITING = 50
"""Waiting jobs that are named; the oldest."""
_EVERY = 5_000
"""Changes after which a copy of the floor is kept, so that not all have to be played again."""

Change = list[Any]


@dataclass(slots=True)
class _Server:
    type: str
    gpus: int
    up: bool = True
    drained: bool = False
    held: dict[str, list[int]] = field(default_factory=dict)
    others: int = 0
    """GPUs that are held by jobs which the caller may not see."""

    def copy(self) -> _Server:
        held = {device: list(jobs) for device, jobs in self.held.items()}
        return _Server(self.type, self.gpus, self.up, self.drained, held, self.others)


@dataclass(slots=True)
class Floor:
    """All servers and jobs at one moment."""

    servers: dict[str, _Server] = field(default_factory=dict)
    running: dict[int, list[tuple[str, list[str]]]] = field(default_factory=dict)
    jobs: dict[int, tuple[str, int, str]] = field(default_factory=dict)
    """Tenant, GPUs and name of those that are not over."""

    def copy(self) -> Floor:
        """Another one, which may go on by itself."""
        servers = {name: server.copy() for name, server in self.servers.items()}
        return Floor(servers, dict(self.running), dict(self.jobs))

    def apply(self, change: Change) -> None:
        """Go on by one change."""
        kind = change[1]
        if kind in {"node", "lost", "drained", "removed", "others"}:
            self._of_server(kind, change)
        else:
            self._of_job(kind, change)

    def _of_server(self, kind: str, change: Change) -> None:
        name = change[2]
        server = self.servers.get(name)
        if kind == "node":
            new = _Server(change[3], change[4])
            if server is not None:
                new.drained = server.drained
                new.held = server.held
                new.others = server.others
            self.servers[name] = new
        elif server is None:
            return
        elif kind == "removed":
            del self.servers[name]
        elif kind == "lost":
            server.up = False
        elif kind == "drained":
            server.drained = change[3]
        else:
            server.others = max(0, server.others + change[3])

    def _of_job(self, kind: str, change: Change) -> None:
        job = change[2]
        if kind == "submit":
            self.jobs[job] = (change[3], change[4], change[5])
        elif kind == "start":
            self._free(job)
            self.running[job] = [(node, devices) for node, devices in change[4]]
            self.jobs.setdefault(job, (change[3], sum(len(devices) for _, devices in change[4]), ""))
            for node, devices in self.running[job]:
                if node in self.servers:
                    for device in devices:
                        self.servers[node].held.setdefault(device, []).append(job)
        elif kind == "end":
            self._free(job)
        else:
            self.jobs.pop(job, None)

    def _free(self, job: int) -> None:
        for node, devices in self.running.pop(job, ()):
            held = self.servers[node].held if node in self.servers else {}
            for device in devices:
                left = [other for other in held.get(device, ()) if other != job]
                if left:
                    held[device] = left
                else:
                    held.pop(device, None)


class PastRounds:
    """Reads changes when somebody asks, and plays them."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._lock = threading.Lock()
        self._changes: list[Change] = []
        self._times: list[float] = []
        self._copies: list[tuple[int, Floor]] = [(0, Floor())]
        """(number of changes in it, floor)"""
        self._through = 0
        self.span: dict[str, float] = {"from_s": 0.0, "to_s": 0.0, "round_s": 1.0, "time_scale": 1.0}

    def read_on(self) -> None:
        """Ask for what happened since the last time. Raises RotaError."""
        with self._lock:
            more = True
            while more:
                answer = self._questions.occupancy(self._through)
                self._take(answer["changes"])
                self._through = int(answer["through"])
                self.span = {name: float(answer[name]) for name in self.span}
                more = bool(answer["more"])

    def _take(self, changes: Sequence[Change]) -> None:
        """Put changes behind those that are known, in the order of time."""
        last = self._times[-1] if self._times else float("-inf")
        for change in sorted(changes, key=lambda change: float(change[0])):
            change[0] = max(float(change[0]), last)
            self._changes.append(change)
            self._times.append(change[0])
        if len(self._changes) > 2 * _MOST_CHANGES:
            self._forget_oldest()
        while len(self._changes) - self._copies[-1][0] > _EVERY:
            begun, floor = self._copies[-1]
            self._copies.append((begun + _EVERY, _played(floor, self._changes[begun : begun + _EVERY])))

    def _forget_oldest(self) -> None:
        """Keep the newest changes, and the floor at the first of them."""
        cut = len(self._changes) - _MOST_CHANGES
        begun, floor = next(copy for copy in reversed(self._copies) if copy[0] <= cut)
        first = (0, _played(floor, self._changes[begun:cut]))
        self._changes = self._changes[cut:]
        self._times = self._times[cut:]
        self._copies = [first]

    def at(self, at_s: float) -> dict[str, Any]:
        """The round in which an engine second is."""
        with self._lock:
            count = bisect.bisect_right(self._times, at_s)
            begun, floor = next(copy for copy in reversed(self._copies) if copy[0] <= count)
            return {**self.span, "at_s": at_s, **_shown(_played(floor, self._changes[begun:count]))}


def _played(floor: Floor, changes: Iterable[Change]) -> Floor:
    played = floor.copy()
    for change in changes:
        played.apply(change)
    return played


def _shown(floor: Floor) -> dict[str, Any]:
    """A floor as the page wants it."""
    nodes = {}
    for name, server in floor.servers.items():
        row = cells(server.gpus, server.held, len(server.held) + server.others)
        owners = [[job, floor.jobs[job][0]] if job in floor.jobs else job for job in row]
        drained = "draining" if server.held or server.others else "drained"
        nodes[name] = [server.type, "lost" if not server.up else drained if server.drained else "up", "", owners]
    waiting = sorted(job for job in floor.jobs if job not in floor.running)
    return {
        "nodes": nodes,
        "running": len(floor.running),
        "waiting": len(waiting),
        "oldest": [[job, *floor.jobs[job]] for job in waiting[:_MOST_WAITING]],
    }
