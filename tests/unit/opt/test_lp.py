"""The solver wrapper: warm starts, changes, and loud failures."""

from __future__ import annotations

import numpy as np
import pytest

from rota.core.errors import InfeasibleError, SolveError
from rota.opt.lp import LinearProgram


def a_program(need=1.0, cost=(1.0, 2.0)):
    """Minimise cost . x with x0 + x1 >= need, x0 <= 3, x1 <= 3."""
    return LinearProgram(
        cost=np.array(cost),
        lower=np.zeros(2),
        upper=np.full(2, 3.0),
        row_lower=np.array([need]),
        row_upper=np.array([np.inf]),
        start=np.array([0, 1], dtype=np.int32),
        index=np.array([0, 0], dtype=np.int32),
        value=np.ones(2),
    )


def test_the_optimum_its_price_and_its_basis_are_returned():
    found = a_program(need=4.0).solve()

    assert found.x == pytest.approx([3.0, 1.0])
    assert found.objective == pytest.approx(5.0)
    assert found.row_dual == pytest.approx([2.0])
    assert found.basis.tolist() == [1]


@pytest.mark.parametrize("basis", [[0], [1], [-1], [7], [0, 1]])
def test_any_basis_leads_to_the_same_optimum(basis):
    found = a_program(need=4.0).solve(np.array(basis, dtype=np.int32))

    assert found.x == pytest.approx([3.0, 1.0])


def test_costs_and_needs_can_be_changed_between_solves():
    program = a_program(need=4.0)
    program.solve()
    other = a_program()
    other.solve()

    program.change(cost=np.array([2.0, 1.0]), column=(1, 0.0, 2.0))
    program.change_needs(np.array([3.0]))

    assert program.solve().x == pytest.approx([1.0, 2.0])
    program.change_needs(np.array([2.0]))
    assert program.solve().x == pytest.approx([0.0, 2.0])


def test_no_solution_is_said_in_words():
    with pytest.raises(InfeasibleError, match=r"Infeasible"):
        a_program(need=7.0).solve()


def test_an_unbounded_program_is_an_error():
    program = a_program(cost=(-1.0, 0.0))
    program.upper[:] = np.inf

    with pytest.raises((SolveError, InfeasibleError), match=r"(?i)unbounded"):
        program.solve()


def test_arrays_that_do_not_fit_together_are_refused():
    with pytest.raises(SolveError, match="lengths"):
        LinearProgram(
            cost=np.zeros(2),
            lower=np.zeros(1),
            upper=np.ones(2),
            row_lower=np.zeros(1),
            row_upper=np.ones(1),
            start=np.zeros(2, dtype=np.int32),
            index=np.zeros(1, dtype=np.int32),
            value=np.ones(1),
        )


def test_a_coefficient_that_is_not_a_number_is_refused():
    program = a_program()
    program.value[0] = np.nan

    with pytest.raises(SolveError):
        program.solve()


def test_an_answer_that_breaks_a_row_is_not_believed():
    program = a_program(need=4.0)

    assert program._satisfied_by(np.array([3.0, 1.0]))
    assert not program._satisfied_by(np.array([3.0, 0.9]))
    assert not program._satisfied_by(np.array([5.0, 0.0]))
