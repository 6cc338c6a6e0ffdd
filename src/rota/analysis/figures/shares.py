"""What tenants got over time, beside what they were entitled to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rota.analysis import plots
from rota.analysis.tenancy import Shares
from rota.core.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TENANTS = 8


def fairness_over_time(shares: Shares) -> Figure:
    """A panel per tenant: the part of GPU time that it held (area) and was entitled to (line)."""
    names = shares.tenants
    if len(names) > MOST_TENANTS:
        problem = f"{len(names)} tenants do not fit into a figure"
        raise ConfigError(f"{problem}, at most {MOST_TENANTS} do; see --json")
    columns = 1 if len(names) <= 3 else 2
    rows = -(-len(names) // columns)
    top = min(1.0, 1.1 * float(np.nanmax([shares.held, shares.entitled])))
    with plots.styled():
        figure = plots.new_figure(3.5 if columns == 1 else 6.8, 0.75 + 0.8 * rows)
        grid = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True)).ravel()
        for tenant in range(len(names)):
            axes = grid[tenant]
            _panel(axes, shares, tenant)
            axes.set_ylim(0, top)
            axes.tick_params(labelsize=7.5, labelbottom=tenant >= len(names) - columns)
        for axes in grid[len(names) :]:
            axes.set_visible(False)
        figure.supxlabel("simulated hours", fontsize=8)
        figure.supylabel("part of GPU time", fontsize=8)
        figure.legend(
            *grid[0].get_legend_handles_labels(),
            loc="outside upper right",
            ncols=2,
            fontsize=7.5,
        )
    return figure


def _panel(axes: Axes, shares: Shares, tenant: int) -> None:
    """What one tenant held and what it was entitled to."""
    hours = shares.edge / plots.HOUR
    held = np.nan_to_num(shares.held[tenant])
    colour = plots.COLOURS[tenant % len(plots.COLOURS)]
    axes.stairs(held, hours, fill=True, color=colour, alpha=0.45, linewidth=0, label="held")
    entitled = shares.entitled[tenant]
    axes.stairs(entitled, hours, color="black", linewidth=1.2, baseline=None, label="entitled")
    title = f"{shares.tenants[tenant]} (weight {shares.weights[tenant]:g})"
    axes.set_title(title, fontsize=8, fontweight="normal")
    axes.margins(x=0)
    axes.yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
