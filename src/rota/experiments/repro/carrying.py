"""Carry out a reproduction: sweeps through the runner and its store, the other kinds here.

Then compare.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rota.experiments import sweeping
from rota.experiments.execution import OK
from rota.experiments.execution import UNSTABLE as STOPPED
from rota.experiments.repro import comparing
from rota.experiments.repro.catalogue import specs
from rota.experiments.repro.entities import filled_levels
from rota.experiments.repro.model import Measured, Reproduction, ReproductionResult
from rota.experiments.repro.solving import solve_times
from rota.experiments.runner import SweepProgress
from rota.experiments.spec import Spec
from rota.experiments.store import ResultStore
from rota.experiments.tasks import version

Watching = Callable[[Spec], "contextlib.AbstractContextManager[Callable[[SweepProgress], None] | None]"]
"""How far a sweep is, told to somebody."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReproductionOutcome:
    """The comparison, and the values behind it for the figure."""

    result: ReproductionResult
    measured: list[Measured]
    interrupted: bool = False


def reproduce(
    wanted: Reproduction,
    *,
    quick: bool,
    store: str | Path,
    workers: int | None = None,
    watching: Watching | None = None,
    stored: bool = False,
) -> ReproductionOutcome:
    """Make the runs that the store does not have yet, and compare them with published numbers.

    With `stored` no run is made: only what the store has is compared.
    """
    missing = 0
    if wanted.kind == "sweep" and stored:
        measured, missing = _stored(wanted, quick=quick, store=store)
        computed = 0
        interrupted = False
    elif wanted.kind == "sweep":
        measured, computed, interrupted = _swept(
            wanted,
            quick=quick,
            store=store,
            workers=workers,
            watching=watching,
        )
    else:
        settings = {**wanted.settings, **(wanted.settings.get("quick", {}) if quick else {})}
        made = {"entities": filled_levels, "solve": solve_times}[wanted.kind](settings)
        measured = made
        computed = len(made)
        interrupted = False
    kept = comparing.pooled(measured)
    rows, left_out = comparing.compare(wanted, kept)
    result = ReproductionResult(
        **{key: getattr(wanted, key) for key in ("name", "title", "paper", "item", "source", "licence", "axes")},
        quick=quick,
        cut=wanted.quick if quick else "",
        tolerance=_tolerance(wanted),
        rows=tuple(rows),
        notes=(*wanted.notes, *([f"{missing} runs of the full experiment are not in the store."] if missing else ())),
        runs=len(measured),
        computed=computed,
        unstable=sum(m.status == STOPPED for m in measured),
        failed=sum(m.status not in {OK, STOPPED} for m in measured),
        left_out=left_out,
        cpu_s=sum(m.cpu_s for m in measured),
        version=version(),
    )
    return ReproductionOutcome(result=result, measured=kept, interrupted=interrupted)


def _swept(
    wanted: Reproduction,
    *,
    quick: bool,
    store: str | Path,
    workers: int | None,
    watching: Watching | None,
) -> tuple[list[Measured], int, bool]:
    measured: list[Measured] = []
    computed = 0
    with ResultStore(store) as kept:
        for spec in specs(wanted, quick=quick):
            spec = dataclasses.replace(spec, store=str(store), workers=workers)  # noqa: PLW2901 - the same sweep
            tasks = sweeping.plan(spec)
            with watching(spec) if watching else contextlib.nullcontext(None) as progress:
                executor = sweeping.make_executor(spec)
                sweep = sweeping.carry_out(spec, tasks, kept, executor, progress=progress)
            computed += sweep.computed
            pairs = zip(tasks, sweep.runs, strict=True)
            measured += [_measured(task.values, run) for task, run in pairs]
            if sweep.interrupted:
                return measured, computed, True
    return measured, computed, False


def _stored(wanted: Reproduction, *, quick: bool, store: str | Path) -> tuple[list[Measured], int]:
    """What the store has, and how many runs it does not have."""
    with ResultStore(store, create=False) as kept:
        tasks = [task for spec in specs(wanted, quick=quick) for task in sweeping.plan(spec)]
        stored = [(task, kept.result(task.key)) for task in tasks]
    measured = [_measured(task.values, run) for task, run in stored if run is not None]
    return measured, len(tasks) - len(measured)


def _measured(values: dict[str, Any], run: Any) -> Measured:
    return Measured(
        point=values,
        status=run.status or "missing",
        metrics=run.metrics,
        error=run.error,
        cpu_s=run.cpu_s or 0.0,
    )


def _tolerance(wanted: Reproduction) -> str:
    given = wanted.tolerance
    side = "above" if given.sense == "at most" else "from"
    why = " ".join(given.why.split())
    return f"met up to {given.met:g} % {side} the published number, close up to {given.close:g} %: {why}"
