"""Water filling: raise all levels together, stop those that cannot rise, go on with the rest.

    needs(tau): the level that every group should have when the water stands at tau (a schedule, see below)

Phase by phase: find the highest tau at which all needs can be met; groups that then hold a scarce
resource stop at their level, all others rise on. What can stop a group is (a) its own fastest type,
known beforehand, so it is part of the schedule and costs no linear program, or (b) a bottleneck of
capacity, seen in the duals: a group whose need has a positive price is at its limit in every
solution. Hence one phase per bottleneck, not one per group.

A phase: with the needs of a trial tau the least overuse theta of the GPUs is computed. Its duals
bound theta from below for all other needs, so the tau at which that bound is zero is the next,
lower trial; if it is feasible it is the optimum. Only right-hand sides change between trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import SolveError
from rota.core.tolerance import TOLERANCE
from rota.opt.lp import Int32Array, LinearProgram, Solution
from rota.opt.shares import Polytope, Times

PRICED = 1e-7
"""A group's part of what all needs cost from which its level counts as stopped by a bottleneck."""
MOST_TRIALS = 1000


class Schedule(Protocol):
    """How needs grow with the water level."""

    def marks(self, ceiling: FloatArray) -> FloatArray:
        """Ascending water levels between which all needs are linear.

        At the last one all ceilings are reached.
        """

    def needs(self, tau: float, ceiling: FloatArray) -> FloatArray:
        """[G] level of one job of each group at that water level, at most its ceiling."""


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """Levels [G] by job of a group, times that reach them, and where the next solve may start."""

    level: FloatArray
    times: Times
    basis: Int32Array | None
    duals: FloatArray | None
    phases: int


class Together:
    """All groups rise together, each with its own speed: need = min(ceiling, speed x tau)."""

    def __init__(self, speed: FloatArray) -> None:
        self._speed = speed

    def marks(self, ceiling: FloatArray) -> FloatArray:
        """Where groups reach their ceilings."""
        return np.sort(ceiling / self._speed)

    def needs(self, tau: float, ceiling: FloatArray) -> FloatArray:
        """The level at tau."""
        need: FloatArray = np.minimum(ceiling, self._speed * tau)
        return need


def fill(
    polytope: Polytope,
    schedule: Schedule,
    basis: Int32Array | None = None,
    duals: FloatArray | None = None,
) -> Filled:
    """Water-filled levels, in the unit rate x scale.

    Groups that cannot run or have no job stay at 0.

    Duals of an earlier solve, repaired where rates have changed, bound the first phase whatever the
    number of jobs and GPUs is now: a good first trial.
    """
    count = polytope.groups.count
    ceiling = np.where(count > 0, polytope.gain.max(axis=1, initial=0.0), 0.0)
    if not ceiling.any():
        return Filled(ceiling, polytope.read(np.zeros(polytope.size)), None, None, 0)
    cost = polytope.only(1.0)
    program = polytope.program(cost=cost, need=count * ceiling, level=None, bounds=(-1.0, np.inf), name="water filling")
    if duals is None or len(duals) != len(program.row_lower):
        duals = np.zeros(len(program.row_lower))
    duals = _repaired(program, polytope, duals)
    first: FloatArray | None = None
    for phase in range(len(count) + 1):
        level, duals, solution = _highest(program, schedule, ceiling, polytope, (basis, duals))
        basis = solution.basis
        first = duals if first is None else first
        rising = level < ceiling
        if not rising.any():
            return Filled(level, polytope.read(solution.x), basis, first, phase)
        price = duals[: len(count)] * count
        stopped = (price * level > PRICED * float(price @ level)) & rising
        ceiling = np.where(stopped if stopped.any() else (price > 0) & rising, level, ceiling)
        duals = np.zeros(len(duals))
    raise SolveError(f"water filling did not end after {len(count) + 1} phases")


def _repaired(program: LinearProgram, polytope: Polytope, duals: FloatArray) -> FloatArray:
    """Duals that bound this program.

    Where a column is worth more than it costs, the price of its time is raised.
    """
    groups = len(polytope.groups)
    worth = np.add.reduceat(program.value * duals[program.index], program.start)
    worth[polytope.special] = 0.0
    excess = np.where(program.upper > 0, np.maximum(worth, 0.0), 0.0)
    owner = np.repeat(np.arange(groups), polytope.rate.shape[1])
    if polytope.pairs is not None:
        owner = np.concatenate([owner, [0], polytope.pairs.first])
    raised = np.zeros(groups)
    np.maximum.at(raised, owner, excess[: len(owner)])
    repaired = duals.copy()
    repaired[groups : 2 * groups] -= raised
    return repaired


def _highest(
    program: LinearProgram,
    schedule: Schedule,
    ceiling: FloatArray,
    polytope: Polytope,
    start: tuple[Int32Array | None, FloatArray],
) -> tuple[FloatArray, FloatArray, Solution]:
    """One phase: the highest feasible water level, and the duals that forbid a higher one."""
    basis, duals = start
    count = polytope.groups.count
    marks = schedule.marks(ceiling)
    tau = float(marks[-1])
    level = ceiling
    limits = np.concatenate([-count, -polytope.capacity])
    for _ in range(MOST_TRIALS):
        price = duals[: len(count)] * count
        if price.any():
            worth = float(duals[len(count) :] @ limits)
            tau = min(tau, _affordable(schedule, marks, ceiling, price, worth))
            level = schedule.needs(tau, ceiling)
        program.change_needs(count * level)
        solution = program.solve(basis)
        basis = solution.basis
        if solution.objective <= TOLERANCE:
            return level, duals, solution
        duals = solution.row_dual
    fix = f"last {tau!r} with overuse {solution.objective!r}"
    raise SolveError(f"water filling: no level after {MOST_TRIALS} trials; {fix}")


def _affordable(
    schedule: Schedule,
    marks: FloatArray,
    ceiling: FloatArray,
    price: FloatArray,
    worth: float,
) -> float:
    """The highest water level whose needs cost no more than `worth` at these prices."""

    def cost_at(mark: int) -> float:
        return float(price @ schedule.needs(float(marks[mark]), ceiling))

    low = -1
    high = len(marks) - 1
    cost_low = 0.0
    cost_high = cost_at(high)
    if cost_high <= worth:
        return float(marks[-1])
    while high - low > 1:
        middle = (low + high) // 2
        cost = cost_at(middle)
        if cost <= worth:
            low = middle
            cost_low = cost
        else:
            high = middle
            cost_high = cost
    start = float(marks[low]) if low >= 0 else 0.0
    end = float(marks[high])
    return start + (end - start) * max(0.0, worth - cost_low) / (cost_high - cost_low)
