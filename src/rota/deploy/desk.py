"""Requests of users and agents, turned into events. Runs in the thread that owns the state.

Every method returns the events that follow and a function that makes the answer once they are committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rota.core.cluster import Cluster
from rota.core.errors import ConfigError, RotaError
from rota.deploy.book import Book, Job
from rota.deploy.boundary import profile_of
from rota.deploy.contacts import Contacts, Report
from rota.deploy.events import (
    Audited,
    CancelAsked,
    DeployEvent,
    JobAccepted,
    NodeDrained,
    NodeJoined,
)
from rota.deploy.reports import read_report
from rota.deploy.speeds import OpenCatalogue
from rota.emulate.catalogue import DeviceTimes

Answer = tuple[list[DeployEvent], Callable[[], Any]]

MOST_GPUS = 65536


class Refused(ConfigError):
    """A request that cannot be granted; `kind` says why in the words of gRPC."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _check_model(spec: Mapping[str, Any], gpus: int) -> None:
    """Raise a RotaError if the model of an emulated job is none of the device catalogue, or cannot be divided."""
    model, batch = spec.get("model"), int(spec.get("batch") or 0)
    if not model:
        if batch:
            raise ConfigError(f"a batch of {batch} says nothing without a model; give one, or a profile instead")
        return
    if not spec.get("emulated"):
        raise ConfigError(f"model {model!r} is for emulated jobs; a command says by itself what it trains")
    if batch < gpus:
        raise ConfigError(f"model {model!r} on {gpus} GPUs needs a batch of at least {gpus}, not {batch}")
    DeviceTimes().memory(model, batch / gpus)


class Desk:
    """Takes requests."""

    def __init__(self, book: Book, contacts: Contacts, speeds: OpenCatalogue, declared: Cluster | None) -> None:
        self._book, self._contacts, self._speeds = book, contacts, speeds
        self._declared = None if declared is None else {server.id: server for server in declared.servers}

    def submit(self, specs: Sequence[Mapping[str, Any]], by: str, request: str, now: float) -> Answer:
        """Accept jobs; the same request twice is accepted once."""
        known = self._book.requests.get(request) if request else None
        if known is not None:
            return [], lambda: list(known)
        checked = [self._checked(spec) for spec in specs]
        first = self._book.next_job
        events: list[DeployEvent] = [
            JobAccepted(at=now, job=first + i, spec=spec, by=by, request=request) for i, spec in enumerate(checked)
        ]
        return events, lambda: list(range(first, first + len(checked)))

    def _checked(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(spec)
        name = f"job {given.get('name')!r}" if given.get("name") else "the job"
        gpus = int(given.get("gpus") or 1)
        if not 1 <= gpus <= MOST_GPUS:
            raise Refused("INVALID_ARGUMENT", f"{name} asks for {gpus} GPUs; give a number from 1 on")
        if not (given.get("argv") or given.get("emulated")):
            raise Refused("INVALID_ARGUMENT", f"{name} has nothing to run: give a command, or make it an emulated job")
        steps = int(given.get("steps") or 0)
        if steps < 0 or (given.get("emulated") and steps == 0):
            raise Refused("INVALID_ARGUMENT", f"{name} has {steps} steps; give a number above 0")
        if float(given.get("weight") or 1.0) <= 0:
            raise Refused("INVALID_ARGUMENT", f"{name} has weight {given['weight']}; give a number above 0")
        if given.get("ranks") not in (None, "", "server", "gpu"):
            raise Refused("INVALID_ARGUMENT", f"{name}: ranks is {given['ranks']!r}; give server or gpu")
        try:
            profile = self._speeds.named(profile_of(given))
            self._speeds.check(profile, gpus)
            _check_model(given, gpus)
        except RotaError as error:
            raise Refused("INVALID_ARGUMENT", f"{name}: {error}") from error
        given |= {"gpus": gpus, "steps": steps or 3600, "counted": steps > 0, "profile": profile}
        given["max_restarts"] = int(given["max_restarts"]) if given.get("max_restarts") is not None else 3
        return given

    def cancel(self, numbers: Sequence[int], by: str, tenant: str | None, now: float) -> Answer:
        """End jobs. `tenant` limits it to jobs of one tenant: others do not exist for it."""
        jobs = [self.job(number, tenant) for number in numbers]
        events: list[DeployEvent] = [
            CancelAsked(at=now, job=job.id, by=by) for job in jobs if not job.over and not job.verdict
        ]
        over = [job.id for job in jobs if job.over or job.verdict]
        return events, lambda: ([job.id for job in jobs if job.id not in over], over)

    def job(self, number: int, tenant: str | None) -> Job:
        """A job by number, as far as the caller may see it."""
        job = self._book.jobs.get(number)
        if job is None or (tenant is not None and job.tenant != tenant):
            raise Refused("NOT_FOUND", f"there is no job {number}")
        return job

    def register(self, given: Mapping[str, Any], now: float) -> Answer:
        """A server comes, or comes back."""
        node = str(given["node"])
        if not node or not given["type"]:
            raise Refused("INVALID_ARGUMENT", "a node needs a name and an accelerator type")
        fields = dict(given)
        if self._declared is not None:
            server = self._declared.get(node)
            if server is None:
                names = ", ".join(sorted(self._declared)[:8])
                raise Refused("FAILED_PRECONDITION", f"the cluster file has no server {node!r}; it has {names}, ...")
            have = len(fields["devices"])
            if server.type != fields["type"] or server.capacity.gpus > have:
                raise Refused(
                    "FAILED_PRECONDITION", f"server {node!r} should have {server.capacity.gpus} x {server.type} "
                    f"by the cluster file; the agent offers {have} x {fields['type']}",
                )  # fmt: skip
            fields["devices"] = fields["devices"][: server.capacity.gpus]
            fields["rack"] = server.rack
            for name, value in (("cpus", server.capacity.cpus), ("memory_gb", server.capacity.memory_gb)):
                fields[name] = value or fields[name]
        session = uuid.uuid4().hex
        self._contacts.renew(node)
        return [NodeJoined(at=now, session=session, **fields)], lambda: session

    def report(self, report: Report, now: float, scale: float) -> Answer:
        """What a node runs; False if it has to register again."""
        node = self._book.nodes.get(report.node)
        if node is None or node.lost or node.joined.session != report.session:
            return [], lambda: False
        fresh = self._contacts.take(report)
        return (read_report(self._book, self._contacts, report.node, now, scale) if fresh else []), lambda: True

    def drain(self, name: str, by: str, now: float, *, undo: bool) -> Answer:
        """Keep jobs away from a node, or let them back."""
        node = self._book.nodes.get(name)
        if node is None:
            known = ", ".join(sorted(self._book.nodes)) or "none yet"
            raise Refused("NOT_FOUND", f"there is no node {name!r}; known: {known}")
        events: list[DeployEvent] = []
        if node.drained == undo:
            events.append(NodeDrained(at=now, node=name, drained=not undo, by=by))
        return events, lambda: node

    def audit(self, who: str, what: str, times: int, now: float) -> Answer:
        """Write down that somebody was refused."""
        return [Audited(at=now, who=who, what=what, times=times)], lambda: None

    def ask(self, question: Callable[[Book], Any]) -> Answer:
        """Look at the book."""
        return [], lambda: question(self._book)
