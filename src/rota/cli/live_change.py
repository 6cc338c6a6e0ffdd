"""What `rota policy set` and `rota tenants set` share: the preview, the question, the change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import F, echo_json, json_option


def change_options(command: F) -> F:
    """Add --preview, --yes, --json and the options of a connection."""
    decorators: tuple[Callable[[F], F], ...] = (
        click.option("--preview", is_flag=True, help="Print what would change, and change nothing."),
        click.option("--yes", is_flag=True, help="Change it without the preview and without asking."),
        connection,
        json_option,
    )
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def make_change(request: Any, options: dict[str, Any], *, as_json: bool, preview: bool, yes: bool) -> None:
    """Show what a change would do, ask, and make it if nobody else has changed anything meanwhile."""
    if preview and yes:
        raise click.UsageError("give either --preview or --yes")
    if as_json and not (preview or yes):
        raise click.UsageError("--json asks nobody: give --preview or --yes with it")
    if not (preview or yes) and (sys.stdin is None or not sys.stdin.isatty()):
        raise click.UsageError("no terminal to ask at: give --yes, or --preview to change nothing")
    with open_client(options) as client:
        if not yes:
            answer = client.preview_settings(request)
            request.version = answer["version"]
            if as_json:
                echo_json(answer)
            else:
                show_preview(answer)
            if preview or not answer["changes"]:
                return
            click.confirm("change it?", abort=True, err=True)
        reply = client.set_settings(request)
    if as_json:
        echo_json(reply)
    else:
        click.echo("nothing to change" if not reply["changes"] else "changed: " + "; ".join(reply["changes"]))


def show_preview(answer: dict[str, Any]) -> None:
    """What is different, and who gains and loses."""
    from rota.cli.what_if import show

    if not answer["changes"]:
        click.echo("nothing would change")
        return
    for line in answer["changes"]:
        click.echo(f"  {line}")
    if "no_forecast" in answer:
        click.echo(f"what that does to jobs is not known: {answer['no_forecast']}")
        return
    show(answer)
    stopped = answer["preempted"]
    click.echo(
        f"running jobs stopped or moved in the next {stopped['rounds']} rounds: {stopped['after']} "
        f"(without the change {stopped['before']})"
    )
    if stopped["jobs"]:
        click.echo("  jobs " + " ".join(map(str, stopped["jobs"][:50])))
    click.echo("no job is stopped by the change itself; the next decisions are made by what is set then")
