"""Our values beside the published ones.

Which belong together, how far apart they are, and what to call that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rota.experiments.execution import OK
from rota.experiments.execution import UNSTABLE as STOPPED
from rota.experiments.keys import plain
from rota.experiments.repro.model import (
    MET,
    MISSING,
    UNITS,
    UNPUBLISHED,
    UNSTABLE,
    Explanation,
    Line,
    Measured,
    Ratio,
    Reproduction,
    Row,
    Tolerance,
)
from rota.experiments.spec import Values, matches

_GROWS = "the queue grows without end, so the run was stopped as unstable and has no mean"


def pooled(measured: Iterable[Measured]) -> list[Measured]:
    """One value per point; that of a later sweep replaces an earlier one, if it has one.

    Overloaded points are run again without the guard; where that does not come to an end, they stay
    unstable.
    """
    by_point: dict[str, Measured] = {}
    for one in measured:
        point = repr(sorted((k, plain(v)) for k, v in one.point.items()))
        if point not in by_point or one.status == OK:
            by_point[point] = one
    return list(by_point.values())


def compare(wanted: Reproduction, measured: Sequence[Measured]) -> tuple[list[Row], int]:
    """A row for every published number with runs of ours, and how many numbers have none."""
    rows: list[Row] = []
    left_out = 0
    for line in wanted.lines:
        for at, published in zip(line.at or (None,), line.values, strict=True):
            where = line.where if at is None or wanted.x is None else {**line.where, wanted.x: at}
            mine = [m for m in measured if matches(m.point, where)]
            if len(mine) < line.runs:
                left_out += 1
                continue
            rows.append(_row(wanted, line, at, published, mine))
    for ratio in wanted.ratios:
        row = _ratio_row(wanted, ratio, measured)
        left_out += row is None
        rows += [] if row is None else [row]
    return rows, left_out


def _row(
    wanted: Reproduction,
    line: Line,
    at: float | None,
    published: float,
    mine: Sequence[Measured],
) -> Row:
    ours, verdict, reason = _mean(mine, line.metric)
    known = None if math.isnan(published) else published
    if ours is None:
        return Row(name=line.name, at=at, ours=None, published=known, difference=None, verdict=verdict,
                   unit=line.unit, source=line.source, reason=reason)  # fmt: skip
    value = ours / UNITS[line.unit]
    return _judged(wanted, line.tolerance, Row(
        name=line.name, at=at, ours=value, published=known, difference=None, verdict="", unit=line.unit,
        source=line.source,
    ))  # fmt: skip


def _ratio_row(wanted: Reproduction, ratio: Ratio, measured: Sequence[Measured]) -> Row | None:
    above = [m for m in measured if matches(m.point, ratio.over)]
    below = [m for m in measured if matches(m.point, ratio.under)]
    if not above or len(above) != len(below):
        return None  # seeds that only one side has would tilt it
    over = _mean(above, wanted.metric)[0]
    under = _mean(below, wanted.metric)[0]
    if over is None or under is None:
        return None
    row = Row(name=ratio.name, at=None, ours=over / under, published=ratio.value, difference=None, verdict="",
              unit="", source=ratio.source)  # fmt: skip
    return _judged(wanted, ratio.tolerance, row)


def _judged(wanted: Reproduction, special: Tolerance | None, row: Row) -> Row:
    if row.published is None:
        return replace(row, verdict=UNPUBLISHED)
    tolerance = special or wanted.tolerance
    difference, verdict = tolerance.verdict(row.ours or 0.0, row.published)
    reason = "" if verdict == MET else _reason(wanted.reasons, row.name, row.at, verdict)
    return replace(row, difference=difference, verdict=verdict, reason=reason)


def _mean(mine: Sequence[Measured], metric: str) -> tuple[float | None, str, str]:
    """The mean over runs that are all ok; else a verdict and why."""
    for one in mine:
        if one.status == STOPPED:
            return None, UNSTABLE, _GROWS
        if one.status != OK:
            why = (one.error or "no result").splitlines()[0]
            return None, MISSING, f"the run ended as {one.status}: {why}"
    values = [one.metrics.get(metric) for one in mine]
    known: list[Any] = [v for v in values if isinstance(v, int | float)]
    if len(known) < len(values) or not known:
        return None, MISSING, f"a run has no {metric}"
    return float(sum(known) / len(known)), MET, ""


def _reason(reasons: Sequence[Explanation], name: str, at: float | None, verdict: str) -> str:
    asked: Values = {"name": name, "at": at, "verdict": verdict}
    for reason in reasons:
        if matches(asked, reason.where):
            return reason.text
    return ""
