"""What a reproduction is, and what comes of it.

Plain values that can be written to a file and read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rota.experiments.spec import Values

MET = "met"
CLOSE = "close"
NOT_MET = "not met"
UNSTABLE = "unstable"
MISSING = "no result"
UNPUBLISHED = "not published"
VERDICTS = (MET, CLOSE, NOT_MET, UNSTABLE, MISSING, UNPUBLISHED)
UNITS = {"h": 3600.0, "min": 60.0, "s": 1.0, "ms": 0.001, "": 1.0}


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far we may be from a published number, in percent."""

    met: float
    close: float
    why: str
    sense: str = "both"
    """`both`: either side counts. `at most`: being below the published number is no fault (times of
    a solver)."""

    def verdict(self, ours: float, published: float) -> tuple[float, str]:
        """Difference in percent of the published number, and what to call it."""
        difference = 100.0 * (ours - published) / published
        off = difference if self.sense == "at most" else abs(difference)
        if off <= self.met:
            return difference, MET
        return difference, CLOSE if off <= self.close else NOT_MET


@dataclass(frozen=True, kw_only=True)
class SweepPart:
    """A sweep that belongs to a reproduction, as a document that `spec_from` reads."""

    document: dict[str, Any]
    quick: dict[str, Any] | None
    """Axes and settings that --quick changes; None leaves the sweep out."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """Published numbers along an axis, or a single one."""

    name: str
    where: Values
    """Which of our runs it is; the mean is taken if there are several."""
    at: tuple[float, ...]
    """Places on the axis of the figure; empty for a single number."""
    values: tuple[float, ...]
    """NaN where nothing was published and ours is shown alone."""
    metric: str
    unit: str
    runs: int = 1
    """How many runs the published number is the mean of; with fewer of ours there is no
    comparison."""
    source: str = ""
    """Where these come from, if not from where the others do."""
    tolerance: Tolerance | None = None


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times larger a value is under one setting than under another, as published."""

    name: str
    over: Values
    under: Values
    value: float
    source: str
    tolerance: Tolerance | None = None


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What is known about why some points are not met."""

    where: dict[str, Any]
    """`name` (of the line), `at` (places on the axis), `verdict`; all that are given must hold."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """One published figure, table or line."""

    name: str
    title: str
    paper: str
    item: str
    kind: str
    """Who computes: `sweep`, `entities` (hierarchical water filling) or `solve` (time of one
    solve)."""
    metric: str
    unit: str
    x: str | None
    """What is on the axis, by its name in a sweep."""
    figure: str
    """`load`, `jobs` (hours over that), `lines`, `log` (both axes), `values` (bars) or `bars` (ours
    over published)."""
    axes: tuple[str, str]
    """Labels of the figure."""
    source: str
    licence: str
    tolerance: Tolerance
    quick: str
    """What --quick leaves out, in words."""
    parts: tuple[SweepPart, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """For kinds that are no sweep; `quick` in it replaces the others."""
    lines: tuple[Line, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    reasons: tuple[Explanation, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One of our values, with what it was measured for."""

    point: Values
    status: str
    metrics: Mapping[str, Any]
    error: str | None = None
    cpu_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One published number beside ours."""

    name: str
    at: float | None
    ours: float | None
    published: float | None
    difference: float | None
    """Percent of the published number."""
    verdict: str
    unit: str
    source: str
    """If it is not that of the whole."""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ReproductionResult:
    """What a reproduction gave; everything that the page about it says."""

    name: str
    title: str
    paper: str
    item: str
    quick: bool
    cut: str
    source: str
    licence: str
    tolerance: str
    axes: tuple[str, str]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    runs: int
    computed: int
    unstable: int
    failed: int
    left_out: int
    """Published numbers that were not compared, because --quick does not run them."""
    cpu_s: float
    version: str

    def counts(self) -> dict[str, int]:
        """How many rows have which verdict."""
        verdicts = [row.verdict for row in self.rows]
        count_of = {verdict: verdicts.count(verdict) for verdict in VERDICTS}
        return {verdict: count for verdict, count in count_of.items() if count}

    def numbers(self) -> dict[str, Any]:
        """The same as plain values."""
        return {**asdict(self), "counts": self.counts()}


def result_from(numbers: Mapping[str, Any]) -> ReproductionResult:
    """The inverse of `Result.numbers`."""
    kept = {key: value for key, value in numbers.items() if key != "counts"}
    kept["rows"] = tuple(Row(**row) for row in kept["rows"])
    kept["notes"] = tuple(kept["notes"])
    kept["axes"] = tuple(kept["axes"])
    return ReproductionResult(**kept)
