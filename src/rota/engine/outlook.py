"""For how many rounds a ranking stays as it is, if nobody arrives or leaves.

Most sort keys are linear in time: a job that runs comes nearer to its end, one that waits grows older. So the keys of
the next two rounds tell when the first two neighbours in the order change places. Until then every round would be laid
out like this one, and the simulator may run them in one go.
"""

from __future__ import annotations

import copy
import math

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import BoolArray, FloatArray, IntArray, every, smallest
from rota.core.ports import RankingPolicy
from rota.core.view import View

_MARGIN = 1e-6
"""Rounds by which neighbours must be apart to count as not having met."""
_EVER = 1 << 40


def unchanged_rounds(
    policy: RankingPolicy, view: View, allocation: Allocation, rows: IntArray, steps: FloatArray, round_s: float
) -> int:
    """Rounds from now on in which the order is that of the allocation; at least this one.

    `rows` are the jobs that run, `steps` what they do in a round; none of them may end in the next three.
    """
    order = allocation.order
    if order is None or len(order) < 2 or len(order) != len(view):
        return 1
    one = policy.key(_later(view, rows, steps, round_s))
    drift = policy.key(_later(view, rows, 2 * steps, 2 * round_s)) - one
    urgent = 0 if view.urgent is None else int(np.count_nonzero(view.urgent))
    count, runs = len(rows), np.zeros(len(view), dtype=np.bool_)
    runs[rows] = True
    if not every(runs[order[:count]]):
        return _meeting(order, one, drift, urgent)
    # Those who run stand in front: how the others are ordered does not matter, only whether one of them catches up.
    rounds = _meeting(order[:count], one, drift, urgent)
    last, behind = order[count - 1], order[count : urgent if urgent >= count else len(order)]
    return min(rounds, _first(one[behind] - one[last], drift[behind] - drift[last], behind < last))


def _meeting(order: IntArray, key: FloatArray, drift: FloatArray, urgent: int) -> int:
    """Rounds until two neighbours change places; the urgent come first whatever their key."""
    apart, nearing = np.diff(key[order]), np.diff(drift[order])
    if 0 < urgent < len(order):
        apart[urgent - 1], nearing[urgent - 1] = math.inf, 0.0
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


def _later(view: View, rows: IntArray, steps: FloatArray, seconds: float) -> View:
    """The same jobs after those that run have done so much more."""
    later = copy.copy(view)
    later.now = view.now + seconds
    later.steps_done = view.steps_done.copy()
    later.steps_done[rows] += steps
    later.attained = view.attained.copy()
    later.attained[rows] += seconds * view.gpus[rows]
    return later
