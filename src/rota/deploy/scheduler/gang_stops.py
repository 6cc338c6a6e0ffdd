"""Gangs over several servers: the scheduler leads their agreement on the step to stop at, agents pass messages on.

Kept in memory only. After a restart of the scheduler an agreement begins anew, with numbers above all of the one before
(`numbering`); ranks understand that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from rota.client.wire import decode
from rota.core.job_spec import RankLayout
from rota.deploy.agreement import Agreement, Send
from rota.deploy.numbering import first_number
from rota.deploy.scheduler.heartbeats import Heartbeats
from rota.deploy.scheduler.records import Attempt, AttemptKey, Job
from rota.deploy.scheduler.registry import Registry

_MESSAGES_KEPT = 32
"""Messages per server that stay on its list; older ones were overtaken."""


@dataclass(frozen=True, slots=True)
class GangMessage:
    """What one rank has to hear."""

    id: int
    """Grows; an agent passes each on once."""
    rank: int
    json: str


def ranks_by_part(job: Job, attempt: Attempt) -> list[int]:
    """Number of ranks on each server of an attempt."""
    per_gpu = job.spec.ranks is RankLayout.GPU
    return [len(part.devices) if per_gpu else 1 for part in attempt.parts]


class GangStops:
    """All agreements that are under way."""

    def __init__(self, generation: int = 1) -> None:
        self._agreements: dict[AttemptKey, Agreement] = {}
        self._node_of_rank: dict[AttemptKey, list[str]] = {}
        self._outgoing: dict[tuple[AttemptKey, str], list[GangMessage]] = {}
        self._first_id = first_number(generation)
        self._last_id = self._first_id

    def messages(self, key: AttemptKey, node: str) -> tuple[GangMessage, ...]:
        """What the ranks of an attempt on a server have to hear."""
        return tuple(self._outgoing.get((key, node), ()))

    def advance(self, registry: Registry, heartbeats: Heartbeats) -> bool:
        """Begin, feed and end agreements; whether there is something new to say."""
        before = self._last_id
        stopping = _stopping_gangs(registry)
        for key in [key for key in self._agreements if key not in stopping]:
            self._end(key)
        for key, (job, attempt) in stopping.items():
            if key not in self._agreements:
                self._begin(key, job, attempt, heartbeats.monotonic())
            self._feed(key, attempt, heartbeats)
        return self._last_id != before

    def _begin(self, key: AttemptKey, job: Job, attempt: Attempt, now: float) -> None:
        counts = ranks_by_part(job, attempt)
        self._node_of_rank[key] = [
            node for node, count in zip(attempt.nodes, counts, strict=True) for _ in range(count)
        ]
        agreement = Agreement(range(sum(counts)), first_id=self._first_id + 1)
        self._agreements[key] = agreement
        self._send(key, agreement.begin(now))

    def _feed(self, key: AttemptKey, attempt: Attempt, heartbeats: Heartbeats) -> None:
        agreement = self._agreements[key]
        now = heartbeats.monotonic()
        for node in dict.fromkeys(attempt.nodes):
            task = heartbeats.of(node).tasks.get(key)
            for rank, text in () if task is None else task.answers:
                message = decode(text.encode())
                if message is not None:
                    self._send(key, agreement.answer(rank, message, now))
        self._send(key, agreement.tick(now))

    def _send(self, key: AttemptKey, sends: list[Send]) -> None:
        for rank, message in sends:
            self._last_id += 1
            messages = self._outgoing.setdefault((key, self._node_of_rank[key][rank]), [])
            messages.append(GangMessage(self._last_id, rank, json.dumps(message)))
            del messages[:-_MESSAGES_KEPT]

    def _end(self, key: AttemptKey) -> None:
        del self._agreements[key]
        del self._node_of_rank[key]
        for pair in [pair for pair in self._outgoing if pair[0] == key]:
            del self._outgoing[pair]


def _stopping_gangs(registry: Registry) -> dict[AttemptKey, tuple[Job, Attempt]]:
    """Attempts with processes on several servers that were asked to stop."""
    gangs: dict[AttemptKey, tuple[Job, Attempt]] = {}
    for job in registry.running.values():
        attempt = job.attempt
        if attempt is not None and attempt.stopping and len(attempt.parts) > 1 and not job.spec.emulated:
            gangs[job.id, attempt.epoch] = (job, attempt)
    return gangs
