"""`rota nodes`: the servers of a deployment."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option
from rota.core.control_characters import visible

EXAMPLES = """
\b
Examples:
  rota nodes --json
  rota nodes remove v100-3     a lost server that will not come back
"""


@click.group("nodes", epilog=EXAMPLES, invoke_without_command=True)
@connection
@json_option
@click.pass_context
def command(context: click.Context, /, *, as_json: bool, **options: Any) -> None:
    """List the servers of a deployment, or remove one that is lost.

    What they have, what runs there, when they were heard of.
    """
    if context.invoked_subcommand is not None:
        return
    with open_client(options) as client:
        nodes = client.nodes()
    if as_json:
        echo_json([fields(node) for node in nodes])
        return
    if not nodes:
        click.echo("no server has come yet; `rota agent` starts one")
        return
    from rota.cli.tables import show_table

    rows = [
        (n.node, n.type + (" (emulated)" if n.emulated else ""), n.state, " ".join(map(str, n.jobs)) or "-",
         f"{n.busy}/{n.gpus}", f"{n.cpus:g}", f"{n.memory_gb:g}", f"{n.last_seen_s:.0f} s")
        for n in nodes
    ]  # fmt: skip
    header = ("node", "type", "state", "jobs", "GPUs", "CPUs", "GB", "seen")
    show_table(None, header, rows, numbers=4)
    for node in nodes:
        if node.remark:
            click.echo(visible(f"{node.node}: {node.remark}"))


@command.command("remove", epilog="Example: rota nodes remove v100-3")
@click.argument("node")
@connection
@json_option
def remove(*, node: str, as_json: bool, **options: Any) -> None:
    """Forget a server that is lost; it may join again. Takes an administrator's token."""
    with open_client(options) as client:
        client.remove_node(node)
    if as_json:
        echo_json({"removed": node})
        return
    click.echo(f"{node} is removed")


def fields(node: Any) -> dict[str, Any]:
    """A server as plain values."""
    names = ("node", "type", "gpus", "busy", "cpus", "memory_gb", "storage_mbps", "state", "last_seen_s", "emulated",
             "limits", "lateness_s", "host", "remark")  # fmt: skip
    lists = {"labels": list(node.labels), "jobs": list(node.jobs)}
    return {**{name: getattr(node, name) for name in names}, **lists}
