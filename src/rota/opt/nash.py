"""Nash welfare: the shares with the largest product of utilities, by group.

    maximise  sum_g n_g log u_g    subject to   n_g u_g <= gain_g . y_g,  y in the polytope of shares.py

The logarithm is approximated from below between known points; the duals say where the next points
should be (p_g being the price of utility, log u - p_g u is largest at u = 1 / p_g) and how far the
optimum can be away. Numbers of jobs are right-hand sides only, so points found for one problem
serve for the next with one job less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.opt.lp import Int32Array, LinearProgram, Solution

GAP = 1e-9
"""Mean distance in log u by job from the optimum that is accepted."""
MOST_ROUNDS = 60
_GRID = 0.5 ** np.arange(14)
_NEAR = 1 + np.outer([1, -1], [0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3]).ravel()[1:]


@dataclass(frozen=True, slots=True, eq=False)
class Welfare:
    """Utilities [G] of one job of each group and total times [G, T]."""

    utility: FloatArray
    times: FloatArray
    gap: float


class NashWelfare:
    """One family of problems that differ in the number of jobs by group."""

    def __init__(self, gain: FloatArray, gpus: FloatArray, capacity: FloatArray) -> None:
        self._gain = gain
        self._gpus = gpus
        self._capacity = capacity
        self._fastest = gain.max(axis=1, initial=0.0)
        groups = np.flatnonzero(self._fastest > 0)
        self._group = np.repeat(groups, len(_GRID))
        self._point = (self._fastest[groups][:, None] * _GRID).ravel()
        self._basis: Int32Array | None = None

    def solve(self, count: FloatArray, *, keep: bool = False) -> Welfare:
        """The optimum for these numbers of jobs; groups that cannot run must have none.

        With `keep`, later solves start from this answer.
        """
        group = self._group
        point = self._point
        basis = self._basis
        total = max(1.0, float(count.sum()))
        gap = np.inf
        for _ in range(MOST_ROUNDS):
            solution = self._program(count, group, point).solve(basis)
            basis = solution.basis
            new, best, distance = self._next_points(solution, count)
            last = gap
            gap = distance / total
            if gap <= GAP or (gap >= last and gap <= 1e3 * GAP):
                break
            group = np.concatenate([group, new])
            point = np.concatenate([point, best])
        answer = self._read(solution, count, gap)
        if keep:
            self._center(answer.utility, count)
        return answer

    def _center(self, utility: FloatArray, count: FloatArray) -> None:
        """Know many points about these utilities: with one job less they hardly move."""
        there = np.flatnonzero((count > 0) & (utility > 0))
        near = np.minimum(utility[there][:, None] * _NEAR, self._fastest[there][:, None])
        self._group = np.concatenate([self._group, np.repeat(there, len(_NEAR))])
        self._point = np.concatenate([self._point, near.ravel()])
        self._basis = self._program(count, self._group, self._point).solve().basis

    def _next_points(
        self,
        solution: Solution,
        count: FloatArray,
    ) -> tuple[IntArray, FloatArray, float]:
        """Groups and utilities worth knowing, and how much sum n log u they may add."""
        price = np.maximum(solution.row_dual[: len(count)], 1e-300)
        best = np.minimum(1 / price, self._fastest)
        there = np.flatnonzero((count > 0) & (best > 0))
        known = -solution.row_dual[2 * len(count) + len(self._capacity) :]
        adds = np.log(best[there]) - price[there] * best[there] - known[there]
        new = there[adds > 0.1 * GAP]
        return new, best[new], float(np.maximum(adds, 0.0) @ count[there])

    def _read(self, solution: Solution, count: FloatArray, gap: float) -> Welfare:
        times = np.maximum(solution.x[: self._gain.size], 0.0).reshape(self._gain.shape)
        times[self._gain <= 0] = 0.0
        utility = (self._gain * times).sum(axis=1) / np.maximum(count, 1.0)
        return Welfare(np.minimum(utility, self._fastest), times, gap)

    def _program(self, count: FloatArray, known: IntArray, point: FloatArray) -> LinearProgram:
        groups, types = self._gain.shape
        singles = groups * types
        points = len(known)
        group = np.repeat(np.arange(groups), types)
        type_ = np.tile(np.arange(types), groups)
        alone = np.stack([group, groups + group, 2 * groups + type_], axis=1).ravel()
        weight = np.stack([self._gain.ravel(), np.ones(singles), self._gpus[group]], axis=1).ravel()
        know = np.stack([known, 2 * groups + types + known], axis=1).ravel()
        at = np.stack([-point, np.ones(points)], axis=1).ravel()
        start = np.concatenate([np.arange(singles) * 3, 3 * singles + np.arange(points) * 2])
        able = np.where(self._fastest > 0, count, 0.0)
        most = np.where(self._gain.ravel() > 0, np.inf, 0.0)
        return LinearProgram(
            cost=np.concatenate([np.zeros(singles), -np.log(point)]),
            lower=np.zeros(singles + points),
            upper=np.concatenate([most, np.full(points, np.inf)]),
            row_lower=np.concatenate([np.zeros(groups), np.full(groups + types, -np.inf), able]),
            row_upper=np.concatenate([np.full(groups, np.inf), count, self._capacity, able]),
            start=start.astype(np.int32),
            index=np.concatenate([alone, know]).astype(np.int32),
            value=np.concatenate([weight, at]),
            name="Nash welfare",
        )
