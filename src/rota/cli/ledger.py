"""`rota ledger`: who had how much."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota ledger
  rota ledger --last 86400     the last day of the scheduler's clock
"""


@click.command("ledger", epilog=EXAMPLES)
@click.option(
    "--last",
    "last_s",
    type=click.FloatRange(0, min_open=True),
    default=None,
    metavar="SECONDS",
    help="Seconds of the scheduler's clock back from now (default: as far as the journal goes).",
)
@connection
@json_option
def command(*, last_s: float | None, as_json: bool, **options: Any) -> None:
    """Print GPU-hours by tenant: entitled, received, owed, lost work and cost.

    Received of all tenants and idle make up capacity x time, and so do entitled and unclaimed. A tenant sees its own
    account and the sum of all others, an administrator all.
    """
    with open_client(options) as client:
        answer = client.ledger(last_s or 0.0)
    if as_json:
        echo_json(answer)
        return
    from rota.cli.tables import duration, share, show_table

    span = duration(answer["to_s"] - answer["from_s"])
    click.echo(
        f"{answer['capacity_gpu_h']:,.2f} GPU-hours in {span}, {answer['idle_gpu_h']:,.2f} of them idle, "
        f"{answer['unclaimed_gpu_h']:,.2f} asked for by nobody; fairness {share(answer['fairness'])}"
    )
    rows = [
        (
            row["tenant"],
            *(f"{row[name]:,.2f}" for name in ("entitled_gpu_h", "received_gpu_h", "owed_gpu_h")),
            share(row["received_of_entitled"]),
            f"{row['lost_gpu_h']:,.2f}",
            "unknown" if row["cost"] is None else f"{row['cost']:,.2f}",
        )
        for row in answer["tenants"]
    ]
    header = ("tenant", "entitled GPU h", "received", "owed", "received / entitled", "lost work", "cost")
    show_table(None, header, rows, numbers=6)
