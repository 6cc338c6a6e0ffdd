"""Whether a standby may take over: who has voted for it, and since when. Pure: times are handed in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rota.rpc import rota_pb2 as pb

SILENCE_S = 2.5
"""Seconds without the scheduler in charge after which votes are asked for."""
_MOST_ELECTIONS = 1_000
"""Elections without a takeover after which a promise is not believed: nobody may raise terms without end."""
_MARGIN_S = 0.5
"""Beyond the lease of the other scheduler: clocks differ, and so do moments at which they are looked at."""


@dataclass(kw_only=True)
class Election:
    """Who has voted for this standby; monotonic seconds."""

    term: int = 0
    """Of the scheduler in charge."""
    nodes: frozenset[str] = frozenset()
    """Servers that were up when it was heard last."""
    lease_s: float = math.inf
    heard: float = math.inf
    """When it was heard last; infinity: never, and nothing can be taken over."""
    asks_for: int = 0
    """The term for which votes are asked; 0: none."""
    promised: int = 0
    """The highest term that a server has promised to, here or to a standby before."""
    votes: dict[str, float] = field(default_factory=dict)
    """When servers voted."""

    def hear(self, batch: pb.ReplicaBatch, now: float) -> None:
        """The scheduler in charge is there."""
        self.term = batch.term
        self.nodes = frozenset(batch.nodes)
        self.lease_s = batch.lease_s
        self.heard = now
        self.asks_for = 0
        self.votes.clear()

    def look(self, now: float) -> None:
        """Ask for votes once it was not heard for long enough."""
        if not self.asks_for and self.nodes and now - self.heard > SILENCE_S:
            self.asks_for = self.term + 1

    def vote(self, node: str, promised: int, now: float) -> None:
        """A server says what it has promised."""
        if promised > self.term + _MOST_ELECTIONS:
            return  # no election since then could have led there
        self.promised = max(self.promised, promised)
        if promised > self.asks_for > 0:
            self.asks_for = promised  # of an election before this one
            self.votes.clear()
        if self.asks_for and promised == self.asks_for and node in self.nodes:
            self.votes.setdefault(node, now)

    @property
    def elected(self) -> bool:
        """Whether more than half of the servers have voted."""
        return self.asks_for > 0 and 2 * len(self.votes) > len(self.nodes)

    def takes_over(self, now: float) -> bool:
        """Whether the other scheduler has ended by now, if it is still there at all."""
        if not self.elected:
            return False
        needed = sorted(self.votes.values())[len(self.nodes) // 2]
        return now >= needed + self.lease_s + _MARGIN_S
