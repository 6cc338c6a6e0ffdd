"""Raise a common target v until the cluster is full.

Every job i needs at least the rate r_i(v), which grows with v.

    maximise v   subject to   T_i . x_i >= r_i(v),  sum_j x_ij <= 1,  sum_i s_i x_ij <= N_j,  x >= 0

Makespan and finish-time fairness have this form (policies say how). For a trial v, a linear program
finds the least overuse theta(v) of the GPUs (see chains.py) and prices of types. At those prices
the cost of all needs is a convex function of v that stays below what the GPUs are worth exactly as
far as the prices allow; its root is an upper bound on the best v and the next trial. The bounds
fall to the optimum in a few steps (a Newton method on theta).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import InfeasibleError, SolveError
from rota.opt.chains import Climb
from rota.opt.lp import Int32Array, Solution

CLOSE = 1e-10
"""Overuse of the GPUs that counts as none."""
MARGIN = 2e-9
"""Overuse left to the second stage: more than the solver's tolerance, so that the first stage's
answer is feasible."""
ROUNDING = 1e-13
MOST_TRIALS = 100
FAR = 1e-4
"""A first trial that is a smaller part of what some job allows is none: programs are written in
units of the trial."""


@dataclass(frozen=True, slots=True, eq=False)
class Pace:
    """Rates that jobs need to meet a target: r(v) = steps v / (slack - age v).

    Increasing and convex.

    With slack 1 and age 0, v is one over the makespan; with age a_i and slack E_i, one over the
    finish-time fairness.
    """

    steps: FloatArray
    slack: FloatArray
    age: FloatArray
    fastest: FloatArray
    """The job's highest rate: never asked for more, not even by rounding."""

    def rate(self, v: float) -> FloatArray:
        """The rate each job needs."""
        need: FloatArray = np.minimum(self.steps * v / (self.slack - self.age * v), self.fastest)
        return need

    def slope(self, v: float) -> FloatArray:
        """Change of that rate with v."""
        return self.steps * self.slack / (self.slack - self.age * v) ** 2

    def limit(self) -> float:
        """The target that some job cannot exceed even on its fastest type all the time.

        Infinity without needs.
        """
        needs = self.steps > 0
        own = self.slack[needs] / (self.age[needs] + self.steps[needs] / self.fastest[needs])
        return float(own.min(initial=np.inf))

    def scaled(self, factor: FloatArray) -> Pace:
        """The same with every job's rates counted times its factor."""
        return Pace(self.steps * factor, self.slack, self.age, self.fastest * factor)

    def rows(self, order: IntArray) -> Pace:
        """The same for jobs in another order."""
        return Pace(self.steps[order], self.slack[order], self.age[order], self.fastest[order])


def first_trial(guess: float, limit: float) -> float:
    """Where to begin: at the guess if it is of use, else at the limit, an upper bound.

    When jobs end together, what is left of the last of them are rounding errors, and the target of
    the solve before is some millionth of the next: the coefficients of a program in its units would
    be dropped by the solver as zeros.
    """
    return guess if FAR * limit <= guess <= limit else limit


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """The highest target, the shares that meet it, and what the next solve may start from."""

    target: float
    share: FloatArray
    price: FloatArray
    basis: Int32Array | None
    second_basis: Int32Array


def highest_target(
    jobs: Climb,
    pace: Pace,
    value: FloatArray,
    *,
    price: FloatArray | None = None,
    basis: Int32Array | None = None,
    second_basis: Int32Array | None = None,
) -> Reached:
    """The optimum, then the most of sum value . time among the shares that meet it.

    Args:
        jobs: the jobs on their ladders; jobs that cannot run must need nothing.
        pace: needs of the jobs in the order of the view.
        value: [C, T] worth of a unit of a job's time by class and type.
        price: prices by type of an earlier solve, a first guess.
        basis: the basis of an earlier solve.
        second_basis: that of its second stage.

    """
    pace = pace.rows(jobs.sort)
    limit = pace.limit()
    if limit == np.inf:
        limit = 0.0
    if price is None:
        in_use = jobs.use.max(axis=0) > 0
        price = np.where(in_use, 1.0, 0.0) / max(1, in_use.sum())
    v, f = _affordable(jobs, pace, price, limit)
    if v == limit and second_basis is not None:
        likely = _at_limit(jobs, pace.rate(v), f, value, second_basis)
        if likely is not None:
            return Reached(v, jobs.share(f, _mix(jobs, likely)), price, basis, likely.basis)
    return _from_above(jobs, pace, value, (v, f, price), (basis, second_basis))


