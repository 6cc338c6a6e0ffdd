"""How long the scheduler itself did not listen: silence of that time is its own, and no agent's.

Two threads have to listen for a report to be heard: the event loop of the server, which takes it from the network, and
the owner, which takes it from the inbox. Each says when it listens, and for how long it will be away at most. What is
beyond that, and beyond a short pause that is nothing, is a stall.
"""

from __future__ import annotations

from collections.abc import Callable

OWNER = "owner"
NETWORK = "network"


class OwnStalls:
    """Written by the threads that listen, each for itself; read by the owner."""

    def __init__(self, longest_pause_s: float, monotonic: Callable[[], float]) -> None:
        """Up to `longest_pause_s` wall seconds between two moments of listening are no stall."""
        self._longest_pause_s = longest_pause_s
        self._monotonic = monotonic
        self._back: dict[str, float] = {}
        """When each of them listens again at the latest, monotonic seconds."""
        self._stalled_s: dict[str, float] = {}

    def listening(self, who: str, away_s: float = 0.0) -> None:
        """Say that one of them listens now, and will be away for so many seconds at most."""
        now = self._monotonic()
        if who in self._back:
            self._stalled_s[who] = self._stalled_s.get(who, 0.0) + max(0.0, now - self._back[who])
        self._back[who] = now + away_s + self._longest_pause_s

    def total_s(self) -> float:
        """Wall seconds of all stalls so far, one that goes on included."""
        now = self._monotonic()
        return sum(self._stalled_s.values()) + sum(max(0.0, now - back) for back in self._back.values())
