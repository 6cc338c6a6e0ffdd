"""From the files that a user names to runs.

A store of results, event logs, jobs CSVs, outputs of --json.

Files of one name (fifo.json, fifo.csv) are parts of one run; NAME=FILE gives a name. A log that has
the configuration of a run of the store belongs to that run.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rota.analysis.fairness import fairness
from rota.analysis.jobs_csv import read_jobs_csv
from rota.core import packed
from rota.core.errors import ConfigError, UnknownName
from rota.core.files import is_there
from rota.core.parsing import parse_json
from rota.experiments.blobs import unpack
from rota.experiments.execution import OK
from rota.experiments.keys import plain
from rota.experiments.store import ResultStore, Run
from rota.report.logs import LogContent, TimeWindow, read_log
from rota.report.outcomes import deadlines_of
from rota.report.records import Columns, Record, counted

SQLITE = b"SQLite format 3"
_SUFFIXES = (".gz", ".jsonl", ".json", ".csv")


@dataclass(slots=True, kw_only=True)
class Sources:
    """What was read, and what should be said about it."""

    records: list[Record] = field(default_factory=list)
    store: str | None = None
    sweep: str | None = None
    notes: list[str] = field(default_factory=list)


def read(
    paths: Sequence[str],
    *,
    sweep: str | None = None,
    window: TimeWindow | None = None,
) -> Sources:
    """Everything in these files; raises ConfigError for what cannot be used."""
    named = [_named(path) for path in paths]
    kinds = [_kind(path) for _, path, _ in named]
    stores = [path for (_, path, _), kind in zip(named, kinds, strict=True) if kind == "store"]
    _check(paths, stores, sweep)
    sources = _read_store(stores[0], sweep) if stores else Sources()
    parts: dict[str, dict[str, tuple[str, bool]]] = {}
    for (name, path, given), kind in zip(named, kinds, strict=True):
        if kind == "store":
            continue
        if kind in parts.setdefault(name, {}):
            raise ConfigError(f"two files are called {name!r} ({path}); give them names: NAME=FILE")
        parts[name][kind] = (path, given)
    for name, files in parts.items():
        _add(sources, _read_run(name, files, window))
    if not sources.records:
        fix = "make some with `rota sweep` first"
        raise ConfigError(f"{', '.join(paths)}: there is no run in it; {fix}")
    return sources


def _check(paths: Sequence[str], stores: Sequence[str], sweep: str | None) -> None:
    if not paths:
        fix = "give a store of results, or files of runs"
        raise ConfigError(f"there is nothing to report on; {fix}")
    if len(stores) > 1:
        fix = "make a report for each"
        raise ConfigError(f"{len(stores)} stores were given ({', '.join(stores)}); {fix}")
    if sweep is not None and not stores:
        fix = "leave it out for single runs"
        raise ConfigError(f"--sweep chooses runs of a store of results; {fix}")


def _named(source: str) -> tuple[str, str, bool]:
    """Name, path, and whether the name was given."""
    name, equals, path = source.partition("=")
    if equals and name and "/" not in name and not is_there(source):
        return name, path, True
    base = Path(source).name
    for suffix in _SUFFIXES:
        base = base.removesuffix(suffix)
    return base, source, False


def _kind(path: str) -> str:
    """What is in a file, by its beginning."""
    try:
        with Path(path).open("rb") as raw:
            start = raw.read(64)
        if start.startswith(b"\x1f\x8b"):
            with gzip.open(path) as unpacked:
                start = unpacked.read(64)
    except (OSError, EOFError, zlib.error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        fix = "give a store of results or a file of a run"
        raise ConfigError(f"cannot read {path}: {why}; {fix}") from error
    if start.startswith(SQLITE):
        return "store"
    if not start.strip():
        raise ConfigError(f"{path} is empty; give a store of results or a file of a run")
    if start.lstrip().startswith(b"{"):
        return "log" if start.lstrip().startswith(b'{"event"') else "json"
    if b"job_id" in start:
        return "csv"
    raise ConfigError(
        f"{path} is neither a store of results nor a file of a run; give what `rota sweep` or "
        "`rota simulate` with --events, --jobs-csv or --json wrote"
    )


# Stores


def _read_store(path: str, sweep: str | None) -> Sources:
    with ResultStore(path, create=False) as store:
        known = [s.name for s in store.sweeps()]
        if sweep is not None and sweep not in known:
            raise UnknownName("sweep", sweep, known)
        chosen = [sweep] if sweep is not None else known
        runs: dict[str, Run] = {}
        for name in chosen:
            for run in store.runs(sweep=name):
                runs.setdefault(run.key, run)
        # Runs that no sweep points to any more are of other code; only without sweeps are they all.
        if not known:
            runs = {run.key: run for run in store.runs()}
        records = []
        for run in runs.values():
            blob = store.jobs(run.key) if run.status == OK else None
            jobs = None if blob is None else _unpacked(blob, path, run)
            records.append(Record(run=run, jobs=jobs))
    if not records:
        fix = f"run `rota sweep --store {path}` first"
        raise ConfigError(f"{path}: there is no run in this store yet; {fix}")
    return Sources(records=records, store=path, sweep=", ".join(chosen) or None)


def _unpacked(blob: bytes, path: str, run: Run) -> Columns:
    try:
        return unpack(blob)
    except (zlib.error, ValueError) as error:
        fix = "run the sweep into a new store"
        what = f"{path}: the completion times of run {run.key[:12]} are damaged ({error})"
        raise ConfigError(f"{what}; {fix}") from error


# Single runs


def _read_run(name: str, files: dict[str, tuple[str, bool]], window: TimeWindow | None) -> Record:
    given = name if any(flag for _, flag in files.values()) else None
    path = {kind: file for kind, (file, _) in files.items()}
    said = _read_json(path["json"]) if "json" in path else None
    config = _config_of(said)
    if "log" in path:
        content = read_log(path["log"], window)
        return _of_log(name, given, content, said)
    if "csv" in path:
        jobs = counted(read_jobs_csv(path["csv"]), config.get("measure"))
        metrics = said or _metrics_of(jobs)
    else:
        jobs = None
        metrics = said or {}
    config.setdefault("policy", name)
    run = Run(
        key=name,
        point={},
        status=_status(metrics),
        metrics=metrics,
        error=None,
        config=config,
    )
    return Record(run=run, name=given or (None if said else name), jobs=jobs)


def _config_of(said: dict[str, Any] | None) -> dict[str, Any]:
    config = (said or {}).get("config")
    return dict(config) if isinstance(config, dict) else {}


def _of_log(
    name: str,
    given: str | None,
    content: LogContent,
    said: dict[str, Any] | None,
) -> Record:
    why = "the log ends before the run did; numbers are of what it has"
    cut = None if content.ended is not None else why
    run = Run(
        key=name,
        point={},
        status=_status(content.summary) if cut is None else "cut off",
        metrics={**content.summary, **(said or {})},
        error=cut,
        config=content.config,
        cpu_s=(said or {}).get("cpu_s"),
        version=content.config.get("version"),
    )
    return Record(
        run=run,
        name=given,
        jobs=counted(content.jobs, content.config.get("measure")),
        every_job=content.jobs,
        series=content.series,
        schedule=content.schedule,
    )


def _read_json(path: str) -> dict[str, Any]:
    try:
        summary = parse_json(packed.read_bytes(path))
    except (*packed.DAMAGED, ValueError) as error:
        fix = "give what `rota simulate --json` printed"
        raise ConfigError(f"cannot read {path}: {error}; {fix}") from error
    if not isinstance(summary, dict) or "mean_jct_s" not in summary:
        fix = "give what `rota simulate --json` printed"
        raise ConfigError(f"{path}: there is no mean_jct_s in it; {fix}")
    return summary


def _metrics_of(jobs: Columns) -> dict[str, Any]:
    """What a table of jobs says by itself."""
    times = jobs["jct_s"][np.isfinite(jobs["jct_s"])]
    if not len(times):
        return {"jobs_measured": 0}
    p50, p90, p99 = np.percentile(times, [50, 90, 99])
    return {
        "mean_jct_s": float(times.mean()),
        "p50_jct_s": float(p50),
        "p90_jct_s": float(p90),
        "p99_jct_s": float(p99),
        "jobs_measured": len(times),
        **_outcomes_of(jobs),
    }


def _outcomes_of(jobs: Columns) -> dict[str, Any]:
    """Finish-time fairness and deadlines, if the table has them."""
    known: dict[str, Any] = {}
    if "ftf" in jobs and np.isfinite(jobs["ftf"]).any():
        known |= asdict(fairness(jobs["ftf"]))
    deadlines = deadlines_of(jobs)
    if deadlines is not None:
        known |= {"slo_jobs": deadlines.jobs, "slo_violations": deadlines.late + deadlines.unfinished}
    return known


def _status(metrics: dict[str, Any]) -> str:
    return "interrupted" if metrics.get("interrupted") else OK


def _add(sources: Sources, record: Record) -> None:
    """A log of a run that the store has belongs to it.

    Any other run comes after those of the store.
    """
    own = _identity(record.run.config)
    for i, other in enumerate(sources.records):
        may_belong = sources.store and record.schedule is not None and other.run.config
        if may_belong and _identity(other.run.config) == own:
            sources.records[i] = replace(
                other, every_job=record.every_job, series=record.series, schedule=record.schedule
            )
            return
    sources.records.append(record)


def _identity(config: dict[str, Any]) -> str:
    left_out = {"version", "trace", "trace_format", "jobs_sha256", "profiles"}
    kept = {k: v or None for k, v in config.items() if k not in left_out}
    return json.dumps(plain(kept), sort_keys=True, default=str)


def names_for_equals(records: Iterable[Record]) -> list[str | None]:
    """The names that users gave.

    Runs of files that differ in nothing are told apart by the name of their file.
    """
    every = list(records)
    seen: dict[str, int] = {}
    for record in every:
        identity = _identity(record.run.config)
        seen[identity] = seen.get(identity, 0) + 1
    return [
        r.run.key if r.name is None and not r.run.point and seen[_identity(r.run.config)] > 1 else r.name for r in every
    ]
