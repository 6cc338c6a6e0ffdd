"""`rota profile --check FILE`: cells that the profile predicted, measured now."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from rota.cli.options import echo_json
from rota.cli.profile_progress import RunProgress
from rota.cli.tables import show_table
from rota.core.errors import ConfigError
from rota.profiler.cell import CONTAMINATED, Cell, JobToProfile, RunRecord
from rota.profiler.run import CellRunner, RunRules
from rota.profiler.search import TRIES, NextRun
from rota.profiler.session import prepare, run_to_end, runner_of
from rota.profiles import load
from rota.profiles.cells import PREDICTED
from rota.profiles.models import Model

INTERRUPTED = 130
OFF = 1
WITHIN = 0.05
"""A profile may be off by this much or by its stated error, whichever is more."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A cell that was predicted."""

    cell: Cell
    rate: float
    error: float


def check_profile(path: str, job: JobToProfile, rules: RunRules, count: int, *, as_json: bool) -> int:
    """Measure some predicted cells; the exit code says whether the profile is right about them."""
    name, gpus, gpu_type, model = _profiled(path)
    chosen = _held_back(model, gpus, count, path)
    most = max(held.cell.cpus for held in chosen)
    memory_gb = max(held.cell.memory_gb or 0.0 for held in chosen)
    job = replace(job, name=name, gpus=gpus, cpus=most, memory_gb=memory_gb, type=job.type or gpu_type)
    records: list[RunRecord] = []
    bench = prepare(job, ())

    async def work() -> None:
        with tempfile.TemporaryDirectory(prefix="rota-check-") as folder, RunProgress(None, total=count) as progress:
            async with runner_of(job, bench, Path(folder) / "runs", rules) as runner:
                await _measure(runner, chosen, records, progress)

    try:
        run_to_end(work)
    except KeyboardInterrupt:
        click.echo("rota: interrupted", err=True)
        return INTERRUPTED
    return _report(path, chosen, records, as_json=as_json)


async def _measure(runner: CellRunner, chosen: list[HeldBack], records: list[RunRecord], progress: RunProgress) -> None:
    for held in chosen:
        progress.begin(NextRun(held.cell, "check", held.rate), records)
        record = await _tried(runner, held, progress)
        records.append(record)


async def _tried(runner: CellRunner, held: HeldBack, progress: RunProgress) -> RunRecord:
    """A cell that others disturb is tried a few times."""
    for attempt in range(1, TRIES + 1):
        record = replace(await runner.run(held.cell, progress.look), check=held.rate)
        progress.end(record)
        if record.outcome != CONTAMINATED or attempt == TRIES:
            break
    return record


def _profiled(path: str) -> tuple[str, int, str, Model]:
    found = [(key, model) for key, model in load(Path(path)).models.items() if model.cells is not None]
    if not found:
        raise ConfigError(f"{path} has no cells of `rota profile`; give a file that it wrote")
    (name, gpus, gpu_type), model = found[0]
    return name, gpus or 1, gpu_type, model


def _held_back(model: Model, gpus: int, count: int, path: str) -> list[HeldBack]:
    """Predicted cells, chosen by chance, the same every time."""
    table = model.sensitivity
    if table is None or model.cells is None:
        raise ConfigError(f"{path} has no table of speeds; profile the job again")
    measured = [row for row in range(len(table.cpus)) if "measured" in model.cells.origin[row]]
    cells = [
        HeldBack(
            Cell(float(table.cpus[row]) * gpus, float(table.memory_gb[column]) * gpus),
            float(table.speed[row, column]) / model.step_s,
            float(model.cells.error[row, column]),
        )
        for row in range(len(table.cpus))
        if row <= max(measured, default=0)
        for column in range(len(table.memory_gb))
        if model.cells.origin[row][column] == PREDICTED
    ]
    if not cells:
        raise ConfigError(f"{path}: every cell was measured; there is nothing to check")
    return random.Random(0).sample(cells, min(count, len(cells)))


def _report(path: str, chosen: list[HeldBack], records: list[RunRecord], *, as_json: bool) -> int:
    rows: list[dict[str, Any]] = []
    for held, record in zip(chosen, records, strict=False):
        off = held.rate / record.rate - 1 if record.usable else None
        allowed = max(held.error, WITHIN) + record.half_width
        rows.append(
            {
                "cpus": held.cell.cpus,
                "memory_gb": held.cell.memory_gb,
                "predicted": held.rate,
                "error": held.error,
                "measured": record.rate if record.usable else None,
                "half_width": record.half_width,
                "off": off,
                "good": None if off is None else abs(off) <= allowed,
                "reason": record.reason,
            }
        )
    wrong = [row for row in rows if row["good"] is not True]
    if as_json:
        echo_json({"file": path, "cells": rows, "good": not wrong})
        return OFF if wrong else 0
    header = ("CPUs", "GB", "predicted", "stated error", "measured", "off", "")
    show_table(
        f"{path}: cells that were predicted, measured now", header, [_line(row) for row in rows], numbers=range(6)
    )
    worst = max((abs(row["off"]) for row in rows if row["off"] is not None), default=None)
    measured = sum(row["off"] is not None for row in rows)
    if worst is not None:
        click.echo(f"\nthe profile is off by at most {100 * worst:.1f} % in {measured} of {len(rows)} cells")
    if any(row["good"] is False for row in rows):
        click.echo("rota: the profile does not hold here; profile the job again (rota profile --again)", err=True)
    elif wrong:
        click.echo(f"rota: {len(wrong)} cells could not be measured; check them again later", err=True)
    return OFF if wrong else 0


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    verdict = {True: "good", False: "WRONG", None: f"not measured: {row['reason']}"}[row["good"]]
    return (
        f"{row['cpus']:.3g}",
        f"{row['memory_gb']:.3g}",
        f"{row['predicted']:.4g}",
        f"{100 * row['error']:.1f} %",
        "-" if row["measured"] is None else f"{row['measured']:.4g}",
        "-" if row["off"] is None else f"{100 * row['off']:+.1f} %",
        verdict,
    )
