"""The polytope of feasible time shares, by group of jobs, and max-min fairness on it.

Variables are total times: y_gj of group g alone on type j, z_k of pair column k (see pairs.py).

    sum_j y_gj + sum_k m_gk z_k <= n_g            time of a group (m = 2 for a pair inside the group)
    sum_g s_g y_gj + sum_k s_k z_k <= N_j         GPUs of a type (a pair uses them once)
    sum_j a_gj y_gj + sum_k b_gk z_k >= need_g    what each group must get

Rows are in the order need, time, capacity. One more column follows: the level t of max-min fairness (coefficient
-n_g in the need rows), or the overuse theta (coefficient -N_j in the capacity rows).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.opt.groups import Groups
from rota.opt.lp import Int32Array, LinearProgram, Solution
from rota.opt.pairs import Pairs

HELD = 1 - 1e-9
"""A second stage may lower the value of the first one by this factor."""
INFINITY = np.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Polytope:
    """Coefficients of the feasible set. `gain` is what a group gets per unit of time, in the unit of its need."""

    groups: Groups
    capacity: FloatArray
    gain: FloatArray
    """[G, T]; a type with gain 0 is not given to the group."""
    pairs: Pairs | None = None
    pair_gain: tuple[FloatArray, FloatArray] | None = None
    """Gain of the first and of the second group of each pair."""

    def program(
        self, *, cost: FloatArray, need: FloatArray, level: FloatArray | None, bounds: tuple[float, float], name: str
    ) -> LinearProgram:
        """The linear program; the last column is a level (coefficients given) or, without, the overuse."""
        groups, types = self.gain.shape
        start, index = _single_pattern(groups, types)
        value = np.empty((groups * types, 3))
        value[:, 0] = self.gain.ravel()
        value[:, 1] = 1.0
        value[:, 2] = np.repeat(self.groups.gpus, types)
        starts, indices, values = [start], [index], [value.ravel()]
        upper = [np.where(self.gain.ravel() > 0, INFINITY, 0.0)]
        if self.pairs is not None and self.pair_gain is not None:
            part = self.pairs.columns(self.pair_gain, groups, offset=len(index))
            for kept, new in zip((starts, indices, values), part, strict=True):
                kept.append(new)  # type: ignore[arg-type]
            enough = (self.pairs.first != self.pairs.second) | (self.groups.count[self.pairs.first] >= 2)
            upper.append(np.where(enough, INFINITY, 0.0))
        used = sum(len(i) for i in indices)
        starts.append(np.array([used], dtype=np.int32))
        if level is None:
            indices.append(np.arange(2 * groups, 2 * groups + types, dtype=np.int32))
            values.append(-self.capacity)
        else:
            indices.append(np.arange(groups, dtype=np.int32))
            values.append(-level)
        upper.append(np.array([bounds[1]]))
        lower = np.zeros(len(cost))
        lower[-1] = bounds[0]
        return LinearProgram(
            cost=cost,
            lower=lower,
            upper=np.concatenate(upper),
            row_lower=np.concatenate([need, np.full(groups + types, -INFINITY)]),
            row_upper=np.concatenate([np.full(groups, INFINITY), self.groups.count, self.capacity]),
            start=np.concatenate(starts),
            index=np.concatenate(indices),
            value=np.concatenate(values),
            name=name,
        )

    def costs(self, value: FloatArray, last: float = 0.0) -> FloatArray:
        """Costs that maximise the sum of `value` [G] times gain; `last` is the cost of the last column."""
        parts = [(-self.gain * value[:, None]).ravel()]
        if self.pairs is not None and self.pair_gain is not None:
            first, second = self.pair_gain
            parts.append(-(first * value[self.pairs.first] + second * value[self.pairs.second]))
        parts.append(np.array([last]))
        return np.concatenate(parts)

    def no_costs(self, last: float) -> FloatArray:
        """Costs that look at the last column only."""
        cost = np.zeros(self.gain.size + (0 if self.pairs is None else len(self.pairs)) + 1)
        cost[-1] = last
        return cost

    def read(self, x: FloatArray) -> Times:
        """Total times of a solution."""
        singles = self.gain.size
        alone = np.maximum(x[:singles], 0.0).reshape(self.gain.shape)
        return Times(alone=alone, paired=np.maximum(x[singles:-1], 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Total time by group and type, and by pair column."""

    alone: FloatArray
    paired: FloatArray

    def share(self, groups: Groups) -> FloatArray:
        """[J, T] equal parts of the time alone."""
        part: FloatArray = (self.alone / np.maximum(groups.count, 1.0)[:, None])[groups.member]
        return part


@lru_cache(maxsize=64)
def _single_pattern(groups: int, types: int) -> tuple[Int32Array, Int32Array]:
    group = np.repeat(np.arange(groups), types)
    index = np.stack([group, groups + group, 2 * groups + np.tile(np.arange(types), groups)], axis=1)
    return np.arange(0, index.size, 3, dtype=np.int32), index.astype(np.int32).ravel()


@dataclass(frozen=True, slots=True, eq=False)
class MaxMin:
    """The fairest shares: level t, the times that reach it, and bases for the next solve."""

    level: float
    times: Times
    bases: tuple[Int32Array, Int32Array] | None


def max_min(polytope: Polytope, value: FloatArray, bases: tuple[IntArray, IntArray] | None = None) -> MaxMin:
    """Maximise t = min_g gain_g . y_g / n_g, then sum_g value_g gain_g . y_g with t held.

    Groups that gain nothing anywhere get nothing and do not count in the minimum. The second stage is needed because
    the first has many optima, and a vertex of it may leave most GPUs idle.
    """
    fastest = polytope.gain.max(axis=1, initial=0.0)
    counted = np.where(fastest > 0, polytope.groups.count, 0.0)
    if not counted.any():
        return MaxMin(0.0, polytope.read(polytope.no_costs(0.0)), None)
    own = float(fastest[counted > 0].min())
    program = polytope.program(
        cost=polytope.no_costs(-1.0),
        need=np.zeros(len(counted)),
        level=counted,
        bounds=(0.0, own),
        name="max-min fairness",
    )
    first = program.solve(None if bases is None else bases[0])
    level = float(first.x[-1])
    second = _most(program, polytope, value, level)
    return MaxMin(level, polytope.read(second.x), (first.basis, second.basis))


def _most(program: LinearProgram, polytope: Polytope, value: FloatArray, level: float) -> Solution:
    last = len(program.cost) - 1
    program.change(cost=polytope.costs(value), column=(last, level * HELD, INFINITY))
    return program.solve()
