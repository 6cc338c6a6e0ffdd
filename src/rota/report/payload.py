"""What the page knows, as one JSON object.

Small enough to be in it, with nothing that is not shown.

Times are whole seconds. Jobs that several runs share are written once, and so are equal parts of
configurations. What does not fit into the budget is left out and said in `notes`.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rota._version import __version__
from rota.analysis.figures import quantities
from rota.analysis.figures.curves import point
from rota.analysis.plots import BAR_COLOURS, COLOURS
from rota.core.arrays import FloatArray
from rota.experiments.execution import OK, UNSTABLE
from rota.experiments.remarks import remarks_of
from rota.report.outcomes import deadlines, fairness
from rota.report.pairs import pairs
from rota.report.points import Points
from rota.report.reading import Sources
from rota.report.recipes import recipe
from rota.report.records import Columns, Record

METRICS = (
    "mean_jct_s", "p50_jct_s", "p90_jct_s", "p99_jct_s", "makespan_s", "utilization", "cost",
    "mean_ftf", "worst_ftf", "unfair_fraction", quantities.MISSED,
)  # fmt: skip
"""Those of which a group has a mean and an interval."""
MOST_TIMES = 200_000
"""Completion times on a page, about 2 MB."""
MOST_BARS = 120_000
"""Bars of all Gantt charts together, about 2 MB."""
CDF_POINTS = 160


class Interned:
    """Values that occur more than once, each written once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        """Where the value is."""
        text = json.dumps(value, sort_keys=True)
        if text not in self._places:
            self._places[text] = len(self.values)
            self.values.append(value)
        return self._places[text]


def payload(
    sources: Sources,
    where: Points,
    *,
    title: str,
    made: float | None = None,
) -> dict[str, Any]:
    """The object; `made` is the time of the report, seconds since 1970."""
    parts = Interned()
    workloads = Interned()
    notes = [*sources.notes, *remarks_of(record.run for record in sources.records)]
    with_times = _budget(sources.records, notes)
    differences, remark = pairs(sources.records, where)
    notes += [remark] if remark else []
    runs = [
        _run(record, i, where, parts, workloads, with_jobs=i in with_times) for i, record in enumerate(sources.records)
    ]
    return {
        "title": title,
        "made": time.time() if made is None else made,
        "version": __version__,
        "source": sources.store,
        "sweep": sources.sweep,
        "notes": notes,
        "colours": len(COLOURS),
        "bar_colours": len(BAR_COLOURS),
        "varied": where.varied,
        "x": where.x,
        "lines": where.lines,
        "scenarios": where.scenarios,
        "settings": [{"label": s.label, "scenario": s.scenario, "x": s.x} for s in where.settings],
        "runs": runs,
        "groups": _groups(sources.records, where),
        "pairs": [pair.row() for pair in differences],
        "workloads": workloads.values,
        "parts": parts.values,
        "gantts": _gantts(sources.records, notes),
    }


def _budget(records: Sequence[Record], notes: list[str]) -> set[int]:
    """The runs whose jobs are on the page: in order, as long as there is room."""
    kept: set[int] = set()
    used = left = 0
    for i, record in enumerate(records):
        if record.jobs is None:
            continue
        count = len(record.jobs["jct_s"])
        if used + count <= MOST_TIMES:
            kept.add(i)
            used += count
        else:
            left += 1
    if left:
        notes.append(
            f"the jobs of {left} runs are left out to keep the file small; their means, "
            "distributions and differences are there. Choose a sweep with --sweep, or use `rota "
            "compare`."
        )
    return kept


def _run(
    record: Record, i: int, where: Points, parts: Interned, workloads: Interned, *, with_jobs: bool
) -> dict[str, Any]:
    run = record.run
    how = recipe(record.run.config)
    known = {name: value for name, value in run.metrics.items() if value is not None}
    metrics = {name: value for name, value in known.items() if name not in {"config", "notes"}}
    missed = quantities.value(known, quantities.MISSED)
    metrics |= {} if missed is None else {quantities.MISSED: missed}
    about = {
        "started": run.started,
        "cpu_s": run.cpu_s,
        "wall_s": run.wall_s,
        "host": run.host,
        "version": run.version,
    }
    return {
        "key": run.key,
        "line": where.line[i],
        "setting": where.setting[i],
        "status": run.status or "to do",
        "error": run.error,
        "values": where.axes[i],
        "metrics": {name: _rounded(metrics[name]) for name in metrics},
        "notes": list(run.metrics.get("notes") or []),
        "config": {k: _part(v, parts) for k, v in run.config.items()},
        "command": how.command,
        "note": how.note,
        "about": {name: value for name, value in about.items() if value},
        "jobs": _jobs(record.jobs, workloads) if record.jobs is not None and with_jobs else None,
        "busy": _series(record),
        "again": record.again,
    }


def _part(value: Any, parts: Interned) -> Any:
    """Long values by their place among the parts."""
    plain = finite(value)
    long = isinstance(plain, dict | list) and len(json.dumps(plain)) > 60
    return {"$part": parts.place(plain)} if long else plain


