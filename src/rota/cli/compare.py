"""`rota compare`: which jobs gained and lost between two runs, and whether beyond noise."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.options import echo_json, json_option

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rota.analysis.comparison import Change, Comparison, Estimate
    from rota.experiments.pairing import Paired

EPILOG = """\b
Examples:
  rota compare fifo.csv las.csv
  rota compare fifo.jsonl.gz las.jsonl.gz --json
  rota compare results.db:01e7c1a7 results.db:a9ade720
  rota compare --store results.db --by policy fifo las
"""


@click.command("compare", epilog=EPILOG)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--store",
    metavar="FILE",
    help="A and B are values of an axis of a sweep in this store.",
)
@click.option(
    "--by",
    "axis",
    metavar="AXIS",
    help="With --store: the axis in which paired runs differ, e.g. policy.",
)
@click.option("--sweep", metavar="NAME", help="With --store: the sweep, if several have that axis.")
@click.option(
    "--metric",
    metavar="NAME",
    help="With --store: the metric to compare (default: mean_jct_s).",
)
@json_option
def command(
    a: str,
    b: str,
    *,
    store: str | None,
    axis: str | None,
    sweep: str | None,
    metric: str | None,
    as_json: bool,
) -> None:
    """Compare two runs of the same jobs, or two values of an axis of a sweep.

    A and B are files of --jobs-csv, event logs, or runs of a store (results.db:KEY); a job gains
    when it takes less time in B. With --store and --by they are values, and runs that differ in
    nothing else are paired.
    """
    if (store is None) != (axis is None):
        problem = "--store and --by go together: a store of results, and the axis to compare"
        raise click.UsageError(problem)
    if store is None and (sweep or metric):
        fix = "give --store and --by too"
        raise click.UsageError(f"--sweep and --metric choose runs of a store; {fix}")
    if store is not None and axis is not None:
        _compare_values(
            a,
            b,
            store=store,
            axis=axis,
            sweep=sweep,
            metric=metric or "mean_jct_s",
            as_json=as_json,
        )
    else:
        _compare_runs(a, b, as_json=as_json)


# Two runs


def _compare_runs(a: str, b: str, *, as_json: bool) -> None:
    from rota.analysis.comparison import CONFIDENCE, RESAMPLES, compare_jobs  # numpy only when needed

    names = (a, b) if a != b else ("A", "B")
    jobs_a, notes_a = _jobs_of(a)
    jobs_b, notes_b = _jobs_of(b)
    comparison = compare_jobs(jobs_a, jobs_b, names=names)
    notes = [f"A: {note}" for note in notes_a] + [f"B: {note}" for note in notes_b]
    if as_json:
        method = {"confidence": CONFIDENCE, "resamples": RESAMPLES, "block_jobs": comparison.block}
        values = asdict(comparison)
        del values["block"]
        mean = comparison.mean
        verdict = {"beyond_noise": mean.beyond_noise, "verdict": mean.verdict()}
        echo_json({"a_run": a, "b_run": b, **values, "method": method, "notes": notes, **verdict})
        return
    for note in notes:
        click.echo(f"rota: note: {note}", err=True)
    _show_runs(a, b, comparison)


def _jobs_of(spec: str) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """The jobs of a run, from whichever kind of file it is, and the notes of the run where the file has them."""
    from rota.core.files import is_there

    path = Path(spec)
    key = ""
    if not is_there(path) and ":" in spec:
        text, _, key = spec.rpartition(":")
        return _jobs_in_store(text, key)
    start = _start_of(path)
    if start.startswith(b"SQLite format 3"):
        from rota.core.errors import ConfigError

        fix = f"write {spec}:KEY for one run, or use --store {spec} --by AXIS"
        raise ConfigError(f"{spec} is a store of results; {fix}")
    if start.lstrip().startswith(b"{"):
        from rota import api

        result = api.replay(path)
        return result.jobs, result.notes
    from rota.analysis.jobs_csv import read_jobs_csv

    return read_jobs_csv(path), []


def _start_of(path: Path) -> bytes:
    from rota.core.errors import ConfigError

    try:
        with path.open("rb") as raw:
            start = raw.read(64)
    except OSError as error:
        fix = "give a file of jobs (--jobs-csv), an event log, or STORE:KEY"
        raise ConfigError(f"cannot read {path}: {error.strerror}; {fix}") from error
    if not start.startswith(b"\x1f\x8b"):
        return start
    try:
        with gzip.open(path) as unpacked:
            return unpacked.read(64)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"cannot read {path}: {error}; the compressed file is damaged") from error


def _jobs_in_store(path: str, key: str) -> tuple[dict[str, NDArray[Any]], list[str]]:
    from rota.core.errors import ConfigError
    from rota.experiments.blobs import unpack
    from rota.experiments.store import ResultStore

    with ResultStore(path, create=False) as store:
        run = store.result(key) if key else None
        if run is None:
            fix = f"see `rota results show {path}`"
            raise ConfigError(f"no run of {path} has a key that begins with {key!r}; {fix}")
        blob = store.jobs(run.key)
    if blob is None:
        problem = f"{path}: run {run.key[:12]} is {run.status}: there are no completion times of it"
        raise ConfigError(problem)
    return unpack(blob), list(run.metrics.get("notes") or [])


def _show_runs(a: str, b: str, comparison: Comparison) -> None:
    from rota.cli.tables import reflow, show_pairs, show_table

    show_pairs("runs", [("A", a), ("B", b)])
    click.echo()
    rows = [
        (label, _hours(getattr(comparison.a, key)), _hours(getattr(comparison.b, key)), _over(comparison, key))
        for label, key in (
            ("mean", "mean_s"),
            ("median", "median_s"),
            ("99th percentile", "p99_s"),
            ("longest", "longest_s"),
        )
    ]
    show_table("completion time, hours", ("", "A", "B", "B / A"), rows, numbers=3)
    click.echo()
    counts = [
        ("compared", comparison.jobs),
        ("gained (B shorter)", comparison.gained),
        ("lost (B longer)", comparison.lost),
        ("equal", comparison.equal),
    ]
    show_pairs("jobs", [(name, f"{count:,}") for name, count in counts])
    extremes = {"gained most": comparison.most_gained, "lost most": comparison.most_lost}
    for title, changes in extremes.items():
        if changes:
            click.echo()
            header = ("job", "A", "B", "B - A", "B / A")
            show_table(f"{title}, hours", header, map(_change, changes), numbers=4)
    click.echo()
    click.echo(f"Mean of B over mean of A: {_interval(comparison.mean)}")
    if comparison.mean.low is not None:
        from rota.analysis.comparison import RESAMPLES

        how = (
            f"(paired bootstrap, {RESAMPLES:,} resamples in blocks of {comparison.block} consecutive jobs, because "
            "neighbours are correlated; it says nothing about other seeds: for these, compare a sweep with "
            "--store and --by)"
        )
        click.echo(reflow(how))
    for note in _notes(comparison):
        click.echo(f"rota: note: {note}", err=True)
    click.echo(comparison.mean.verdict())


def _notes(comparison: Comparison) -> list[str]:
    notes = []
    if comparison.only_a or comparison.only_b:
        notes.append(
            f"{comparison.only_a:,} jobs count (measured and finished) in A only and "
            f"{comparison.only_b:,} in B only; they are left out. "
            "A run that leaves long jobs unfinished looks better than it is."
        )
    if comparison.other_work:
        notes.append(f"{comparison.other_work:,} jobs have another model or number of steps in B")
    return notes


def _change(change: Change) -> tuple[str, ...]:
    ratio = "-" if change.a_s == 0 else f"{change.b_s / change.a_s:.3f}"
    difference = (change.b_s - change.a_s) / 3600
    return str(change.job_id), _hours(change.a_s), _hours(change.b_s), f"{difference:+,.2f}", ratio


def _over(comparison: Comparison, key: str) -> str:
    a = getattr(comparison.a, key)
    b = getattr(comparison.b, key)
    return "-" if a == 0 else f"{b / a:.3f}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.2f}"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.ratio:.3f}"
    return f"{estimate.ratio:.3f}, 95 % interval {estimate.low:.3f} to {estimate.high:.3f}"


# Two values of an axis


def _compare_values(
    a: str,
    b: str,
    *,
    store: str,
    axis: str,
    sweep: str | None,
    metric: str,
    as_json: bool,
) -> None:
    from rota.core.errors import UnknownName
    from rota.experiments.pairing import METRICS, pair_runs
    from rota.experiments.store import ResultStore

    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    with ResultStore(store, create=False) as file:
        paired = pair_runs(file, axis, a, b, sweep=sweep, metric=metric)
    if as_json:
        overall = paired.overall
        verdict = {"beyond_noise": overall.beyond_noise, "verdict": overall.verdict(a, b)}
        echo_json({"axis": axis, "a": a, "b": b, "metric": metric, **asdict(paired), **verdict})
        return
    _show_values(a, b, metric, paired)


def _show_values(a: str, b: str, metric: str, paired: Paired) -> None:
    from rota.cli.tables import show_table

    varied = list(dict.fromkeys(key for setting in paired.settings for key in setting.point))
    rows = []
    for s in paired.settings:
        known = s.estimate.low is not None and s.estimate.high is not None
        between = f"{s.estimate.low:.3f} to {s.estimate.high:.3f}" if known else "-"
        beyond = {None: "?", True: "yes", False: "no"}[s.estimate.beyond_noise]
        ratio = f"{s.estimate.ratio:.3f}"
        cells = (str(len(s.ratios)), _hours(s.a), _hours(s.b), ratio, between, beyond)
        rows.append((*(str(s.point.get(key, "-")) for key in varied), *cells))
    header = (*varied, "pairs", f"{a} h", f"{b} h", "ratio", "95 % interval", "beyond noise")
    show_table(f"{metric} of {b} over {a}, sweep {paired.sweep}", header, rows, numbers=6)
    click.echo()
    for why, count in paired.left_out.items():
        click.echo(f"rota: note: {count} pairs are left out: {why}", err=True)
    for note in paired.notes:
        click.echo(f"rota: note: {note}", err=True)
    click.echo(
        f"Together, {paired.overall_pairs} of {paired.pairs} pairs: {_interval(paired.overall)} "
        f"(Student's t over {paired.samples} {paired.over})"
    )
    click.echo(paired.overall.verdict(a, b))
