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
    """Say how the scheduler is: its settings, its clock, how many jobs there are."""
    with open_client(options) as client:
        found = client.status()
        address = client.settings.address
    names = ("version", "now_s", "time_scale", "round_s", "policy", "mechanism", "rounds", "queued", "running",
             "finished", "events", "last_decision_s", "late_solves", "tenant", "admin")  # fmt: skip
    values = {"address": address, **{name: getattr(found, name) for name in names}}
    if as_json:
        echo_json(values)
        return
    from rota.cli.tables import duration, show_pairs

    show_pairs(
        f"scheduler {address}",
        [
            ("jobs", f"{found.running} running, {found.queued} queued, {found.finished} finished"),
            ("policy", found.policy),
            ("mechanism", found.mechanism),
            ("clock", f"{duration(found.now_s)}, {found.time_scale:g} x wall time"),
            ("rounds", f"{found.rounds:,} of {found.round_s:g} s"),
            ("late decisions", str(found.late_solves)),
            ("events", f"{found.events:,}"),
            ("version", found.version),
            ("you", f"tenant {found.tenant}{', administrator' if found.admin else ''}"),
        ],
    )
