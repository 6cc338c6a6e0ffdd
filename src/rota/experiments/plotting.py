"""From files to what figures show: stores of results, jobs as CSV, event logs and catalogues.

Every function reads and returns numbers; `rota.analysis.figures` draws them. Bad input is a
ConfigError.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rota import profiles
from rota.analysis.figures import quantities
from rota.analysis.figures.catalogue import Company
from rota.analysis.figures.curves import PlotLine, point
from rota.analysis.figures.schedule import Occupancy
from rota.analysis.timeline import Series, UtilizationTimeline
from rota.core.arrays import FloatArray
from rota.core.cluster import Cluster, cluster_from
from rota.core.errors import ConfigError, UnknownName
from rota.core.events import Event, Planned, RunStarted
from rota.core.sensitivity import Sensitivity
from rota.engine.log import read_events
from rota.experiments.blobs import unpack
from rota.experiments.execution import OK, UNSTABLE
from rota.experiments.job_columns import column_of
from rota.experiments.keys import LOAD, canonical_name, plain
from rota.experiments.store import ResultStore, Run
from rota.profiles.models import Model

JOBS = "set.jobs"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """Which runs of a store are meant."""

    sweep: str | None = None
    """May be left out where the store has one sweep only."""
    where: Mapping[str, Any] | None = None
    """Only points with these values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Lines of a store, and how many of its runs could not be used."""

    lines: tuple[PlotLine, ...]
    left_out: int
    """Runs that failed, ran out of time or have no result yet."""


def jct_vs_load(store: str | Path, choice: RunSelection | None = None) -> Curves:
    """Mean completion time (s) over the load.

    A line per policy and whatever else was varied, except seeds.
    """
    return metric_over(store, choice, x=LOAD, metric="mean_jct_s")


def makespan_vs_jobs(store: str | Path, choice: RunSelection | None = None) -> Curves:
    """Makespan (s) over the number of jobs.

    A line per policy and whatever else was varied, except seeds.
    """
    return metric_over(store, choice, x=JOBS, metric="makespan_s")


def metric_over(store: str | Path, choice: RunSelection | None = None, *, x: str, metric: str) -> Curves:
    """Any metric over anything that was varied and is a number, in the unit of the store."""
    x = canonical_name(x, "--x")
    with ResultStore(store, create=False) as opened:
        runs = _chosen(opened, choice or RunSelection())
    runs = [run for run in runs if isinstance(run.point.get(x), int | float)]
    if not runs:
        flag = {LOAD: "--loads", JOBS: "--jobs"}.get(x)
        how = f"{flag} FROM:TO:STEP" if flag else f"--vary {x}=A,B,..."
        fix = f"make one with `rota sweep {how}`"
        raise ConfigError(f"the sweep does not vary {x}; {fix}")
    at = [float(run.point[x]) for run in runs]
    return curves_of(runs, at, _line_names(runs, {x}), metric, str(store))


def jct_cdf(sources: Sequence[str], choice: RunSelection | None = None) -> dict[str, FloatArray]:
    """Completion times (s) by line; NaN for jobs that did not finish.

    A store, or jobs CSVs as FILE or NAME=FILE.
    """
    return _distributions(sources, choice, "jct_s")


def ftf_cdf(sources: Sequence[str], choice: RunSelection | None = None) -> dict[str, FloatArray]:
    """Finish-time fairness (rho) by line, of the jobs for which it is known.

    From a store or jobs CSVs.
    """
    rho_by_name = _distributions(sources, choice, "ftf")
    return {name: rho[np.isfinite(rho)] for name, rho in rho_by_name.items()}


def _distributions(
    sources: Sequence[str],
    choice: RunSelection | None,
    column: str,
) -> dict[str, FloatArray]:
    if not sources:
        fix = "give a store of results or files written with --jobs-csv"
        raise ConfigError(f"there is nothing to draw; {fix}")
    if any(_is_store(named(source)[1]) for source in sources):
        if len(sources) > 1:
            fix = "give one store, or only jobs CSVs"
            raise ConfigError(f"a store of results is drawn alone; {fix}")
        return _column_of_store(named(sources[0])[1], choice or RunSelection(), column)
    if choice is not None and (choice.sweep or choice.where):
        fix = "leave them out for jobs CSVs"
        raise ConfigError(f"--sweep and --where choose runs of a store; {fix}")
    sample_by_name: dict[str, FloatArray] = {}
    for name, path in map(named, sources):
        add_named(sample_by_name, name, column_of(path, column))
    return sample_by_name


def utilization(sources: Sequence[str], bins: int = 120) -> dict[str, Series]:
    """The part of GPU time held by jobs over time, by log; logs as FILE or NAME=FILE."""
    series_by_name: dict[str, Series] = {}
    for name, path in map(named, sources):
        cluster, events = log_of(path)
        timeline = UtilizationTimeline(cluster)
        for event in events:
            timeline.observe(event)
        add_named(series_by_name, name, timeline.utilization(bins))
    return series_by_name


def occupancy(log: str | Path, start_s: float = 0.0, end_s: float = math.inf) -> Occupancy:
    """Who held which GPU in a window of a run."""
    if not 0 <= start_s < end_s:
        fix = "the end must come after the start"
        raise ConfigError(f"the window from {start_s:g} s to {end_s:g} s is empty; {fix}")
    cluster, events = log_of(str(log))
    held = Occupancy(cluster, start_s, end_s)
    for event in events:
        held.observe(event)
        if isinstance(event, Planned) and event.at > end_s:
            break
    return held


def sensitivity(
    catalogue: str,
    type_: str | None = None,
    names: Sequence[str] = (),
) -> list[Sensitivity]:
    """Tables of the models of a catalogue on one type (default: the last that has any)."""
    loaded = profiles.load(catalogue)
    rows = [r for r in loaded.describe() if r.sensitivities]
    if not rows:
        fix = "try `synergy` or `pipeline`"
        what = f"catalogue {catalogue!r} does not say how speed depends on CPUs and memory"
        raise ConfigError(f"{what}; {fix}")
    types = sorted({t for r in rows for t in r.sensitivities})
    type_ = _one_of("accelerator type", type_ or types[-1], types)
    tables: dict[str, Sensitivity] = {}
    for r in rows:
        if type_ in r.sensitivities:
            tables.setdefault(r.profile, r.sensitivities[type_])
    for name in names:
        _one_of("profile", name, tables)
    return [table for name, table in tables.items() if not names or name in names]


def profiled(catalogue: str, type_: str | None = None, names: Sequence[str] = ()) -> list[Model]:
    """Models of a catalogue on one type that `rota profile` wrote, with how each cell was found."""
    rows = [row for row in profiles.load(catalogue).describe() if row.sensitivities]
    wanted = type_ or max(gpu_type for row in rows for gpu_type in row.sensitivities)
    found: dict[str, Model] = {}
    for row in rows:
        model = row.models.get(wanted)
        if model is not None and model.cells is not None and (not names or row.profile in names):
            found.setdefault(row.profile, model)
    return list(found.values())


def colocation(
    catalogue: str,
    type_: str | None = None,
    gpus: int = 1,
    names: Sequence[str] = (),
) -> Company:
    """Speeds of two models on the same GPUs, relative to each alone.

    NaN where they do not fit together.
    """
    loaded = profiles.load(catalogue)
    type_ = _one_of("accelerator type", type_ or loaded.types[-1], loaded.types)
    wanted = (gpus, type_, False)
    measured = {(p, q) for p, g, t, spread, q in loaded.pairs if (g, t, spread) == wanted}
    known = [n for n in loaded.names if any(n in pair for pair in measured)]
    if not known:
        fix = "try `gavel`, --gpus 1"
        what = f"catalogue {catalogue!r} has no speeds of two jobs on the same {gpus} x {type_}"
        raise ConfigError(f"{what}; {fix}")
    for name in names:
        _one_of("profile", name, known)
    kept = [n for n in known if not names or n in names]
    speed = np.full((len(kept), len(kept)), np.nan)
    for i, name in enumerate(kept):
        alone = loaded.measured(name, gpus, type_)
        for j, partner in enumerate(kept):
            together = loaded.pairs.get((name, gpus, type_, False, partner))
            if alone and together:
                speed[i, j] = together / alone
    if np.isnan(speed).all():
        fix = "give others with --profile"
        raise ConfigError(f"none of these models fit together on {gpus} x {type_}; {fix}")
    return Company(names=tuple(kept), type=type_, gpus=gpus, speed=speed)


# Stores


def curves_of(
    runs: Sequence[Run],
    at: Sequence[float],
    lines: Sequence[str],
    y: str,
    where: str,
) -> Curves:
    """Means of a metric over seeds: a line for each name, a point for each place.

    Each run says where it belongs.
    """
    values: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    unstable: dict[tuple[str, float], int] = defaultdict(int)
    left_out = 0
    for run, x, line in zip(runs, at, lines, strict=True):
        value = quantities.value(run.metrics, y)
        if run.status == UNSTABLE:
            values[line][x] += []
            unstable[line, x] += 1
        elif run.status == OK and value is not None:
            values[line][x].append(value)
        else:
            left_out += 1
    if not any(points for line in values.values() for points in line.values()):
        _explain_nothing(runs, y, where)
    curves = [
        PlotLine(name=line, points=tuple(point(x, by_x[x], unstable[line, x]) for x in sorted(by_x)))
        for line, by_x in values.items()
    ]
    return Curves(lines=tuple(curves), left_out=left_out)


def _column_of_store(path: str, choice: RunSelection, column: str) -> dict[str, FloatArray]:
    with ResultStore(path, create=False) as store:
        runs = [run for run in _chosen(store, choice) if run.status in {OK, UNSTABLE}]
        names = _line_names(runs, set())
        overloaded = {line for run, line in zip(runs, names, strict=True) if run.status == UNSTABLE}
        for line in sorted(overloaded):
            log.warning("%s is left out: it has unstable runs, whose jobs do not all finish", line)
        parts: dict[str, list[FloatArray]] = defaultdict(list)
        for run, line in zip(runs, names, strict=True):
            if line in overloaded:
                continue
            blob = store.jobs(run.key)
            columns = {} if blob is None else unpack(blob)
            if column in columns and np.isfinite(columns[column]).any():
                parts[line].append(columns[column])
    if not parts:
        fix = f"see `rota results show {path}`"
        what = f"{path}: no run that was asked for is ok and has {column} of its jobs"
        raise ConfigError(f"{what}; {fix}")
    return {line: np.concatenate(pieces) for line, pieces in parts.items()}


def _chosen(store: ResultStore, choice: RunSelection) -> list[Run]:
    known = [s.name for s in store.sweeps()]
    if not known:
        fix = f"make one with `rota sweep --store {store.path}`"
        raise ConfigError(f"{store.path} has no sweep; {fix}")
    if choice.sweep is None and len(known) > 1:
        fix = f"choose one with --sweep: {', '.join(known)}"
        raise ConfigError(f"{store.path} has several sweeps; {fix}")
    sweep = known[0] if choice.sweep is None else _one_of("sweep", choice.sweep, known)
    runs = list(store.runs(sweep=sweep))
    for name, wanted in (choice.where or {}).items():
        key = canonical_name(name, "--where")
        there = {_text(run.point.get(key)) for run in runs}
        _one_of(f"value of {key}", _text(plain(wanted)), there)
        runs = [run for run in runs if _text(run.point.get(key)) == _text(plain(wanted))]
    return runs


def _line_names(runs: Sequence[Run], apart_from: set[str]) -> list[str]:
    """What tells the line of a run from others.

    Everything that varies, except seeds and what is on the axis.
    """
    keys = dict.fromkeys(k for run in runs for k in run.point if k not in apart_from | {"seed"})
    seen = {k: {_text(run.point.get(k)) for run in runs} for k in keys}
    varied = sorted((k for k in keys if len(seen[k]) > 1), key=lambda k: k != "policy")
    names = []
    for run in runs:
        said = [_text(run.point.get(k)) if k == "policy" else f"{k}={_text(run.point.get(k))}" for k in varied]
        policy = run.point.get("policy", run.config.get("policy", "all runs"))
        names.append(", ".join(said) or str(policy))
    return names


def _explain_nothing(runs: Sequence[Run], metric: str, where: str) -> None:
    """Why there is no point: another name of the metric, or no result; unstable runs alone are drawn."""
    if any(run.status == UNSTABLE for run in runs):
        return
    known = dict.fromkeys(name for run in runs if run.status == OK for name in quantities.names(run.metrics))
    if known and metric not in quantities.KNOWN:
        raise UnknownName("metric", metric, list(known))
    fix = "run the sweep first" if not known else f"known are {', '.join(known)}"
    raise ConfigError(f"{where}: no run of the sweep has a result with {metric} yet; {fix}")


# Files


def _is_store(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(15) == b"SQLite format 3"
    except OSError as error:
        fix = "give a file that exists"
        raise ConfigError(f"cannot read {path}: {error.strerror}; {fix}") from error


def log_of(path: str) -> tuple[Cluster, Iterator[Event]]:
    """The cluster of an event log and the events after its first."""
    cluster, events, _ = whole_log(path)
    return cluster, events


def whole_log(path: str) -> tuple[Cluster, Iterator[Event], Mapping[str, Any]]:
    """The same with the configuration of the run."""
    events = read_events(path)
    first = next(events)
    config: Mapping[str, Any] = first.config if isinstance(first, RunStarted) else {}
    try:
        return cluster_from(config["cluster"]), events, config
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ConfigError(
            f"{path}:1: the log does not begin with RunStarted and a cluster; give a whole log"
        ) from error


def named(source: str) -> tuple[str, str]:
    """NAME=FILE, or a file that is named by itself."""
    name, equals, path = source.partition("=")
    if equals and name and "/" not in name:
        return name, path
    base = Path(source).name
    for suffix in (".gz", ".jsonl", ".csv"):
        base = base.removesuffix(suffix)
    return base, source


def add_named(by_name: dict[str, Any], name: str, value: Any) -> None:
    """Under its name, which must be the only one."""
    if name in by_name:
        raise ConfigError(f"two files are called {name!r}; give them names: NAME=FILE")
    by_name[name] = value


def _one_of(kind: str, name: str, known: Any) -> str:
    if name not in known:
        raise UnknownName(kind, name, known)
    return name


def _text(value: Any) -> str:
    return str(value)
