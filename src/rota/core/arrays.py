"""Names for the array types that signatures use, and how arrays are frozen."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

NO_JOB = -1
"""The partner of a job that runs alone."""


def same(a: NDArray[np.generic] | None, b: NDArray[np.generic] | None) -> bool:
    """Whether two optional arrays hold the same numbers (NaN equals NaN)."""
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
