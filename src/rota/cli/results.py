"""`rota results`: what a store of results holds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rota.cli.options import echo_json, json_option
from rota.cli.standard_output import check_outputs, people_aside

if TYPE_CHECKING:
    from rota.experiments.store import ResultStore, Run

_sweep = click.option(
    "--sweep",
    "sweep_name",
    metavar="NAME",
    help="Take only this sweep, with what it varied.",
)
_status = click.option(
    "--status",
    metavar="NAME",
    help="Take only runs that are ok, failed, timeout or unstable.",
)


@click.group("results", epilog="Example: rota results show results.db --status failed")
def command() -> None:
    """List and show the results in a store, also while a sweep is writing to it, or export them."""


@command.command("list", epilog="Example: rota results list results.db")
@click.argument("store")
@json_option
def list_(store: str, *, as_json: bool) -> None:
    """The sweeps of a store and how far they are."""
    with _open(store) as file:
        sweeps = file.sweeps()
    if as_json:
        echo_json([asdict(sweep) for sweep in sweeps])
        return
    from rota.cli.tables import show_table  # kept off the path of --help

    counts = ("points", "done", "ok", "unstable", "failed")
    numbers = [(s.points, s.done, s.ok, s.unstable, s.failed) for s in sweeps]
    pairs = zip(sweeps, numbers, strict=True)
    rows = [(s.name, _when(s.updated), *map(str, counted)) for s, counted in pairs]
    show_table(None, ("sweep", "started", *counts), rows, numbers=len(counts))


@command.command(
    "show",
    epilog="Example: rota results show results.db --sweep my-sweep --status failed",
)
@click.argument("store")
@click.argument("key", required=False)
@_sweep
@_status
@json_option
def show(
    store: str,
    key: str | None,
    *,
    sweep_name: str | None,
    status: str | None,
    as_json: bool,
) -> None:
    """Runs in a table, or one run by the first digits of its key."""
    from rota.core.errors import ConfigError
    from rota.experiments.results import row

    with _open(store) as file:
        if key is not None:
            stored = file.result(key)
            if stored is None:
                fix = f"see `rota results show {store}`"
                raise ConfigError(f"no run of {store} has a key that begins with {key!r}; {fix}")
            _show_one(stored, as_json=as_json)
            return
        runs = _runs(file, sweep_name, status)
    if as_json:
        echo_json([row(run) for run in runs])
        return
    show_runs(runs)


@command.command(
    "export",
    epilog="Example: rota results export results.db --csv results.csv --sweep my-sweep",
)
@click.argument("store")
@click.option(
    "--csv",
    "csv_file",
    required=True,
    metavar="FILE",
    help="CSV file to write, with a line per run; - is standard output.",
)
@_sweep
@_status
@json_option
def export(
    store: str,
    *,
    csv_file: str,
    sweep_name: str | None,
    status: str | None,
    as_json: bool,
) -> None:
    """Write runs and their metrics to a CSV file."""
    from rota.experiments.results import write_csv

    check_outputs({"--csv": csv_file}, as_json=as_json)
    with _open(store) as file:
        count = write_csv(csv_file, _runs(file, sweep_name, status))
    if as_json:
        echo_json({"file": csv_file, "runs": count})
        return
    with people_aside(csv_file):
        click.echo(f"{count} runs: {csv_file}")


def _open(path: str) -> ResultStore:
    from rota.experiments.store import ResultStore

    return ResultStore(path, create=False)


def _runs(store: ResultStore, sweep: str | None, status: str | None) -> list[Run]:
    from rota.core.errors import UnknownName
    from rota.experiments.execution import STATUSES

    if status is not None and status not in STATUSES:
        raise UnknownName("status", status, STATUSES)
    if sweep is not None:
        known = [s.name for s in store.sweeps()]
        if sweep not in known:
            raise UnknownName("sweep", sweep, known)
    return list(store.runs(sweep=sweep, status=status))


def show_runs(runs: Sequence[Run]) -> None:
    """A table: what was varied, how it ended, the first numbers to look at; then the errors."""
    from rota.cli.tables import show_table

    varied = list(dict.fromkeys(key for run in runs for key in _named(run)))
    rows = []
    for run in runs:
        mean = run.metrics.get("mean_jct_s")
        tail = run.metrics.get("p99_jct_s")
        busy = run.metrics.get("utilization")
        hours = ["-" if v is None or run.status != "ok" else f"{v / 3600:,.1f}" for v in (mean, tail)]
        point = _named(run)
        values = [str(point.get(key, "-")) for key in varied]
        used = "-" if busy is None else f"{100 * busy:.1f}"
        rows.append((run.key[:8], *values, run.status or "to do", *hours, used))
    show_table(None, ("key", *varied, "status", "mean JCT h", "p99 h", "busy %"), rows, numbers=3)
    for text in _errors(runs):
        click.echo(text, err=True)


def _named(run: Run) -> dict[str, object]:
    if run.point:
        return run.point
    return {key: run.config.get(key) for key in ("policy", "mechanism", "seed")}


def _errors(runs: Iterable[Run]) -> list[str]:
    """Each error once, with how many runs have it."""
    keys_by_error: dict[str, list[str]] = {}
    for run in runs:
        if run.error and run.status in {"failed", "timeout"}:
            keys_by_error.setdefault(run.error.splitlines()[0], []).append(run.key[:8])
    errors = keys_by_error.items()
    return [f"rota: {len(keys)} failed ({', '.join(keys[:3])}): {error}" for error, keys in errors]


def _show_one(run: Run, *, as_json: bool) -> None:
    from rota.cli.tables import show_pairs, summary_rows

    if as_json:
        echo_json({**vars(run)})
        return
    about = [
        ("key", run.key),
        ("status", run.status or "-"),
        ("version", run.version or "-"),
        ("host", run.host or "-"),
    ]
    about += [("error", run.error)] if run.error else []
    given = {key: value for key, value in run.config.items() if value is not None}
    config = {key: value for key, value in given.items() if key not in {"cluster", "rules"}}
    about += [(key, str(value)) for key, value in config.items()]
    show_pairs("run", about)
    if run.metrics:
        spent = {"cpu_s": run.cpu_s, "wall_s": run.wall_s}
        rows = summary_rows({**run.metrics, **spent})
        if run.status == "unstable":
            rows[0] = ("Mean completion time", "- (unstable: the queue grew until the run was stopped)")
        show_pairs("metrics", rows)


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
