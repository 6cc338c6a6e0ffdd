"""`rota status`: the scheduler itself."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.job_text import printable
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
             "finished", "failed", "cancelled", "archived", "events", "events_removed",
             "rounds_removed", "last_decision_s", "late_solves",
             "failed_decisions", "last_failed_decision_s", "last_failed_decision", "tenant", "admin",
             "clock_sets", "last_clock_set_s", "last_clock_set_by_s",
             "term", "standby", "standby_in_step", "standby_behind", "standby_silent_s")  # fmt: skip
    values = {"address": address, **{name: getattr(status, name) for name in names}}
    values["speed_remarks"] = list(status.speed_remarks)
    if as_json:
        echo_json(values)
        return
    from rota.cli.tables import duration, show_pairs

    show_pairs(
        f"scheduler {address}",
        [
            ("jobs", _jobs(status)),
            ("policy", status.policy),
            ("mechanism", status.mechanism),
            ("clock", f"{duration(status.now_s)}, {status.time_scale:g} x wall time"),
            *([("wall clock", _clock_sets(status))] if status.clock_sets else []),
            ("rounds", f"{status.rounds:,} of {status.round_s:g} s"),
            ("late decisions", str(status.late_solves)),
            ("failed decisions", _failed_decisions(status)),
            *(("wrong profile", printable(remark)) for remark in status.speed_remarks),
            ("events", f"{status.events:,}"),
            *([("standby", _standby(status))] if status.standby or status.term else []),
            ("version", status.version),
            ("you", f"tenant {status.tenant}{', administrator' if status.admin else ''}"),
        ],
    )


def _standby(status: Any) -> str:
    """Who stands by, how far it is, and how often a standby took over."""
    term = f"term {status.term}"
    if not status.standby:
        return f"none; {term}"
    state = "in step" if status.standby_in_step else "not in step"
    heard = f"heard {status.standby_silent_s:.1f} s ago"
    return f"{status.standby}, {state}, {status.standby_behind:,} events behind, {heard}; {term}"


def _jobs(status: Any) -> str:
    counts = [f"{status.running} running", f"{status.queued} queued", f"{status.finished} finished"]
    counts += [f"{status.failed} failed"] if status.failed else []
    counts += [f"{status.cancelled} cancelled"] if status.cancelled else []
    return ", ".join(counts)


def _failed_decisions(status: Any) -> str:
    """How often a policy or mechanism gave no answer that can be used, and the last time."""
    from rota.cli.tables import duration

    if not status.failed_decisions:
        return "0"
    ago_s = max(0.0, status.now_s - status.last_failed_decision_s)
    last = f"the last {duration(ago_s)} ago (scheduler clock): {status.last_failed_decision}"
    return f"{status.failed_decisions:,}; the last good decision stays in force; {last}"


def _clock_sets(status: Any) -> str:
    """How often the wall clock was set, and the last time."""
    from rota.cli.tables import duration

    ago_s = max(0.0, status.now_s - status.last_clock_set_s)
    by_s = status.last_clock_set_by_s
    how = f"{'forward' if by_s > 0 else 'back'} by {duration(abs(by_s))}"
    last = f"the last time {duration(ago_s)} ago (scheduler clock), {how}"
    return f"was set {status.clock_sets:,} times, {last}; nothing depends on it but times that are shown"
