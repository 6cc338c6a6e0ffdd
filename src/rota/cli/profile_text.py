"""Profiles of one's own in a terminal: the table of cells as a heat map, and the stages behind it."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rota.cli.tables import show_pairs, show_table, width
from rota.core.control_characters import visible
from rota.core.errors import ProfileMissing

if TYPE_CHECKING:
    from rota.core.sensitivity import Sensitivity
    from rota.profiles.models import Model

MARKS = {"measured": "", "predicted": "p", "learned": "l", "derived": "d", "failed": "failed"}
"""Behind the speed of a cell."""
LEGEND = "steps/s +- error of the cell; p predicted by the pipeline, l learned from jobs, d derived by a ratio"
_STILL_GAINED = 0.05
"""Part of its speed that a job may gain beyond the knee of the formula before that is said."""
_COLD = (0x00, 0x22, 0x4E)
_WARM = (0xFE, 0xE8, 0x38)


def show_model(title: str, model: Model) -> None:
    """The cells of a profiled model with what is known of them, then its stages."""
    table = model.sensitivity
    if table is None or model.cells is None:
        return
    rates = table.speed / model.step_s
    header = ("CPUs", *(f"{amount:.3g} GB" for amount in table.memory_gb))
    texts = [
        [
            _cell(float(rates[row, column]), float(model.cells.error[row, column]), model.cells.origin[row][column])
            for column in range(len(table.memory_gb))
        ]
        for row in range(len(table.cpus))
    ]
    labels = [f"{cpus:.3g}" for cpus in table.cpus]
    rows = [(label, *row) for label, row in zip(labels, texts, strict=True)]
    if sys.stdout.isatty():
        _show_heat(visible(title), header, rows, rates / np.nanmax(rates))
    else:
        show_table(title, header, rows, numbers=len(header))
    click.echo(LEGEND)
    for line in _reasons(model):
        click.echo(line)
    _show_stages(model)


def _cell(rate: float, error: float, origin: str) -> str:
    if math.isnan(rate):
        return MARKS.get(origin, "") or "-"
    sure = " ?" if math.isnan(error) else f" +-{100 * error:.1f} %"
    return f"{rate:.4g}{sure}{' ' + MARKS[origin] if MARKS.get(origin) else ''}"


def _reasons(model: Model) -> list[str]:
    table = model.sensitivity
    if table is None or model.cells is None or not model.cells.reasons:
        return []
    return [
        visible(f"failed with {table.cpus[row]:g} CPUs, {table.memory_gb[column]:.3g} GB: {reason}")
        for row, reasons in enumerate(model.cells.reasons)
        for column, reason in enumerate(reasons)
        if reason
    ]


def _show_stages(model: Model) -> None:
    stages = model.stages
    if stages is None:
        return
    rows: list[tuple[str, str]] = [
        ("device alone", _amount(stages.device_rate, "steps/s", "not reached")),
        ("CPU time of a step", _amount(None if stages.cpu_s is None else 1000 * stages.cpu_s, "ms", "not known")),
    ]
    if model.sensitivity is not None:
        most = float(model.sensitivity.memory_gb[-1])
        rows.append(("CPUs beyond which nothing is gained", _knee(model.sensitivity, stages.knee_cpus(most))))
    if stages.data_gb is not None:
        rows += [
            ("data set", f"{stages.data_gb:.4g} GB; {stages.step_mb:.4g} MB per step"),
            ("workers of the data loader", str(stages.workers or "none: the training process reads by itself")),
            ("preparing / reading a step's data", f"{1000 * stages.prepare_s:.3g} / {1000 * stages.fetch_s:.3g} ms"),
            ("CPU time of reading them", _amount(1000 * stages.read_cpu_s, "ms", "none")),
        ]
    rows.append(("memory beside the cache", f"{stages.resident_gb:.3g} GB"))
    click.echo()
    show_pairs("pipeline, per GPU", rows)


def _knee(table: Sensitivity, knee: float | None) -> str:
    """The knee of the formula, unless the cells say that the job gets faster beyond it."""
    if knee is None:
        return "none found"
    last = float(table.cpus[-1])
    with contextlib.suppress(ProfileMissing):
        memory_gb = float(table.memory_gb[-1])
        gain = table.at(last, memory_gb) / table.at(min(knee, last), memory_gb) - 1
        if gain > _STILL_GAINED:
            return f"{knee:.4g} per GPU by the formula, but {100 * gain:.0f} % are gained up to {last:.4g}"
    return f"{knee:.4g} per GPU"


def _amount(value: float | None, unit: str, none: str) -> str:
    return none if value is None else f"{value:.4g} {unit}"


def _show_heat(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], heat: Any) -> None:
    """Cells on a background from dark (slow) to bright (fast), as the figure has it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in header:
        drawn.add_column(name, justify="right", no_wrap=True)
    for number, row in enumerate(rows):
        cells = [Text(f" {text} ", style=_style(float(heat[number, at]))) for at, text in enumerate(row[1:])]
        drawn.add_row(Text(row[0], style="cyan"), *cells)
    Console(width=width(), highlight=False, emoji=False, markup=False).print(drawn)


def _style(part: float) -> str:
    if math.isnan(part):
        return "white on grey30"
    red, green, blue = (round(low + (high - low) * part) for low, high in zip(_COLD, _WARM, strict=True))
    return f"{'black' if part > 0.5 else 'white'} on rgb({red},{green},{blue})"


def model_fields(model: Model) -> dict[str, Any]:
    """What a profiler found, for a program."""
    fields: dict[str, Any] = {"origin": model.origin}
    if model.cells is not None:
        fields["cells"] = {
            "origin": model.cells.origin,
            "error": model.cells.error,
            "reasons": model.cells.reasons,
        }
    if model.stages is not None:
        fields["pipeline"] = model.stages.to_table()
    return fields
