"""Tasks change servers so that wishes come true that CPUs or memory elsewhere would allow.

Jobs that stay where they run pile up: one server has three jobs that want 8 of its 24 CPUs, another has none and
CPUs to spare. A task below its wish moves to free GPUs of a server with room for all of it, or changes places with a
task of the same size there that needs little. That costs a restart of whoever ran before, so it is done only if what
the task gains in one round is more than that. Tasks on several servers are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.mechanisms.divide.layout import Layout
from rota.mechanisms.divide.packing import Packing

_MOST_TRADES = 32
"""Tasks below their wish that are looked at in a round, those that lose most first."""


@dataclass(frozen=True, slots=True)
class _Trade:
    """A way to make a wish come true."""

    server: int
    other: int
    """Row of the task that takes the place in turn; -1 for none."""
    restarts: int
    left: float
    """CPUs that stay free on the server."""

    @property
    def price(self) -> tuple[int, float]:
        """Few restarts first, then the server on which fewest CPUs are left over."""
        return self.restarts, self.left


class Trading:
    """One round on the servers of a type."""

    def __init__(self, layout: Layout, packing: Packing, rules: Rules) -> None:
        self._layout = layout
        self._packing = packing
        self._rules = rules
        self._size = layout.size[packing.task].tolist()
        self._staying = len(layout.stay[0]) - 1
        start, server, _ = packing.columns
        self._alone = (np.diff(start) == 1).tolist()
        self._server: list[int] = [int(server[at]) for at in start[:-1].tolist()]
        self._on: list[set[int]] = [set() for _ in packing.servers]
        for row, at in enumerate(self._server):
            if self._alone[row]:
                self._on[at].add(row)

    def run(self) -> None:
        """Look for a better place for everybody below its wish."""
        packing = self._packing
        speed = self._layout.holdings.speed
        wanted = self._layout.full[packing.task]
        lost = speed[wanted] - speed[packing.config]
        below = (lost > TOLERANCE).nonzero()[0]
        below = below[(-lost[below]).argsort(kind="stable")]
        for row in below[:_MOST_TRADES].tolist():
            if not self._alone[row]:
                continue
            gain = float(lost[row]) / float(speed[packing.config[row]])
            trades = [t for t in self._trades(row, int(wanted[row])) if self._pays(gain, t)]
            if trades:
                self._carry_out(row, int(wanted[row]), min(trades, key=lambda t: t.price))

    def _pays(self, gain: float, trade: _Trade) -> bool:
        return gain * self._rules.round_s > trade.restarts * self._rules.restart_s

    def _trades(self, row: int, wish: int) -> Iterator[_Trade]:
        """Servers where the wish would fit, at best one way for each."""
        packing = self._packing
        size = self._size[row]
        cpus, memory = packing.holds(wish)
        own = packing.holds(int(packing.config[row]))
        here = self._server[row]
        room_here = (packing.cpus[here] + own[0], packing.memory[here] + own[1])
        for server in range(len(packing.servers)):
            if server == here:
                continue
            lack_cpus = cpus - packing.cpus[server]
            lack_memory = memory - packing.memory[server]
            if packing.gpus[server] >= size and lack_cpus <= 0 and lack_memory <= 0:
                yield _Trade(server, -1, self._restarts(row), -lack_cpus)
                continue
            best: _Trade | None = None
            for other in self._on[server]:
                given = packing.holds(int(packing.config[other]))
                fits = lack_cpus <= given[0] <= room_here[0] and lack_memory <= given[1] <= room_here[1]
                if not fits or self._size[other] != size:
                    continue
                trade = _Trade(server, other, self._restarts(row, other), given[0] - lack_cpus)
                if best is None or (trade.price, trade.other) < (best.price, best.other):
                    best = trade
            if best is not None:
                yield best

    def _restarts(self, *rows: int) -> int:
        """How many of them ran where they are in the last round."""
        return sum(int(self._packing.task[row]) < self._staying for row in rows)

    def _carry_out(self, row: int, wish: int, trade: _Trade) -> None:
        packing = self._packing
        here = self._server[row]
        packing.take_off(row, self._size[row])
        if trade.other >= 0:
            packing.take_off(trade.other, self._size[trade.other])
            self._settle(trade.other, int(packing.config[trade.other]), here)
        self._settle(row, wish, trade.server)

    def _settle(self, row: int, wish: int, server: int) -> None:
        self._on[self._server[row]].discard(row)
        self._on[server].add(row)
        self._server[row] = server
        self._packing.put_on(row, self._size[row], wish, server)
