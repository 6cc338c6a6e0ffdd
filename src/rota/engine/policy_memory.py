"""What an allocation says about later ones, as plain values: how long it holds, and what its policy remembers.

A simulation keeps both in its checkpoints. A deployment writes them into its journal, so that a scheduler that is
started again, or a simulation that goes on from the journal, decides as the one before would have done.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rota.core.allocation import Allocation
from rota.core.horizon import CHANGES, Horizon

_GUESSES = frozenset({"basis", "second_basis", "duals"})
"""Where a solver begins to look: large, and never part of an answer."""
_KINDS = {kind.__name__: kind for kind in CHANGES}
_ARRAYS = frozenset({"float64", "int64", "bool"})


def memory_fields(allocation: Allocation) -> dict[str, Any]:
    """Horizon and memory of an allocation, ready for JSON."""
    horizon = allocation.horizon
    known = {name: value for name, value in allocation.state.items() if name not in _GUESSES}
    state = {name: plain for name, value in known.items() if (plain := _plain(value)) is not _NOT_PLAIN}
    return {
        "until": _number(horizon.until),
        "ended_by": sorted(kind.__name__ for kind in horizon.ended_by),
        **({"state": state} if state else {}),
    }


def with_memory(allocation: Allocation, fields: Mapping[str, Any]) -> Allocation:
    """The allocation with horizon and memory. Raises KeyError, TypeError or ValueError if they are none."""
    ended_by = frozenset(_KINDS[name] for name in fields["ended_by"] if name in _KINDS)
    state = {name: _value(plain) for name, plain in fields.get("state", {}).items()}
    return dataclasses.replace(allocation, horizon=Horizon(float(fields["until"]), ended_by), state=state)


_NOT_PLAIN: Any = object()


def _plain(value: Any) -> Any:
    """A value as JSON has it; arrays, tuples and mappings say what they are. Anything else is left out."""
    if isinstance(value, np.ndarray):
        kind = value.dtype.name
        flat = [_number(number) for number in value.ravel().tolist()]
        return {"array": flat, "of": kind, "shape": list(value.shape)} if kind in _ARRAYS else _NOT_PLAIN
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, float):
        return {"float": _number(value)}
    if isinstance(value, Mapping):
        return _together("map", [[name, entry] for name, entry in value.items()])
    if isinstance(value, list | tuple):
        return _together("list" if isinstance(value, list) else "tuple", list(value))
    return _NOT_PLAIN


def _together(kind: str, values: list[Any]) -> Any:
    plain = [_plain(value) for value in values]
    return _NOT_PLAIN if any(value is _NOT_PLAIN for value in plain) else {kind: plain}


def _value(plain: Any) -> Any:
    if not isinstance(plain, Mapping):
        return plain
    if "array" in plain:
        numbers = [float(number) if isinstance(number, str) else number for number in plain["array"]]
        return np.array(numbers, dtype=plain["of"]).reshape(plain["shape"])
    if "float" in plain:
        return float(plain["float"])
    if "map" in plain:
        return dict(_value(entry) for entry in plain["map"])
    values = [_value(entry) for entry in plain["list" if "list" in plain else "tuple"]]
    return values if "list" in plain else tuple(values)


def _number(value: Any) -> Any:
    """A number; as text where JSON has none."""
    return value if not isinstance(value, float) or math.isfinite(value) else repr(value)
