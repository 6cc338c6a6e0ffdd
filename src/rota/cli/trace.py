"""`rota trace`: describe, check, convert, sample, lengthen, anonymize or generate trace files."""

from __future__ import annotations

from typing import Any

import click

from rota.cli import names
from rota.cli.options import completes, json_option, settings_option
from rota.cli.trace_files import (
    exact_option,
    from_option,
    read,
    settings_of_format,
    to_option,
    write,
)


@click.group("trace", epilog="Example: rota trace info some.trace.gz")
def command() -> None:
    """Describe a trace file, check it, convert it, or make another one from it."""


@command.command("formats", epilog="Example: rota trace formats swf")
@click.argument("name", required=False, shell_complete=completes(names.trace_formats))
@json_option
def formats(name: str | None, *, as_json: bool) -> None:
    """List trace formats, or explain one with its settings."""
    from rota.cli.listing import show_registry  # kept off the path of --help
    from rota.workloads.registry import formats as registry

    show_registry(registry, name, as_json=as_json)


@command.command("convert", epilog="Example: rota trace convert old.trace.gz new.csv")
@click.argument("source")
@click.argument("target")
@from_option
@settings_of_format
@to_option
@exact_option
@click.option(
    "--profiles",
    metavar="NAME|FILE",
    help="Catalogue of profiles (name or file) from which steps and durations are filled in.",
)
def convert(
    source: str,
    target: str,
    *,
    profiles: str | None,
    to: str | None,
    exact: bool,
    **how: Any,
) -> None:
    """Write the jobs of one trace file as another."""
    from rota.analysis.output import check_writable

    check_writable(target)
    jobs = read(source, **how)
    if profiles is not None:
        from rota.profiles import load
        from rota.workloads import with_durations

        jobs = with_durations(jobs, load(profiles))
    write(jobs, target, to, exact=exact)


@command.command(
    "generate",
    epilog="Example: rota trace generate gavel-continuous jobs.trace --jobs 500 --set interarrival_s=900",
)
@click.argument("workload", shell_complete=completes(names.workloads))
@click.argument("target")
@click.option(
    "--jobs",
    "count",
    type=click.IntRange(min=1),
    required=True,
    help="Number of jobs to generate.",
)
@settings_option("--set", "settings", "Parameter of the workload")
@click.option(
    "--seed",
    type=int,
    show_default="the workload's own, mostly 0",
    help="Seed from which all random choices follow.",
)
@to_option
@exact_option
def generate(
    workload: str,
    target: str,
    *,
    count: int,
    settings: dict[str, str],
    seed: int | None,
    to: str | None,
    exact: bool,
) -> None:
    """Write generated jobs to a trace file."""
    from rota import workloads
    from rota.analysis.output import check_writable

    check_writable(target)
    # A generator that must know its length gets it as a parameter; an endless one is cut off.
    parameters = workloads.workloads.entry(workload).parameters()
    given: dict[str, Any] = {"jobs": count} if "jobs" in parameters else {}
    if seed is not None:
        given["seed"] = seed
    given |= settings
    jobs = workloads.materialise(workloads.workload(workload, **given), count)
    write(jobs, target, to, exact=exact)


def _with_the_rest() -> None:
    """The verbs that have files of their own."""
    from rota.cli.trace_look import info, lint
    from rota.cli.trace_make import anonymize, sample, synthesize

    for verb in (info, lint, sample, synthesize, anonymize):
        command.add_command(verb)


_with_the_rest()
