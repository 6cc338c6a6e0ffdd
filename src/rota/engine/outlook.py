"""For how many rounds a ranking stays as it is, if nobody arrives or leaves.

Most sort keys are linear in time: a job that runs comes nearer to its end, one that waits grows older. So the keys of
the next two rounds tell when the first two neighbours in the order change places. Until then every round would be laid
out like this one, and a clock that knows the pace of jobs may run them in one go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray, every, smallest
from rota.core.horizon import FollowsRanking
from rota.core.ports import Clock
from rota.core.rules import Rules
from rota.core.view import View
from rota.engine import urgency
from rota.engine.state import State

_MARGIN = 1e-6
"""Rounds by which neighbours must be apart to count as not having met."""
_EVER = 1 << 40


class RankingOutlook:
    """Looks ahead from the state of now (implements core.horizon.Outlook)."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self.placed_twice = False
        """Whether the placement in force came out twice in a row."""

    def rounds(self, steps: FloatArray) -> int:
        """Rounds from now on in which the order is the same and nobody becomes urgent; at least this one.

        `steps` is what the jobs that run do in a round; none of them may end in the next three.
        """
        state = self._state
        allocation = state.allocation
        placement = state.placement
        rows = state.running
        if allocation is None or allocation.linear_key is None or allocation.order is None or placement is None:
            return 1
        shifting = placement.horizon.follows is FollowsRanking.ONCE_REPEATED and not self.placed_twice
        if shifting or rows is None or state.newly_urgent:
            return 1
        ranking = _Ranking(allocation.linear_key, allocation.order, state.view(self._clock.now()), rows, state.rules)
        unchanged = ranking.unchanged(steps)
        return unchanged if unchanged <= 1 else min(unchanged, urgency.rounds_until(ranking.view, rows, state.rules))


@dataclass(frozen=True, slots=True)
class _Ranking:
    """A ranking with a linear key, and who runs."""

    key: Callable[[View], FloatArray]
    order: IntArray
    """Positions of jobs, first served first."""
    view: View
    """The jobs right after the placement was made."""
    rows: IntArray
    """Positions of the jobs that run, in the order of the placement."""
    rules: Rules

    def unchanged(self, steps: FloatArray) -> int:
        """Rounds in which nobody who matters changes places."""
        view = self.view
        order = self.order
        if len(order) < 2 or len(order) != len(view):
            return 1
        one = self.key(self._later(steps, 1))
        drift = self.key(self._later(steps, 2)) - one
        urgent = 0 if view.urgent is None else int(np.count_nonzero(view.urgent))
        count = len(self.rows)
        runs = np.zeros(len(view), dtype=np.bool_)
        runs[self.rows] = True
        if not every(runs[order[:count]]):
            return _meeting(order, one, drift, urgent)
        # Those who run stand in front: how the others are ordered does not matter, only whether one of them catches up.
        rounds = _meeting(order[:count], one, drift, urgent)
        last = order[count - 1]
        behind = order[count : urgent if urgent >= count else len(order)]
        return min(rounds, _first(one[behind] - one[last], drift[behind] - drift[last], behind < last))

    def _later(self, steps: FloatArray, rounds: int) -> View:
        """The same jobs after so many rounds."""
        view = self.view
        rows = self.rows
        seconds = rounds * self.rules.round_s
        done = view.steps_done.copy()
        done[rows] += rounds * steps
        attained = view.attained.copy()
        attained[rows] += seconds * view.gpus[rows]
        return view.later(view.now + seconds, done, attained)


def _meeting(order: IntArray, key: FloatArray, drift: FloatArray, urgent: int) -> int:
    """Rounds until two neighbours change places; the urgent come first whatever their key."""
    apart = np.diff(key[order])
    nearing = np.diff(drift[order])
    if 0 < urgent < len(order):
        apart[urgent - 1] = math.inf
        nearing[urgent - 1] = 0.0
    return _first(apart, nearing, np.diff(order) < 0)


def _first(apart: FloatArray, nearing: FloatArray, younger_first: BoolArray) -> int:
    """Rounds until the first of these distances is gone; of two that are level the older must be in front."""
    if len(apart) == 0:
        return _EVER
    if smallest(apart) < 0 or (apart[younger_first] <= 0).any():
        return 1
    close = nearing < 0
    if not close.any():
        return _EVER
    meet = smallest(apart[close] / -nearing[close])
    return 1 if not meet > _MARGIN else 2 + int(min(meet - _MARGIN, _EVER))
