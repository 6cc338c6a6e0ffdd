"""Lines: a metric over what was varied, with its uncertainty, and distributions.

Drawn in the width of one column of a paper, with the legend below, so that nothing has to be scaled
down. Intervals lie under all lines: as areas of a few curves, as whiskers of many.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rota.analysis import plots, student
from rota.analysis.figures.quantities import Quantity, quantity
from rota.analysis.figures.style import PLAIN, Style
from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 3.5
HEIGHT = 2.3
"""Inches; the legend comes on top of the height."""
MARKERS = "os^Dv<>p"
MOST_LINES = 16
"""More cannot be told apart."""
MOST_AREAS = 4
"""Beyond this, areas around curves are mud."""
_UNDER, _OVER = 1.5, 3.0
"""Intervals are drawn under all curves."""


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


def jct_vs_load(curves: Sequence[PlotLine], style: Style = PLAIN) -> Figure:
    """Mean completion time over jobs per hour, input in seconds.

    Crosses on top are loads that were too much.
    """
    return metric(curves, quantity("mean_jct_s"), xlabel="load (jobs per hour)", style=style)


def makespan_vs_jobs(curves: Sequence[PlotLine], style: Style = PLAIN) -> Figure:
    """Time until the last job is done over the number of jobs, input in seconds."""
    return metric(curves, quantity("makespan_s"), xlabel="jobs", style=style)


def jct_cdf(jct_s: Mapping[str, FloatArray], style: Style = PLAIN) -> Figure:
    """The part of jobs done within a time.

    NaN is a job that did not finish, which keeps its line below 1.
    """
    hours = {name: seconds / plots.HOUR for name, seconds in jct_s.items()}
    return _cdf(hours, xlabel="completion time (hours)", style=style)


def ftf_cdf(rho: Mapping[str, FloatArray], style: Style = PLAIN) -> Figure:
    """The part of jobs with at most this rho; the line at 1 is a job's own part of the cluster."""
    return _cdf(rho, xlabel="finish-time fairness (rho; 1 = own share)", mark=1.0, style=style)


def ratio_cdf(ratios: Mapping[str, FloatArray], of: tuple[str, str], style: Style = PLAIN) -> Figure:
    """Distribution over jobs of the completion time in one run over that in the other."""
    return _cdf(ratios, xlabel=f"completion time, {of[0]} / {of[1]}", mark=1.0, style=style)


def solve_time(curves: Sequence[PlotLine], style: Style = PLAIN) -> Figure:
    """CPU seconds of a solve over the number of jobs, both axes logarithmic."""
    figure = metric(
        curves, Quantity("CPU time of a solve (ms)", 1e-3), xlabel="jobs", style=style, log_x=True, log_y=True
    )
    with plots.styled():
        _sizes(figure.axes[0], sorted({p.x for c in curves for p in c.points}))
    return figure


