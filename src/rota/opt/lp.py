"""Linear programs on HiGHS: arrays in, arrays out, warm starts from a basis that is a plain array.

    minimise cost . x   subject to   row_lower <= A x <= row_upper,  lower <= x <= upper

A is given by columns (CSC). Models here are small (tens to a few thousand columns) and solved
hundreds of thousands of times in one simulation, so presolve is off, one solver object per thread
is reused, and a *basis* is handed from one solve to the next: the indices of the basic variables,
columns as 0.., row i as -1 - i.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from rota.core.arrays import FloatArray, every
from rota.core.errors import InfeasibleError, RotaError, SolveError

Int32Array = NDArray[np.int32]

FEASIBILITY = 1e-9
"""Tolerance handed to the solver for primal and dual feasibility."""
CREDIBLE = 1e-7
"""Largest violation of a row, relative to its value, with which an answer is accepted."""
_COLUMNWISE = 1
_MINIMISE = 1
_OPTIMAL = highspy.HighsModelStatus.kOptimal
_INFEASIBLE = {
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
}
_BASIC = highspy.HighsBasisStatus.kBasic
_REST = {
    (0, 0): highspy.HighsBasisStatus.kLower,
    (0, 1): highspy.HighsBasisStatus.kUpper,
    (1, 1): highspy.HighsBasisStatus.kUpper,
    (1, 0): highspy.HighsBasisStatus.kZero,
}
"""Where a variable stands while it is not basic, by (it has no lower bound, its upper bound is
nearer to 0)."""


STRICT: Mapping[str, object] = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "threads": 1,
    "simplex_strategy": 1,
    # With scaling, HiGHS 1.15 was seen to call an infeasible point optimal after a change of costs.
    "simplex_scale_strategy": 0,
    "primal_feasibility_tolerance": FEASIBILITY,
    "dual_feasibility_tolerance": FEASIBILITY,
}
PRIMAL: Mapping[str, object] = {"simplex_strategy": 4}
LENIENT: Mapping[str, object] = {
    "simplex_strategy": 4,
    "simplex_scale_strategy": 4,
    "primal_feasibility_tolerance": 1e-8,
    "dual_feasibility_tolerance": 1e-7,
}
"""A last attempt for a program that is on the edge of being infeasible: primal simplex, looser
tolerances."""


class _Solver(threading.local):
    """The HiGHS object of this thread, and the program whose model it holds."""

    def __init__(self) -> None:
        # Some versions of highspy come with types, others do not.
        self.highs: Any = highspy.Highs()  # type: ignore[no-untyped-call,unused-ignore]
        self.holds: LinearProgram | None = None
        self._set(STRICT)

    def _set(self, settings: Mapping[str, object]) -> None:
        for name, value in settings.items():
            self.highs.setOptionValue(name, value)

    @contextmanager
    def using(self, settings: Mapping[str, object]) -> Iterator[None]:
        """Other settings for a while."""
        self._set(settings)
        try:
            yield
        finally:
            self._set({name: STRICT[name] for name in settings})


_solver = _Solver()


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """An optimal point of a linear program."""

    x: FloatArray
    row_dual: FloatArray
    """Change of the objective by unit of the row's bound."""
    objective: float
    basis: Int32Array


