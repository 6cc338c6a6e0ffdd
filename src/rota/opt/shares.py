"""The polytope of feasible time shares, by group of jobs.

Variables are total times: y_gj of group g alone on type j, z_k of pair column k (see pairs.py).

    sum_j a_gj y_gj + sum_k b_gk z_k >= need_g    what each group must get
    sum_j y_gj + sum_k m_gk z_k <= n_g            time of a group (m = 2 for a pair inside the group)
    sum_g s_g y_gj + sum_k s_k z_k <= N_j         GPUs of a type (a pair uses them once)

Rows are in this order. Columns are the times alone, then one column of its own (the level t of
max-min fairness with coefficients in the need rows, or the overuse theta with -N_j in the capacity
rows), then the pairs, so that a basis stays valid when pairs are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.tolerance import TOLERANCE
from rota.opt.groups import JobGroups
from rota.opt.lp import Int32Array, LinearProgram
from rota.opt.pairs import Pairs

HELD = 1 - TOLERANCE
"""A second stage may lower the value of the first one by this factor."""
INFINITY = np.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Polytope:
    """Coefficients of the feasible set."""

    groups: JobGroups
    capacity: FloatArray
    rate: FloatArray
    """[G, T] steps/s of one job alone; a type with rate 0 is not given to the group."""
    scale: FloatArray
    """[G] what a group gets by step, in the unit of its need: gain = rate x scale."""
    pairs: Pairs | None = None

    @property
    def gain(self) -> FloatArray:
        """[G, T] what a group gets per unit of time alone."""
        return self.rate * self.scale[:, None]

    @property
    def size(self) -> int:
        """Columns of the program."""
        return self.rate.size + 1 + (0 if self.pairs is None else len(self.pairs))

    @property
    def special(self) -> int:
        """Where the level or overuse column stands."""
        return self.rate.size

    def program(
        self,
        *,
        cost: FloatArray,
        need: FloatArray,
        level: FloatArray | None,
        bounds: tuple[float, float],
        name: str,
    ) -> LinearProgram:
        """The linear program; its special column is a level (with coefficients) or the overuse."""
        groups, types = self.rate.shape
        start, index = _pattern(groups, types, has_level=level is not None)
        value, upper = self._alone(-self.capacity if level is None else -level, bounds[1])
        if self.pairs is not None:
            gains = (
                self.pairs.rate_first * self.scale[self.pairs.first],
                self.pairs.rate_second * self.scale[self.pairs.second],
            )
            begin, entries, values = self.pairs.columns(gains, groups, offset=len(index))
            start = np.concatenate([start, begin])
            index = np.concatenate([index, entries])
            value = np.concatenate([value, values])
            upper = np.concatenate([upper, self.pairs.limits(self.groups.count)])
        lower = np.zeros(len(cost))
        lower[self.special] = bounds[0]
        free = np.full(groups + types, -INFINITY)
        return LinearProgram(
            cost=cost,
            lower=lower,
            upper=upper,
            row_lower=np.concatenate([need, free]),
            row_upper=np.concatenate([-free[:groups], self.groups.count, self.capacity]),
            start=start,
            index=index,
            value=value,
            name=name,
        )

    def _alone(self, special: FloatArray, limit: float) -> tuple[FloatArray, FloatArray]:
        """Coefficients and upper bounds of the times alone, then of the special column."""
        gpus = self.groups.gpus
        known, most = _coefficients(self.rate.shape, self.rate.tobytes(), self.scale.tobytes(), gpus.tobytes())
        value = np.empty(len(known) + len(special))
        upper = np.empty(len(most) + 1)
        value[: len(known)] = known
        value[len(known) :] = special
        upper[:-1] = most
        upper[-1] = limit
        return value, upper

    def costs(self, value: FloatArray, special: float = 0.0) -> FloatArray:
        """Costs that maximise the sum of `value` ([G, 1] or [G, T]) times steps done."""
        cost = np.empty(self.size)
        if value.shape[1] == 1:
            cost[: self.special] = _worths(self.rate.shape, self.rate.tobytes(), value.tobytes())
        else:
            cost[: self.special] = (-self.rate * value).ravel()
        cost[self.special] = special
        if self.pairs is not None:
            p = self.pairs
            by_type = np.broadcast_to(value, self.rate.shape)
            cost[self.special + 1 :] = -(
                p.rate_first * by_type[p.first, p.type] + p.rate_second * by_type[p.second, p.type]
            )
        return cost

    def only(self, special: float) -> FloatArray:
        """Costs that look at the special column only."""
        cost = np.zeros(self.size)
        cost[self.special] = special
        return cost

    def read(self, x: FloatArray) -> Times:
        """Total times of a solution."""
        times = np.maximum(x[: self.special], 0.0).reshape(self.rate.shape)
        alone = np.where(self.rate > 0, times, 0.0)
        return Times(alone=alone, paired=np.maximum(x[self.special + 1 :], 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Total time by group and type, and by pair column."""

    alone: FloatArray
    paired: FloatArray

    def share(self, groups: JobGroups) -> FloatArray:
        """[J, T] equal parts of the time alone."""
        by_job = self.alone / np.maximum(groups.count, 1.0)[:, None]
        part: FloatArray = by_job.take(groups.member, axis=0)
        return part


@lru_cache(maxsize=64)
def _pattern(groups: int, types: int, *, has_level: bool) -> tuple[Int32Array, Int32Array]:
    """Where the columns of times alone begin and which rows they are in.

    Then the special column.
    """
    group = np.repeat(np.arange(groups), types)
    type_row = 2 * groups + np.tile(np.arange(types), groups)
    index = np.stack([group, groups + group, type_row], axis=1)
    special = np.arange(groups) if has_level else np.arange(2 * groups, 2 * groups + types)
    start = np.arange(0, index.size + 1, 3, dtype=np.int32)
    return start, np.append(index.ravel(), special).astype(np.int32)


@lru_cache(maxsize=4)
def _coefficients(
    shape: tuple[int, int],
    rate: bytes,
    scale: bytes,
    gpus: bytes,
) -> tuple[FloatArray, FloatArray]:
    """Coefficients and upper bounds of the times alone.

    By class, they are the same until a new class appears.
    """
    rates = np.frombuffer(rate).reshape(shape)
    value = np.empty((*shape, 3))
    value[:, :, 0] = rates * np.frombuffer(scale)[:, None]
    value[:, :, 1] = 1.0
    value[:, :, 2] = np.frombuffer(gpus)[:, None]
    return value.ravel(), np.where(rates > 0, INFINITY, 0.0).ravel()


@lru_cache(maxsize=4)
def _worths(shape: tuple[int, int], rate: bytes, value: bytes) -> FloatArray:
    """Costs of the times alone for a value by group; the same until a new class appears."""
    return (-np.frombuffer(rate).reshape(shape) * np.frombuffer(value)[:, None]).ravel()
