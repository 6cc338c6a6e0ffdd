"""`rota submit-trace`: a trace against a live cluster."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli import names
from rota.cli.connection import connection, needs_deploy, open_client
from rota.cli.main import INTERRUPTED, OK
from rota.cli.options import completes, echo_json, json_option, settings_option
from rota.cli.run_options import seconds_option
from rota.cli.standard_output import check_outputs, people_aside
from rota.cli.submit import placed

if TYPE_CHECKING:
    from rota.core.jobs import Jobs

EXAMPLES = """
\b
Examples:
  rota submit-trace my.trace --time-scale 60 --wait --jobs-csv deployed.csv
  rota submit-trace my.trace --limit 20 \\
       --command "python train.py --model {profile} --steps {steps}"

\b
Jobs are submitted at their arrivals, as fast as the scheduler's clock runs (its
--time-scale; give it here to be sure), with what the trace says: tenant, weight,
deadline, CPUs and memory asked for, jobs before them, time limit. Jobs for other tenants than your own need an
administrator's token, or --tenant. Places in --command: {name}, {profile},
{steps}, {gpus}, {job}. Ctrl-C ends the submission; what was submitted stays.
"""


@click.command("submit-trace", epilog=EXAMPLES)
@click.argument("trace", metavar="FILE")
@click.option(
    "--trace-format",
    metavar="NAME",
    shell_complete=completes(names.trace_formats),
    help="Format of the trace, e.g. gavel (default: detected).",
)
@settings_option("--set-trace", "trace_settings", "Setting of the trace format")
@seconds_option(
    "--time-scale",
    "Time scale that the scheduler must have; otherwise nothing is submitted.",
    metavar="K",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Number of jobs to take, in order of arrival.",
)
@click.option("--emulated", is_flag=True, help="Submit emulated jobs (default without --command).")
@click.option(
    "--command",
    "template",
    metavar="TEMPLATE",
    help="Command line of each job; see below.",
)
@click.option("--tenant", metavar="NAME", help="Tenant of all jobs (default: as the trace says).")
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until all jobs are over, and show completion times.",
)
@click.option(
    "--jobs-csv",
    metavar="FILE",
    help="Write one line per job, as `rota simulate` does (- is standard output); needs --wait.",
)
@connection
@json_option
def command(
    *, trace: str, trace_format: str | None, trace_settings: dict[str, str], time_scale: float | None,
    limit: int | None, emulated: bool, template: str | None, tenant: str | None, wait: bool, jobs_csv: str | None,
    as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Submit the jobs of a trace to a live cluster, each at its arrival."""
    if emulated and template is not None:
        raise click.UsageError("give either --emulated or --command")
    runs = needs_deploy("rota.deploy.trace_runs")
    _check_output(jobs_csv, wait=wait, as_json=as_json)
    jobs = _jobs(trace, trace_format, trace_settings, limit)
    specs = runs.specs_of(jobs, template, Path(trace).name.partition(".")[0] or "trace", tenant)
    specs = [placed(spec) for spec in specs]
    run = runs.TraceRun(jobs=jobs)
    with open_client(options, tenant) as client:
        status = client.status()
        scale = _scale(status, time_scale)
        runs.check_tenants([tenant] if tenant else runs.tenants_of(jobs), status)
        _tell_elastic(runs.elastic(jobs))
        tell_types(runs.bound_to_types(jobs))
        _tell_arrays(needs_deploy("rota.deploy.trace_arrays").without_limits(jobs))
        try:
            with _bar("submitting", len(jobs)) as tell:
                runs.submit_all(client, run, specs, scale, tell)
            if not wait:
                return _submitted(run.numbers, as_json=as_json)
            with _bar("running", len(jobs)) as tell:
                infos = client.wait(run.numbers, watch=lambda over, _: tell(over))
        except KeyboardInterrupt:
            return _interrupted(run.numbers, len(jobs), as_json=as_json)
    _show(runs, run, infos, jobs_csv, as_json=as_json)
    return OK


def _check_output(jobs_csv: str | None, *, wait: bool, as_json: bool) -> None:
    if jobs_csv is None:
        return
    if not wait:
        raise click.UsageError("--jobs-csv needs --wait: completion times are known in the end")
    check_outputs({"--jobs-csv": jobs_csv}, as_json=as_json)


def _jobs(
    trace: str,
    trace_format: str | None,
    trace_settings: dict[str, str],
    limit: int | None,
) -> Jobs:
    import numpy as np

    from rota.workloads import read_trace

    jobs = read_trace(trace, trace_format, trace_settings)
    ordered = jobs.take(np.argsort(jobs.submitted, kind="stable"))
    return ordered if limit is None else ordered.rows(0, min(limit, len(ordered)))


def _tell_elastic(count: int) -> None:
    if count:
        which = "1 job" if count == 1 else f"{count:,} jobs"
        click.echo(
            f"rota: {which} could run with fewer or more GPUs; here each gets as many as the trace asks for", err=True
        )


def _tell_arrays(count: int) -> None:
    if count:
        which = "1 job is" if count == 1 else f"{count:,} jobs are"
        click.echo(f"rota: {which} in arrays of different jobs, which are submitted without their limit", err=True)


def tell_types(count: int) -> None:
    """Say that a live cluster gives jobs GPUs of any type."""
    if count:
        which = "1 job" if count == 1 else f"{count:,} jobs"
        click.echo(f"rota: {which} may run on some types of GPU only; on a live cluster they run on any", err=True)


def _scale(status: Any, asked: float | None) -> float:
    """The scheduler's scale; another one that was asked for is refused."""
    from rota.core.errors import ConfigError

    scale = float(status.time_scale)
    if asked is not None and asked != scale:
        raise ConfigError(
            f"--time-scale {asked:g}: the scheduler runs with {scale:g}; leave it out, or start "
            f"the scheduler with --time-scale {asked:g}"
        )
    return scale


@contextlib.contextmanager
def _bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def _submitted(numbers: list[int], *, as_json: bool) -> int:
    if as_json:
        echo_json({"jobs": numbers})
    else:
        click.echo(f"{len(numbers)} jobs submitted: {numbers[0]} to {numbers[-1]}")
    return OK


def _interrupted(numbers: list[int], total: int, *, as_json: bool) -> int:
    if as_json:
        echo_json({"jobs": numbers, "interrupted": True})
    message = f"rota: interrupted; {len(numbers)} of {total} jobs were submitted and stay"
    click.echo(message, err=True)
    return INTERRUPTED


def _show(runs: Any, run: Any, infos: list[Any], jobs_csv: str | None, *, as_json: bool) -> None:
    columns = runs.outcome(run, infos)
    if jobs_csv is not None:
        from rota.analysis.jobs_csv import write_jobs_csv

        write_jobs_csv(jobs_csv, columns)
    summary = runs.summary(columns)
    if as_json:
        echo_json({**summary, "jobs": run.numbers})
        return
    from rota.cli.tables import show_pairs, summary_rows

    rows = summary_rows(summary)
    rows += [
        (f"Jobs {word}", f"{summary[f'jobs_{word}']:,}") for word in ("failed", "cancelled") if summary[f"jobs_{word}"]
    ]
    with people_aside(jobs_csv):
        show_pairs("trace on a live cluster", rows)
