"""Cells of a trace by column, from text to arrays: the place of the first bad value is in the error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.errors import TraceError
from rota.core.jobs import Launch

MOST_GPUS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A trace cut into cells, still text."""

    path: str
    lines: Sequence[int]
    """Line number of each row."""
    cells: Mapping[str, Sequence[str]]
    """Column name -> one text per row."""

    def __len__(self) -> int:
        return len(self.lines)

    def floats(self, column: str, accept: Callable[[FloatArray], BoolArray], wanted: str) -> FloatArray:
        """A column of finite numbers, all of which `accept` (a test on the whole array) allows."""
        cells = self.cells[column]
        try:
            values = np.array([float(c) for c in cells])
        except ValueError:
            values = np.array([_number(c) for c in cells])
        good = np.isfinite(values) & accept(values)
        if not good.all():
            self.refuse(int(np.argmin(good)), column, wanted)
        return values

    def gpus(self, column: str) -> IntArray:
        """A column of GPU counts."""
        cells = self.cells[column]
        for row, cell in enumerate(cells):
            if not (cell.strip().isdecimal() and 1 <= int(cell) <= MOST_GPUS):
                self.refuse(row, column, "a number of GPUs; give a whole number >= 1")
        return np.array([int(c) for c in cells], dtype=np.int64)

    def flags(self, column: str) -> list[bool]:
        """A column of 0 and 1."""
        cells = self.cells[column]
        for row, cell in enumerate(cells):
            if cell.strip() not in {"0", "1"}:
                self.refuse(row, column, "0 or 1")
        return [c.strip() == "1" for c in cells]

    def names(self, column: str) -> Sequence[str]:
        """A column of texts that may not be empty."""
        cells = self.cells[column]
        for row, cell in enumerate(cells):
            if not cell.strip():
                self.refuse(row, column, "a name; it is empty")
        return cells

    def steps(self, column: str) -> FloatArray:
        """A column of step counts, whole or not."""
        return self.floats(column, lambda v: v > 0, "a number of steps; give a number > 0")

    def weights(self, column: str) -> FloatArray:
        """A column of priority weights."""
        return self.floats(column, lambda v: v > 0, "a weight; give a number > 0 (1 is normal)")

    def slos(self, column: str) -> FloatArray:
        """A column of deadlines as multiples of the duration; NaN where negative, which means none."""
        wanted = "a deadline; give a multiple of the duration > 0, or -1 for none"
        values = self.floats(column, lambda v: v != 0, wanted)
        return np.where(values < 0, np.nan, values)

    def arrivals(self, column: str) -> FloatArray:
        """A column of arrival times, which may not go back."""
        values = self.floats(column, lambda v: v >= 0, "an arrival; give seconds >= 0")
        back = np.flatnonzero(np.diff(values) < 0)
        if len(back):
            row = int(back[0]) + 1
            raise TraceError(
                self.path,
                self.lines[row],
                f"arrival {self.cells[column][row]} is before {self.cells[column][row - 1]} on line "
                f"{self.lines[row - 1]}; sort the trace by arrival",
                column,
            )
        return values

    def refuse(self, row: int, column: str, wanted: str) -> None:
        """Raise the error for a cell."""
        raise TraceError(self.path, self.lines[row], f"{self.cells[column][row]!r} is not {wanted}", column)


def tab_separated(text: str, path: str, columns: Sequence[str]) -> Rows:
    """A trace without a header, cut at tabs; blank lines are skipped."""
    return _separated(text, path, columns, "\t", "tab")


def comma_separated(text: str, path: str, columns: Sequence[str]) -> Rows:
    """A trace without a header or quotes, cut at commas; blank lines are skipped."""
    return _separated(text, path, columns, ",", "comma")


def _separated(text: str, path: str, columns: Sequence[str], separator: str, name: str) -> Rows:
    numbered = [(n, line.rstrip("\r")) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not numbered:
        raise TraceError(path, 1, "the trace has no jobs; give at least one line")
    rows = [line.split(separator) for _, line in numbered]
    for (number, _), row in zip(numbered, rows, strict=True):
        if len(row) != len(columns):
            raise TraceError(
                path,
                number,
                f"{len(row)} {name}-separated columns instead of {len(columns)}; needed are {', '.join(columns)}",
            )
    cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
    return Rows(path=path, lines=[n for n, _ in numbered], cells=cells)


def launches(keys: Iterable[tuple[str, str, str, bool]]) -> list[Launch]:
    """How each job is started, from (command, working directory, steps argument, needs data directory)."""
    every = list(keys)
    distinct = {key: Launch(*key) for key in set(every)}
    return [distinct[key] for key in every]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
