"""`rota demo`: a comparison of policies on a built-in workload, with a table, figures and a web page."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota._version import __version__
from rota.cli.main import INTERRUPTED, OK
from rota.cli.options import echo_json, json_option
from rota.core.errors import OutputError

if TYPE_CHECKING:
    from rota.analysis.report import Picture
    from rota.analysis.timeline import Series
    from rota.api import Result

POLICIES = (
    "fifo", "fifo-perf", "allox", "gandiva", "max-min-fairness", "max-min-fairness-perf", "finish-time-fairness-perf",
)  # fmt: skip
CLUSTER = "v100=8,p100=8,k80=8"
INTERARRIVAL_S = 3600.0
HEADER = ("policy", "mean JCT h", "median h", "p99 h", "days", "busy", "CPU s")


@click.command("demo")
@click.option("--out", default="demo-report", show_default=True, metavar="FOLDER", help="Where the report goes.")
@click.option("--jobs", type=click.IntRange(min=20), default=180, show_default=True, help="Jobs per run.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which jobs.")
@json_option
def command(*, out: str, jobs: int, seed: int, as_json: bool) -> int:
    """Compare policies on a built-in workload: a table, figures (PNG, PDF, SVG) and a web page."""
    from rota.analysis.plots import require_matplotlib  # noqa: PLC0415 - numpy only when needed

    require_matplotlib()
    folder = _folder(out)
    results: dict[str, Result] = {}
    series: dict[str, Series] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in POLICIES:
            log = Path(scratch) / f"{name}.jsonl"
            results[name] = _simulate(name, jobs, seed, log)
            if results[name].interrupted:
                return INTERRUPTED
            series[name] = _utilization(log, results[name])
            log.unlink()
    rows = [_row(name, result.summary) for name, result in results.items()]
    _write(folder, results, series, rows, recipe=f"rota demo --jobs {jobs} --seed {seed}")
    _show(results, rows, folder, as_json=as_json)
    return OK


def _simulate(policy: str, jobs: int, seed: int, log: Path) -> Result:
    from rota import api  # noqa: PLC0415
    from rota.cli.progress import progress_bar  # noqa: PLC0415

    with progress_bar(policy) as bar:
        return api.simulate(
            workload="gavel-continuous",
            settings={"interarrival_s": INTERARRIVAL_S},
            cluster=CLUSTER,
            policy=policy,
            seed=seed,
            measure=(jobs // 6, jobs),
            events=log,
            progress=bar,
        )


def _show(results: Mapping[str, Result], rows: list[tuple[str, ...]], folder: Path, *, as_json: bool) -> None:
    page = folder / "index.html"
    if as_json:
        echo_json({"policies": {n: r.summary for n, r in results.items()}, "report": str(page)})
        return
    from rota.cli.tables import show_table  # noqa: PLC0415

    show_table(None, HEADER, rows, numbers=len(HEADER) - 1)
    click.echo(f"\nFigures and web page: {page}")


def _row(name: str, summary: Mapping[str, Any]) -> tuple[str, ...]:
    hours = [f"{summary[key] / 3600:.1f}" for key in ("mean_jct_s", "p50_jct_s", "p99_jct_s")]
    days = f"{summary['makespan_s'] / 86400:.1f}"
    return (name, *hours, days, f"{100 * summary['utilization']:.1f} %", f"{summary['cpu_s']:.2f}")


def _utilization(log: Path, result: Result) -> Series:
    """Busy GPUs over time, from the event log."""
    from rota import clusters  # noqa: PLC0415
    from rota.analysis.timeline import Timeline  # noqa: PLC0415
    from rota.engine.log import read_events  # noqa: PLC0415

    del result
    timeline = Timeline(clusters.load(CLUSTER))
    for event in read_events(log):
        timeline.observe(event)
    return timeline.utilization()


def _write(
    folder: Path,
    results: Mapping[str, Result],
    series: Mapping[str, Series],
    rows: list[tuple[str, ...]],
    recipe: str,
) -> None:
    from rota.analysis.output import whole_file  # noqa: PLC0415
    from rota.analysis.report import Report, render  # noqa: PLC0415

    means = [r.summary["mean_jct_s"] for r in results.values()]
    report = Report(
        title="Scheduling policies compared",
        introduction=(
            f"The same generated jobs on the cluster {CLUSTER} under {len(results)} policies. Completion times (JCT) "
            "count from arrival. The policy with the lowest mean is marked."
        ),
        header=HEADER,
        rows=rows,
        best=means.index(min(means)),
        pictures=_pictures(folder, results, series),
        recipe=recipe,
        footer=f"Rota {__version__}",
    )
    with whole_file(folder / "index.html") as temporary:
        temporary.write_text(render(report), encoding="utf-8")


def _pictures(folder: Path, results: Mapping[str, Result], series: Mapping[str, Series]) -> list[Picture]:
    from rota.analysis import plots  # noqa: PLC0415
    from rota.analysis.report import Picture  # noqa: PLC0415

    summaries = {n: r.summary for n, r in results.items()}
    means, tails = ({n: s[key] for n, s in summaries.items()} for key in ("mean_jct_s", "p99_jct_s"))
    figures = (
        ("jct-bars", "Mean and tail completion times.", plots.jct_bars(means, tails)),
        (
            "jct-cdf",
            "The part of jobs that were done within a time.",
            plots.jct_cdf({n: r.jobs["jct_s"][r.jobs["measured"]] for n, r in results.items()}),
        ),
        ("utilization", "The part of GPU time that jobs held.", plots.utilization_lines(series)),
    )
    found = []
    for name, caption, figure in figures:
        plots.save(figure, folder, name)
        found.append(Picture(svg=plots.rendered(figure, "svg"), caption=caption))
    return found


def _folder(out: str) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create the folder {out}: {error.strerror}") from error
    return folder
