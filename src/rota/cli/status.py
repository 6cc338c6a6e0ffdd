"""`rota status`: the scheduler itself."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option


@click.command("status", epilog="Example: rota status --json")
@connection
@json_option
def command(*, as_json: bool, **options: Any) -> None:
    """Print the state of the scheduler: its settings, its clock, the number of jobs."""
    with open_client(options) as client:
        status = client.status()
        address = client.settings.address
    names = ("version", "now_s", "time_scale", "round_s", "policy", "mechanism", "rounds", "queued", "running",
             "finished", "events", "last_decision_s", "late_solves", "tenant", "admin")  # fmt: skip
    values = {"address": address, **{name: getattr(status, name) for name in names}}
    if as_json:
        echo_json(values)
        return
    from rota.cli.tables import duration, show_pairs

    show_pairs(
        f"scheduler {address}",
        [
            ("jobs", f"{status.running} running, {status.queued} queued, {status.finished} finished"),
            ("policy", status.policy),
            ("mechanism", status.mechanism),
            ("clock", f"{duration(status.now_s)}, {status.time_scale:g} x wall time"),
            ("rounds", f"{status.rounds:,} of {status.round_s:g} s"),
            ("late decisions", str(status.late_solves)),
            ("events", f"{status.events:,}"),
            ("version", status.version),
            ("you", f"tenant {status.tenant}{', administrator' if status.admin else ''}"),
        ],
    )
