"""`rota report`: one interactive HTML file about a sweep or some runs."""

from __future__ import annotations

import math
import os
from pathlib import Path

import click

from rota.cli.options import echo_json, json_option

EPILOG = """\b
Examples:
  rota report results.db -o report.html
  rota report results.db --sweep las -o report.html
  rota report fifo.jsonl.gz las.jsonl.gz -o report.html
  rota report results.db run.jsonl.gz -o report.html
  rota report fifo=a.csv fifo=a.json las=b.csv -o report.html
"""


@click.command("report", epilog=EPILOG)
@click.argument("results", nargs=-1, required=True, metavar="STORE|[NAME=]FILE...")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="File for the page, e.g. report.html.",
)
@click.option("--sweep", metavar="NAME", help="Sweep of the store to report on (default: all).")
@click.option("--title", metavar="TEXT", help="Title of the page.")
@click.option(
    "--gantt",
    default="auto",
    show_default=True,
    metavar="auto|none|KEY",
    help="Runs of a store to make again for a Gantt chart: if it is cheap, none, or the one with this key.",
)
@click.option(
    "--from-hour",
    type=float,
    default=0.0,
    show_default=True,
    help="Simulated hour at which Gantt charts begin.",
)
@click.option(
    "--to-hour",
    type=float,
    default=math.inf,
    help="Simulated hour at which Gantt charts end (default: the end of the run).",
)
@json_option
def command(
    results: tuple[str, ...],
    *,
    output: str,
    sweep: str | None,
    title: str | None,
    gantt: str,
    from_hour: float,
    to_hour: float,
    as_json: bool,
) -> None:
    """Write one interactive HTML file about a sweep or some runs.

    It needs no network: table, figures, Gantt charts, differences of two policies, configurations.
    Give a store of results (`rota sweep`), or files of runs: event logs, jobs CSVs, outputs of
    --json. Files of one name are parts of one run. A log beside a store is drawn as the Gantt chart
    of its run.
    """
    if not 0 <= from_hour < to_hour:
        fix = "give a window"
        what = f"--from-hour {from_hour:g} is not before --to-hour {to_hour:g}"
        raise click.UsageError(f"{what}; {fix}")
    from rota.analysis.output import check_writable  # kept off the path of --help
    from rota.report.logs import TimeWindow
    from rota.report.page import write_report

    _check_apart(results, check_writable(output))
    window = TimeWindow(start=3600.0 * from_hour, end=3600.0 * to_hour)
    made = write_report(results, output, sweep=sweep, title=title, gantt=gantt, window=window)
    if as_json:
        echo_json({"report": output, **made})
        return
    for note in made["notes"]:
        click.echo(f"rota: note: {note}", err=True)
    click.echo(f"{made['runs']} runs, {made['gantts']} Gantt charts, {made['bytes'] / 1e6:.1f} MB: {output}")


def _check_apart(results: tuple[str, ...], target: Path) -> None:
    """Refuse to write the page over one of the results."""
    for source in results:
        for path in (source, source.partition("=")[2]):
            if path and Path(os.path.realpath(path)) == target:
                raise click.UsageError(f"-o names one of the results, {path}; give another file")
