"""`rota journal`: look after the state file of a scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.connection import needs_deploy
from rota.cli.options import echo_json, json_option

if TYPE_CHECKING:
    from rota.deploy.scheduler.journal_repair import Report

EXAMPLES = """
\b
Examples:
  rota journal check rota.db           is everything there, and can it be read?
  rota journal repair rota.db          a file from which a scheduler can start
\b
The exit code is 0 if all is well (or was repaired), 1 if something is damaged
(or could not be repaired), 2 if the file is no state file of this version.
"""
_MOST_SHOWN = 20

profiles = click.option(
    "--profiles",
    metavar="NAME",
    help="Catalogue with which the jobs are read (default: that of the last start).",
)


@click.group("journal", epilog=EXAMPLES)
def command() -> None:
    """Check or repair the state file of a scheduler."""


@command.command("check", epilog="Example: rota journal check rota.db --json")
@click.argument("state", type=click.Path(path_type=Path))
@profiles
@json_option
def check(*, state: Path, profiles: str | None, as_json: bool) -> int:
    """Read a state file as a start would, and say what is wrong with it; nothing is changed.

    A scheduler may run on it meanwhile.
    """
    report = needs_deploy("rota.deploy.scheduler.journal_repair").check(state, profiles)
    if as_json:
        echo_json(report.fields())
    else:
        _tell(report)
    return 0 if report.healthy else 1


@command.command("repair", epilog="Example: rota journal repair rota.db")
@click.argument("state", type=click.Path(path_type=Path))
@profiles
@json_option
def repair(*, state: Path, profiles: str | None, as_json: bool) -> int:
    """Make a damaged state file one from which a scheduler can start; the damaged one is kept.

    The scheduler must not run. What is lost is listed; jobs of which nobody knows what became are
    failed with the reason.
    """
    report = needs_deploy("rota.deploy.scheduler.journal_repair").repair(state, profiles)
    if as_json:
        echo_json(report.fields())
    elif report.healthy:
        click.echo(f"{state} is whole; nothing was changed.")
    else:
        _tell(report)
        _tell_repair(report)
    return 0


def _tell(report: Report) -> None:
    there = f"{report.events:,} events up to number {report.last:,}"
    removed = f", those up to {report.removed_through:,} were removed" if report.removed_through else ""
    click.echo(
        f"{report.path}: layout {report.layout}, {there}{removed}; {report.snapshots} snapshots, "
        f"{report.archived_jobs:,} archived jobs"
    )
    for problem in report.problems[:_MOST_SHOWN]:
        click.echo(f"  {problem}")
    more = len(report.problems) - _MOST_SHOWN
    if more > 0:
        click.echo(f"  ... and {more:,} more (--json lists all)")
    if report.healthy:
        click.echo("  no problem found")
    elif not report.kept:
        click.echo(f"`rota journal repair {report.path}` makes a file from which a scheduler can start.")


def _tell_repair(report: Report) -> None:
    lost = len(report.bad_events)
    click.echo(f"Repaired. The damaged file is {report.kept}.")
    if lost:
        click.echo(f"  {lost:,} events are lost, {report.history_only:,} of them only as history")
    for line in report.not_applied[:_MOST_SHOWN]:
        click.echo(f"  left out: event {line}")
    if report.failed_jobs:
        numbers = ", ".join(str(number) for number in report.failed_jobs[:_MOST_SHOWN])
        click.echo(f"  failed, because nobody knows what became of them: jobs {numbers}")
    if report.engine_reset:
        click.echo("  the time that jobs have received so far is lost; those that run are stopped and start again")
