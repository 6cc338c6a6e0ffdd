"""`rota demo`: policies and mechanisms compared on built-in workloads, with a report."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.main import INTERRUPTED, OK
from rota.cli.options import echo_json, json_option
from rota.core.errors import OutputError

if TYPE_CHECKING:
    from rota.api import Result

TYPES_KNOWN = ("fifo-perf", "las-perf", "srtf-perf", "allox", "max-min-fairness-perf", "finish-time-fairness-perf")
TYPES_UNKNOWN = ("fifo", "las", "srtf", "gandiva", "max-min-fairness", "finish-time-fairness")
"""The same ideas where the scheduler does not look at GPU types; like is compared with like."""
MECHANISMS = ("proportional", "tune")
HEADER = ("policy", "mean JCT h", "median h", "p99 h", "days", "busy", "CPU s")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A workload on a cluster, and who is compared there."""

    title: str
    run: dict[str, Any]
    """Keywords of `rota.simulate`."""
    sides: dict[str, dict[str, str]] = field(default_factory=dict)
    """By name, the keywords in which runs differ."""


def scenes(jobs: int, seed: int) -> list[Scene]:
    """Policies on three types of GPUs (as in Gavel), and CPUs divided by need (as in Synergy)."""
    types = {
        "workload": "gavel-continuous",
        "settings": {"interarrival_s": 3600.0},
        "cluster": "v100=8,p100=8,k80=8",
        "seed": seed,
        "measure": (jobs // 6, jobs),
    }
    shares = {
        "workload": "philly-derived",
        "settings": {"jobs_per_hour": 30, "jobs": jobs, "split": "30,60,10"},
        "cluster": "synergy-32",
        "seed": seed,
    }
    return [
        Scene(
            title="GPUs of three types, known to the policy",
            run=types,
            sides={name: {"policy": name} for name in TYPES_KNOWN},
        ),
        Scene(
            title="GPUs of three types, all alike to the policy",
            run=types,
            sides={name: {"policy": name} for name in TYPES_UNKNOWN},
        ),
        Scene(
            title="CPUs and memory beside GPUs",
            run=shares,
            sides={f"srtf, {name}": {"policy": "srtf", "mechanism": name} for name in MECHANISMS},
        ),
    ]


@click.command("demo", epilog="Example: rota demo --jobs 60 --out my-report")
@click.option(
    "--out",
    default="demo-report",
    show_default=True,
    metavar="FOLDER",
    help="Folder for the report.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=20),
    default=180,
    show_default=True,
    help="Number of jobs per run.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the jobs.")
@json_option
def command(*, out: str, jobs: int, seed: int, as_json: bool) -> int:
    """Compare policies and mechanisms on built-in workloads.

    A table, and an interactive report in one HTML file.
    """
    from rota.analysis.output import check_writable  # numpy only when needed
    from rota.report.page import write_report

    page = _folder(out) / "report.html"
    check_writable(page)
    results_of_scene: dict[str, dict[str, Result]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        logs: list[str] = []
        for scene in scenes(jobs, seed):
            for name, side in scene.sides.items():
                log = Path(scratch) / f"{len(logs)}.jsonl"
                result = _simulate(name, {**scene.run, **side}, log)
                if result.interrupted:
                    return INTERRUPTED
                results_of_scene.setdefault(scene.title, {})[name] = result
                logs.append(str(log))
        made = write_report(logs, page, title="Rota demo: policies and mechanisms compared")
    if as_json:
        every = results_of_scene.values()
        summaries = {name: r.summary for results in every for name, r in results.items()}
        echo_json({"policies": summaries, "report": str(page), "bytes": made["bytes"]})
        return OK
    _show(results_of_scene)
    click.echo(f"\nInteractive report: {page}")
    return OK


def _simulate(name: str, run: Mapping[str, Any], log: Path) -> Result:
    from rota import api
    from rota.cli.progress import progress_bar

    with progress_bar(name) as bar:
        return api.simulate(**run, events=log, progress=bar)


def _show(results_of_scene: Mapping[str, Mapping[str, Result]]) -> None:
    from rota.cli.tables import show_table

    for i, (title, results) in enumerate(results_of_scene.items()):
        if i:
            click.echo()
        rows = [_row(name, result.summary) for name, result in results.items()]
        show_table(title, HEADER, rows, numbers=len(HEADER) - 1)


def _row(name: str, summary: Mapping[str, Any]) -> tuple[str, ...]:
    hours = [f"{summary[key] / 3600:.1f}" for key in ("mean_jct_s", "p50_jct_s", "p99_jct_s")]
    days = f"{summary['makespan_s'] / 86400:.1f}"
    return (name, *hours, days, f"{100 * summary['utilization']:.1f} %", f"{summary['cpu_s']:.2f}")


def _folder(out: str) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create the folder {out}: {error.strerror}") from error
    return folder
