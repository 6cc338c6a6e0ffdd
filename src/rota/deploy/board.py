"""What every agent should run now, as the owner writes it and the service's streams read it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.deploy.book import Attempt, Book, Job
from rota.deploy.contacts import Contacts
from rota.deploy.gangs import Gangs, ranks_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One task of one agent."""

    job: int
    epoch: int
    state: str
    lease_until: float
    """Engine seconds."""
    devices: tuple[str, ...]
    cpus: float
    memory_gb: float
    first_rank: int
    ranks: int
    world_size: int
    master_addr: str
    master_port: int
    resume: str
    resume_step: int
    rate: float
    messages: tuple[tuple[int, int, str], ...] = ()
    """(number, rank, JSON): for ranks of a gang over several servers."""
    spec: Mapping[str, Any] = field(compare=False, default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOrder:
    """Part of a log that somebody wants to read."""

    id: int
    job: int
    rank: int
    offset: int
    follow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The whole list of one agent."""

    version: int
    orders: tuple[Order, ...] = ()
    logs: tuple[LogOrder, ...] = ()


class Board:
    """One sheet per node. The owner writes; readers get immutable values and a call when something changed."""

    def __init__(self, contacts: Contacts) -> None:
        self._contacts = contacts
        self._sheets: dict[str, Sheet] = {}
        self._logs: dict[str, tuple[LogOrder, ...]] = {}
        self._lock = threading.Lock()
        self._version = time.time_ns() // 1000  # above every version of an earlier life
        self.changed: Callable[[str], None] = lambda _: None
        """Called from the owner's thread with the name of a node."""

    def sheet(self, node: str) -> Sheet | None:
        """The newest list of a node."""
        return self._sheets.get(node)

    def publish(self, book: Book, gangs: Gangs | None = None) -> None:
        """Write the lists anew; only those that changed get a new version."""
        orders: dict[str, list[Order]] = {name: [] for name in book.nodes}
        for job in book.running.values():
            if job.attempt is not None:
                for node, order in _orders(book, job, job.attempt, gangs):
                    if node not in job.attempt.forgotten:
                        orders[node].append(order)
        for node, found in orders.items():
            self._write(node, tuple(sorted(found, key=lambda o: o.job)))

    def _write(self, node: str, orders: tuple[Order, ...]) -> None:
        with self._lock:
            before, logs = self._sheets.get(node), self._logs.get(node, ())
            if before is not None and before.orders == orders and before.logs == logs:
                known = self._contacts.of(node).ordered
                for order in orders:
                    known.setdefault((order.job, order.epoch), before.version)
                return
            self._version += 1
            self._sheets[node] = Sheet(version=self._version, orders=orders, logs=logs)
            known = self._contacts.of(node).ordered
            for order in orders:
                known.setdefault((order.job, order.epoch), self._version)
        self.changed(node)

    def ask_log(self, node: str, wish: LogOrder) -> None:
        """Put a wish to read a log on the list of a node."""
        with self._lock:
            self._logs[node] = (*self._logs.get(node, ()), wish)
            self._bump(node)
        self.changed(node)

    def drop_log(self, node: str, number: int) -> None:
        """Nobody reads it any more."""
        with self._lock:
            self._logs[node] = tuple(wish for wish in self._logs.get(node, ()) if wish.id != number)
            self._bump(node)
        self.changed(node)

    def _bump(self, node: str) -> None:
        self._version += 1
        orders = self._sheets[node].orders if node in self._sheets else ()
        self._sheets[node] = Sheet(version=self._version, orders=orders, logs=self._logs.get(node, ()))


def _orders(book: Book, job: Job, attempt: Attempt, gangs: Gangs | None) -> list[tuple[str, Order]]:
    """The orders of an attempt, one for each of its servers."""
    counts = ranks_of(job, attempt)
    host = book.nodes[attempt.parts[0].node].joined.host
    found = []
    for at, part in enumerate(attempt.parts):
        order = Order(
            job=job.id,
            epoch=attempt.epoch,
            state="kill" if attempt.broken else "stop" if attempt.stopping else "run",
            lease_until=attempt.lease_until,
            devices=tuple(part.devices),
            cpus=part.cpus,
            memory_gb=part.memory_gb,
            first_rank=sum(counts[:at]),
            ranks=counts[at],
            world_size=sum(counts),
            master_addr=host,
            master_port=attempt.port,
            resume=attempt.resume,
            resume_step=attempt.resume_step,
            rate=attempt.rate,
            messages=() if gangs is None else gangs.messages((job.id, attempt.epoch), part.node),
            spec=job.spec,
        )
        found.append((part.node, order))
    return found
