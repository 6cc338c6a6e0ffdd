"""Gangs over several servers: the scheduler leads their agreement on the step to stop at, agents pass messages on.

Kept in memory only. After a restart of the scheduler an agreement begins anew; ranks understand that.
"""

from __future__ import annotations

import json
import time

from rota.deploy.agreement import Agreement, Send
from rota.deploy.book import Attempt, Book, Job
from rota.deploy.contacts import Contacts, Key

_KEPT = 32
"""Messages per server that stay on its list; older ones were overtaken."""


def ranks_of(job: Job, attempt: Attempt) -> list[int]:
    """Ranks on each server of an attempt."""
    return [len(part.devices) if job.spec.get("ranks") == "gpu" else 1 for part in attempt.parts]


class Gangs:
    """All agreements that are under way."""

    def __init__(self) -> None:
        self._all: dict[Key, Agreement] = {}
        self._nodes: dict[Key, list[str]] = {}
        """By rank."""
        self._outgoing: dict[tuple[Key, str], list[tuple[int, int, str]]] = {}
        self._number = time.time_ns() // 1000  # above every number of an earlier life

    def messages(self, key: Key, node: str) -> tuple[tuple[int, int, str], ...]:
        """What the ranks of an attempt on a server have to hear."""
        return tuple(self._outgoing.get((key, node), ()))

    def look(self, book: Book, contacts: Contacts) -> bool:
        """Begin, feed and end agreements; whether there is something new to say."""
        before = self._number
        stopping = {}
        for job in book.running.values():
            attempt = job.attempt
            if attempt is not None and attempt.stopping and len(attempt.parts) > 1 and not job.spec.get("emulated"):
                stopping[job.id, attempt.epoch] = (job, attempt)
        for key in [key for key in self._all if key not in stopping]:
            self._end(key)
        for key, (job, attempt) in stopping.items():
            if key not in self._all:
                self._begin(key, job, attempt)
            self._feed(key, attempt, contacts)
        return self._number != before

    def _begin(self, key: Key, job: Job, attempt: Attempt) -> None:
        counts = ranks_of(job, attempt)
        self._nodes[key] = [node for node, count in zip(attempt.nodes, counts, strict=True) for _ in range(count)]
        agreement = self._all[key] = Agreement(range(sum(counts)), first_id=time.time_ns() // 1_000_000)
        self._send(key, agreement.begin(time.monotonic()))

    def _feed(self, key: Key, attempt: Attempt, contacts: Contacts) -> None:
        agreement, now = self._all[key], time.monotonic()
        for node in dict.fromkeys(attempt.nodes):
            seen = contacts.of(node).tasks.get(key)
            for rank, text in () if seen is None else seen.answers:
                self._send(key, agreement.answer(rank, json.loads(text), now))
        self._send(key, agreement.tick(now))

    def _send(self, key: Key, sends: list[Send]) -> None:
        for rank, message in sends:
            self._number += 1
            line = self._outgoing.setdefault((key, self._nodes[key][rank]), [])
            line.append((self._number, rank, json.dumps(message)))
            del line[:-_KEPT]

    def _end(self, key: Key) -> None:
        del self._all[key], self._nodes[key]
        for pair in [pair for pair in self._outgoing if pair[0] == key]:
            del self._outgoing[pair]
