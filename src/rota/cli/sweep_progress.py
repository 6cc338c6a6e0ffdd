"""How far a sweep is, on standard error.

A bar with what is left on a terminal, a line per run elsewhere.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from rota.cli.tables import duration, share

if TYPE_CHECKING:
    from rota.experiments.runner import SweepProgress
    from rota.experiments.spec import Spec


@contextlib.contextmanager
def sweep_progress(spec: Spec, *, quiet: bool) -> Iterator[Callable[[SweepProgress], None] | None]:
    """A callback for the runner.

    Every result is told as it comes, so that partial ones can be read off.
    """
    if not sys.stderr.isatty():
        yield None if quiet else lambda report: click.echo(line(spec, report), err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    detail = TextColumn("{task.fields[detail]}")
    columns = (TextColumn(spec.name), BarColumn(), MofNCompleteColumn(), detail)
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(spec.name, total=None, detail="starting")

        def update(report: SweepProgress) -> None:
            if not quiet:
                bar.console.print(line(spec, report))
            bar.update(
                task,
                completed=report.done,
                total=report.total,
                detail=f"{_counts(report)}{_eta(report)}",
            )

        yield update


def line(spec: Spec, report: SweepProgress) -> str:
    """One run in one line."""
    task = report.task
    run = report.run
    if task is None or run is None:
        return ""
    point = " ".join(f"{key}={task.values[key]}" for key in spec.varied if key in task.values)
    said = f"[{report.done}/{report.total}] {run.status} {point}"
    if run.status == "ok":
        mean = run.metrics.get("mean_jct_s")
        said += f"  mean JCT {duration(mean)}, busy {share(run.metrics.get('utilization'))}"
    elif run.error:
        said += f"  {run.error.splitlines()[0]}"
    return said + _eta(report)


def _counts(report: SweepProgress) -> str:
    return ", ".join(f"{n} {status}" for status, n in report.counts.items())


def _eta(report: SweepProgress) -> str:
    if report.eta_s is None or report.done == report.total:
        return ""
    minutes, left = divmod(round(report.eta_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"  (about {hours}:{minutes:02}:{left:02} left)"
