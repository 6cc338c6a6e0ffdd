"""The most total worth of steps, with rates that some jobs must reach.

    maximise  sum_ij T_ij h_j x_ij   subject to   sum_j T_ij x_ij >= r_i

Without needs by class; with them the jobs of a class climb chains of types (chains.py), or, where
pairs are allowed or types are many, every job with a need is a group of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import InfeasibleError
from rota.core.tolerance import TOLERANCE
from rota.opt.chains import Climb
from rota.opt.columns import PairSource, joined
from rota.opt.lp import Int32Array
from rota.opt.pairs import Pairs
from rota.opt.shares import INFINITY, Polytope, Times


@dataclass(frozen=True, slots=True, eq=False)
class MostTimes:
    """Times with the most worth."""

    worth: float
    times: Times
    pairs: Pairs | None
    basis: Int32Array


def most(
    polytope: Polytope,
    value: FloatArray,
    need: FloatArray,
    source: PairSource | None = None,
    basis: Int32Array | None = None,
) -> MostTimes:
    """Maximise sum of value [T] x steps by group; `need` [G] is in total steps/s of the group.

    Pairs are added from `source`, if given, as long as they improve the total, and before that
    until the needs are met.

    Raises:
        InfeasibleError: the needs cannot all be met.

    """
    groups, types = polytope.rate.shape
    worth = np.broadcast_to(value, polytope.rate.shape)
    while True:
        cost = polytope.costs(worth)
        program = polytope.program(cost=cost, need=need, level=None, bounds=(0.0, 0.0), name="most total throughput")
        try:
            solution = program.solve(basis)
        except InfeasibleError:
            if source is None or polytope.pairs is None or len(polytope.pairs):
                raise
            polytope = replace(polytope, pairs=_enough_pairs(polytope, need, source))
            basis = None
            continue
        if source is None or polytope.pairs is None:
            break
        reward = worth + (solution.row_dual[:groups] * polytope.scale)[:, None]
        new = source.improving(solution, reward)
        pairs = joined(polytope.pairs, new, groups, types)
        if len(pairs) == len(polytope.pairs):
            break
        polytope = replace(polytope, pairs=pairs)
        basis = solution.basis
    return MostTimes(-solution.objective, polytope.read(solution.x), polytope.pairs, solution.basis)


def _enough_pairs(polytope: Polytope, need: FloatArray, source: PairSource) -> Pairs:
    """Pairs with which the needs can be met, where they cannot without.

    Those that most reduce the overuse of GPUs.

    Raises:
        InfeasibleError: no pairs are enough.

    """
    groups, types = polytope.rate.shape
    pairs = Pairs.none()
    while True:
        with_them = replace(polytope, pairs=pairs)
        cost = with_them.only(1.0)
        solution = with_them.program(
            cost=cost, need=need, level=None, bounds=(0.0, INFINITY), name="least overuse"
        ).solve()
        if solution.objective <= TOLERANCE:
            return pairs
        price = solution.row_dual[:groups] * polytope.scale
        reward = np.broadcast_to(price[:, None], polytope.rate.shape)
        more = joined(pairs, source.improving(solution, reward), groups, types)
        if len(more) == len(pairs):
            raise InfeasibleError("the needs cannot be met, whichever jobs share GPUs")
        pairs = more


def most_with_needs(
    jobs: Climb,
    need: FloatArray,
    value: FloatArray,
) -> tuple[float, FloatArray] | None:
    """Worth and shares [J, T] with the most sum of value [C, T] x time.

    None if the needs [J] cannot all be met.
    """
    rate = need[jobs.sort]
    f = np.minimum(np.maximum(jobs.heights(rate), 0.0), 1.0)
    usage = jobs.usage(f)
    try:
        solution = jobs.program(rate, usage, jobs.worth(usage, value), (0.0, 0.0)).solve()
    except InfeasibleError:
        return None
    return -solution.objective, jobs.share(f, solution.x[:-1].reshape(jobs.ladder.sound.shape))
