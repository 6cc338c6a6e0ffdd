"""Fills the gaps of a matrix that has few independent rows.

    minimise over U, V   sum over measured (i, j) of (A_ij - U_i . V_j)^2  +  ridge (|U|^2 + |V|^2)

by alternating ridge least squares: with V fixed every row of U is a small linear system, and the
other way round (probabilistic matrix factorisation, Salakhutdinov & Mnih, NeurIPS'07; rank, ridge
and stopping rule as used by Gavel).
"""

from __future__ import annotations

import numpy as np

from rota.core.arrays import BoolArray, FloatArray

RANK = 10
RIDGE = 0.01
TOLERANCE = 1e-3
SWEEPS = 100


def complete(
    values: FloatArray,
    measured: BoolArray,
    rng: np.random.Generator,
    *,
    rank: int = RANK,
    ridge: float = RIDGE,
    tolerance: float = TOLERANCE,
    sweeps: int = SWEEPS,
) -> FloatArray:
    """The matrix with what was not measured filled in; what was measured stays as it is.

    Stops when the Frobenius norm of the change, divided by the number of entries, is below
    `tolerance`.
    """
    if measured.all():
        return values.copy()
    known = np.where(measured, values, 0.0)
    mask = measured.astype(np.float64)
    rows = rng.standard_normal((values.shape[0], rank))
    columns = rng.standard_normal((values.shape[1], rank))
    last = rows @ columns.T
    for _ in range(sweeps):
        rows = _ridge(known, mask, columns, ridge)
        columns = _ridge(known.T, mask.T, rows, ridge)
        product: FloatArray = rows @ columns.T
        if np.linalg.norm(product - last) / product.size < tolerance:
            break
        last = product
    return np.where(measured, values, rows @ columns.T)


def _ridge(known: FloatArray, mask: FloatArray, factors: FloatArray, ridge: float) -> FloatArray:
    """[m, k] the row factors that fit `known` [m, n] best, given the column factors [n, k]."""
    count, rank = factors.shape
    products = (factors[:, :, None] * factors[:, None, :]).reshape(count, rank * rank)
    gram = (mask @ products).reshape(-1, rank, rank) + ridge * np.eye(rank)
    return np.linalg.solve(gram, (known @ factors)[:, :, None])[:, :, 0].astype(np.float64)