def _from_above(
    jobs: Climb,
    pace: Pace,
    value: FloatArray,
    trial: tuple[float, FloatArray, FloatArray],
    bases: tuple[Int32Array | None, Int32Array | None],
) -> Reached:
    """Lower the trial (target, steps, prices), an upper bound, until the cluster can meet it.

    Then the second stage.
    """
    v, f, price = trial
    basis, second_basis = bases
    cost = np.zeros(jobs.ladder.sound.size + 1)
    cost[-1] = 1.0
    for _ in range(MOST_TRIALS):
        usage = jobs.usage(f)
        program = jobs.program(pace.rate(v), usage, cost, (-1.0, np.inf))
        solution = program.solve(basis)
        basis = solution.basis
        overuse = solution.objective
        if overuse <= CLOSE:
            break
        price = np.maximum(-solution.row_dual[: len(price)], 0.0)
        lower, f_lower = _affordable(jobs, pace, price, v)
        if lower >= v * (1 - ROUNDING):
            break
        v = lower
        f = f_lower
    else:
        fix = f"last {v!r} with overuse {overuse!r}"
        raise SolveError(f"no common target after {MOST_TRIALS} trials; {fix}")
    held = (len(cost) - 1, -1.0, max(0.0, overuse) + MARGIN)
    program.change(cost=jobs.worth(usage, value), column=held)
    best = program.improve(second_basis)
    return Reached(v, jobs.share(f, _mix(jobs, best)), price, basis, best.basis)


def _mix(jobs: Climb, solution: Solution) -> FloatArray:
    """[K, C] weights of the chains."""
    return solution.x[:-1].reshape(jobs.ladder.sound.shape)


def _at_limit(
    jobs: Climb,
    rate: FloatArray,
    f: FloatArray,
    value: FloatArray,
    basis: Int32Array,
) -> Solution | None:
    """The second stage at once, for a target that no job can exceed anyway.

    None if the cluster cannot meet it.
    """
    usage = jobs.usage(f)
    try:
        return jobs.program(rate, usage, jobs.worth(usage, value), (-1.0, MARGIN)).solve(basis)
    except InfeasibleError:
        return None


def _affordable(
    jobs: Climb,
    pace: Pace,
    price: FloatArray,
    start: float,
) -> tuple[float, FloatArray]:
    """The largest v <= start whose needs cost no more than all GPUs at these prices; its steps."""
    step = jobs.prices(price)
    worth = float(price.sum())
    slope = step * jobs.inverse
    v = start
    for _ in range(MOST_TRIALS):
        height = jobs.heights(pace.rate(v))
        f = np.minimum(np.maximum(height, 0.0), 1.0)
        excess = float(np.vdot(step, f)) - worth
        if excess <= ROUNDING * worth:
            return v, f
        climbing = (height > 0) & (height <= 1 + ROUNDING)
        gradient = float(np.vdot(slope, climbing * pace.slope(v)))
        if gradient <= 0:
            problem = f"cost of the target {v!r} exceeds the cluster by {excess!r}"
            raise SolveError(f"{problem} but does not change with it")
        lower = v - excess / gradient
        if not lower < v:
            return v, f
        v = lower
    problem = f"no root of the cost of a common target after {MOST_TRIALS} steps; last {v!r}"
    raise SolveError(problem)
