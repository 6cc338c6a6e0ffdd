"""`rota jobs`: what was submitted, and how it is."""

from __future__ import annotations

import time
from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option
from rota.core.lifecycle import JobPhase

PHASES = tuple(phase.value for phase in JobPhase)
LIVE = tuple(phase.value for phase in JobPhase if not phase.final)
EXAMPLES = """
\b
Examples:
  rota jobs                    jobs that are not over
  rota jobs --all
  rota jobs --phase failed --json
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
    default=0,
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
    if as_json:
        echo_json([fields(info) for info in page.jobs])
        return
    if not page.jobs:
        message = "no jobs that are not over; --all shows the others"
        click.echo("no jobs" if everything or phases else message)
        return
    from rota.cli.tables import show_table

    header = ("job", "name", "phase", "profile", "where", "GPUs", "done", "waits or ran")
    show_table(None, header, [_row(info) for info in page.jobs], numbers=3)
    if page.total > len(page.jobs):
        click.echo(f"... and {page.total - len(page.jobs)} more")


def fields(info: Any) -> dict[str, Any]:
    """A job as plain values."""
    from rota.core.job_spec import spec_values
    from rota.rpc.convert import spec_of

    plain = ("phase", "reason", "submitted_at", "started_at", "ended_at", "step", "saved_step", "restarts",
             "preemptions", "epoch", "exit_code", "submitted_s", "ended_s")  # fmt: skip
    spec = {"argv": [], "env": {}, **spec_values(spec_of(info.spec))}
    values = {
        "job": info.job,
        **spec,
        **{name: getattr(info, name) for name in plain},
    }
    for name in ("started_at", "ended_at", "ended_s"):
        values[name] = values[name] or None
    parts = [
        {
            "node": p.node,
            "devices": list(p.devices),
            "cpus": p.cpus,
            "memory_gb": p.memory_gb,
        }
        for p in info.parts
    ]
    return {**values, "parts": parts}


def _row(info: Any) -> tuple[str, ...]:
    where = " ".join(f"{part.node}:{len(part.devices)}" for part in info.parts) or "-"
    done = f"{100 * info.step / info.spec.steps:.0f} %" if info.spec.steps else "-"
    until = info.ended_at or time.time()
    return (
        str(info.job), info.spec.name or "-", info.phase, info.spec.profile, where, str(info.spec.gpus), done,
        short(until - info.submitted_at),
    )  # fmt: skip


def how(info: Any) -> str:
    """The phase of a job, and why, without saying it twice."""
    phase = str(info.phase)
    reason = str(info.reason)
    return reason if reason.startswith(phase) else phase + (f": {reason}" if reason else "")


def short(seconds: float) -> str:
    """A time in few characters."""
    whole = max(0, round(seconds))
    for size, unit, small, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // small:02d}{name}"
    return f"{whole}s"


def _show(info: Any, *, as_json: bool) -> None:
    if as_json:
        echo_json(fields(info))
        return
    from rota.cli.tables import show_pairs

    name = f" {info.spec.name}" if info.spec.name else ""
    show_pairs(f"job {info.job}{name}", [*_progress(info), *_wishes(info)])


def _progress(info: Any) -> list[tuple[str, str]]:
    """What the job is, where it runs and how far it is."""
    spec = info.spec
    rows = [
        ("phase", how(info)),
        ("tenant", spec.tenant),
        ("command", " ".join(spec.argv) if spec.argv else "- (emulated)"),
        ("profile", spec.profile),
        ("GPUs", str(spec.gpus)),
        ("steps", f"{info.step:,} of {spec.steps:,}; saved {info.saved_step:,}"),
    ]
    for part in info.parts:
        devices = ", ".join(part.devices)
        rows.append((f"on {part.node}", f"{devices}; {part.cpus:g} CPUs, {part.memory_gb:g} GB"))
    moments = {
        "submitted": info.submitted_at,
        "started": info.started_at,
        "ended": info.ended_at,
    }
    for name, at in moments.items():
        rows.append((name, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else "-"))
    rows.append(("attempts", f"{info.epoch}; {info.restarts} failed, {info.preemptions} preempted"))
    return rows


def _wishes(info: Any) -> list[tuple[str, str]]:
    """What was asked for beyond the usual, and how the job ended."""
    spec = info.spec
    rows = []
    asked = [f"{spec.cpus:g} CPUs"] if spec.cpus else []
    asked += [f"{spec.memory_gb:g} GB"] if spec.memory_gb else []
    if asked:
        rows.append(("asks for", ", ".join(asked)))
    if spec.deadline_s:
        rows.append(("deadline", f"{spec.deadline_s:g} s after submission"))
    if spec.weight and spec.weight != 1:
        rows.append(("weight", f"{spec.weight:g}"))
    if info.exit_code:
        rows.append(("exit code", str(info.exit_code)))
    return rows
