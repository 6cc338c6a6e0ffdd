"""`rota logs`: the output of a job."""

from __future__ import annotations

import base64
import sys
from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota logs 17
  rota logs 17 -f --tail 2000
  rota logs 17 --rank 3
"""


@click.command("logs", epilog=EXAMPLES)
@click.argument("job", type=click.IntRange(0))
@click.option("-f", "--follow", is_flag=True, help="Print what comes as long as the job runs.")
@click.option(
    "--rank",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Rank of the process whose output is printed.",
)
@click.option(
    "--tail",
    type=click.IntRange(0),
    default=0,
    metavar="BYTES",
    help="Number of bytes to print, from the end (0: all).",
)
@connection
@json_option
def command(*, job: int, follow: bool, rank: int, tail: int, as_json: bool, **options: Any) -> None:
    """Print the output of a job, from the server of its last attempt. Emulated jobs have none.

    With --json: one object with `text` (and `base64`, if it is not text), so not together with -f.
    """
    if as_json and follow:
        raise click.UsageError("give either --json or -f")
    with open_client(options) as client:
        pieces = client.logs(job, rank=rank, follow=follow, tail=tail)
        if as_json:
            whole = b"".join(pieces)
            text = whole.decode("utf-8", "replace")
            exact = {} if text.encode() == whole else {"base64": base64.b64encode(whole).decode()}
            echo_json({"job": job, "rank": rank, "text": text, **exact})
            return
        out = sys.stdout.buffer
        for piece in pieces:
            out.write(piece)
            out.flush()
