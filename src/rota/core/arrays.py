"""Names for the array types that signatures use, and how arrays are frozen."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

NO_JOB = -1
"""The partner of a job that runs alone."""


_Array = TypeVar("_Array", bound=NDArray[Any])


def frozen(array: _Array) -> _Array:
    """The array itself, which nobody can write to any more."""
    array.setflags(write=False)
    return array


def same(a: NDArray[np.generic] | None, b: NDArray[np.generic] | None) -> bool:
    """Whether two optional arrays hold the same numbers (NaN equals NaN)."""
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


# A reduction by its method costs a microsecond before it does anything; these cost a quarter. For code that runs every
# round on arrays of about a hundred numbers.


def every(mask: BoolArray) -> bool:
    """Whether all are true."""
    return len(mask) == 0 or bool(mask[mask.argmin()])


def some(mask: BoolArray) -> bool:
    """Whether one is true."""
    return len(mask) > 0 and bool(mask[mask.argmax()])


def largest(values: FloatArray) -> float:
    """The maximum of at least one number."""
    return float(values[values.argmax()])


def smallest(values: FloatArray) -> float:
    """The minimum of at least one number."""
    return float(values[values.argmin()])


def how_many(mask: BoolArray) -> int:
    """How many are true."""
    return mask.tobytes().count(1)


def level(count: int, value: float) -> FloatArray:
    """As many times the same."""
    values = np.empty(count)
    values.fill(value)
    return values


_TRUE: BoolArray = np.ones(1 << 12, dtype=np.bool_)


def trues(count: int) -> BoolArray:
    """As many trues, to be written to."""
    return _TRUE[:count].copy() if count <= len(_TRUE) else np.ones(count, dtype=np.bool_)


_COUNT: IntArray = np.arange(1 << 16)
_COUNT.setflags(write=False)


def counting(count: int) -> IntArray:
    """0, 1, 2, ... that nobody will write to."""
    return _COUNT[:count] if count <= len(_COUNT) else np.arange(count)


_ZEROS: FloatArray = np.zeros(1 << 16)
_ZEROS.setflags(write=False)


def zeros(count: int) -> FloatArray:
    """As many zeros, that nobody will write to."""
    return _ZEROS[:count] if count <= len(_ZEROS) else np.zeros(count)


_WHOLE_ZEROS: IntArray = np.zeros(1 << 16, dtype=np.int64)
_WHOLE_ZEROS.setflags(write=False)


def whole_zeros(count: int) -> IntArray:
    """The same as whole numbers."""
    return _WHOLE_ZEROS[:count] if count <= len(_WHOLE_ZEROS) else np.zeros(count, dtype=np.int64)
