"""`rota events`: what happens in a deployment."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json

if TYPE_CHECKING:
    from rota.deploy.control import Client

EXAMPLES = """
\b
Examples:
  rota events                      what happened
  rota events -f --after -1        what happens from now on
  rota events --export run.jsonl   for `rota replay run.jsonl` and `rota plot gantt`
"""
_QUIET = frozenset({"LeasesExtended", "Allocated", "RoundsRan", "ProgressMade", "Planned", "JobsArchived"})
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
@click.option("--verbose", is_flag=True, help="Print also the events that every round has.")
@click.option(
    "--export",
    metavar="FILE",
    help="Write the event log of the engine to this file, as `rota simulate --events` does.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all events, one JSON object per line.")
@connection
def command(
    *, follow: bool, after: int, verbose: bool, export: str | None, as_json: bool, **options: Any
) -> None:  # fmt: skip
    """Print what happens in a deployment, or export its event log.

    A tenant sees the events of its own jobs.
    """
    if export is not None and (follow or after):
        raise click.UsageError("--export writes the whole log; leave out -f and --after")
    with open_client(options) as client:
        if export is not None:
            _export(client, export, as_json=as_json)
        else:
            _print(client, after, follow=follow, verbose=verbose, as_json=as_json)


def _print(client: Client, after: int, *, follow: bool, verbose: bool, as_json: bool) -> None:
    from rota.deploy.event_text import told

    begun, scale = _clock(client)
    for number, line in client.event_lines(after, follow=follow):
        event = json.loads(line)
        if as_json:
            click.echo(json.dumps({"sequence": number, **event}))
        elif verbose or event.get("event") not in _QUIET:
            click.echo(f"{number:6d}  {told(event, begun, scale)}")
        if follow:
            sys.stdout.flush()


def _clock(client: Client) -> tuple[float, float]:
    """Wall time of engine second 0, and the scale."""
    import time

    now = client.status()
    return time.time() - now.now_s / now.time_scale, now.time_scale


def _export(client: Client, path: str, *, as_json: bool) -> None:
    from rota.deploy.exports import export_events

    written = export_events(client, path)
    if as_json:
        echo_json({"file": path, "events": written})
    else:
        click.echo(f"{written:,} events in {path}; try `rota replay {path}`")
