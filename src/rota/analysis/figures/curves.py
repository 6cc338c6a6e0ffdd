"""Lines: a metric over what was varied, with its uncertainty, and distributions.

Drawn in the width of one column of a paper, with the legend below, so that nothing has to be scaled
down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rota.analysis import plots, student
from rota.core.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 3.5
HEIGHT = 2.3
"""Inches; the legend comes on top of the height."""
MARKERS = "os^Dv<>p"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One place on a line: what the runs there say."""

    x: float
    mean: float | None
    """None where a run was unstable: a mean over the runs that happened to be stable would flatter
    it."""
    low: float | None
    high: float | None
    """Ends of the 95 % interval of the mean; None with fewer than two runs."""
    runs: int
    unstable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotLine:
    """A line with its points in ascending x."""

    name: str
    points: tuple[Point, ...]

    def numbers(self) -> dict[str, Any]:
        """What is drawn, for JSON."""
        return {"name": self.name, "points": [asdict(point) for point in self.points]}


def point(x: float, values: Sequence[float], unstable: int) -> Point:
    """Mean and 95 % interval (Student's t) of runs that differ in nothing but their seed."""
    count = len(values)
    if unstable or not count:
        return Point(x=x, mean=None, low=None, high=None, runs=count, unstable=unstable)
    mean = float(np.mean(values))
    if count == 1:
        return Point(x=x, mean=mean, low=None, high=None, runs=1, unstable=0)
    half = student.quantile(0.95, count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return Point(x=x, mean=mean, low=mean - half, high=mean + half, runs=count, unstable=0)


def jct_vs_load(curves: Sequence[PlotLine]) -> Figure:
    """Mean completion time over jobs per hour, input in seconds.

    Crosses on top are loads that were too much.
    """
    return _metric(curves, xlabel="load (jobs per hour)", ylabel="mean completion time (hours)")


def makespan_vs_jobs(curves: Sequence[PlotLine]) -> Figure:
    """Time until the last job is done over the number of jobs, input in seconds."""
    return _metric(curves, xlabel="jobs", ylabel="makespan (hours)")


def jct_cdf(jct_s: Mapping[str, FloatArray]) -> Figure:
    """The part of jobs done within a time.

    NaN is a job that did not finish, which keeps its line below 1.
    """
    hours = {name: seconds / plots.HOUR for name, seconds in jct_s.items()}
    return _cdf(hours, xlabel="completion time (hours)")


def ftf_cdf(rho: Mapping[str, FloatArray]) -> Figure:
    """The part of jobs with at most this rho; the line at 1 is a job's own part of the cluster."""
    return _cdf(rho, xlabel="finish-time fairness (rho; 1 = own share)", mark=1.0)


def ratio_cdf(ratios: Mapping[str, FloatArray], of: tuple[str, str]) -> Figure:
    """Distribution over jobs of the completion time in one run over that in the other."""
    return _cdf(ratios, xlabel=f"completion time, {of[0]} / {of[1]}", mark=1.0)


def solve_time(curves: Sequence[PlotLine]) -> Figure:
    """CPU seconds of a solve over the number of jobs, both axes logarithmic."""
    with plots.styled():
        figure = plots.new_figure(WIDTH, HEIGHT + _legend_height(len(curves)))
        axes = figure.add_subplot()
        for i, curve in enumerate(curves):
            _curve(axes, i, curve, unit=1e-3)
        axes.set(xscale="log", yscale="log", xlabel="jobs", ylabel="CPU time of a solve (ms)")
        plots.plain_ticks(axes)
        _ticks_around(axes, "y")
        _sizes(axes, sorted({p.x for c in curves for p in c.points}))
        _finish(figure, axes)
    return figure


def metric(curves: Sequence[PlotLine], *, xlabel: str, ylabel: str, unit: float = 1.0) -> Figure:
    """Any metric over anything, divided by a unit."""
    return _metric(curves, xlabel=xlabel, ylabel=ylabel, unit=unit)


def _sizes(axes: Axes, sizes: Sequence[float]) -> None:
    """A tick at every size that was measured, unless they would touch."""
    if 1 < len(sizes) <= 7:
        axes.set_xticks(sizes, [f"{v:g}" for v in sizes])
        axes.set_xticks([], minor=True)


def _cdf(values: Mapping[str, FloatArray], *, xlabel: str, mark: float | None = None) -> Figure:
    with plots.styled():
        figure = plots.new_figure(WIDTH, HEIGHT + _legend_height(len(values)))
        axes = figure.add_subplot()
        if mark is not None:
            axes.axvline(mark, color="#777777", linewidth=0.8)
        for i, (name, sample) in enumerate(values.items()):
            x = np.sort(sample)
            axes.step(x, np.arange(1, len(x) + 1) / len(x), where="post", label=name, **_look(i))
        axes.set(xscale="log", ylim=(0, 1.01), xlabel=xlabel, ylabel="part of jobs")
        plots.plain_ticks(axes)
        if mark is not None:
            _ticks_around(axes, "x")
        _finish(figure, axes)
    return figure


def _ticks_around(axes: Axes, which: str) -> None:
    """Ticks at 1, 2 and 5 of every decade that is seen.

    A plain axis where that would be fewer than two.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter  # an extra

    axis, (low, high) = (axes.xaxis, axes.get_xlim()) if which == "x" else (axes.yaxis, axes.get_ylim())
    seen = [m * 10.0**e for e in range(-6, 9) for m in (1, 2, 5)]
    seen = [v for v in seen if low <= v <= high]
    if len(seen) < 2:
        axes.set(**{f"{which}scale": "linear"})
        return
    if len(seen) <= 9:
        axis.set_ticks(seen)
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


def _metric(
    curves: Sequence[PlotLine],
    *,
    xlabel: str,
    ylabel: str,
    unit: float = plots.HOUR,
) -> Figure:
    with plots.styled():
        figure = plots.new_figure(WIDTH, HEIGHT + _legend_height(len(curves)))
        axes = figure.add_subplot()
        for i, curve in enumerate(curves):
            _curve(axes, i, curve, unit)
        axes.set(xlabel=xlabel, ylabel=ylabel, ylim=(0, _top(curves, unit)))
        _too_much(axes, curves)
        _finish(figure, axes)
    return figure


def _curve(axes: Axes, i: int, curve: PlotLine, unit: float) -> None:
    known = [p for p in curve.points if p.mean is not None]
    x = [p.x for p in known]
    axes.plot(
        x,
        [(p.mean or 0.0) / unit for p in known],
        label=curve.name,
        marker=MARKERS[i % len(MARKERS)],
        markersize=3.5,
        **_look(i),
    )
    banded = [p for p in known if p.low is not None and p.high is not None]
    axes.fill_between(
        [p.x for p in banded],
        [(p.low or 0.0) / unit for p in banded],
        [(p.high or 0.0) / unit for p in banded],
        color=plots.COLOURS[i % len(plots.COLOURS)],
        alpha=0.15,
        linewidth=0,
    )


def _too_much(axes: Axes, curves: Sequence[PlotLine]) -> None:
    """Crosses along the upper edge, one row per line, so that none hides another."""
    rows = [(i, [p.x for p in c.points if p.unstable]) for i, c in enumerate(curves)]
    rows = [(i, x) for i, x in rows if x]
    for row, (i, x) in enumerate(rows):
        axes.plot(
            x,
            [0.97 - 0.055 * row] * len(x),
            "x",
            color=plots.COLOURS[i % len(plots.COLOURS)],
            markersize=5,
            markeredgewidth=1.4,
            transform=axes.get_xaxis_transform(),
        )
    if rows:
        axes.plot([], [], "x", color="#555555", markersize=5, markeredgewidth=1.4, label="unstable")


def _top(curves: Sequence[PlotLine], unit: float) -> float:
    """Upper end of the axis: the bands, unless they would flatten the lines, and room for crosses."""
    points = [p for c in curves for p in c.points if p.mean is not None]
    mean = max([p.mean or 0.0 for p in points], default=unit)
    high = max([p.high or 0.0 for p in points], default=mean)
    rows = sum(any(p.unstable for p in c.points) for c in curves)
    return max(min(high, 1.6 * mean), 1.05 * mean) * (1 + 0.06 * (rows + 1)) / unit


def _look(i: int) -> dict[str, Any]:
    return {
        "color": plots.COLOURS[i % len(plots.COLOURS)],
        "linestyle": plots.DASHES[i % len(plots.DASHES)],
        "linewidth": 1.4,
    }


def _legend_height(lines: int) -> float:
    return 0.17 * -(-(lines + 1) // 2)


def _finish(figure: Figure, axes: Axes) -> None:
    axes.xaxis.label.set_fontsize(8)
    axes.yaxis.label.set_fontsize(8)
    axes.tick_params(labelsize=8)
    long = max(len(label) for label in axes.get_legend_handles_labels()[1])
    figure.legend(
        loc="outside lower center",
        ncols=1 if long > 26 else 2,
        fontsize=7.5,
        handlelength=2.4,
        columnspacing=1.2,
        borderaxespad=0,
    )
