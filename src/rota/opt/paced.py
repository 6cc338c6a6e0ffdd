"""The highest common target with a row per group.

For pairs of jobs, and for clusters of many types.

    maximise v   subject to   rate of group g >= r_g(v)   on the polytope of shares.py

r is convex, so its tangent at a trial v asks for less than r: the linear program with tangents
overestimates the optimum, and its answer is the next trial (Newton's method; exact at once for the
makespan, where r is linear). Pairs are added as prices call for them (columns.py), at the same
time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import SolveError
from rota.opt.columns import PairSource, joined
from rota.opt.lp import Int32Array, LinearProgram, Solution
from rota.opt.pairs import Pairs
from rota.opt.shares import HELD, INFINITY, Polytope, Times
from rota.opt.targets import CLOSE, MOST_TRIALS, Pace, first_trial


@dataclass(frozen=True, slots=True, eq=False)
class Paced:
    """The highest target, times that reach it, and the pair columns that were tried."""

    target: float
    times: Times
    pairs: Pairs


def highest_paced_target(
    polytope: Polytope, pace: Pace, value: FloatArray, source: PairSource | None, v: float
) -> Paced:
    """The optimum and, with it held, the most of sum value_g x steps.

    Args:
        polytope: with scale so that rate x scale is in the unit of the pace, about 1; its pairs are where to start.
        pace: needs of one job of each group (all counts are 1).
        value: [G] worth of a step in the second stage.
        source: more pairs, or None if the polytope has all that may be used.
        v: first trial.

    """
    limit = pace.limit()
    if limit == INFINITY:  # nobody needs anything any more
        return replace(_second_stage(polytope, pace, value, source, (1.0, None)), target=0.0)
    v = first_trial(v, limit)
    basis: Int32Array | None = None
    for _ in range(MOST_TRIALS):
        solution = _tangent(polytope, pace, v, limit).solve(basis)
        basis = solution.basis
        reached = v * float(solution.x[polytope.special])
        more = _more(polytope, source, solution, np.zeros(len(value)))
        if more is None and abs(reached - v) <= CLOSE * v:
            break
        polytope = more or polytope
        v = reached
    else:
        raise SolveError(f"no common target after {MOST_TRIALS} trials; last {v!r}, {reached!r}")
    return _second_stage(polytope, pace, value, source, (min(v, reached), solution.basis))


def _tangent(polytope: Polytope, pace: Pace, v: float, limit: float) -> LinearProgram:
    """The program with tangents at v; its level is in units of v, so that it is about 1."""
    slope = pace.slope(v) * v
    return polytope.program(
        cost=polytope.only(-1.0),
        need=pace.rate(v) - slope,
        level=slope,
        bounds=(0.0, limit / v),
        name="common target",
    )


def _more(
    polytope: Polytope,
    source: PairSource | None,
    solution: Solution,
    value: FloatArray,
) -> Polytope | None:
    """The polytope with the pairs that would improve the solution; None if there are none."""
    if source is None or polytope.pairs is None:
        return None
    groups, types = polytope.rate.shape
    reward = value + solution.row_dual[:groups] * polytope.scale
    new = source.improving(solution, np.broadcast_to(reward[:, None], (groups, types)))
    pairs = joined(polytope.pairs, new, groups, types)
    return None if len(pairs) == len(polytope.pairs) else replace(polytope, pairs=pairs)


def _second_stage(
    polytope: Polytope,
    pace: Pace,
    value: FloatArray,
    source: PairSource | None,
    start: tuple[float, Int32Array | None],
) -> Paced:
    target, basis = start
    for _ in range(MOST_TRIALS):
        program = _tangent(polytope, pace, target, INFINITY)
        column = (polytope.special, HELD, INFINITY)
        program.change(cost=polytope.costs(value[:, None]), column=column)
        solution = program.solve(basis)
        more = _more(polytope, source, solution, value)
        if more is None:
            break
        polytope = more
        basis = solution.basis
    return Paced(target, polytope.read(solution.x), polytope.pairs or Pairs.none())
