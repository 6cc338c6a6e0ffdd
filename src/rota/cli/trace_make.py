"""`rota trace sample`, `synthesize` and `anonymize`: another trace out of one."""

from __future__ import annotations

import math
from typing import Any

import click

from rota.cli.trace_files import (
    exact_option,
    from_option,
    read,
    settings_of_format,
    to_option,
    write,
)

_seed = click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of all random choices.",
)


@click.command(
    "sample",
    epilog="Example: rota trace sample year.csv.gz tenth.csv --fraction 0.1 --seed 1",
)
@click.argument("source")
@click.argument("target")
@from_option
@settings_of_format
@click.option(
    "--jobs",
    "count",
    type=click.IntRange(min=1),
    help="Number of jobs to draw at random.",
)
@click.option("--fraction", type=float, help="Fraction of the jobs (0 to 1) to draw at random.")
@click.option(
    "--from-hour",
    type=float,
    default=0.0,
    help="Take jobs from this hour after the first arrival on.",
)
@click.option(
    "--to-hour",
    type=float,
    default=math.inf,
    help="Take jobs up to this hour after the first arrival.",
)
@click.option(
    "--keep-load",
    is_flag=True,
    help="Shorten the gaps, so that as many jobs arrive per hour as before.",
)
@_seed
@to_option
@exact_option
def sample(
    source: str,
    target: str,
    *,
    count: int | None,
    fraction: float | None,
    from_hour: float,
    to_hour: float,
    keep_load: bool,
    seed: int,
    to: str | None,
    exact: bool,
    **how: Any,
) -> None:
    """Write some of the jobs of a trace; their arrivals keep their pattern."""
    from rota.analysis.output import check_writable
    from rota.workloads.sampling import sample as draw

    check_writable(target)
    jobs = draw(
        read(source, **how),
        count=count,
        fraction=fraction,
        from_s=3600 * from_hour,
        to_s=3600 * to_hour,
        seed=seed,
        keep_load=keep_load,
    )
    write(jobs, target, to, exact=exact)


@click.command(
    "synthesize",
    epilog="Example: rota trace synthesize week.csv month.csv --hours 720 --load 1.2 --seed 7",
)
@click.argument("source")
@click.argument("target")
@from_option
@settings_of_format
@click.option("--jobs", "count", type=click.IntRange(min=1), help="Number of jobs to make.")
@click.option("--hours", type=float, help="Hours of arrivals to make, instead of a number of jobs.")
@click.option(
    "--load",
    type=float,
    default=1.0,
    show_default=True,
    help="Arrivals per hour, as a multiple of those of the input.",
)
@click.option(
    "--jitter",
    type=float,
    default=0.1,
    show_default=True,
    help="Relative spread by which gaps and durations are varied.",
)
@click.option(
    "--block",
    type=int,
    default=1,
    show_default=True,
    help="Number of consecutive jobs that are drawn together.",
)
@_seed
@to_option
@exact_option
def synthesize(
    source: str,
    target: str,
    *,
    count: int | None,
    hours: float | None,
    load: float,
    jitter: float,
    block: int,
    seed: int,
    to: str | None,
    exact: bool,
    **how: Any,
) -> None:
    """Write new jobs like those of a trace, as many as you like."""
    if (count is None) == (hours is None):
        raise click.UsageError("give either --jobs N or --hours H")
    from rota.analysis.output import check_writable
    from rota.workloads.synthesis import synthesize as make

    check_writable(target)
    jobs = make(
        read(source, **how),
        count=count,
        hours=hours,
        load=load,
        seed=seed,
        jitter=jitter,
        block=block,
    )
    write(jobs, target, to, exact=exact)


@click.command("anonymize", epilog="Example: rota trace anonymize ours.csv public.csv --round 60")
@click.argument("source")
@click.argument("target")
@from_option
@settings_of_format
@click.option(
    "--key", envvar="ROTA_TRACE_KEY", show_envvar=True, metavar="TEXT",
    help="Secret; files made with the same one have the same pseudonyms.",
)  # fmt: skip
@click.option("--models", is_flag=True, help="Replace the names of models too.")
@click.option(
    "--round",
    "round_s",
    type=float,
    metavar="SECONDS",
    help="Round arrivals and durations to multiples of these seconds.",
)
@to_option
@exact_option
def anonymize(
    source: str,
    target: str,
    *,
    key: str | None,
    models: bool,
    round_s: float | None,
    to: str | None,
    exact: bool,
    **how: Any,
) -> None:
    """Write a trace with pseudonyms for tenants and commands, and time beginning at 0."""
    from rota.analysis.output import check_writable
    from rota.workloads.anonymity import anonymize as hide

    check_writable(target)
    write(
        hide(
            read(source, **how),
            key=key,
            models=models,
            round_s=round_s,
        ),
        target,
        to,
        exact=exact,
    )
