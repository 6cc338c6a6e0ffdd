"""`rota trace info` and `rota trace lint`: what is in a trace, and what is wrong with it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.main import OK, USAGE
from rota.cli.options import echo_json, json_option
from rota.cli.trace_files import from_option, read, settings_of_format

if TYPE_CHECKING:
    from rota.core.jobs import Jobs
    from rota.workloads.facts import TraceFacts
    from rota.workloads.problems import Problem


@click.command("info", epilog="Example: rota trace info some.trace.gz --plot some.png")
@click.argument("file")
@from_option
@settings_of_format
@click.option(
    "--profiles",
    metavar="NAME|FILE",
    help="Catalogue of profiles (name or file) for durations that the trace leaves out.",
)
@click.option(
    "--plot",
    metavar="FILE",
    help="Draw the distributions to this file too (.png, .pdf or .svg).",
)
@json_option
def info(file: str, *, profiles: str | None, plot: str | None, as_json: bool, **how: Any) -> None:
    """How many jobs a trace has, when they arrive and what they ask for."""
    if plot is not None:
        from rota.analysis.output import check_writable
        from rota.analysis.plots import require_matplotlib
        from rota.analysis.trace_plots import form_of

        form_of(plot)
        require_matplotlib()
        check_writable(plot)
    from rota.workloads.distributions import histograms
    from rota.workloads.facts import trace_facts

    jobs = _timed(read(file, **how), profiles)
    drawn = histograms(jobs)
    facts = trace_facts(jobs)
    if plot is not None:
        from rota.analysis.trace_plots import save_distributions

        save_distributions(drawn, plot)
    if as_json:
        shown = {name: {"labels": h.labels, "counts": h.counts} for name, h in drawn.items()}
        echo_json({"file": file, **asdict(facts), "histograms": shown})
        return
    from rota.cli.bars import show_histogram
    from rota.cli.tables import show_pairs

    show_pairs(Path(file).name, _rows(facts))
    click.echo("")
    for histogram in drawn.values():
        show_histogram(histogram)


@click.command("lint", epilog="Example: rota trace lint some.csv --json")
@click.argument("file")
@from_option
@settings_of_format
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Number of errors to list.",
)
@json_option
def lint(
    file: str,
    *,
    source_format: str | None,
    trace_settings: dict[str, Any],
    most: int,
    as_json: bool,
) -> int:
    """Everything that is wrong with a trace, with line, column and what to do.

    Exit code 2 if there are errors.
    """
    from rota.workloads.lint import lint as look

    findings = look(file, source_format, trace_settings, most=most)
    code = USAGE if findings.error_count else OK
    if as_json:
        echo_json(
            {
                "file": file,
                "format": findings.format,
                "jobs": findings.jobs,
                "error_count": findings.error_count,
                "errors": [_as_dict(p) for p in findings.errors],
                "remarks": [_as_dict(p) for p in findings.remarks],
            }
        )
        return code
    for problem in findings.errors:
        click.echo(f"{click.style('error', fg='red')}   {problem}")
    hidden = findings.error_count - len(findings.errors)
    if hidden:
        click.echo(f"... and {hidden:,} more; --max {findings.error_count} lists all of them")
    for problem in findings.remarks:
        click.echo(f"{click.style('remark', fg='yellow')}  {problem}")
    if findings.error_count:
        remarks = f"{len(findings.remarks)} remarks"
        click.echo(f"{findings.error_count:,} errors, {remarks}: the trace cannot be used")
    else:
        jobs = f"{findings.jobs:,} jobs ({findings.format})"
        click.echo(f"{jobs}, no errors, {len(findings.remarks)} remarks")
    return code


def _as_dict(problem: Problem) -> dict[str, Any]:
    return {
        "line": problem.line or None,
        "column": problem.column,
        "value": problem.value,
        "what": problem.what,
        "fix": problem.fix,
        "message": str(problem),
    }


def _timed(jobs: Jobs, profiles: str | None) -> Jobs:
    """With durations where a catalogue can tell them."""
    import numpy as np

    from rota.profiles import load
    from rota.workloads.durations import with_known_durations

    if not np.isnan(jobs.duration).any():
        return jobs
    for name in ("gavel", "synergy") if profiles is None else (profiles,):
        jobs = with_known_durations(jobs, load(name))
    return jobs


def _rows(facts: TraceFacts) -> list[tuple[str, str]]:
    from rota.cli.tables import duration

    rows = [
        ("Jobs", f"{facts.jobs:,}"),
        ("First arrival", duration(facts.first_arrival_s)),
        ("Last arrival", duration(facts.last_arrival_s)),
        ("Jobs per hour", _number(facts.jobs_per_hour, 2)),
        ("Duration, median", duration(facts.median_duration_s)),
        ("Duration, mean", duration(facts.mean_duration_s)),
        ("GPU-hours", _number(facts.gpu_hours, 1)),
        ("GPUs busy on average", _number(facts.offered_gpus, 1)),
        ("Profiles", f"{len(facts.jobs_by_profile)}"),
        ("Tenants", f"{facts.tenants}"),
        ("With a deadline", f"{facts.jobs_with_slo:,}"),
    ]
    for label, counts in (("May run on", facts.jobs_by_types), ("Ran on", facts.jobs_by_recorded)):
        if counts:
            rows.append((label, ", ".join(f"{name} {count:,}" for name, count in counts.items())))
    unknown = facts.jobs_without_duration
    return rows + ([("Duration unknown", f"{unknown:,} (give --profiles)")] if unknown else [])


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
