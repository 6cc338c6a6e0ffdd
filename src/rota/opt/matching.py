"""Cheapest assignment of rows to columns (Jonker-Volgenant, by SciPy)."""

from __future__ import annotations

from rota.core.arrays import FloatArray, IntArray


def cheapest_matching(cost: FloatArray) -> tuple[IntArray, IntArray]:
    """Rows and columns of a matching of all rows with the least total cost."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - SciPy is slow to import and rarely needed

    rows, columns = linear_sum_assignment(cost)
    return rows, columns
