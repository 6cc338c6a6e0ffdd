"""`rota logs`: the output of a job."""

from __future__ import annotations

import base64
import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from rota.cli.connection import connection, needs_deploy, open_client
from rota.cli.options import echo_json, json_option
from rota.core.control_characters import visible
from rota.core.lifecycle import JobPhase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.deploy.control import Client
    from rota.deploy.log_feed import LogItem, LogQuery

EXAMPLES = """
\b
Examples:
  rota logs 17
  rota logs 17 -f --tail 20
  rota logs 17 --all-ranks --timestamps --since 10m
  rota logs 17 --attempt 2 --rank 3 --stderr
"""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_AGO = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
_MOST_LINES = 10_000_000


def _since(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A time, or how long ago it was, as seconds since 1970; 0 if none is given."""
    from rota.deploy.clocks import wall_s

    ago = _AGO.fullmatch(value)
    if not value or ago is not None:
        return 0.0 if ago is None else max(0.0, wall_s() - float(ago[1]) * _UNITS[ago[2] or "s"])
    try:
        return max(0.0, datetime.fromisoformat(value).timestamp())
    except (ValueError, OverflowError, OSError):
        message = f"{value!r} is neither a time (2026-11-18T09:30) nor how long ago (90s, 10m, 2h, 1d)"
        raise click.BadParameter(message, ctx, param) from None


@click.command("logs", epilog=EXAMPLES)
@click.argument("job", type=click.IntRange(0))
@click.option(
    "-f", "--follow", is_flag=True, help="Print what comes until the job is over, then its outcome (1 if it failed)."
)
@click.option(
    "--rank",
    type=click.IntRange(0),
    help="Rank of the process whose output is printed (default: 0).",
)
@click.option("--all-ranks", is_flag=True, help="Print the output of all ranks; each line begins with its rank.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Print only attempt N (default: all).")
@click.option("--stdout", "only_stdout", is_flag=True, help="Print only standard output.")
@click.option("--stderr", "only_stderr", is_flag=True, help="Print only standard error.")
@click.option(
    "--tail",
    type=click.IntRange(0, _MOST_LINES),
    default=0,
    metavar="LINES",
    help="Number of lines to print, from the end (0: all).",
)
@click.option(
    "--since", default="", callback=_since, metavar="TIME", help="Print from a time on: 2026-11-18T09:30, or 10m ago."
)
@click.option("-t", "--timestamps", is_flag=True, help="Begin each line with the time at which it was written.")
@click.option("--no-headings", is_flag=True, help="Print no lines between attempts.")
@click.option("--raw", is_flag=True, help="Print control characters to a terminal as they are, not only colours.")
@connection
@json_option
def command(*, job: int, as_json: bool, **options: Any) -> int:
    """Print the output of a job: all attempts, standard output and error in their order.

    Emulated jobs have none. With --json: one object with `text` (and `base64`, if it is not text)
    and `attempts`, so not together with -f.
    """
    if as_json and options["follow"]:
        raise click.UsageError("give either --json or -f")
    if options["all_ranks"] and options["rank"] is not None:
        raise click.UsageError("give either --rank or --all-ranks")
    with open_client(options) as client:
        query = _query(job, options)
        if as_json:
            echo_json(_object(query, _items(client, query, by_line=query.rank is None)))
            return 0
        return _print(client, query, options)


def _query(job: int, options: dict[str, Any]) -> LogQuery:
    feed = needs_deploy("rota.deploy.log_feed")
    both = options["only_stdout"] == options["only_stderr"]
    one = feed.STDOUT if options["only_stdout"] else feed.STDERR
    query: LogQuery = feed.LogQuery(
        job=job,
        rank=None if options["all_ranks"] else options["rank"] or 0,
        attempt=options["attempt"] or 0,
        follow=options["follow"],
        tail=options["tail"],
        since=options["since"],
        streams=feed.STDOUT + feed.STDERR if both else one,
    )
    return query


def _items(client: Client, query: LogQuery, *, by_line: bool) -> Iterator[LogItem]:
    from rota.deploy.log_feed import last_lines, lines_of, merged

    told: set[str] = set()

    def tell(what: str) -> None:
        if what not in told:
            click.echo(f"rota: {visible(what)}; waiting for it", err=True)
        told.add(what)

    items = client.log_items(query, tell)
    if query.rank is None:
        items = merged(items)
    if by_line or query.tail:
        items = lines_of(items)
    return last_lines(items, query.tail, follow=query.follow) if query.tail else items


def _print(client: Client, query: LogQuery, options: dict[str, Any]) -> int:
    from rota.deploy.log_feed import CaughtUp, JobOver
    from rota.deploy.log_text import LogText

    out = sys.stdout.buffer
    text = LogText(
        job=query.job,
        rank=query.rank,
        write=lambda data: _written(out, data),
        timestamps=options["timestamps"],
        headings=not (options["no_headings"] or query.attempt),
        raw=options["raw"] or not sys.stdout.isatty(),
    )
    by_line = options["timestamps"] or query.rank is None
    code = 0
    for item in _items(client, query, by_line=by_line):
        text.show_one(item)
        if isinstance(item, CaughtUp):
            out.flush()
        if isinstance(item, JobOver):
            text.close()
            out.flush()
            code = _say_outcome(query.job, item.outcome)
    text.close()
    out.flush()
    return code


def _written(out: BinaryIO, data: bytes) -> None:
    out.write(data)


def _say_outcome(job: int, outcome: Any) -> int:
    from rota.deploy.log_text import printable

    reason = printable(f": {outcome.reason}".encode()).decode() if outcome.reason else ""
    click.echo(f"rota: job {job} {outcome.phase}{reason}", err=True)
    return 0 if outcome.phase == JobPhase.FINISHED.value else 1


def _object(query: LogQuery, items: Iterator[LogItem]) -> dict[str, Any]:
    from rota.deploy.log_feed import AttemptBegins, AttemptEnds, Missing, Output
    from rota.deploy.log_text import LogText

    pieces: list[bytes] = []
    attempts: dict[int, dict[str, Any]] = {}
    text = LogText(job=query.job, rank=query.rank, write=pieces.append, headings=False)
    for item in items:
        if isinstance(item, Output):
            text.show_one(item)
        elif isinstance(item, Missing):
            attempts[item.attempt]["missing_bytes"] += item.size
        elif isinstance(item, AttemptBegins | AttemptEnds):
            missing = attempts.get(item.info.attempt, {"missing_bytes": 0})["missing_bytes"]
            attempts[item.info.attempt] = {**_attempt(item.info), "missing_bytes": missing}
    whole = b"".join(pieces)
    shown = whole.decode("utf-8", "replace")
    exact = {} if shown.encode() == whole else {"base64": base64.b64encode(whole).decode()}
    listed = list(attempts.values())
    return {"job": query.job, "rank": query.rank, "text": shown, **exact, "attempts": listed}


def _attempt(info: Any) -> dict[str, Any]:
    places = [{"node": p.node, "first_rank": p.first_rank, "ranks": p.ranks} for p in info.places]
    ended = {"ended_at": info.ended_at or None, "outcome": info.outcome or None, "exit_code": info.exit_code}
    why = {"stop_reason": info.stop_reason or None, "detail": info.detail}
    return {"attempt": info.attempt, "places": places, "started_at": info.started_at, **ended, **why}
