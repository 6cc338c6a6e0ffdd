"""Cells of a trace by column, from text to arrays; every bad value is reported with its place."""

from __future__ import annotations

import csv
import difflib
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.errors import TraceError
from rota.core.jobs import Launch
from rota.core.parsing import is_count
from rota.workloads.files import TraceFile
from rota.workloads.problems import Problems
from rota.workloads.times import EXAMPLE, moment

MOST_GPUS = 10**9
LARGEST = 1e18
"""Numbers beyond it are taken for mistakes; products of a few of them would overflow."""
NO_TIME = {"", "none", "unknown", "n/a", "null"}
"""How logs write that a job never started or ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRows:
    """A trace cut into cells, still text.

    A bad cell is reported; if that is survived, a harmless value stands in.
    """

    problems: Problems
    lines: Sequence[int]
    """Line number of each row."""
    cells: Mapping[str, Sequence[str]]
    """Column name -> one text per row."""

    def __len__(self) -> int:
        return len(self.lines)

    def floats(
        self,
        column: str,
        accept: Callable[[FloatArray], BoolArray],
        wanted: str,
    ) -> FloatArray:
        """A column of finite numbers, all of which `accept` (a test on the whole array) allows."""
        values, good = self._numbers(column, accept, wanted)
        return np.where(good, values, 1.0)

    def gpus(self, column: str, least: int = 1) -> IntArray:
        """A column of GPU counts."""
        cells = self.cells[column]
        counts = np.ones(len(cells), dtype=np.int64)
        for row, cell in enumerate(cells):
            text = cell.strip()
            if is_count(text) and least <= int(text) <= MOST_GPUS:
                counts[row] = int(text)
            else:
                self.refuse(row, column, f"a number of GPUs; give a whole number >= {least}")
        return counts

    def flags(self, column: str) -> list[bool]:
        """A column of 0 and 1."""
        cells = self.cells[column]
        for row, cell in enumerate(cells):
            if cell.strip() not in {"0", "1"}:
                self.refuse(row, column, "0 or 1; write 1 for yes")
        return [c.strip() == "1" for c in cells]

    def names(self, column: str) -> Sequence[str]:
        """A column of texts that may not be empty."""
        cells = self.cells[column]
        for row, cell in enumerate(cells):
            if not cell.strip():
                self.refuse(row, column, "a name; give one")
        return cells

    def times(self, column: str, *, needed: bool, form: str | None = None) -> FloatArray:
        """A column of times (rota.workloads.times) as seconds that are only good for differences.

        NaN where there is none.
        """
        times = np.full(len(self), np.nan)
        zoned: bool | None = None
        for row, cell in enumerate(self.cells[column]):
            text = cell.strip()
            at = moment(text, form)
            if at is None:
                if needed or text.lower() not in NO_TIME:
                    self.refuse(row, column, f"a time; write it as {form or EXAMPLE}")
                continue
            if zoned not in (None, at.zoned):
                self.refuse(row, column, "like the times above; give all of them a zone (or seconds), or none")
            zoned = at.zoned
            times[row] = at.seconds
        return times

    def steps(self, column: str) -> FloatArray:
        """A column of step counts, whole or not."""
        return self.floats(column, lambda v: v > 0, "a number of steps; give a number > 0")

    def weights(self, column: str) -> FloatArray:
        """A column of priority weights."""
        return self.floats(column, lambda v: v > 0, "a weight; give a number > 0 (1 is normal)")

    def slos(self, column: str) -> FloatArray:
        """A column of deadlines as multiples of the duration.

        NaN where negative, which means none.
        """
        wanted = "a deadline; give a multiple of the duration > 0, or -1 for none"
        values = self.floats(column, lambda v: v != 0, wanted)
        return np.where(values < 0, np.nan, values)

    def arrivals(self, column: str) -> FloatArray:
        """A column of arrival times; in which order does not matter, but is told."""
        values, good = self._numbers(column, lambda v: v >= 0, "an arrival; give seconds >= 0")
        values = np.where(good, values, 0.0)
        back = np.flatnonzero((np.diff(values) < 0) & good[1:] & good[:-1])
        if len(back):
            row = int(back[0]) + 1
            self.problems.remark(
                self.lines[row],
                f"{len(back):,} of {len(values):,} lines arrive before the line above them",
                "jobs are taken in order of arrival",
                column,
                self.cells[column][row],
            )
        return values

    def filled(self, column: str, default: str) -> TraceRows:
        """The same rows with a default where the column is absent or a cell empty."""
        texts = self.cells.get(column, [""] * len(self))
        filled = [text if text.strip() else default for text in texts]
        cells: Mapping[str, Sequence[str]] = {**self.cells, column: filled}
        return TraceRows(problems=self.problems, lines=self.lines, cells=cells)

    def optional(self, column: str, wanted: str, *, zero: bool = False) -> FloatArray:
        """A column of numbers > 0 (or >= 0); NaN where the column is absent or a cell empty."""
        if column not in self.cells:
            return np.full(len(self), np.nan)
        given = np.array([bool(cell.strip()) for cell in self.cells[column]], dtype=bool)
        numbers = self.filled(column, "1").floats(column, lambda v: (v >= 0) if zero else (v > 0), wanted)
        return np.where(given, numbers, np.nan)

    def refuse(self, row: int, column: str, wanted: str) -> None:
        """Report a cell; `wanted` says what it should be and, after a semicolon, what to do."""
        value = self.cells[column][row]
        expected, _, fix = wanted.partition("; ")
        self.problems.error(self.lines[row], f"{value!r} is not {expected}", fix, column, value)

    def _numbers(
        self, column: str, accept: Callable[[FloatArray], BoolArray], wanted: str
    ) -> tuple[FloatArray, BoolArray]:
        """The numbers of a column, and which of them are good; the others have been reported."""
        cells = self.cells[column]
        try:
            values = np.array([float(c) for c in cells])
        except ValueError:
            values = np.array([_number(c) for c in cells])
        usable = np.abs(values) <= LARGEST
        values = np.where(usable, values, 1.0)
        good = usable & accept(values)
        for row in np.flatnonzero(~good).tolist():
            self.refuse(row, column, wanted)
        return values, good


def tab_separated(file: TraceFile, columns: Sequence[str]) -> TraceRows:
    """A trace without a header, cut at tabs; blank lines are skipped."""
    return _separated(file, columns, "\t", "tab")


def comma_separated(file: TraceFile, columns: Sequence[str]) -> TraceRows:
    """A trace without a header or quotes, cut at commas; blank lines are skipped."""
    return _separated(file, columns, ",", "comma")


def with_header(
    file: TraceFile,
    required: Sequence[str],
    separator: str = ",",
    *,
    kind: str = "trace",
) -> TraceRows:
    """A table whose first line names its columns.

    Lines with another number of cells are reported and skipped.
    """
    reader = csv.reader(  # Python 3.10 refuses NUL without a place
        io.StringIO(file.text.replace("\0", "?"), newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_NONE if separator == "|" else csv.QUOTE_MINIMAL,
    )
    try:
        numbered = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as problem:
        fix = "is a quote left open?"
        raise TraceError(file.path, reader.line_num, f"not CSV: {problem}; {fix}") from None
    if not numbered:
        raise TraceError(file.path, 1, f"the {kind} is empty; give a header and at least one job")
    (first, header), jobs = numbered[0], numbered[1:]
    columns = [name.strip() for name in header]
    _check_header(columns, required, file.path, first)
    if not jobs:
        fix = "give at least one line"
        raise TraceError(file.path, first, f"the {kind} has a header but no jobs; {fix}")
    good = []
    for line, row in jobs:
        if len(row) == len(columns):
            good.append((line, row))
            continue
        what = f"{len(row)} cells, but the header names {len(columns)} columns"
        file.problems.error(line, what, "give every line as many cells as the header")
    return _cut(good, columns, file.problems)


def header_of(line: str, separator: str = ",") -> list[str]:
    """The names on a line that may be a header."""
    if separator != ",":
        return [name.strip() for name in line.split(separator)]
    try:
        return [name.strip() for name in next(csv.reader([line.replace("\0", "?")]), [])]
    except csv.Error:
        return []


def _check_header(columns: Sequence[str], required: Sequence[str], path: str, line: int) -> None:
    for name in required:
        if name not in columns:
            near = difflib.get_close_matches(name, columns, n=1, cutoff=0.5)
            hint = f"; is it {near[0]!r}? Needed" if near else "; needed"
            problem = f"the header has no column {name!r}{hint} are {', '.join(required)}"
            raise TraceError(path, line, problem)
    for name in columns:
        if name and columns.count(name) > 1:
            raise TraceError(path, line, f"column {name!r} stands twice in the header; remove one")


def _separated(file: TraceFile, columns: Sequence[str], separator: str, name: str) -> TraceRows:
    every = enumerate(file.text.split("\n"), 1)
    numbered = [(n, line.rstrip("\r")) for n, line in every if line.strip()]
    if not numbered:
        raise TraceError(file.path, 1, "the trace has no jobs; give at least one line")
    good = []
    for number, line in numbered:
        row = line.split(separator)
        if len(row) == len(columns):
            good.append((number, row))
            continue
        what = f"{len(row)} {name}-separated columns instead of {len(columns)}"
        file.problems.error(number, what, f"needed are {', '.join(columns)}")
    return _cut(good, columns, file.problems)


def _cut(
    numbered: Sequence[tuple[int, Sequence[str]]],
    columns: Sequence[str],
    problems: Problems,
) -> TraceRows:
    if not numbered:
        raise TraceError(problems.path, 1, "no line can be read; see the errors above")
    cells = dict(zip(columns, zip(*(row for _, row in numbered), strict=True), strict=True))
    return TraceRows(problems=problems, lines=[n for n, _ in numbered], cells=cells)


def launches(keys: Iterable[tuple[str, str, str, bool]]) -> list[Launch]:
    """How jobs are started, from (command, working directory, steps argument, needs data)."""
    every = list(keys)
    distinct = {key: Launch(*key) for key in set(every)}
    return [distinct[key] for key in every]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
