"""`rota events`: what happens in a deployment."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.deploy.control import Client

EXAMPLES = """
\b
Examples:
  rota events                      what happened
  rota events -f --after -1        what happens from now on
  rota events --job 17             what happened to job 17: attempts, servers, reasons
  rota events --export run.jsonl   for `rota replay run.jsonl` and `rota plot gantt`
"""
_QUIET = frozenset(
    {
        "LeasesExtended",
        "Allocated",
        "RoundsRan",
        "ProgressMade",
        "Planned",
        "JobsArchived",
        "JobsForgotten",
        "JobsPinned",
    }
)
"""Told only with --verbose: they come with every round."""


@click.command("events", epilog=EXAMPLES)
@click.option("-f", "--follow", is_flag=True, help="Go on and print events as they happen.")
@click.option(
    "--after",
    type=click.IntRange(-1),
    default=0,
    metavar="N",
    help="Print events after number N; -1: only new ones.",
)
@click.option("--job", type=click.IntRange(0), metavar="N", help="Print only what concerns job N.")
@click.option("--verbose", is_flag=True, help="Print also the events that every round has.")
@click.option(
    "--export",
    metavar="FILE",
    help="Write the event log of the engine to this file, as `rota simulate --events` does.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all events, one JSON object per line.")
@connection
def command(
    *, follow: bool, after: int, job: int | None, verbose: bool, export: str | None, as_json: bool, **options: Any
) -> None:  # fmt: skip
    """Print what happens in a deployment, or export its event log.

    A tenant sees the events of its own jobs.
    """
    if export is not None and (follow or after or job is not None):
        raise click.UsageError("--export writes the whole log; leave out -f, --after and --job")
    with open_client(options) as client:
        if export is not None:
            _export(client, export, as_json=as_json)
        else:
            _tell_removed(client, after)
            lines = client.event_lines(after, follow=follow, job=job)
            _print(client, lines, verbose=verbose, as_json=as_json)


def _print(client: Client, lines: Iterator[tuple[int, str]], *, verbose: bool, as_json: bool) -> None:
    from rota.deploy.event_text import told
    from rota.deploy.log_text import printable

    begun, scale = _clock(client)
    for number, line in lines:
        event = json.loads(line)
        if as_json:
            click.echo(json.dumps({"sequence": number, **event}))
        elif verbose or event.get("event") not in _QUIET:
            click.echo(printable(f"{number:6d}  {told(event, begun, scale)}".encode()).decode())
        sys.stdout.flush()


def _tell_removed(client: Client, after: int) -> None:
    """Say from where on events are there, if somebody asks for earlier ones."""
    status = client.status()
    if 0 <= after < status.events_removed:
        click.echo(f"rota: events up to number {status.events_removed} were removed (--keep-events)", err=True)
    if 0 <= after < status.rounds_removed > status.events_removed:
        text = f"events of single rounds up to number {status.rounds_removed} were removed (--keep-rounds)"
        click.echo(f"rota: {text}", err=True)


def _clock(client: Client) -> tuple[float, float]:
    """Wall time of engine second 0, and the scale."""
    from rota.deploy.clocks import wall_s

    now = client.status()
    return wall_s() - now.now_s / now.time_scale, now.time_scale


def _export(client: Client, path: str, *, as_json: bool) -> None:
    from rota.deploy.exports import export_events

    written = export_events(client, path)
    if as_json:
        echo_json({"file": path, "events": written})
    else:
        click.echo(f"{written:,} events in {path}; try `rota replay {path}`")
