"""Which GPUs were held by whom, as changes one after the other, from which the picture of any past round is made.

The process that answers keeps the list and reads on in the journal when somebody asks. A tenant is given the changes of
its own jobs; of others' it is told by how many the GPUs that they hold on a server became more or less.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.deploy.questions.ledger import before
from rota.deploy.scheduler import archive
from rota.deploy.scheduler.archive import JobArchive
from rota.deploy.scheduler.registry import Registry

_OVER = ("JobsFinished", "JobsDropped", "JobsRejected")
KINDS = (
    "NodeJoined", "NodeLost", "NodeDrained", "NodeRemoved", "AttemptStarted", "AttemptEnded", "JobAccepted",
    "JobGivenUp", "CancelAsked", *_OVER,
)  # fmt: skip
"""Events that it reads."""
_MOST_CHANGES = 100_000
"""Kept in memory; older ones go, but for what still holds at the first that stays."""
_ROWS_AT_ONCE = 20_000
"""Events that are read, and changes that are told, in one answer."""

Part = tuple[str, tuple[str, ...]]
"""(server, devices)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something happened to a server or a job."""

    event: int
    at: float
    kind: str
    """One of node, lost, drained, removed, submit, start, end, over."""
    node: str = ""
    job: int = -1
    tenant: str = ""
    parts: tuple[Part, ...] = ()
    values: tuple[Any, ...] = ()

    def told_to(self, tenant: str | None) -> list[list[Any]]:
        """As plain values, as far as a caller may know; None: all."""
        if self.kind in {"node", "lost", "drained", "removed"}:
            return [[self.at, self.kind, self.node, *self.values]]
        if tenant in (None, self.tenant):
            parts = [[[node, list(devices)] for node, devices in self.parts]] if self.kind == "start" else []
            return [[self.at, self.kind, self.job, self.tenant, *self.values, *parts]]
        sign = {"start": 1, "end": -1}.get(self.kind, 0)
        return [[self.at, "others", node, sign * len(devices)] for node, devices in self.parts if sign]


class OccupancyLog:
    """The changes of one journal, read on as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive = JobArchive(path)
        self._begun = False
        self._changes: list[Change] = []
        self._attempts: dict[int, Change] = {}
        """Starts of attempts that have not ended."""
        self._tenants: dict[int, str] = {}
        self.last = 0
        """Number of the last event that was read."""

    def read_on(self, through: int, registry: Registry) -> None:
        """Read some more events, up to a number."""
        while self.last < through:
            rows = self._rows(through)
            if not self._begun:
                self._begun = True
                first = rows[0][1]["at"] if rows else 0.0
                for fields in before([fields for _, fields in rows], registry, float(first)):
                    self._take(0, {"cpus": 0.0, "memory_gb": 0.0, **fields}, registry)
            for number, fields in rows:
                self._take(number, fields, registry)
            self.last = rows[-1][0] if len(rows) == _ROWS_AT_ONCE else through
        if len(self._changes) > 2 * _MOST_CHANGES:
            self._forget_oldest()

    def _rows(self, through: int) -> list[tuple[int, dict[str, Any]]]:
        marks = ", ".join("?" * len(KINDS))
        query = (
            "SELECT seq, body FROM events WHERE seq > ? AND seq <= ? "  # noqa: S608 - marks only
            f"AND kind IN ({marks}) ORDER BY seq LIMIT ?"
        )
        with archive.reading(self._path) as db:
            rows = db.execute(query, (self.last, through, *KINDS, _ROWS_AT_ONCE))
            return [(int(number), json.loads(body)) for number, body in rows]

    def _forget_oldest(self) -> None:
        """Keep the newest, and of those before what still holds at the first of them."""
        cut = len(self._changes) - _MOST_CHANGES
        holds: dict[tuple[str, str | int], Change] = {}
        for change in self._changes[:cut]:
            if change.kind in {"node", "drained"}:
                holds[change.kind, change.node] = change
            elif change.kind in {"lost", "removed"}:
                holds.pop(("node", change.node), None)
            elif change.kind in {"submit", "start"}:
                holds[change.kind, change.job] = change
            else:
                holds.pop(("start", change.job), None)
                if change.kind == "over":
                    holds.pop(("submit", change.job), None)
        kept = sorted(holds.values(), key=lambda change: change.event)
        self._changes = [*kept, *self._changes[cut:]]

    # Events to changes

    def _take(self, number: int, fields: Mapping[str, Any], registry: Registry) -> None:
        kind = str(fields["event"])
        takes: dict[str, Callable[[], list[Change]]] = {
            "AttemptStarted": lambda: self._start(number, fields, registry),
            "AttemptEnded": lambda: self._end(number, fields, registry),
            "JobAccepted": lambda: self._submit(number, fields),
        }
        if kind.startswith("Node"):
            self._changes.append(_of_node(number, kind, fields))
        elif kind in takes:
            self._changes += takes[kind]()
        else:
            jobs = fields["jobs"] if kind in _OVER else [fields["job"]]
            word = {"JobsFinished": "finished", "CancelAsked": "cancelled"}.get(kind, "dropped")
            self._changes += [self._of_job(number, fields, "over", int(job), registry, (word,)) for job in jobs]

    def _start(self, number: int, fields: Mapping[str, Any], registry: Registry) -> list[Change]:
        parts = tuple((str(part["node"]), tuple(map(str, part["devices"]))) for part in fields["parts"])
        started = self._of_job(number, fields, "start", int(fields["job"]), registry, parts=parts)
        self._attempts[started.job] = started
        return [started]

    def _end(self, number: int, fields: Mapping[str, Any], registry: Registry) -> list[Change]:
        job = int(fields["job"])
        started = self._attempts.pop(job, None)
        parts = () if started is None else started.parts
        return [self._of_job(number, fields, "end", job, registry, (str(fields["outcome"]),), parts)]

    def _submit(self, number: int, fields: Mapping[str, Any]) -> list[Change]:
        job = int(fields["job"])
        spec = fields["spec"]
        self._tenants[job] = str(spec.get("tenant") or "default")
        values = (int(spec.get("gpus", 1)), str(spec.get("name", "")))
        at = float(fields["at"])
        return [Change(event=number, at=at, kind="submit", job=job, tenant=self._tenants[job], values=values)]

    def _of_job(
        self,
        number: int,
        fields: Mapping[str, Any],
        kind: str,
        job: int,
        registry: Registry,
        values: tuple[Any, ...] = (),
        parts: tuple[Part, ...] = (),
    ) -> Change:
        tenant = self._tenant(job, registry)
        return Change(
            event=number, at=float(fields["at"]), kind=kind, job=job, tenant=tenant, values=values, parts=parts
        )

    def _tenant(self, job: int, registry: Registry) -> str:
        """Whose a job is; empty, which is nobody's name, if that is not known any more."""
        if job not in self._tenants:
            known = registry.jobs.get(job) or self._archive.job(job)
            self._tenants[job] = "" if known is None else known.tenant
        return self._tenants[job]

    # Answers

    def told(self, after: int, tenant: str | None) -> dict[str, Any]:
        """Changes behind an event, as far as a caller may know; `through` is where to go on."""
        if after == 0:
            first = 0
        else:
            first = next((i for i, change in enumerate(self._changes) if change.event > after), len(self._changes))
        some = self._changes[first : first + _ROWS_AT_ONCE]
        more = first + len(some) < len(self._changes)
        while more and some and self._changes[first + len(some)].event == some[-1].event:
            some.append(self._changes[first + len(some)])  # all changes of an event, or none
        return {
            "changes": [told for change in some for told in change.told_to(tenant)],
            "through": some[-1].event if more else self.last,
            "more": more,
        }


def _of_node(number: int, kind: str, fields: Mapping[str, Any]) -> Change:
    at = float(fields["at"])
    node = str(fields["node"])
    if kind == "NodeJoined":
        values = (str(fields["type"]), len(fields["devices"]))
        return Change(event=number, at=at, kind="node", node=node, values=values)
    if kind == "NodeDrained":
        return Change(event=number, at=at, kind="drained", node=node, values=(bool(fields["drained"]),))
    return Change(event=number, at=at, kind="lost" if kind == "NodeLost" else "removed", node=node)
