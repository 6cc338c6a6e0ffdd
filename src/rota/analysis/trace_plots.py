"""A figure of a trace: arrivals, durations, numbers of GPUs, tenants and models of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rota.analysis import plots
from rota.analysis.output import write_file
from rota.core.errors import ConfigError
from rota.workloads.distributions import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLAT = ("tenants", "models")
"""Histograms with long names, drawn as horizontal bars."""


def form_of(path: str | Path) -> str:
    """The format of a figure by its name; raises ConfigError for one that is not offered."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in plots.FORMATS:
        fix = f"give a name that ends in .{', .'.join(plots.FORMATS)}"
        raise ConfigError(f"cannot draw {str(path)!r}; {fix}")
    return form


def distributions(histograms: Mapping[str, Histogram]) -> Figure:
    """One panel per histogram."""
    names = list(histograms)
    rows = -(-len(names) // 2)
    with plots.styled():
        figure = plots.new_figure(8.0, 2.5 * rows)
        grid = np.atleast_1d(figure.subplots(rows, 2)).ravel()
        for i, (axes, name) in enumerate(zip(grid, names, strict=False)):
            (_flat if name in FLAT else _upright)(axes, histograms[name], plots.COLOURS[i % 2])
        for axes in grid[len(names) :]:
            axes.set_visible(False)
    return figure


def save_distributions(histograms: Mapping[str, Histogram], path: str | Path) -> None:
    """Write the figure; the file appears whole or not at all."""
    form = form_of(path)
    write_file(path, plots.rendered(distributions(histograms), form))


def _upright(axes: Axes, histogram: Histogram, colour: str) -> None:
    axes.bar(range(len(histogram.counts)), histogram.counts, color=colour, width=0.85)
    every = -(-len(histogram.labels) // 8)
    axes.set_xticks(
        range(0, len(histogram.labels), every), histogram.labels[::every], rotation=30, ha="right", fontsize=7
    )
    axes.set_ylabel("jobs")
    axes.set_title(histogram.title)
    axes.grid(visible=False, axis="x")


def _flat(axes: Axes, histogram: Histogram, colour: str) -> None:
    axes.barh(range(len(histogram.counts)), histogram.counts, color=colour, height=0.7)
    labels = [_short(label) for label in histogram.labels]
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("jobs")
    axes.set_title(histogram.title)
    axes.grid(visible=False, axis="y")


def _short(label: str) -> str:
    return label if len(label) <= 24 else f"{label[:22]}..."