def _jobs(jobs: Columns, workloads: Interned) -> dict[str, Any]:
    """Completion times in seconds (-1: not finished) and which jobs they are of."""
    names: dict[str, Any] = {"id": _compact(jobs["job_id"].tolist())}
    names["arrival"] = np.diff(np.round(jobs["arrival_s"]).astype(np.int64), prepend=0).tolist()
    if "gpus" in jobs:
        names["gpus"] = _compact([int(v) for v in jobs["gpus"].tolist()])
    names |= _texts(jobs)
    times = np.asarray(jobs["jct_s"], dtype=np.float64)
    rounded = np.round(np.nan_to_num(times, nan=-1.0))
    whole = np.where(np.isfinite(times), rounded, -1.0).astype(np.int64)
    return {"of": workloads.place(names), "t": whole.tolist()}


def _compact(values: list[int]) -> Any:
    """Equal values, or a count upwards, as three numbers."""
    if len(values) > 2:
        step = values[1] - values[0]
        if all(b - a == step for a, b in itertools.pairwise(values)):
            return {"first": values[0], "step": step, "count": len(values)}
    return values


def _series(record: Record) -> dict[str, Any] | None:
    if record.series is None:
        return None
    series = record.series
    return {"end": round(float(series.edge[-1]), 1), "value": np.round(series.value, 4).tolist()}


def _gantts(records: Sequence[Record], notes: list[str]) -> list[dict[str, Any]]:
    drawn = [i for i, record in enumerate(records) if record.schedule is not None]
    gantts = []
    used = 0
    for i in drawn:
        schedule = records[i].schedule
        jobs = records[i].every_job
        if schedule is None or used + len(schedule.bars) > MOST_BARS:
            continue
        used += len(schedule.bars)
        gantts.append(
            {
                "run": i,
                **schedule.columns(),
                "jobs": _about_jobs(jobs, int(schedule.bars[:, 4:].max()) + 1),
            }
        )
    if len(gantts) < len(drawn):
        left = len(drawn) - len(gantts)
        notes.append(f"{left} Gantt charts are left out to keep the file small; give fewer logs")
    return gantts


def _about_jobs(jobs: Columns | None, count: int) -> dict[str, Any]:
    """Of the first `count` jobs of a log the profile, tenant and GPUs; ids count from 0."""
    if jobs is None or "profile" not in jobs:
        return {}
    gpus = [int(v) for v in jobs["gpus"][:count].tolist()]
    return {"gpus": _compact(gpus), **_texts(jobs, count)}


def _texts(jobs: Columns, count: int | None = None) -> dict[str, Any]:
    """Profiles and tenants by their place in a list of names."""
    columns: dict[str, Any] = {}
    for key in ("profile", "tenant"):
        if key in jobs:
            values = [str(v) for v in jobs[key][:count].tolist()]
            places = {name: i for i, name in enumerate(dict.fromkeys(values))}
            columns[f"{key}s"] = list(places)
            columns[key] = _compact([places[v] for v in values])
    return columns


def _groups(records: Sequence[Record], where: Points) -> list[dict[str, Any]]:
    members: dict[tuple[int, int], list[int]] = {}
    for i in range(len(records)):
        members.setdefault((where.setting[i], where.line[i]), []).append(i)
    return [_group(records, setting, line, of) for (setting, line), of in sorted(members.items())]


def _group(records: Sequence[Record], setting: int, line: int, of: list[int]) -> dict[str, Any]:
    usable = [i for i in of if records[i].run.status not in {UNSTABLE, "failed", "timeout", None}]
    unstable = sum(records[i].run.status == UNSTABLE for i in of)
    stats = {}
    for name in METRICS:
        values = [quantities.value(records[i].run.metrics, name) for i in usable]
        known = [value for value in values if value is not None]
        p = point(0.0, known, unstable)
        if p.mean is not None:
            stats[name] = [_rounded(v) for v in (p.mean, p.low, p.high)] + [p.runs]
    done = [] if unstable else [records[i] for i in usable if records[i].run.status == OK]
    tables = [record.jobs for record in done if record.jobs is not None]
    cdf = _cdf(np.concatenate([jobs["jct_s"] for jobs in tables])) if tables else None
    return {
        "setting": setting,
        "line": line,
        "runs": of,
        "unstable": unstable,
        "stats": stats,
        "cdf": cdf,
        "ftf": fairness(tables),
        "deadlines": deadlines(done),
    }


def _cdf(times: FloatArray) -> dict[str, Any] | None:
    """Completion times at equal steps of probability, and the part of jobs that finished."""
    done = np.sort(times[np.isfinite(times)])
    if not len(done):
        return None
    if len(done) > CDF_POINTS:
        done = np.quantile(done, np.arange(1, CDF_POINTS + 1) / CDF_POINTS)
    digits = 1 if done[-1] < 1000 else 0
    return {"t": np.round(done, digits).tolist(), "top": round(_finished(times), 5)}


def _finished(times: FloatArray) -> float:
    return float(np.count_nonzero(np.isfinite(times))) / len(times)


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _rounded(v) for k, v in value.items()}
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return finite(value)


def finite(value: Any) -> Any:
    """The same out of JSON's own types; what is not a finite number becomes null."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