@dataclass(slots=True, eq=False)
class LinearProgram:
    """One linear program; `solve` may be called again after `change`."""

    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    start: Int32Array
    """[columns] where each column begins in `index` and `value`."""
    index: Int32Array
    value: FloatArray
    name: str = "linear program"
    _integrality: Int32Array = field(init=False)

    def __post_init__(self) -> None:
        columns = len(self.cost)
        rows = len(self.row_lower)
        lengths = (len(self.lower), len(self.upper), len(self.start), len(self.row_upper), len(self.index))
        # HiGHS would read beyond the arrays.
        if lengths != (columns, columns, columns, rows, len(self.value)):
            shape = f"{columns} columns and {rows} rows"
            raise SolveError(f"{self.name}: arrays of lengths {lengths} for {shape}")
        self._integrality = np.zeros(columns, dtype=np.int32)

    def improve(self, basis: Int32Array | None = None) -> Solution:
        """The optimum after a change of costs, from a basis of that stage or of the last solve.

        That point is still feasible, so without such a basis the primal method is the fast one.
        """
        if basis is not None and len(basis) == len(self.row_lower):
            return self.solve(basis)
        with _solver.using(PRIMAL):
            return self.solve()

    def solve(self, basis: Int32Array | None = None, *, check: bool = True) -> Solution:
        """The optimum; `basis` is where to start if it fits.

        `check` is for answers that are not checked otherwise.

        Raises:
            InfeasibleError: no point satisfies all rows.
            SolveError: the solver stopped for any other reason.

        """
        if _solver.holds is not self:
            self._load()
        if basis is not None and len(basis) == len(self.row_lower):
            self._start_from(basis)
        status = self._run()
        if status == _OPTIMAL:
            solution = self._read()
            if not check or self._satisfied_by(solution.x):
                return solution
        for settings in ({}, LENIENT):
            self._load()
            with _solver.using(settings):
                status = self._run()
                if status == _OPTIMAL and self._satisfied_by((solution := self._read()).x):
                    return solution
            if status in _INFEASIBLE:
                break
        raise self._failure(status)

    def change(
        self,
        *,
        cost: FloatArray | None = None,
        column: tuple[int, float, float] | None = None,
    ) -> None:
        """Replace all costs, or the bounds of one column (index, lower, upper).

        The next solve starts from here.
        """
        held = _solver.holds is self
        if cost is not None:
            self.cost = cost
            if held:
                _solver.highs.changeColsCost(len(cost), _counting(len(cost)), cost)
        if column is not None:
            at, lower, upper = column
            self.lower[at] = lower
            self.upper[at] = upper
            if held:
                _solver.highs.changeColBounds(at, lower, upper)

    def change_needs(self, need: FloatArray) -> None:
        """Replace the lower bounds of the first rows; their upper bounds stay."""
        self.row_lower[: len(need)] = need
        if _solver.holds is self:
            rows = _counting(len(need))
            lower = self.row_lower[: len(need)]
            upper = self.row_upper[: len(need)]
            _solver.highs.changeRowsBounds(len(need), rows, lower, upper)

    def _satisfied_by(self, x: FloatArray) -> bool:
        """Whether the point satisfies all rows and bounds: the solver's word is not enough."""
        entries = np.empty(len(x), dtype=np.int64)
        entries[:-1] = self.start[1:] - self.start[:-1]
        entries[-1] = len(self.value) - self.start[-1]
        weights = self.value * np.repeat(x, entries)
        row = np.bincount(self.index, weights=weights, minlength=len(self.row_lower))
        room = CREDIBLE * (1 + np.abs(row))
        return (
            every(row >= self.row_lower - room)
            and every(row <= self.row_upper + room)
            and every(x >= self.lower - CREDIBLE)
            and every(x <= self.upper + CREDIBLE)
        )

    def _failure(self, status: Any) -> RotaError:
        words = _solver.highs.modelStatusToString(status)
        size = f"{len(self.cost)} columns, {len(self.row_lower)} rows"
        if status in _INFEASIBLE:
            return InfeasibleError(f"{self.name} ({size}): no solution; the solver says {words!r}")
        if status == _OPTIMAL:
            return SolveError(f"{self.name} ({size}): the solver's answer does not satisfy the rows")
        return SolveError(f"{self.name} ({size}): the solver stopped with {words!r}")

    def _load(self) -> None:
        _solver.holds = None
        status = _solver.highs.passModel(
            len(self.cost),
            len(self.row_lower),
            len(self.value),
            _COLUMNWISE,
            _MINIMISE,
            0.0,
            self.cost,
            self.lower,
            self.upper,
            self.row_lower,
            self.row_upper,
            self.start,
            self.index,
            self.value,
            self._integrality,
        )
        if status == highspy.HighsStatus.kError:
            why = "the solver refused the model (a coefficient that is not a number?)"
            raise SolveError(f"{self.name}: {why}")
        _solver.holds = self

    def _start_from(self, basis: Int32Array) -> None:
        resting = (*_resting(self.lower, self.upper), *_resting(self.row_lower, self.row_upper))
        start = _start(basis.tobytes(), *resting)
        if start is not None:
            _solver.highs.setBasis(start)

    def _run(self) -> Any:
        _solver.highs.run()
        return _solver.highs.getModelStatus()

    def _read(self) -> Solution:
        highs = _solver.highs
        values = highs.getSolution()
        return Solution(
            x=np.array(values.col_value),
            row_dual=np.array(values.row_dual),
            objective=highs.getObjectiveValue(),
            basis=np.asarray(highs.getBasicVariables()[1], dtype=np.int32),
        )


def _resting(lower: FloatArray, upper: FloatArray) -> tuple[bytes, bytes]:
    """What decides where variables stand while they are not basic: no lower bound.

    An upper one that is nearer to 0.
    """
    return (lower == -np.inf).tobytes(), (np.abs(upper) < np.abs(lower)).tobytes()


@lru_cache(maxsize=64)
def _start(
    basis: bytes,
    open_: bytes,
    above: bytes,
    row_open: bytes,
    row_above: bytes,
) -> Any | None:
    """A basis as HiGHS takes it, or None if it does not fit.

    Most solves start from the basis of the one before.
    """
    columns = [_REST[pair] for pair in zip(open_, above, strict=True)]
    rows = [_REST[pair] for pair in zip(row_open, row_above, strict=True)]
    for variable in np.frombuffer(basis, dtype=np.int32).tolist():
        if variable >= len(columns):
            return None
        if variable >= 0:
            columns[variable] = _BASIC
        else:
            rows[-1 - variable] = _BASIC
    start: Any = highspy.HighsBasis()
    start.col_status = columns
    start.row_status = rows
    start.valid = True
    # It came from a program of this shape: not to be factored once more to find out.
    start.alien = False
    return start


@lru_cache(maxsize=64)
def _counting(count: int) -> Int32Array:
    return np.arange(count, dtype=np.int32)
