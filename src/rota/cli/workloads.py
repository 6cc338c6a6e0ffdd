"""`rota workloads`: what can be given to `--workload`."""

from __future__ import annotations

import click

from rota.cli import names
from rota.cli.listing import show_registry
from rota.cli.options import completes, json_option


@click.command("workloads", epilog="Example: rota workloads gavel-continuous")
@click.argument("name", required=False, shell_complete=completes(names.workloads))
@json_option
def command(name: str | None, *, as_json: bool) -> None:
    """List job generators, or explain one."""
    show_registry(names.workload_registry(), name, as_json=as_json)
