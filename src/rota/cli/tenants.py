"""`rota tenants`: weights and limits of tenants of a live cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rota.cli.connection import connection, needs_deploy, open_client
from rota.cli.live_change import change_options, make_change
from rota.cli.options import echo_json, json_option
from rota.core.errors import ConfigError

EXAMPLES = """
\b
Examples:
  rota tenants
  rota tenants set tenants.toml --preview
  rota tenants set tenants.toml --yes
  rota tenants reload --yes

\b
`set` takes a file of yours, and that stays in force when the scheduler is started
again. `reload` lets the scheduler read the file of `rota serve --tenants` again; at
the next start that file counts.
"""


@click.group("tenants", invoke_without_command=True, epilog=EXAMPLES)
@connection
@json_option
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool, **options: Any) -> None:
    """Show weights and limits of tenants. Takes an administrator's token."""
    if ctx.invoked_subcommand is not None:
        return
    with open_client(options) as client:
        tenants = client.live_settings().get("tenants")
    if tenants is None:
        raise ConfigError("limits of tenants are shown to administrators; use an administrator's token")
    if as_json:
        echo_json(tenants)
    else:
        _show(tenants)


@command.command("set", epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@change_options
def set_tenants(*, file: Path, as_json: bool, preview: bool, yes: bool, **options: Any) -> None:
    """Set weights and limits of all tenants from a TOML file. Takes an administrator's token."""
    pb = needs_deploy("rota.rpc.rota_pb2")
    from rota.deploy.tenants import read_tenants

    read_tenants(file)  # what is wrong with it is said with its name, before anybody is asked
    request = pb.SettingsRequest(tenants=file.read_text(encoding="utf-8") or "# all as by default\n")
    make_change(request, options, as_json=as_json, preview=preview, yes=yes)


@command.command("reload", epilog=EXAMPLES)
@change_options
def reload_tenants(*, as_json: bool, preview: bool, yes: bool, **options: Any) -> None:
    """Let the scheduler read its file of `rota serve --tenants` again. Takes an administrator's token."""
    pb = needs_deploy("rota.rpc.rota_pb2")
    request = pb.SettingsRequest(reload_tenants=True)
    make_change(request, options, as_json=as_json, preview=preview, yes=yes)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " + ".join(f"{gpus} {gpu_type}" for gpu_type, gpus in sorted(value.items()))
    return "-" if value is None else value if isinstance(value, str) else f"{value:g}"


def _show(tenants: dict[str, Any]) -> None:
    from rota.cli.tables import show_table

    named = {**tenants["tenants"], "all others": tenants["default"]}
    columns = list(tenants["default"])
    rows = [(name, *(_shown(settings.get(column)) for column in columns)) for name, settings in named.items()]
    show_table(None, ("tenant", *columns), rows, numbers=len(columns))