def metric(
    curves: Sequence[PlotLine],
    what: Quantity,
    *,
    xlabel: str,
    style: Style = PLAIN,
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """Any metric over anything; `log_x` and `log_y` hold unless the style says something else."""
    log_x = log_x if style.log_x is None else style.log_x
    log_y = log_y if style.log_y is None else style.log_y
    _check(curves, log_x=log_x, log_y=log_y)
    with plots.styled():
        figure, axes = _new([curve.name for curve in curves], style)
        bottom, top = _limits(curves, what.unit, log=log_y)
        areas = _band_kind(curves, style)
        for i, curve in enumerate(curves):
            _curve(axes, i, curve, what.unit, floor=bottom if log_y else -math.inf)
            _interval(axes, i, len(curves), curve, what.unit, kind=areas, floor=bottom)
        axes.set(xlabel=style.x_label or xlabel, ylabel=style.y_label or what.label)
        if log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        axes.set_ylim(bottom, top)
        axes.set_xlim(_span([p.x for curve in curves for p in curve.points], log=log_x))
        if log_x:
            _ticks_around(axes, "x")
        if log_y:
            _ticks_around(axes, "y")
            _on_the_floor(axes, curves)
        _too_much(axes, curves)
        _finish(figure, axes)
    return figure


def _check(curves: Sequence[PlotLine], *, log_x: bool, log_y: bool) -> None:
    _check_count([curve.name for curve in curves])
    points = [p for curve in curves for p in curve.points]
    if log_x and any(p.x <= 0 for p in points):
        fix = "draw them with --linear-x"
        raise ConfigError(f"some points lie at 0, which a logarithmic axis does not have; {fix}")
    if log_y and not any(p.mean is not None and p.mean > 0 for p in points):
        fix = "draw it with --linear-y"
        raise ConfigError(f"no value is above 0, so that there is nothing on a logarithmic axis; {fix}")


def _check_count(names: Sequence[str]) -> None:
    if len(names) > MOST_LINES:
        raise ConfigError(
            f"{len(names)} lines ({', '.join(names[:2])}, ...) cannot be told apart, at most {MOST_LINES} can; "
            f"choose some with --curve NAME or --where KEY=VALUE"
        )


def _sizes(axes: Axes, sizes: Sequence[float]) -> None:
    """A tick at every size that was measured, unless they would touch."""
    if 1 < len(sizes) <= 7:
        axes.set_xticks(sizes, [f"{v:g}" for v in sizes])
        axes.set_xticks([], minor=True)


def _cdf(
    values: Mapping[str, FloatArray],
    *,
    xlabel: str,
    mark: float | None = None,
    style: Style = PLAIN,
) -> Figure:
    log_x = True if style.log_x is None else style.log_x
    _check_count(list(values))
    above = [sample[sample > 0] for sample in values.values()]
    if log_x and not any(map(len, above)):
        fix = "draw it with --linear-x"
        raise ConfigError(f"no value is above 0, so that there is nothing on a logarithmic axis; {fix}")
    left = 0.8 * min(float(sample.min()) for sample in above if len(sample)) if log_x else -math.inf
    with plots.styled():
        figure, axes = _new(list(values), style)
        if mark is not None:
            axes.axvline(mark, color="#777777", linewidth=0.8)
        for i, (name, sample) in enumerate(values.items()):
            x = np.maximum(np.sort(sample), left)  # jobs that took no time are at the edge
            axes.step(x, np.arange(1, len(x) + 1) / len(x), where="post", label=name, **_look(i))
        axes.set(xlabel=style.x_label or xlabel, ylabel=style.y_label or "part of jobs", ylim=(0, 1.01))
        if style.log_y:
            axes.set_yscale("log")
            axes.set_ylim(0.8 / max(map(len, values.values())), 1.1)
            _ticks_around(axes, "y")
        if log_x:
            axes.set_xscale("log")
            _ticks_around(axes, "x")
        _finish(figure, axes)
    return figure


def _ticks_around(axes: Axes, which: str) -> None:
    """Numbers at 1, 2 and 5 of every decade that is seen, or at 1 only where these would touch.

    A plain axis where that would be fewer than two.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter  # an extra

    axis, (low, high) = (axes.xaxis, axes.get_xlim()) if which == "x" else (axes.yaxis, axes.get_ylim())
    seen = [m * 10.0**e for e in range(-6, 12) for m in (1, 2, 5)]
    seen = [v for v in seen if low <= v <= high]
    if len(seen) < 2:
        axes.set(**{f"{which}scale": "linear"})
        return
    if len(seen) <= 9:
        axis.set_ticks(seen)
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}" if v >= 1000 else f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


def _new(names: Sequence[str], style: Style) -> tuple[Figure, Axes]:
    width = style.width or WIDTH
    height = style.height or HEIGHT * max(1.0, min(width / WIDTH, 2.0)) ** 0.5 + _legend_height(names, width)
    figure = plots.new_figure(width, height)
    return figure, figure.add_subplot()


def _curve(axes: Axes, i: int, curve: PlotLine, unit: float, floor: float) -> None:
    """The means, with gaps where there is none or where it is not on the axis."""
    means = _column(p.mean for p in curve.points) / unit
    axes.plot(
        [p.x for p in curve.points],
        np.where(means >= floor, means, math.nan),
        label=curve.name,
        marker=_marker(i),
        markersize=3.5,
        zorder=_OVER,
        **_look(i),
    )


def _band_kind(curves: Sequence[PlotLine], style: Style) -> str:
    banded = sum(any(p.low is not None for p in curve.points) for curve in curves)
    if style.band == "auto":
        return "area" if banded <= MOST_AREAS else "whiskers"
    return style.band


def _interval(axes: Axes, i: int, count: int, curve: PlotLine, unit: float, *, kind: str, floor: float) -> None:
    """The 95 % intervals of a curve, under all curves."""
    x = np.array([p.x for p in curve.points])
    low, high = _ends(curve, unit, floor)
    known = np.isfinite(low)
    if kind == "none" or not known.any():
        return
    colour = plots.COLOURS[i % len(plots.COLOURS)]
    if kind == "area" and (known[1:] & known[:-1]).any():
        axes.fill_between(x, low, high, color=colour, alpha=0.1, linewidth=0, zorder=_UNDER)
        for edge in (low, high):
            axes.plot(x, edge, color=colour, alpha=0.5, linewidth=0.5, zorder=_UNDER)
        return
    # Side by side, so that whiskers at the same place do not hide one another.
    place = axes.transData + _aside(axes, (i - (count - 1) / 2) * min(1.4, 12.0 / count))
    axes.vlines(x, low, high, color=colour, alpha=0.75, linewidth=0.9, zorder=_UNDER, transform=place)


def _ends(curve: PlotLine, unit: float, floor: float) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends of intervals; NaN where there is none, or where its mean is below the axis."""
    mean = _column(p.mean for p in curve.points) / unit
    low = _column(p.low for p in curve.points) / unit
    high = _column(p.high for p in curve.points) / unit
    off = ~(mean >= floor)
    low[off] = math.nan
    high[off] = math.nan
    return np.maximum(low, floor), high


def _column(values: Iterable[float | None]) -> FloatArray:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _aside(axes: Axes, points: float) -> Any:
    """A little to the right, in points of print."""
    from matplotlib.transforms import ScaledTranslation  # an extra

    return ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)


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


