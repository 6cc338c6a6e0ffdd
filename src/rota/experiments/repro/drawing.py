"""The figure of a reproduction.

Our lines in the look of `rota plot`, published points as rings on top.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rota.analysis import plots
from rota.analysis.figures import curves
from rota.core.errors import ConfigError
from rota.experiments.execution import OK
from rota.experiments.execution import UNSTABLE as STOPPED
from rota.experiments.repro.model import UNITS, Line, Measured, Reproduction, Row
from rota.experiments.spec import matches

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 24


def figure(wanted: Reproduction, measured: Sequence[Measured], rows: Sequence[Row]) -> Figure:
    """Lines over what was varied, or bars where nothing was."""
    if wanted.figure in {"bars", "values"}:
        return _bars(wanted, rows)
    lines = _lines(wanted, measured)
    if not lines:
        raise ConfigError(f"{wanted.name}: no run has a result, so there is nothing to draw")
    published = {line.name: (line.at, line.values) for line in wanted.lines if line.at}
    if wanted.figure in {"load", "jobs"}:
        drawn = (curves.jct_vs_load if wanted.figure == "load" else curves.makespan_vs_jobs)(lines)
        axes = drawn.axes[0]
    else:
        drawn, axes = _plain(wanted, lines)
    with plots.styled():
        _rings(axes, [line.name for line in lines], published, log=wanted.figure == "log")
        axes.set(xlabel=wanted.axes[0], ylabel=wanted.axes[1])
    return drawn


def _lines(wanted: Reproduction, measured: Sequence[Measured]) -> list[curves.PlotLine]:
    """A line per published line, over all runs of ours, also where nothing was published."""
    lines: list[curves.PlotLine] = []
    for line in wanted.lines:
        if line.at and line.name not in {c.name for c in lines}:
            points = _points(wanted, line, measured)
            if points:
                lines.append(curves.PlotLine(name=line.name, points=tuple(points)))
    return lines


def _points(wanted: Reproduction, line: Line, measured: Sequence[Measured]) -> list[curves.Point]:
    values: dict[float, list[float]] = defaultdict(list)
    stopped: dict[float, int] = defaultdict(int)
    for one in measured:
        at = one.point.get(wanted.x or "")
        if not matches(one.point, line.where) or not isinstance(at, int | float):
            continue
        value = one.metrics.get(line.metric)
        if one.status == STOPPED:
            stopped[float(at)] += 1
            values[float(at)] += []
        elif one.status == OK and isinstance(value, int | float):
            values[float(at)].append(float(value))
    return [curves.point(at, values[at], stopped[at]) for at in sorted(values)]


def _plain(wanted: Reproduction, lines: Sequence[curves.PlotLine]) -> tuple[Figure, Axes]:
    """Values that are no times in hours, on plain or logarithmic axes."""
    scale = UNITS[wanted.unit]
    with plots.styled():
        drawn = plots.new_figure(curves.WIDTH, curves.HEIGHT + 0.17 * -(-(len(lines) + 1) // 2))
        axes = drawn.add_subplot()
        for i, line in enumerate(lines):
            known = [p for p in line.points if p.mean is not None]
            axes.plot([p.x for p in known], [(p.mean or 0.0) / scale for p in known], label=line.name, **_look(i))
        if wanted.figure == "log":
            axes.set(xscale="log", yscale="log")
            plots.plain_ticks(axes)
        else:
            axes.set_ylim(bottom=0)
        drawn.legend(loc="outside lower center", ncols=2, fontsize=7.5)
    return drawn, axes


def _rings(axes: Axes, names: Sequence[str], published: dict[str, Any], *, log: bool) -> None:
    low, high = axes.get_ylim()
    for i, name in enumerate(names):
        at, values = published.get(name, ((), ()))
        axes.plot(at, values, "o", markersize=6.5, markerfacecolor="none", markeredgewidth=0.9,
                  color=plots.COLOURS[i % len(plots.COLOURS)])  # fmt: skip
        high = max([high, *((2.0 if log else 1.05) * v for v in values)])
    axes.set_ylim(None if log else low, high)
    axes.plot(
        [],
        [],
        "o",
        markersize=6.5,
        markerfacecolor="none",
        color="#555555",
        label="published",
    )
    axes.legend(handles=axes.lines[-1:], loc="upper left", fontsize=7.5)


def _bars(wanted: Reproduction, rows: Sequence[Row]) -> Figure:
    """One bar per number: what it is, or (where units differ) ours over the published one."""
    kept = [row for row in rows if row.ours is not None][:MOST_BARS]
    if not kept:
        raise ConfigError(f"{wanted.name}: no run has a result, so there is nothing to draw")
    relative = wanted.figure == "bars"
    ours = [(row.ours or 0.0) / ((row.published or 1.0) if relative else 1.0) for row in kept]
    marks = [math.nan if row.published is None else 1.0 if relative else row.published for row in kept]
    labels = [f"{row.ours:.4g}" if row.published is None else f"{row.ours:.4g} / {row.published:.4g}" for row in kept]
    with plots.styled():
        drawn = plots.new_figure(6.0, 0.9 + 0.2 * len(kept))
        axes = drawn.add_subplot()
        bars = axes.barh(range(len(kept)), ours, color=plots.COLOURS[5], height=0.65, label="ours")
        axes.plot(
            marks, range(len(kept)), "|", color=plots.COLOURS[1], markersize=9, markeredgewidth=2, label="published"
        )
        axes.bar_label(bars, labels=labels, padding=5, fontsize=7)
        axes.set_yticks(range(len(kept)), [row.name for row in kept], fontsize=7.5)
        axes.set_xlim(0, 1.4 * max(ours))
        axes.invert_yaxis()
        axes.set_xlabel("ours / published" if relative else wanted.axes[1])
        axes.grid(visible=False, axis="y")
        axes.legend(fontsize=7.5, loc="lower right")
    return drawn


def _look(i: int) -> dict[str, Any]:
    return {
        "color": plots.COLOURS[i % len(plots.COLOURS)],
        "linestyle": plots.DASHES[i % len(plots.DASHES)],
        "marker": curves.MARKERS[i % len(curves.MARKERS)],
        "markersize": 3.5,
        "linewidth": 1.4,
    }
