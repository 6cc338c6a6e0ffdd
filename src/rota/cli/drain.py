"""`rota drain`: keep jobs away from a server."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota drain v100-0            jobs there are asked to save and move at once
  rota drain v100-0 --undo
"""


@click.command("drain", epilog=EXAMPLES)
@click.argument("node")
@click.option("--undo", is_flag=True, help="Let jobs run on the server again.")
@connection
@json_option
def command(*, node: str, undo: bool, as_json: bool, **options: Any) -> None:
    """Keep jobs away from a server, or let them back. Takes an administrator's token.

    Jobs that run there are asked to save and go on elsewhere; those that cannot save begin anew.
    """
    with open_client(options) as client:
        answer = client.drain(node, undo=undo)
    if as_json:
        from rota.cli.nodes import fields

        echo_json(fields(answer))
        return
    numbers = " ".join(map(str, answer.jobs))
    jobs = f"; jobs that leave it: {numbers}" if answer.jobs and not undo else ""
    click.echo(f"{answer.node} is {answer.state}{jobs}")
