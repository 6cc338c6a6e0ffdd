"""The engine's events of a deployment as the log that `rota replay` and `rota plot` read.

In a deployment servers come and go, and types and servers are numbered anew each time. Programs that read logs expect
one numbering, so the exported log is on the cluster of all servers that were ever there, and their coming and going is
told as a change of capacity. Jobs that leave take their tasks out of the plan in force, which the state knows by
itself; the exported log says it as a plan of what is left.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rota.analysis.output import check_writable, whole_file
from rota.core.arrays import same
from rota.core.cluster import Cluster, cluster_fields, cluster_from
from rota.core.errors import ConfigError
from rota.core.events import ClusterChanged, JobsDropped, JobsFinished, JobsParked, JobsRejected, Planned, RoundsRan
from rota.core.placement import Placement, Plan, nobody
from rota.deploy.control import Client
from rota.deploy.events import KINDS
from rota.engine.log import LineReader, LineWriter
from rota.engine.moving import moved, without

_END = "exported while the service goes on"


def export_events(client: Client, path: str | Path) -> int:
    """Write the log, compressed if the name ends in .gz; how many events. Takes an administrator's token."""
    check_writable(path)
    status = client.status()
    removed = max(status.events_removed, status.rounds_removed)
    if removed:
        raise ConfigError(
            f"the log cannot be exported from its start: events up to number {removed} were removed from the journal. "
            "Keep them for longer with --keep-rounds and --keep-events of the scheduler"
        )
    events = [event for _, event in client.events() if event.get("event") not in KINDS]
    lines = [json.dumps(event, separators=(",", ":")) for event in on_one_cluster(events)]
    data = ("\n".join(lines) + "\n").encode()
    with whole_file(path) as temporary:
        temporary.write_bytes(gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)
    return len(lines)


def on_one_cluster(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same events with servers and types numbered as in the cluster of all servers. Raises ConfigError."""
    if not events or events[0]["event"] != "RunStarted":
        raise ConfigError(
            "there is no run to export: no server has come yet, or the token is not an administrator's, who alone sees "
            "the events of the engine"
        )
    first = events[0]
    now = cluster_from(first["config"]["cluster"])
    whole = _union([now, *(cluster_from(e["cluster"]) for e in events if e["event"] == "ClusterChanged")])
    yield {**first, "config": {**first["config"], "cluster": cluster_fields(whole)}}
    yield _capacity(whole, now, first["at"])
    last: dict[str, Any] = {}
    plan = _InForce(now)
    for event in events[1:]:
        shrunk = plan.take(event)
        if shrunk is not None:
            yield _renumbered(shrunk, now, whole)
        if event["event"] == "ClusterChanged":
            now = cluster_from(event["cluster"])
            yield _capacity(whole, now, event["at"])
        elif event["event"] == "Planned":
            last = {**last, **event, "kept": [1] * len(last["first"])} if event.get("same") else event
            yield _renumbered(last, now, whole)
        else:
            yield event
    if events[-1]["event"] != "RunEnded":
        yield {"event": "RunEnded", "at": events[-1]["at"], "reason": _END}


class _InForce:
    """The plan as the state of the deployment has it, and whether the log has told it so."""

    def __init__(self, cluster: Cluster) -> None:
        self._reader = LineReader()
        self._cluster = cluster
        self._placement = nobody()
        self._round = 0
        self._told = True

    def take(self, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Follow one event; before a round that ran with fewer tasks than were planned, the plan of those."""
        event = self._reader.read(dict(fields))
        shrunk = None
        if isinstance(event, Planned):
            self._placement = event.plan.placement
            self._round = event.plan.round
            self._told = True
        elif isinstance(event, ClusterChanged):
            self._shrink(moved(self._placement, self._cluster, event.cluster))
            self._cluster = event.cluster
        elif isinstance(event, (JobsFinished, JobsDropped, JobsRejected, JobsParked)):
            self._shrink(without(self._placement, event.jobs))
        elif isinstance(event, RoundsRan):
            shrunk = None if self._told else self._as_plan(event.start)
            self._round += event.rounds
            self._told = True
        return shrunk

    def _shrink(self, placement: Placement) -> None:
        before = self._placement
        self._placement = placement
        same_tasks = same(before.first, placement.first) and same(before.second, placement.second)
        self._told = self._told and same_tasks

    def _as_plan(self, at: float) -> dict[str, Any]:
        placement = replace(self._placement, kept=np.ones(len(self._placement), dtype=np.bool_))
        plan = Plan(round=self._round, start=at, placement=placement, last=None)
        fields: dict[str, Any] = json.loads(LineWriter().write(Planned(at=at, plan=plan)))
        return fields


def _union(clusters: Iterable[Cluster]) -> Cluster:
    """All servers there ever were; one that came back with another number of GPUs as it was when it had most."""
    servers: dict[tuple[str, str], Any] = {}
    accelerators: dict[str, Any] = {}
    name = "live"
    for cluster in clusters:
        name = cluster.name
        accelerators |= {a.name: a for a in cluster.accelerators}
        for server in cluster.servers:
            before = servers.get((server.id, server.type))
            if before is None or before.capacity.gpus < server.capacity.gpus:
                servers[server.id, server.type] = server
    return Cluster(name=name, servers=tuple(servers.values()), accelerators=tuple(accelerators.values()))


def _capacity(whole: Cluster, now: Cluster, at: float) -> dict[str, Any]:
    there = dict(zip(now.types, now.capacity.tolist(), strict=True))
    return {"event": "CapacityChanged", "at": at, "capacity": [there.get(gpu_type, 0) for gpu_type in whole.types]}


def _renumbered(plan: dict[str, Any], now: Cluster, whole: Cluster) -> dict[str, Any]:
    types = [whole.types.index(gpu_type) for gpu_type in now.types]
    places = {(server.id, server.type): i for i, server in enumerate(whole.ordered)}
    servers = [places[server.id, server.type] for server in now.ordered]
    renumbered = {
        "type": [types[number] for number in plan["type"]],
        "slot_server": [servers[server] for server in plan["slot_server"]],
    }
    return {key: value for key, value in {**plan, **renumbered}.items() if key != "same"}
