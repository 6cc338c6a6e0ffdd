"""A metric of a sweep over what was varied. Needs matplotlib (the extra `plot`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rota.analysis.plots import COLOURS, DASHES, require_matplotlib
from rota.core.errors import ConfigError
from rota.experiments.execution import OK
from rota.experiments.results import row
from rota.experiments.store import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def lines(runs: Sequence[Run], *, y: str, x: str, by: str) -> Figure:
    """One line for each value of `by`: the mean of `y` over all runs that are ok and have the same `x`."""
    require_matplotlib()
    from matplotlib.figure import Figure as New  # noqa: PLC0415 - an extra

    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        values = row(run)
        if run.status == OK and isinstance(values.get(x), int | float) and isinstance(values.get(y), int | float):
            found[str(values.get(by, "all"))][float(values[x])].append(float(values[y]))
    if not found:
        raise ConfigError(f"there is nothing to draw: no run is ok and has both {x} and {y}")
    figure = New(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for i, (name, points) in enumerate(found.items()):
        at = sorted(points)
        style = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[(i // len(COLOURS)) % len(DASHES)]}
        axes.plot(at, [sum(points[v]) / len(points[v]) for v in at], marker="o", markersize=3, label=name, **style)
    axes.set(xlabel=x, ylabel=y, ylim=(0, None))
    axes.legend(frameon=False)
    return figure
