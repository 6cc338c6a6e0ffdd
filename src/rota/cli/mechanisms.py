"""`rota mechanisms`: what can be given to `--mechanism`."""

from __future__ import annotations

import click

from rota.cli import names
from rota.cli.listing import show_registry
from rota.cli.options import completes, json_option


@click.command("mechanisms", epilog="Example: rota mechanisms strided")
@click.argument("name", required=False, shell_complete=completes(names.mechanisms))
@json_option
def command(name: str | None, *, as_json: bool) -> None:
    """List mechanisms, or explain one."""
    show_registry(names.mechanism_registry(), name, as_json=as_json)
