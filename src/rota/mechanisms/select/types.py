"""In which order accelerator types are served."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from rota.core.classes import Classes
from rota.core.view import View

_SHUFFLE_STREAM = 5
"""The artifact seeds its shuffler with the run's seed plus this."""


class TypeOrder:
    """Fast types first for policies that know types; a fresh shuffle per round for those that do not.

    The n-th shuffle depends on the seed and n only, so asking is free of side effects: the sequence is replayed
    when an earlier round is asked for again.
    """

    def __init__(self, first: tuple[str, ...], seed: int) -> None:
        self._first = first
        self._seed = seed
        self._random = random.Random(seed + _SHUFFLE_STREAM)
        self._drawn = 0
        self._last: list[int] = []
        self._base: list[int] = []
        self._classes: Classes | None = None

    def preferred(self, view: View) -> list[int]:
        """Type indices, the named ones first, then from fast to slow."""
        if view.classes is not self._classes:
            self._classes = view.classes
            self._base = self._by_speed(view)
        return self._base

    def _by_speed(self, view: View) -> list[int]:
        names = list(view.types)
        speed = _relative_speed(view)
        rest = [t for t in range(len(names)) if names[t] not in self._first]
        rest.sort(key=lambda t: (-speed[t], names[t]))
        return [names.index(n) for n in self._first if n in names] + rest

    def shuffled(self, view: View, turn: int) -> list[int]:
        """The order of the given turn (0, 1, 2, ...)."""
        base = self.preferred(view)
        if turn + 1 < self._drawn:
            self._random = random.Random(self._seed + _SHUFFLE_STREAM)
            self._drawn = 0
        while self._drawn <= turn:
            self._last = list(base)
            _shuffle(self._last, self._random.getrandbits)
            self._drawn += 1
        return self._last


def _shuffle(items: list[int], getrandbits: Callable[[int], int]) -> None:
    """What `random.shuffle` does, in the same draws; one is made every round, and the library is slow for few items."""
    for last in range(len(items) - 1, 0, -1):
        bits = (last + 1).bit_length()
        other = getrandbits(bits)
        while other > last:
            other = getrandbits(bits)
        items[last], items[other] = items[other], items[last]


def _relative_speed(view: View) -> list[float]:
    """Mean over classes of the rate relative to the class's best type."""
    rates = view.classes.throughput
    best = rates.max(axis=1, keepdims=True, initial=0.0)
    relative = np.divide(rates, best, out=np.zeros_like(rates), where=best > 0)
    return [float(v) for v in relative.mean(axis=0)] if len(rates) else [0.0] * rates.shape[1]
