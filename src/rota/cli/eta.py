"""`rota eta`: when jobs start and end."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota eta 17
  rota eta                     all jobs that wait
  rota eta 17 --futures 0      only if nobody else comes
  rota eta --accuracy          how good estimates were so far
"""


@click.command("eta", epilog=EXAMPLES)
@click.argument("jobs", type=int, nargs=-1)
@click.option(
    "--futures",
    type=click.IntRange(0, 100),
    default=None,
    metavar="N",
    help="Futures that are sampled for the band (default: 20); 0: none.",
)
@click.option("--accuracy", is_flag=True, help="How good estimates were so far, all tenants together.")
@connection
@json_option
def command(*, jobs: tuple[int, ...], futures: int | None, accuracy: bool, as_json: bool, **options: Any) -> None:
    """Estimate when jobs start and end: if nobody else comes, and over sampled futures.

    Futures are drawn from who was submitted lately. Times are seconds on the scheduler's clock, from now on.
    """
    if accuracy and jobs:
        raise click.UsageError("--accuracy is about all estimates so far: give no job")
    with open_client(options) as client:
        answer = client.eta_accuracy() if accuracy else client.eta(jobs, futures=futures)
    if as_json:
        echo_json(answer)
    elif accuracy:
        _show_accuracy(answer)
    else:
        _show(answer["jobs"])


def _show(jobs: list[dict[str, Any]]) -> None:
    from rota.cli.tables import show_table

    if not jobs:
        click.echo("no job waits")
        return
    rows = [
        (
            str(job["job"]),
            "runs" if job["running"] else _time(job["start_in_s"]),
            _band(job["start_band_s"]),
            _time(job["end_in_s"]),
            _band(job["end_band_s"]),
        )
        for job in jobs
    ]
    header = ("job", "starts in", "p10 / p50 / p90", "ends in", "p10 / p50 / p90")
    show_table(None, header, rows, numbers=0)
    for job in jobs:
        if job["unknown"]:
            click.echo(f"job {job['job']}: unknown: {job['unknown']}")


def _time(seconds: float | None) -> str:
    from rota.cli.tables import duration

    return "unknown" if seconds is None else duration(seconds)


def _band(band: dict[str, float | None] | None) -> str:
    if band is None:
        return "-"
    return " / ".join("later" if band[name] is None else _time(band[name]) for name in ("p10", "p50", "p90"))


def _show_accuracy(answer: dict[str, Any]) -> None:
    from rota.cli.tables import share, show_pairs

    if not answer["forecasts"]:
        click.echo("no job that an estimate was given for has started yet")
        return
    show_pairs(
        f"{answer['forecasts']} estimates whose job has started",
        [
            ("start in the same round", share(answer["same_round"])),
            ("median error of the start", _time(answer["start_error_s"])),
            ("... of the median of futures", _time(answer["p50_error_s"])),
            ("... of jobs before it / rate of starts", _time(answer["naive_error_s"])),
            ("median error of the end", _time(answer["end_error_s"])),
            (f"within p10 to p90 ({answer['banded']} bands)", share(answer["band_coverage"])),
        ],
    )
