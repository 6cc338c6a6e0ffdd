"""What `rota submit --dry-run` prints: where and when jobs would start."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.options import echo_json

_MOST_ROWS = 20


def show_dry_run(answer: dict[str, Any], *, as_json: bool) -> None:
    """A row per job, and what it means for others."""
    if as_json:
        echo_json(answer)
        return
    from rota.cli.tables import show_table

    jobs = answer["submitted"]
    rows = [_row(job) for job in jobs[:_MOST_ROWS]]
    show_table(None, ("job", "starts in", "ends in", "where", "remark"), rows, numbers=frozenset({1, 2}))
    if len(jobs) > _MOST_ROWS:
        click.echo(f"... and {len(jobs) - _MOST_ROWS:,} more; --json lists them")
    later = answer["all"]["later"]
    if later:
        click.echo(f"{later:,} {'job' if later == 1 else 'jobs'} of all tenants would end later")
    if answer["lengths_unknown"]:
        click.echo(f"{answer['lengths_unknown']} jobs of which nobody knows the length are taken to run for ever")
    click.echo("nothing was submitted; if nobody else comes, and jobs run as their profiles say")


def _row(job: dict[str, Any]) -> tuple[str, ...]:
    where = ", ".join(f"{gpus} GPUs of {server}" for server, gpus in job["where"].items())
    return (str(job["job"]), _time(job["start_in_s"]), _time(job["end_in_s"]), where or "-", job["reason"] or "-")


def _time(seconds: float | None) -> str:
    from rota.cli.tables import duration

    return "-" if seconds is None else duration(seconds)
