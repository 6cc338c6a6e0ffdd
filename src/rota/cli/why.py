"""`rota why`: why a job waits, and what would place it."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option
from rota.core.lifecycle import JobPhase

_WAITING = frozenset({"queued", "waiting"})
EXAMPLES = """
\b
Examples:
  rota why 17
  rota why 17 --json
"""


@click.command("why", epilog=EXAMPLES)
@click.argument("job", type=int)
@connection
@json_option
def command(*, job: int, as_json: bool, **options: Any) -> None:
    """Say why a job waits: the reason, the numbers behind it, and the cheapest changes that would place it.

    Every change that is named was tried on a copy of the scheduler's state: with it, the job has a place in the next
    round.
    """
    with open_client(options) as client:
        info = client.job(job)
        if JobPhase(info.phase).final:
            _tell_end(info, as_json=as_json)
            return
        answer = client.why(job)
    if as_json:
        echo_json(answer)
        return
    from rota.core.control_characters import visible

    waits = answer["phase"] in _WAITING
    code = f"{answer['code']}: " if answer["code"] else ""
    reason = visible(answer["reason"]) or "nothing keeps it"
    click.echo(f"job {job} is {answer['phase']}; {code}{reason}")
    if waits:
        _show_numbers(answer["numbers"])
    for change in answer["changes"]:
        who = "you could" if change["by"] == "you" else "an operator could"
        click.echo(f"{who} {change['what']} ({change['price']})")
    if waits and not answer["changes"] and answer["code"] != "starts-next":
        click.echo(
            f"none of the {answer['tried']} changes that were tried, one at a time, would place it in the next round; "
            "two together were not tried; `rota eta` says when it starts"
        )


def _tell_end(info: Any, *, as_json: bool) -> None:
    """A job that is over waits for nothing: how it ended, and where to look."""
    from rota.cli import job_text

    if as_json:
        ended = {"phase": info.phase, "code": info.reason_code, "reason": info.reason}
        echo_json({"job": info.job, **ended, "numbers": None, "changes": []})
        return
    click.echo(f"job {info.job} is over, {job_text.how(info)}; `rota logs {info.job}` prints its output")


def _show_numbers(numbers: dict[str, Any]) -> None:
    from rota.cli.tables import duration, show_table

    ahead = numbers["ahead"]
    others = ahead["others"]
    click.echo(
        f"asks for {numbers['asks']} GPUs, waits for {duration(numbers['waited_s'])}; before it start "
        f"{len(ahead['jobs'])} jobs with {ahead['gpus']} GPUs that you see, "
        f"{others['jobs']} with {others['gpus']} GPUs of other tenants"
    )
    rows = [
        (row["type"], *(str(row[name]) for name in ("up", "free", "held_by_tenant", "held_by_others", "away")))
        for row in numbers["types"]
    ]
    if rows:
        show_table(None, ("type", "up", "free", "its tenant", "others", "away"), rows, numbers=5)
