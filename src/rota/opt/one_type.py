"""Shares for policies that see no difference between accelerator types: all GPUs are one pool.

A job's time is then a single number, problems have closed forms, and the time is spread over the
types in proportion to their GPUs, x_ij = x_i N_j / N: nobody is left on one type for ever, and no
type is oversubscribed.
"""

from __future__ import annotations

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.opt.targets import Pace

_CLOSE = 1e-13
_MOST_STEPS = 100


def over_types(time: FloatArray, capacity: IntArray) -> FloatArray:
    """[J, T] each job's time, spread over the types by their GPUs."""
    part = capacity / max(1, int(capacity.sum()))
    return time[:, None] * part[None, :]


def fill(
    base: FloatArray,
    speed: FloatArray,
    size: FloatArray,
    pool: float,
) -> tuple[FloatArray, float]:
    """Times min(1, max(base, t speed)) with the largest t whose GPUs fit into the pool.

    Also returns t; infinity when everybody gets all the time. The bases must fit.
    """
    grows = (speed > 0) & (base < 1) & (size > 0)
    start = base[grows] / speed[grows]
    stop = 1.0 / speed[grows]
    slope = (size * speed)[grows]
    at = np.concatenate([start, stop])
    order = np.argsort(at, kind="stable")
    at = at[order]
    rate = np.cumsum(np.concatenate([slope, -slope])[order])
    used = float(size @ base) + np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(at))])
    over = np.flatnonzero(used > pool)
    if len(at) == 0 or len(over) == 0:
        return np.where(grows, 1.0, base), np.inf
    k = int(over[0]) - 1
    level = at[k] + (pool - used[k]) / rate[k] if k >= 0 and rate[k] > 0 else float(at[max(k, 0)])
    return np.where(grows, np.minimum(1.0, np.maximum(base, level * speed)), base), float(level)


def highest_target(pace: Pace, size: FloatArray, pool: float) -> float:
    """The largest target whose needs fit into the pool (Newton's method from above)."""
    own = np.where(pace.fastest > 0, pace.fastest, 1.0)
    v = pace.limit()
    if v == np.inf:
        return 0.0
    for _ in range(_MOST_STEPS):
        excess = float(size @ (pace.rate(v) / own)) - pool
        if excess <= _CLOSE * pool:
            return v
        v -= excess / float(size @ (pace.slope(v) / own))
    return v
