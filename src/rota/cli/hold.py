"""`rota hold`: keep jobs from running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota hold 17                 it does not start; one that runs saves and stops
  rota hold --array 17         all jobs of the array that job 17 belongs to
  rota release 17
"""


def named_jobs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Jobs by number, and arrays."""
    arrays = click.option(
        "--array",
        "arrays",
        type=click.IntRange(0),
        multiple=True,
        metavar="JOB",
        help="All jobs of the array that this job belongs to; repeatable.",
    )
    return click.argument("jobs", type=click.IntRange(0), nargs=-1)(arrays(function))


@click.command("hold", epilog=EXAMPLES)
@named_jobs
@click.option("--force", is_flag=True, help="Hold jobs that run and cannot save, too: they begin anew.")
@connection
@json_option
def command(*, jobs: tuple[int, ...], arrays: tuple[int, ...], force: bool, as_json: bool, **options: Any) -> None:
    """Keep jobs from running until they are released.

    One that runs is asked to save and stop. It goes on from its checkpoint when it is released. What an administrator
    holds, only an administrator can release.
    """
    check_named(jobs, arrays)
    with open_client(options) as client:
        reply = client.hold(jobs, arrays, force=force)
    show(reply, ("is held", "was held already"), as_json=as_json)


def check_named(jobs: tuple[int, ...], arrays: tuple[int, ...]) -> None:
    """A usage error if nothing is named."""
    if not jobs and not arrays:
        raise click.UsageError("give the numbers of jobs, or --array")


def show(reply: Any, words: tuple[str, str], *, as_json: bool) -> None:
    """What happened to the jobs; `words` are for those that changed and those that did not."""
    if as_json:
        echo_json({"changed": list(reply.changed), "unchanged": list(reply.unchanged), "over": list(reply.over)})
        return
    groups = ((reply.changed, words[0]), (reply.unchanged, words[1]), (reply.over, "was over already"))
    for numbers, what in groups:
        for number in numbers:
            click.echo(f"job {number} {what}")
