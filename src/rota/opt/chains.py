"""Jobs of one class that need different rates, without a variable per job.

Give GPU type j the price l_j. The cheapest way for a job to run at rate r lies on the lower convex
hull of the points (0, 0) (idle) and (T_j, s l_j): it divides its time between two neighbours on
that hull. The hull depends on the class only, so all its jobs climb the same *chain* of types, each
to its own height. Hence an exact linear program with one weight per class and chain (2^(T+1) - 1
chains for T types):

    U_ck = sum over jobs i of class c of the time that i spends on each type when climbing chain k up to rate r_i
    sum_k mu_ck = 1,   sum_ck mu_ck s_c U_ck <= N        and job i gets sum_k mu_ck (its time under k)

A chain is a base (idle or a type) and faster types. Jobs below the base's rate stay on the base;
others interpolate. With a *step* a -> b from rate T_a to T_b and f_ab(r) = clip((r - T_a) / (T_b -
T_a), 0, 1), the time on chain member b is f_ab - f_bc, so everything is linear in the few sums of f
over the jobs of a class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.opt.lp import Int32Array, LinearProgram

MOST_TYPES = 4
"""Beyond this many types there are too many chains; a row per job is better then."""
_SAME = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """Steps and chains over T positions (types of a class, slowest first); position -1 is idle."""

    low: IntArray
    high: IntArray
    leaving: tuple[slice, ...]
    """Steps that leave each position, idle first."""
    chain_top: IntArray
    """[K] last position of each chain, -1 for the chain that is only idle."""
    chain_uses: BoolArray
    """[K, S] steps that a chain contains."""
    chain_base: IntArray
    """[K] first position of a chain, -1 for idle."""
    time: FloatArray
    """[K, T, S + 1] time at a position = time . (f of every step, 1)."""


@lru_cache(maxsize=8)
def _shape(types: int) -> _Shape:
    steps = [(a, b) for a in range(-1, types) for b in range(a + 1, types)]
    number = {step: i for i, step in enumerate(steps)}
    chains = [
        (*base, *climb)
        for size in range(types + 1)
        for climb in combinations(range(types), size)
        for base in (((-1,), ()) if climb else ((-1,),))
    ]
    time = np.zeros((len(chains), types, len(steps) + 1))
    uses = np.zeros((len(chains), len(steps)), dtype=bool)
    for k, chain in enumerate(chains):
        if chain[0] >= 0:
            time[k, chain[0], -1] = 1.0
        for a, b in pairwise(chain):
            uses[k, number[a, b]] = True
            time[k, b, number[a, b]] += 1.0
            if a >= 0:
                time[k, a, number[a, b]] -= 1.0
    return _Shape(
        low=np.array([a for a, _ in steps]),
        high=np.array([b for _, b in steps]),
        leaving=tuple(slice(number[a, a + 1], number[a, a + 1] + types - 1 - a) for a in range(-1, types - 1)),
        chain_top=np.array([c[-1] for c in chains]),
        chain_uses=uses,
        chain_base=np.array([c[0] for c in chains]),
        time=time,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """The steps of every class. Depends on the rates only, so it is kept between solves."""

    shape: _Shape
    order: IntArray
    """[C, T] types, slowest first."""
    rate: FloatArray
    """[C, T] rates in that order."""
    low: FloatArray
    """[S, C] rate at which a step begins."""
    inverse: FloatArray
    """[S, C] 1 / (rate at its end - rate at its beginning); 0 for a step that does not exist."""
    exists: BoolArray
    """[S, C]"""
    sound: BoolArray
    """[K, C] chains all of whose steps and base exist."""
    top: FloatArray
    """[K, C] rate at the end of a chain."""
    start: Int32Array
    index: Int32Array

    @property
    def fastest(self) -> FloatArray:
        """[C] the highest rate of each class."""
        return self.rate[:, -1]


def ladder(rate: FloatArray) -> Ladder:
    """The ladder of a [C, T] table of rates (0 where a class cannot run)."""
    return _ladder(rate.shape, np.ascontiguousarray(rate, dtype=np.float64).tobytes())


@lru_cache(maxsize=32)
def _ladder(dimensions: tuple[int, int], content: bytes) -> Ladder:
    rate = np.frombuffer(content).reshape(dimensions)
    classes, types = dimensions
    shape = _shape(types)
    order = np.argsort(rate, axis=1, kind="stable")
    ordered = np.take_along_axis(rate, order, axis=1)
    # Position -1 is the last entry: idle.
    points = np.concatenate([ordered, np.zeros((classes, 1))], axis=1)
    low = points[:, shape.low].T
    high = points[:, shape.high].T
    exists = (high > low * (1 + _SAME)) & (high > 0) & ((low > 0) | (shape.low < 0)[:, None])
    inverse = np.divide(1.0, high - low, out=np.zeros(low.shape), where=exists)
    base = shape.chain_base
    sound = (points[:, base].T > 0) | (base < 0)[:, None]
    sound &= ~(shape.chain_uses[:, :, None] & ~exists[None]).any(axis=1)
    chains = len(base)
    index = np.empty((chains, classes, types + 1), dtype=np.int32)
    index[:, :, :types] = order[None]
    index[:, :, types] = types + np.arange(classes)
    entries = np.append(index.ravel(), np.arange(types)).astype(np.int32)
    start = np.arange(chains * classes + 1, dtype=np.int32) * (types + 1)
    return Ladder(
        shape,
        order,
        ordered,
        np.ascontiguousarray(low),
        inverse,
        exists,
        sound,
        points[:, shape.chain_top].T,
        start,
        entries,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Climb:
    """The jobs of a problem on their ladders, sorted by class: sums by class are sums of slices."""

    ladder: Ladder
    sort: IntArray
    """Positions of jobs, by class."""
    job_class: IntArray
    """[J] class, sorted."""
    present: IntArray
    """Classes that have jobs."""
    starts: IntArray
    count: FloatArray
    low: FloatArray
    inverse: FloatArray
    use: FloatArray
    """[C, T] part of a type that one job takes when it runs there all the time, in the ladder's
    order."""

    def heights(self, rate: FloatArray) -> FloatArray:
        """[S, J] where jobs (sorted) that need these rates stand on every step.

        F is this clipped to [0, 1].
        """
        height: FloatArray = rate - self.low
        height *= self.inverse
        return height

    def usage(self, f: FloatArray) -> FloatArray:
        """[K, C, T] total time by chain, class and position."""
        shape = self.ladder.shape
        sums = np.zeros((len(shape.low) + 1, len(self.count)))
        sums[:-1, self.present] = np.add.reduceat(f, self.starts, axis=1)
        sums[-1] = self.count
        chains, types, width = shape.time.shape
        total = shape.time.reshape(-1, width) @ sums
        return total.reshape(chains, types, -1).transpose(0, 2, 1)

    def program(
        self, rate: FloatArray, usage: FloatArray, cost: FloatArray, overuse: tuple[float, float]
    ) -> LinearProgram:
        """The program in mu [K, C]; its last column is the overuse of all types by one factor."""
        ladder = self.ladder
        types = self.use.shape[1]
        chains, classes = usage.shape[:2]
        value = np.empty((chains, classes, types + 1))
        np.multiply(usage, self.use, out=value[:, :, :types])
        value[:, :, types] = 1.0
        needed = np.zeros(classes)
        needed[self.present] = np.maximum.reduceat(rate, self.starts)
        reaches = ladder.sound & (ladder.top >= needed * (1 - _SAME))
        upper = np.append(np.where(reaches.ravel(), np.inf, 0.0), overuse[1])
        lower = np.zeros(len(upper))
        lower[-1] = overuse[0]
        ones = np.ones(types + classes)
        below = ones.copy()
        below[:types] = -np.inf
        return LinearProgram(
            cost=cost,
            lower=lower,
            upper=upper,
            row_lower=below,
            row_upper=ones,
            start=ladder.start,
            index=ladder.index,
            value=np.append(value.ravel(), np.full(types, -1.0)),
            name="chains of types",
        )

    def worth(self, usage: FloatArray, value: FloatArray) -> FloatArray:
        """Costs for `program` that maximise the sum of value [C, T] x time."""
        ordered = np.take_along_axis(value, self.ladder.order, axis=1)
        cost = np.zeros(self.ladder.sound.size + 1)
        np.einsum("kct,ct->kc", usage, -ordered, out=cost[:-1].reshape(self.ladder.sound.shape))
        return cost

    def share(self, f: FloatArray, mix: FloatArray) -> FloatArray:
        """[J, T] time of each job, in the order of the view, from the weights mu [K, C]."""
        shape = self.ladder.shape
        order = self.ladder.order
        chains, types, width = shape.time.shape
        by_class = (mix.T @ shape.time.reshape(chains, -1)).reshape(-1, types, width)
        mine = by_class[self.job_class]
        sorted_share = np.einsum("jts,sj->jt", mine[:, :, :-1], f) + mine[:, :, -1]
        share = np.zeros(sorted_share.shape)
        np.maximum(sorted_share, 0.0, out=sorted_share)
        share[self.sort[:, None], order[self.job_class]] = sorted_share
        return share

    def prices(self, price: FloatArray) -> FloatArray:
        """[S, J] what each step costs, for steps on the hull of the class at these prices; else 0.

        The cost of rate r is then the sum over steps of this times f.
        """
        return self.hull(price)[:, self.job_class]

    def hull(self, price: FloatArray) -> FloatArray:
        """[S, C] cost of each step on the lower hull of its class, 0 off the hull.

        A walk along it, for all classes.
        """
        ladder = self.ladder
        shape = self.ladder.shape
        classes, types = ladder.order.shape
        cost = np.zeros((types + 1, classes))
        cost[:types] = (price[ladder.order] * self.use).T
        rise = cost[shape.high] - cost[shape.low]
        slope = np.where(ladder.exists, rise * ladder.inverse, np.inf)
        step = np.zeros(rise.shape)
        every = np.arange(classes)
        reached = np.zeros((types + 1, classes), dtype=bool)
        reached[-1] = True
        for low in range(-1, types - 1):
            here = shape.leaving[low + 1]
            best = slope[here].argmin(axis=0)
            chosen = best + here.start
            goes = reached[low] & (slope[chosen, every] < np.inf)
            step[chosen, every] = np.where(goes, rise[chosen, every], 0.0)
            reached[low + 1 + best, every] |= goes
        return step


def climb(rate: FloatArray, job_class: IntArray, gpus: FloatArray, capacity: FloatArray) -> Climb:
    """Jobs of these classes on the ladder of `rate` [C, T]."""
    steps = ladder(rate)
    sort = np.argsort(job_class, kind="stable")
    class_of_row = job_class[sort]
    count = np.bincount(job_class, minlength=len(rate))
    present = np.flatnonzero(count)
    starts = np.cumsum(count)[present] - count[present]
    share_of_type = np.divide(1.0, capacity, out=np.zeros(len(capacity)), where=capacity > 0)
    return Climb(
        ladder=steps,
        sort=sort,
        job_class=class_of_row,
        present=present,
        starts=starts,
        count=count.astype(np.float64),
        low=steps.low[:, class_of_row],
        inverse=steps.inverse[:, class_of_row],
        use=gpus[:, None] * share_of_type[steps.order],
    )
