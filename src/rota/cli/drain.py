"""`rota drain`: keep jobs away from a server."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, needs_deploy, open_client
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota drain v100-0 --preview  who gains, who loses; changes nothing
  rota drain v100-0            jobs there are asked to save and move at once
  rota drain v100-0 --undo
"""


@click.command("drain", epilog=EXAMPLES)
@click.argument("node")
@click.option("--undo", is_flag=True, help="Let jobs run on the server again.")
@click.option("--preview", is_flag=True, help="Print who would gain and who would lose, and change nothing.")
@connection
@json_option
def command(*, node: str, undo: bool, preview: bool, as_json: bool, **options: Any) -> None:
    """Keep jobs away from a server, or let them back. Takes an administrator's token.

    Jobs that run there are asked to save and go on elsewhere; those that cannot save begin anew.
    """
    if preview:
        _preview(node, options, undo=undo, as_json=as_json)
        return
    with open_client(options) as client:
        answer = client.drain(node, undo=undo)
    if as_json:
        from rota.cli.nodes import fields

        echo_json(fields(answer))
        return
    numbers = " ".join(map(str, answer.jobs))
    jobs = f"; jobs that leave it: {numbers}" if answer.jobs and not undo else ""
    click.echo(f"{answer.node} is {answer.state}{jobs}")


def _preview(node: str, options: dict[str, Any], *, undo: bool, as_json: bool) -> None:
    from rota.cli.what_if import show

    pb = needs_deploy("rota.rpc.rota_pb2")
    with open_client(options) as client:
        answer = client.what_if(pb.WhatIfRequest(undrain=node) if undo else pb.WhatIfRequest(drain=node))
    if as_json:
        echo_json(answer)
    else:
        show(answer)
