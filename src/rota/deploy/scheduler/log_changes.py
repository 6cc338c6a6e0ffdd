"""Which output of jobs has come, in the order of the newest piece of each rank: what a standby has to look at."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable

Rank = tuple[int, int, int]
"""(job, epoch, rank)"""


class LogChanges:
    """A list that is kept once somebody has asked for it. Any thread."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        """Another list, of a scheduler that was started again, has other numbers."""
        self._lock = threading.Lock()
        self._kept = False
        self._number = 0
        self._numbers: dict[Rank, int] = {}
        """The oldest first."""
        self._ranks: dict[int, set[Rank]] = {}
        """By job."""

    def begin(self, there: Callable[[], Iterable[Rank]]) -> None:
        """Keep the list from now on, beginning with what is there; nothing if it is kept already."""
        with self._lock:
            if self._kept:
                return
            self._kept = True
        for rank in there():
            with self._lock:
                if rank not in self._numbers:
                    self._put(rank)

    def note(self, rank: Rank) -> None:
        """Something of a rank came."""
        with self._lock:
            if self._kept:
                self._put(rank)

    def forget(self, job: int) -> None:
        """The output of a job is not there any more."""
        with self._lock:
            for rank in self._ranks.pop(job, ()):
                del self._numbers[rank]

    def after(self, number: int, most: int) -> list[tuple[int, Rank]]:
        """Ranks of which something came behind a number, the oldest first, each with its own number."""
        with self._lock:
            if number >= self._number:
                return []
            newer: list[tuple[int, Rank]] = []
            for rank, noted in reversed(self._numbers.items()):
                if noted <= number:
                    break
                newer.append((noted, rank))
        return newer[::-1][:most]

    def _put(self, rank: Rank) -> None:
        self._number += 1
        self._numbers.pop(rank, None)
        self._numbers[rank] = self._number
        self._ranks.setdefault(rank[0], set()).add(rank)
