"""The work of `rota profile`: from options to a profile file and what is shown of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rota.analysis.output import check_writable, write_file
from rota.cli.options import echo_json
from rota.cli.profile_progress import RunProgress
from rota.cli.profile_text import model_fields, show_model
from rota.profiler.cell import Cell, JobToProfile
from rota.profiler.document import Where, document
from rota.profiler.journal import Journal
from rota.profiler.run import RunRules
from rota.profiler.search import Plan, plan_for, reference
from rota.profiler.session import Bench, measure_all, prepare, run_to_end, runner_of
from rota.profiles import load
from rota.profiles.writing import document_text

INTERRUPTED = 130
FAILED = 1


def profile_job(
    job: JobToProfile,
    axis: Sequence[float],
    storage: Sequence[float],
    most_runs: int,
    rules: RunRules,
    output: Path,
    *,
    again: bool,
    as_json: bool,
) -> int:
    """Measure, write, show; the exit code."""
    check_writable(str(output))
    bench = prepare(job, storage)
    plan = plan_for(job, storage, most_runs, axis)
    journal = Journal.open(runs_file(output), job, again=again)
    if journal.resumed:
        click.echo(f"rota: going on after {journal.resumed} runs in {journal.path} (--again begins anew)", err=True)
    try:
        _measure(job, plan, journal, bench, rules, output)
    except KeyboardInterrupt:
        done = f"{len(journal.records)} runs are in {journal.path}"
        click.echo(f"rota: interrupted; {done}, and the same command goes on from there", err=True)
        return INTERRUPTED
    first = reference(plan)
    if not any(record.usable and record.cell == first for record in journal.believed):
        return _explain(job, first, journal)
    where = Where(type=bench.devices.type, machine=_machine(bench), remarks=bench.remarks)
    made = document(job, plan, journal.believed, where)
    write_file(str(output), document_text(made).encode())
    _show(output, journal, as_json=as_json)
    return 0


def runs_file(output: Path) -> Path:
    """Where the runs of a profile are."""
    return output.with_suffix(".runs.jsonl")


def _measure(job: JobToProfile, plan: Plan, journal: Journal, bench: Bench, rules: RunRules, output: Path) -> None:
    folder = output.absolute().parent / f".{output.stem}.profile"

    async def work() -> None:
        with RunProgress(plan) as progress:
            async with runner_of(job, bench, folder, rules) as runner:
                await measure_all(plan, journal, runner, progress)

    run_to_end(work)


def _explain(job: JobToProfile, first: Cell, journal: Journal) -> int:
    """No profile without the first cell: say what to do, and leave no file."""
    tried = [record for record in journal.believed if record.cell == first]
    journal.path.unlink(missing_ok=True)
    what = f"{job.name} cannot be profiled with {first}: {tried[-1].reason}"
    click.echo(f"rota: error: {what}", err=True)
    return FAILED


def _machine(bench: Bench) -> str:
    load_1 = os.getloadavg()[0]
    cpus = len(bench.machine.cpus)
    memory = bench.machine.memory_bytes / 1e9
    return f"{platform.machine()}, {cpus} CPUs, {memory:.0f} GB, {bench.backend.describe()}, load average {load_1:.1f}"


def _show(output: Path, journal: Journal, *, as_json: bool) -> None:
    catalogue = load(output)
    if as_json:
        rows: list[dict[str, Any]] = [
            {"profile": profile, "gpus": gpus, "type": gpu_type, "step_s": model.step_s, **model_fields(model)}
            for (profile, gpus, gpu_type), model in catalogue.models.items()
        ]
        runs = [record.to_json() for record in journal.records]
        echo_json({"file": str(output), "about": catalogue.about, "models": rows, "runs": runs})
        return
    for (profile, gpus, gpu_type), model in catalogue.models.items():
        show_model(f"{profile}: {gpus} x {gpu_type}, steps/s by CPUs and memory per GPU", model)
    for remark in filter(None, catalogue.about.get("remarks", "").split("; ")):
        click.echo(f"rota: note: {remark}", err=True)
    total_s = sum(record.seconds for record in journal.records)
    click.echo(f"\n{len(journal.records)} runs in {total_s:.0f} s; wrote {output} and {journal.path}")
