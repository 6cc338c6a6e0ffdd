"""Cheapest assignment of rows to columns (Jonker-Volgenant, by SciPy)."""

from __future__ import annotations

from collections.abc import Callable

from rota.core.arrays import FloatArray, IntArray

Matching = Callable[[FloatArray], tuple[IntArray, IntArray]]


def load_matching() -> Matching:
    """A function from costs to the rows and columns of the cheapest matching of all rows."""
    from scipy.optimize import linear_sum_assignment  # SciPy is slow to import and rarely needed

    matching: Matching = linear_sum_assignment
    return matching
