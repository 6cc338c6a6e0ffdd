"""What is known of each speed in the table of a model: how it was found, and how sure it is.

    origin = [["predicted", "measured"], ...]    # [cpu_axis][memory_axis]
    error = [[0.04, 0.012], ...]                 # half the width of its 95 % interval, relative; nan: nobody knows

Both are left out for a table that was measured cell by cell. `failed` cells have the speed nan, and
`reasons` say why: reasons = [["", "out-of-memory: ..."], ...].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.core.arrays import FloatArray, frozen
from rota.core.errors import ConfigError, UnknownName

MEASURED = "measured"
PREDICTED = "predicted"
LEARNED = "learned"
DERIVED = "derived"
FAILED = "failed"
CELL_ORIGINS = (MEASURED, PREDICTED, LEARNED, DERIVED, FAILED)
"""Measured by a profiler; predicted by the pipeline model; learned from jobs while they ran; derived by
a stated ratio; a run that failed."""
KEYS = ("origin", "error", "reasons")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellNotes:
    """Beside a table of speeds, in the same shape."""

    origin: tuple[tuple[str, ...], ...]
    error: FloatArray
    reasons: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        frozen(self.error)

    def count(self, origin: str) -> int:
        """How many cells were found this way."""
        return sum(cell == origin for row in self.origin for cell in row)

    def all_as(self, origin: str) -> CellNotes:
        """The same table, every cell found in another way, with errors that nobody knows."""
        rows = tuple(tuple(FAILED if cell == FAILED else origin for cell in row) for row in self.origin)
        return CellNotes(origin=rows, error=np.full(self.error.shape, math.nan), reasons=self.reasons)


def read_cells(entry: Mapping[str, Any], speed: FloatArray, place: str) -> CellNotes | None:
    """The notes of a model with this table of speeds; None where the file has none."""
    shape = speed.shape
    given = [name for name in KEYS if name in entry]
    if not given:
        return None
    if "origin" not in entry:
        raise ConfigError(f"{place}: {given[0]} without origin; give how each cell of speed was found")
    origin = _rows(entry, "origin", shape, place)
    for cell in (cell for row in origin for cell in row):
        if cell not in CELL_ORIGINS:
            raise UnknownName(f"origin in {place}:", str(cell), CELL_ORIGINS)
    if (np.isnan(speed) != (np.array(origin) == FAILED)).any():
        what = f"{place}: a cell of speed is nan and its origin not {FAILED!r}, or the other way round"
        raise ConfigError(f"{what}; profile it again, or leave out origin and error")
    errors = _rows(entry, "error", shape, place) if "error" in entry else np.full(shape, math.nan).tolist()
    reasons = _rows(entry, "reasons", shape, place) if "reasons" in entry else ()
    return CellNotes(
        origin=tuple(tuple(row) for row in origin),
        error=np.array([[_error(cell, place) for cell in row] for row in errors], dtype=np.float64),
        reasons=tuple(tuple(str(cell) for cell in row) for row in reasons),
    )


def _rows(entry: Mapping[str, Any], name: str, shape: tuple[int, ...], place: str) -> Sequence[Sequence[Any]]:
    rows = entry[name]
    whole = isinstance(rows, list) and len(rows) == shape[0]
    if not whole or not all(isinstance(row, list) and len(row) == shape[1] for row in rows):
        raise ConfigError(f"{place}: {name} must have {shape[0]} rows of {shape[1]}, as speed has; profile it again")
    return list(rows)


def _error(cell: Any, place: str) -> float:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return math.nan
    if isinstance(cell, bool) or not isinstance(cell, (int, float)) or not 0 <= cell < math.inf:
        raise ConfigError(f"{place}: error {cell!r} is no relative error; give a number >= 0, or nan if nobody knows")
    return float(cell)
