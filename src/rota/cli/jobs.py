"""`rota jobs`: what was submitted, and how it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from rota.cli import arrays, job_text
from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option
from rota.core.lifecycle import JobPhase

_LATELY_S = 3600.0
_LOOKED_AT = 1000
"""Jobs that failed of which the end is looked at, the newest."""
PHASES = tuple(phase.value for phase in JobPhase)
LIVE = tuple(phase.value for phase in JobPhase if not phase.final)
EXAMPLES = """
\b
Examples:
  rota jobs                    jobs that are not over
  rota jobs --all
  rota jobs --phase failed --json
  rota jobs --limit 0 | grep no-server-fits
  rota jobs 17                 everything about job 17
"""


@click.command("jobs", epilog=EXAMPLES)
@click.argument("job", type=click.IntRange(0), required=False)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="List finished, failed and cancelled jobs too.",
)
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice(PHASES),
    help="List only jobs in this phase; repeatable.",
)
@click.option(
    "--tenant",
    default="",
    metavar="NAME",
    help="List only jobs of this tenant (administrators).",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    metavar="N",
    help="List only the newest N jobs (0: all).",
)
@connection
@json_option
def command(
    *, job: int | None, everything: bool, phases: tuple[str, ...], tenant: str, limit: int, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """List the jobs of a deployment, or show one. The newest come first."""
    if job is not None and (everything or phases):
        raise click.UsageError("give either a job, or --all or --phase")
    with open_client(options) as client:
        if job is not None:
            _show(client.job(job), as_json=as_json)
            return
        wanted = phases or (() if everything else LIVE)
        page = client.page(wanted, limit=limit, tenant=tenant)
        nothing_live = not (page.jobs or phases or everything or as_json)
        failed = client.page((JobPhase.FAILED.value,), limit=_LOOKED_AT, tenant=tenant).jobs if nothing_live else ()
    without = "no jobs that are not over; --all shows the others" if nothing_live else "no jobs"
    _list(page, as_json=as_json, without=without)
    tell_of_failures(failed)


def _list(page: Any, *, as_json: bool, without: str) -> None:
    """The jobs of a page as a table, and what there is beyond; `without` is said where there is none."""
    if as_json:
        echo_json([job_text.fields(info) for info in page.jobs])
    elif page.jobs:
        from rota.cli.tables import show_table
        from rota.deploy.clocks import wall_s

        now = wall_s()
        brief = sys.stdout.isatty()
        rows = [arrays.row(group, now, brief=brief) for group in arrays.together(page.jobs)]
        show_table(None, job_text.HEADER, rows, numbers=job_text.NUMBERS, one_line=True, may_go=job_text.MAY_GO)
    else:
        click.echo(without)
    if page.total > len(page.jobs):
        more = page.total - len(page.jobs)
        click.echo(f"... and {more:,} more; --limit {page.total} or --limit 0 lists them", err=True)
    for info in () if as_json else page.jobs:
        if info.warning:
            click.echo(f"warning: job {info.job}: {job_text.printable(info.warning)}", err=True)


def tell_of_failures(failed: Sequence[Any]) -> None:
    """Who looks for jobs that have just failed finds nothing in the list."""
    from rota.deploy.clocks import wall_s

    lately = sum(info.ended_at > wall_s() - _LATELY_S for info in failed)
    if lately:
        many = f"{lately:,} or more" if lately == _LOOKED_AT else f"{lately:,}"
        click.echo(f"{many} failed in the last hour; --all shows them", err=True)


def _show(info: Any, *, as_json: bool) -> None:
    if as_json:
        echo_json(job_text.fields(info))
        return
    from rota.cli.tables import show_pairs

    name = f" {job_text.name(info)}" if info.spec.name else ""
    show_pairs(f"job {info.job}{name}", job_text.pairs(info))
