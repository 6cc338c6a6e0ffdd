"""`rota cancel`: end jobs."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota cancel 17 18
  rota cancel --array 17       all jobs of the array that job 17 belongs to
  rota cancel --all
"""


@click.command("cancel", epilog=EXAMPLES)
@click.argument("jobs", type=click.IntRange(0), nargs=-1)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Cancel all jobs that are not over and that the token covers.",
)
@click.option(
    "--array",
    "arrays",
    type=click.IntRange(0),
    multiple=True,
    metavar="JOB",
    help="Cancel all jobs of the array that this job belongs to; repeatable.",
)
@connection
@json_option
def command(*, jobs: tuple[int, ...], everything: bool, arrays: tuple[int, ...], as_json: bool, **options: Any) -> None:
    """Cancel jobs. One that runs is asked to stop, and ended if it has not after 10 s (30 s with several GPUs)."""
    if bool(jobs or arrays) == everything:
        raise click.UsageError("give the numbers of jobs, --array, or --all")
    with open_client(options) as client:
        if everything:
            from rota.cli.jobs import LIVE

            numbers = [info.job for info in client.jobs(LIVE)]
        else:
            numbers = list(jobs)
        cancelled, over = client.cancel(numbers) if numbers else ([], [])
        of_arrays: tuple[list[int], list[int]] = client.cancel_arrays(arrays) if arrays else ([], [])
    if as_json:
        echo_json({"cancelled": [*cancelled, *of_arrays[0]], "over": [*over, *of_arrays[1]]})
        return
    for number in cancelled:
        click.echo(f"job {number} is cancelled")
    for number in over:
        click.echo(f"job {number} was over already")
    for group, what in zip(of_arrays, ("cancelled", "over already"), strict=True):
        if group:
            click.echo(together(group, what))
    if not numbers and not arrays:
        click.echo("no jobs that are not over")


def together(numbers: list[int], what: str) -> str:
    """What became of jobs of arrays, in one line."""
    first = min(numbers)
    last = max(numbers)
    if len(numbers) == 1:
        return f"job {first} is {what}"
    named = f"jobs {first} to {last} are" if last - first + 1 == len(numbers) else "jobs of the array are"
    return f"{named} {what} ({len(numbers):,})"
