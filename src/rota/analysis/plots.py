"""Figures for a paper or a report. Needs matplotlib (the extra `plot`).

Colours are those of Okabe and Ito, which people with colour blindness can tell apart, and some more
chosen by the same measure; lines differ in dashes too, so that a figure survives a black-and-white printer.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rota.analysis.timeline import Series
from rota.core.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31", "#7A5CFF", "#8A0032",
)  # fmt: skip
BAR_COLOURS = (*COLOURS, "#F0E442", "#B5F0A0", "#0A1A6B", "#FFD0E4")
"""For areas, where light and dark colours are seen too. No two of them are nearer to each other than
some of the first eight, also for people who do not see red or green."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1.2, 1.2)))
FORMATS = ("png", "pdf", "svg")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "rota",
    "figure.constrained_layout.use": True,
}
HOUR = 3600.0


def utilization_lines(series: Mapping[str, Series]) -> Figure:
    """How busy the cluster was over time, one small panel per policy."""
    names = list(series)
    columns = 2 if len(names) > 3 else 1
    rows = -(-len(names) // columns)
    with _style():
        figure = _figure(6.8, 0.8 + 1.0 * rows)
        grid = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True)).ravel()
        for i, (axes, name) in enumerate(zip(grid, names, strict=False)):
            days = series[name].edge / 86400.0
            axes.stairs(
                series[name].value,
                days,
                fill=True,
                color=COLOURS[0],
                alpha=0.75,
                linewidth=0,
            )
            axes.set_ylim(0, 1.02)
            axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
            axes.set_title(name, fontsize=9, fontweight="normal")
            axes.margins(x=0)
            axes.tick_params(labelbottom=i >= len(names) - columns)
        for axes in grid[len(names) :]:
            axes.set_visible(False)
        figure.supxlabel("simulated days", fontsize=9)
        figure.suptitle("GPU time held by jobs", fontsize=10, fontweight="bold", x=0.01, ha="left")
    return figure


def rendered(figure: Figure, form: str, dpi: int = 200) -> bytes:
    """The figure as a file of that format; the same figure gives the same bytes."""
    dated = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    buffer = io.BytesIO()
    with _style():
        figure.savefig(buffer, format=form, dpi=dpi, metadata=dated[form])
    return buffer.getvalue()


def require_matplotlib() -> None:
    """Raise ConfigError with the way out if matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: F401 - an extra
    except ImportError as error:
        fix = "install it with: pip install '.[plot]' in a checkout of Rota"
        raise ConfigError(f"figures need matplotlib; {fix}") from error


@contextlib.contextmanager
def _style() -> Iterator[None]:
    require_matplotlib()
    import matplotlib as mpl  # an extra, and slow to import

    with mpl.rc_context(STYLE):
        yield


@cache
def _kind_of_figure() -> type[Figure]:
    """Figures that a notebook shows when they are the last value of a cell, without any set-up."""
    from matplotlib.figure import Figure as Plain  # an extra

    class NotebookFigure(Plain):
        def _repr_png_(self) -> bytes:
            return rendered(self, "png", dpi=100)

    return NotebookFigure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _kind_of_figure()(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def _plain_ticks(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


styled = _style
new_figure = _figure
plain_ticks = _plain_ticks
"""For figures that are drawn elsewhere in the same look."""
