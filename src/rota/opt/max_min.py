"""Max-min fairness: raise the level that every group reaches, then the total.

maximise t   subject to   scale_g sum_j T_gj x_gj >= t   for every group that can run
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.view import View
from rota.opt.lp import Int32Array
from rota.opt.previous import recalled
from rota.opt.shares import HELD, INFINITY, Polytope, Times


@dataclass(frozen=True, slots=True, eq=False)
class MaxMin:
    """The fairest shares: level t, the times that reach it, and where the next solve may start."""

    level: float
    times: Times
    state: Mapping[str, Int32Array]


def max_min(polytope: Polytope, value: FloatArray, view: View) -> MaxMin:
    """Maximise the lowest level, then sum of value_g x steps with that level held.

    Groups that cannot run get nothing and do not count in the minimum. The second stage is needed
    because the first has many optima, and a vertex of it may leave most GPUs idle.
    """
    fastest = polytope.gain.max(axis=1, initial=0.0)
    counted = np.where(fastest > 0, polytope.groups.count, 0.0)
    if not counted.any():
        return MaxMin(0.0, polytope.read(np.zeros(polytope.size)), {})
    own = INFINITY if polytope.pairs is not None else float(fastest[counted > 0].min())
    program = polytope.program(
        cost=polytope.only(-1.0),
        need=np.zeros(len(counted)),
        level=counted,
        bounds=(0.0, own),
        name="max-min fairness",
    )
    # Not checked: the second stage would not be feasible.
    first = program.solve(recalled(view, "basis"), check=False)
    level = float(first.x[polytope.special])
    column = (polytope.special, level * HELD, INFINITY)
    program.change(cost=polytope.costs(value[:, None]), column=column)
    second = program.improve(recalled(view, "second_basis"))
    state = {"basis": first.basis, "second_basis": second.basis}
    return MaxMin(level, polytope.read(second.x), state)