def _on_the_floor(axes: Axes, curves: Sequence[PlotLine]) -> None:
    """Arrows on the lower edge where a mean is 0, which a logarithmic axis does not have."""
    places = [(i, [p.x for p in c.points if p.mean is not None and p.mean <= 0]) for i, c in enumerate(curves)]
    for i, x in places:
        points = (i - (len(curves) - 1) / 2) * min(4.0, 24.0 / len(curves))
        axes.plot(
            x,
            [0.025] * len(x),
            linestyle="none",
            marker=7,
            color=plots.COLOURS[i % len(plots.COLOURS)],
            markersize=5,
            transform=axes.get_xaxis_transform() + _aside(axes, points),
        )
    if any(x for _, x in places):
        axes.plot([], [], linestyle="none", marker=7, color="#555555", markersize=5, label="0")


def _limits(curves: Sequence[PlotLine], unit: float, *, log: bool) -> tuple[float, float]:
    """Ends of the axis: the intervals, unless they would flatten the lines, and room for crosses."""
    points = [p for c in curves for p in c.points if p.mean is not None]
    means = [(p.mean or 0.0) / unit for p in points] or [1.0]
    highest = max(means)
    high = max([(p.high or 0.0) / unit for p in points], default=highest)
    rows = sum(any(p.unstable for p in c.points) for c in curves)
    room = 0.06 * (rows + 1)
    if not log:
        low = min(0.0, 1.05 * min(means))
        return low, (max(min(high, 1.6 * highest), 1.05 * highest) or 1.0) * (1 + room)
    lowest = min(v for v in means if v > 0)
    bottom = 0.8 * max(lowest / 2, min([lowest, *((p.low or 0.0) / unit for p in points if (p.low or 0.0) > 0)]))
    top = max(min(high, 2 * highest), 1.1 * highest)
    return bottom, top * (top / bottom) ** room


def _span(places: Sequence[float], *, log: bool) -> tuple[float, float]:
    """Ends of the x axis: all places, also those at which a curve has no mean."""
    first = min(places)
    last = max(places)
    if log:
        room = 1.5 if first == last else (last / first) ** 0.05
        return first / room, last * room
    room = 0.5 if first == last else 0.05 * (last - first)
    return first - room, last + room


def _look(i: int) -> dict[str, Any]:
    return {
        "color": plots.COLOURS[i % len(plots.COLOURS)],
        "linestyle": plots.DASHES[_turn(i) % len(plots.DASHES)],
        "linewidth": 1.4,
    }


def _marker(i: int) -> str:
    return MARKERS[_turn(i) % len(MARKERS)]


def _turn(i: int) -> int:
    """Where colours begin again, dashes and markers go on by one, so that no two lines look alike."""
    return i + i // len(plots.COLOURS)


def _legend_columns(names: Sequence[str], width: float) -> int:
    """As many columns as fit beside each other, filled from top to bottom as matplotlib does."""
    letters = np.array([len(name) for name in names])
    for columns in range(min(4, len(names)), 1, -1):
        longest = [int(column.max()) for column in np.array_split(letters, columns)]
        if sum(0.45 + 0.052 * most for most in longest) <= width + 0.05:
            return columns
    return 1


def _legend_height(names: Sequence[str], width: float) -> float:
    rows = -(-(len(names) + 1) // _legend_columns(names, width))
    return 0.165 * rows


def _finish(figure: Figure, axes: Axes) -> None:
    axes.xaxis.label.set_fontsize(8)
    axes.yaxis.label.set_fontsize(8)
    axes.tick_params(labelsize=8)
    names = axes.get_legend_handles_labels()[1]
    figure.legend(
        loc="outside lower center",
        ncols=_legend_columns(names, figure.get_figwidth()),
        fontsize=7.5,
        handlelength=2.4,
        columnspacing=1.2,
        borderaxespad=0,
    )
    _wrap_labels(figure, axes)


def _wrap_labels(figure: Figure, axes: Axes) -> None:
    """Break labels of axes that are longer than their axis, which the edge of the figure would cut off."""
    figure.draw_without_rendering()  # sizes are known after that
    room = axes.get_window_extent()
    for label, length in ((axes.xaxis.label, room.width), (axes.yaxis.label, room.height)):
        extent = label.get_window_extent()
        part = length / max(extent.width, extent.height, 1.0)
        if part < 1:
            label.set_text(textwrap.fill(label.get_text(), max(1, int(part * len(label.get_text())))))
