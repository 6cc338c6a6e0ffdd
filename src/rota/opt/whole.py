"""Integer programs on HiGHS: the same arrays as a linear program, every variable a whole number.

For programs that are solved now and then. Every solve has a solver object of its own: its clock
runs on from solve to solve, and the answer to a program must not depend on those before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import SolveError
from rota.opt.lp import LinearProgram

_COLUMNWISE = 1
_MINIMISE = 1
_WHOLE = 1e-6
"""Distance from a whole number that is the solver's rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class WholeSolution:
    """The best whole point that was found."""

    x: FloatArray
    objective: float
    seconds: float
    """How long the solver took."""


def is_whole(x: FloatArray) -> bool:
    """Whether every number is whole but for rounding."""
    return bool((np.abs(x - np.rint(x)) <= _WHOLE).all())


def solve_whole(
    program: LinearProgram, *, time_limit_s: float, gap: float = 0.0, nodes: int = 1_000_000
) -> WholeSolution | None:
    """The least cost over whole points, up to a relative gap.

    None if there is none, or none was found in time.

    `nodes` bounds the search in a way that does not depend on how fast the machine is.
    """
    if time_limit_s <= 0:
        return None
    # Some versions of highspy come with types, others do not.
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call,unused-ignore]
    settings = {
        "output_flag": False, "threads": 1, "random_seed": 0, "time_limit": time_limit_s, "mip_rel_gap": gap,
        "mip_max_nodes": nodes, "mip_feasibility_tolerance": 1e-9,
    }  # fmt: skip
    for name, value in settings.items():
        highs.setOptionValue(name, value)
    status = highs.passModel(
        len(program.cost), len(program.row_lower), len(program.value), _COLUMNWISE, _MINIMISE, 0.0,
        program.cost, program.lower, program.upper, program.row_lower, program.row_upper,
        program.start, program.index, program.value, np.ones(len(program.cost), dtype=np.int32),
    )  # fmt: skip
    if status == highspy.HighsStatus.kError:
        why = "the solver refused the model (a coefficient that is not a number?)"
        raise SolveError(f"{program.name}: {why}")
    highs.run()
    info = highs.getInfo()
    if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return None
    x = np.rint(np.array(highs.getSolution().col_value))
    return WholeSolution(x=x, objective=float(program.cost @ x), seconds=float(highs.getRunTime()))
