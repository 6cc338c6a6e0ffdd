"""Servers over time: what is idle beside busy GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from rota.analysis import plots
from rota.analysis.figures.catalogue import MAP
from rota.analysis.stranded import Stranded
from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

MOST_RUNS = 4


def stranded(runs: Mapping[str, Stranded]) -> Figure:
    """A column per run, CPUs above memory, servers from top to bottom.

    One scale of colours for all.
    """
    if len(runs) > MOST_RUNS:
        fix = "leave some out"
        problem = f"{len(runs)} logs do not fit side by side"
        raise ConfigError(f"{problem}, at most {MOST_RUNS} do; {fix}")
    top = max(0.05, *(float(v.max()) for run in runs.values() for v in (run.cpus, run.memory)))
    with plots.styled():
        figure = plots.new_figure(3.5 if len(runs) == 1 else 1.2 + 2.1 * len(runs), 3.3)
        grid = figure.subplots(2, len(runs), sharex="col", squeeze=False)
        for column, (name, run) in enumerate(runs.items()):
            panels = (("CPUs", run.cpus), ("memory", run.memory))
            for axes, (what, values) in zip(grid[:, column], panels, strict=True):
                image = _panel(axes, run, values, top)
                title = f"{what}, mean {100 * values.mean():.1f} %"
                label = f"{name}: {title}" if len(runs) > 1 else title
                axes.set_title(label, fontsize=8, fontweight="normal")
        figure.supxlabel("simulated hours", fontsize=8)
        figure.supylabel(f"{max(len(r.servers) for r in runs.values())} servers", fontsize=8)
        bar = figure.colorbar(image, ax=list(grid.ravel()), aspect=25, pad=0.02)
        bar.ax.yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
        bar.ax.tick_params(labelsize=7.5)
        bar.set_label("idle beside busy GPUs", fontsize=8)
        bar.outline.set_visible(False)
    return figure


def _panel(axes: Axes, run: Stranded, values: FloatArray, top: float) -> QuadMesh:
    """Servers by time, as colours up to `top`."""
    servers = np.arange(len(run.servers) + 1)
    hours = run.edge / plots.HOUR
    image = axes.pcolormesh(hours, servers, values, cmap=MAP, vmin=0, vmax=top, rasterized=True)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_yticks([])
    axes.tick_params(labelsize=7.5)
    return image
