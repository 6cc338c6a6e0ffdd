"""`rota release`: let jobs that are held start again."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.hold import check_named, named_jobs, show
from rota.cli.options import json_option

EXAMPLES = """
\b
Examples:
  rota release 17
  rota release --array 17      all jobs of the array that job 17 belongs to
"""


@click.command("release", epilog=EXAMPLES)
@named_jobs
@connection
@json_option
def command(*, jobs: tuple[int, ...], arrays: tuple[int, ...], as_json: bool, **options: Any) -> None:
    """Let jobs that are held start again.

    Jobs of `rota submit --hold` start, those of `rota hold` go on from their checkpoints.
    """
    check_named(jobs, arrays)
    with open_client(options) as client:
        reply = client.release(jobs, arrays)
    show(reply, ("is released", "was not held"), as_json=as_json)
