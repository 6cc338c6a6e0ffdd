"""`rota trace`: look at a trace file, convert it to another format, or write one from a generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rota.cli import names
from rota.cli.options import completes, echo_json, json_option, settings_option

if TYPE_CHECKING:
    from rota.core.jobs import Jobs

_from = click.option(
    "--from",
    "source_format",
    metavar="NAME",
    shell_complete=completes(names.trace_formats),
    help="Format of the input.",
)
_to = click.option(
    "--to", default="gavel", show_default=True, metavar="NAME", shell_complete=completes(names.trace_formats),
    help="Format of the output.",
)  # fmt: skip
_exact = click.option("--exact", is_flag=True, help="Keep every float to the last bit where the format truncates.")


@click.group("trace")
def command() -> None:
    """Look at a trace file, convert it, or write one from a generator."""


@command.command("formats")
@json_option
def formats(*, as_json: bool) -> None:
    """List trace formats."""
    from rota.cli.listing import show_registry  # noqa: PLC0415 - kept off the path of --help
    from rota.workloads.registry import formats as registry  # noqa: PLC0415

    show_registry(registry, None, as_json=as_json)


@command.command("info", epilog="Example: rota trace info some.trace.gz --json")
@click.argument("file")
@_from
@json_option
def info(file: str, *, source_format: str | None, as_json: bool) -> None:
    """How many jobs a trace has, when they arrive and what they ask for."""
    from rota.workloads import read_trace  # noqa: PLC0415

    facts = _facts(read_trace(file, source_format))
    if as_json:
        echo_json({"file": file, **facts})
        return
    from rota.cli.tables import duration, show_pairs  # noqa: PLC0415

    shown = {
        "Jobs": f"{facts['jobs']:,}",
        "First arrival": duration(facts["first_arrival_s"]),
        "Last arrival": duration(facts["last_arrival_s"]),
        "GPUs: jobs": ", ".join(f"{k}: {v:,}" for k, v in facts["jobs_by_gpus"].items()),
        "Profiles": f"{len(facts['jobs_by_profile'])}",
        "Tenants": f"{facts['tenants']}",
        "With a deadline": f"{facts['jobs_with_slo']:,}",
    }
    show_pairs(file, shown.items())


@command.command("convert", epilog="Example: rota trace convert old.trace.gz new.csv --to csv")
@click.argument("source")
@click.argument("target")
@_from
@_to
@_exact
def convert(source: str, target: str, *, source_format: str | None, to: str, exact: bool) -> None:
    """Write the jobs of one trace file as another."""
    from rota.analysis.output import check_writable  # noqa: PLC0415
    from rota.workloads import read_trace, write_trace  # noqa: PLC0415

    check_writable(target)
    jobs = read_trace(source, source_format)
    write_trace(jobs, target, to, exact=exact)
    click.echo(f"{len(jobs):,} jobs written to {target} ({to})", err=True)


@command.command(
    "generate", epilog="Example: rota trace generate gavel-continuous jobs.trace --jobs 500 --set interarrival_s=900"
)
@click.argument("workload", shell_complete=completes(names.workloads))
@click.argument("target")
@click.option("--jobs", "count", type=click.IntRange(min=1), required=True, help="How many.")
@settings_option("--set", "settings", "Parameter of the workload")
@click.option("--seed", type=int, show_default="the workload's own, mostly 0", help="Which jobs.")
@_to
@_exact
def generate(
    workload: str, target: str, *, count: int, settings: dict[str, str], seed: int | None, to: str, exact: bool
) -> None:
    """Write generated jobs to a trace file."""
    from rota import workloads  # noqa: PLC0415
    from rota.analysis.output import check_writable  # noqa: PLC0415

    check_writable(target)
    # A generator that must know its length gets it as a parameter; an endless one is cut off.
    parameters = workloads.workloads.entry(workload).parameters()
    given: dict[str, Any] = {"jobs": count} if "jobs" in parameters else {}
    if seed is not None:
        given["seed"] = seed
    given |= settings
    jobs = workloads.materialise(workloads.workload(workload, **given), count)
    workloads.write_trace(jobs, target, to, exact=exact)
    click.echo(f"{len(jobs):,} jobs written to {target} ({to})", err=True)


def _facts(jobs: Jobs) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415

    sizes, counts = np.unique(jobs.gpus, return_counts=True)
    by_profile = np.bincount(jobs.profile, minlength=len(jobs.profiles)).tolist()
    return {
        "jobs": len(jobs),
        "first_arrival_s": float(jobs.submitted[0]),
        "last_arrival_s": float(jobs.submitted[-1]),
        "jobs_by_gpus": dict(zip(map(str, sizes.tolist()), counts.tolist(), strict=True)),
        "jobs_by_profile": dict(sorted(zip(jobs.profiles, by_profile, strict=True))),
        "tenants": len(np.unique(jobs.tenant)),
        "jobs_with_slo": int(np.count_nonzero(~np.isnan(jobs.slo))),
    }
