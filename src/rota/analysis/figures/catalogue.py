"""Heat maps of a catalogue: speed by CPUs and memory, and speed beside another model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rota.analysis import plots
from rota.core.arrays import FloatArray
from rota.core.sensitivity import Sensitivity
from rota.profiles.models import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAP = "cividis"
"""Made for people with colour blindness; brightness alone tells it, too."""
MISSING = "#d9d9d9"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Company:
    """How fast models go beside each other on the same GPUs."""

    names: tuple[str, ...]
    type: str
    gpus: int
    speed: FloatArray
    """[model, partner] speed relative to being alone; NaN where the two do not fit or were not
    measured."""

    def numbers(self) -> dict[str, Any]:
        """What is drawn, for JSON."""
        return {
            "type": self.type,
            "gpus": self.gpus,
            "models": list(self.names),
            "speed": self.speed,
        }


def sensitivity_numbers(tables: Sequence[Sensitivity]) -> list[dict[str, Any]]:
    """What is drawn, for JSON."""
    return [
        {
            "profile": t.profile,
            "cpus_per_gpu": t.cpus,
            "memory_gb_per_gpu": t.memory_gb,
            "speed": t.speed,
        }
        for t in tables
    ]


def sensitivity(tables: Sequence[Sensitivity]) -> Figure:
    """One panel per model: speed by CPUs and memory per GPU, relative to the fair share."""
    columns = min(4, len(tables))
    rows = -(-len(tables) // columns)
    top = max(float(np.nanmax(t.speed)) for t in tables)
    with plots.styled():
        figure = plots.new_figure(0.9 + 1.6 * columns, 0.55 + 1.45 * rows)
        grid = np.atleast_1d(figure.subplots(rows, columns)).ravel()
        for axes, table in zip(grid, tables, strict=False):
            image = _heat(axes, table.speed.T, top)
            axes.invert_yaxis()
            axes.set_title(_short(table.profile, 18), fontsize=8, fontweight="normal")
            _ticks(axes.set_xticks, table.cpus, 9)
            _ticks(axes.set_yticks, table.memory_gb, 9)
        for axes in grid[len(tables) :]:
            axes.set_visible(False)
        figure.supxlabel("CPUs per GPU", fontsize=8.5)
        figure.supylabel("memory per GPU (GB)", fontsize=8.5)
        bar = figure.colorbar(
            image,
            ax=list(grid),
            shrink=min(1.0, 1.6 / rows),
            aspect=18,
            pad=0.02,
        )
        bar.set_label("speed / fair share", fontsize=8.5)
        bar.ax.tick_params(labelsize=7.5)
        bar.outline.set_visible(False)
    return figure


def profiled(models: Sequence[Model]) -> Figure:
    """One panel per profiled job: steps/s in every cell, a dot where it was measured, a cross where it failed."""
    columns = min(3, len(models))
    rows = -(-len(models) // columns)
    with plots.styled():
        figure = plots.new_figure(1.2 + 3.4 * columns, 0.8 + 2.4 * rows)
        grid = np.atleast_1d(figure.subplots(rows, columns)).ravel()
        for axes, model in zip(grid, models, strict=False):
            image = _profiled_panel(axes, model)
            bar = figure.colorbar(image, ax=axes, aspect=22, pad=0.03)
            bar.set_label("steps/s", fontsize=8)
            bar.ax.tick_params(labelsize=7)
            bar.outline.set_visible(False)
        for axes in grid[len(models) :]:
            axes.set_visible(False)
        figure.supxlabel("CPUs per GPU", fontsize=8.5)
        figure.supylabel("memory per GPU (GB)", fontsize=8.5)
    return figure


def _profiled_panel(axes: Axes, model: Model) -> Any:
    table = model.sensitivity
    notes = model.cells
    assert table is not None
    assert notes is not None
    rates = table.speed / model.step_s
    top = float(np.nanmax(rates))
    image = _heat(axes, rates.T, top)
    axes.invert_yaxis()
    measured = sum(cell == "measured" for row in notes.origin for cell in row)
    title = f"{_short(table.profile, 24)}: {measured} of {rates.size} cells measured (dots)"
    axes.set_title(title, fontsize=8, fontweight="normal")
    _ticks(axes.set_xticks, table.cpus, 12)
    _ticks(axes.set_yticks, table.memory_gb, 12)
    for row, origins in enumerate(notes.origin):
        for column, origin in enumerate(origins):
            rate = float(rates[row, column])
            ink = "black" if rate > 0.55 * top else "white"
            text = "x" if np.isnan(rate) else f"{rate:.3g}"
            dotted = f"{text}\n\u2022" if origin == "measured" else text
            axes.text(row, column, dotted, ha="center", va="center", fontsize=6.5, color=ink)
    return image


def colocation(company: Company) -> Figure:
    """Models by partners: how fast the model of a row goes beside that of a column.

    Grey where they do not fit.
    """
    count = len(company.names)
    labels = [_short(name.replace("batch size", "bs"), 30) for name in company.names]
    side = 1.2 + max(0.16 * count, 1.2)
    with plots.styled():
        figure = plots.new_figure(side + 1.3, side + 0.8)
        axes = figure.add_subplot()
        image = _heat(axes, company.speed, max(1.0, float(np.nanmax(company.speed))))
        axes.set_xticks(range(count), labels, rotation=90, fontsize=6.5)
        axes.set_yticks(range(count), labels, fontsize=6.5)
        axes.set_xlabel("partner", fontsize=8.5)
        axes.set_ylabel("model", fontsize=8.5)
        axes.set_title(f"{company.gpus} x {company.type}", fontsize=9, fontweight="normal")
        bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=22, pad=0.02)
        bar.set_label("speed / speed alone (grey: do not fit)", fontsize=8)
        bar.ax.tick_params(labelsize=7.5)
        bar.outline.set_visible(False)
    return figure


def _heat(axes: Axes, values: FloatArray, top: float) -> Any:
    axes.set_facecolor(MISSING)
    axes.grid(visible=False)
    image = axes.imshow(
        np.ma.masked_invalid(values),
        cmap=MAP,
        vmin=0,
        vmax=top,
        aspect="auto",
        interpolation="none",
    )
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=2, pad=1.5)
    return image


def _ticks(put: Any, values: FloatArray, most: int) -> None:
    """A label for every cell, or for every n-th where they would touch."""
    every = -(-len(values) // most)
    put(range(0, len(values), every), [f"{v:.3g}" for v in values[::every]], fontsize=6.5)


def _short(label: str, most: int) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"
