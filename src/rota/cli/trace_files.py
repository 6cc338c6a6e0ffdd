"""Options and steps that the verbs of `rota trace` share.

Read a file with its settings, write one and say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rota.cli import names
from rota.cli.options import completes, settings_option

if TYPE_CHECKING:
    from rota.core.jobs import Jobs

from_option = click.option(
    "--from",
    "source_format",
    metavar="NAME",
    shell_complete=completes(names.trace_formats),
    help="Format of the input, if it is not to be detected.",
)
to_option = click.option(
    "--to", metavar="NAME", shell_complete=completes(names.trace_formats),
    help="Format of the output (default: by its name, .csv, .parquet, .swf; else gavel).",
)  # fmt: skip
exact_option = click.option(
    "--exact", is_flag=True, help="Keep every float to the last bit where the format truncates."
)
settings_of_format = settings_option("--set-trace", "trace_settings", "Setting of the trace format")


def read(source: str, *, source_format: str | None, trace_settings: dict[str, str]) -> Jobs:
    """The jobs of a file; what was left out goes to standard error."""
    from rota.workloads import read_trace  # numpy only when needed
    from rota.workloads.problems import Problems

    problems = Problems(source)
    jobs = read_trace(source, source_format, trace_settings, problems)
    for remark in problems.remarks:
        click.echo(f"rota: note: {remark}", err=True)
    return jobs


def write(jobs: Jobs, target: str, to: str | None, *, exact: bool) -> None:
    """Write a file, and say what of the jobs its format cannot hold."""
    from rota.workloads import format_of, write_trace
    from rota.workloads.losses import lost

    form = to or format_of(target)
    write_trace(jobs, target, form, exact=exact)
    gone = lost(jobs, form)
    if gone:
        message = f"rota: note: {form} has no place for {', '.join(gone)}; csv and parquet have"
        click.echo(message, err=True)
    click.echo(f"{len(jobs):,} jobs written to {target} ({form})", err=True)
