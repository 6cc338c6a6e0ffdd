"""`rota policies`: what can be given to `--policy`."""

from __future__ import annotations

import click

from rota.cli import names
from rota.cli.listing import show_registry
from rota.cli.options import completes, json_option


@click.command("policies", epilog="Example: rota policies max-min-fairness-perf")
@click.argument("name", required=False, shell_complete=completes(names.policies))
@json_option
def command(name: str | None, *, as_json: bool) -> None:
    """List scheduling policies, or explain one."""
    show_registry(names.policy_registry(), name, as_json=as_json)
