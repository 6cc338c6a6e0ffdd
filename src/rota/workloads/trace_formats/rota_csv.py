"""Our own trace: CSV with a header, easy to write by hand or from a spreadsheet.

Needed are arrival_s, gpus, profile and steps; or duration_s (seconds on the type that recorded_on
names, else on the reference type of the catalogue) instead of steps, or of both: a job without a
profile is replayed as recorded. Optional: job_id (its name in results; jobs are numbered in order of
arrival), weight, slo (multiple of the duration, empty or -1 for none), tenant, gpu_types (those on
which the job may run, `a100|h100`; empty: any), recorded_on; after, after_any, array, array_limit and
time_limit_s (`workloads/queueing.py`); cpus, memory_gb (of the whole job),
min_gpus and max_gpus, which are kept but not used yet; and for real machines command,
working_directory, steps_argument, needs_data_dir. Other columns are ignored. With duration_s but no
steps, total_steps is NaN until `with_durations` fills it in. For a file with other names of columns
see the format `columns`.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
from collections.abc import Iterator, Sequence

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import TraceError
from rota.core.gpu_types import TypeSet
from rota.core.jobs import RECORDED, RECORDED_RATE, REQUESTS, Jobs, Launch, Requests, table
from rota.workloads import cells
from rota.workloads.files import TraceFile
from rota.workloads.queueing import COLUMNS as QUEUE
from rota.workloads.queueing import queue_texts, read_queue
from rota.workloads.registry import EVERYTHING, formats
from rota.workloads.rows import TraceRows, header_of, launches, with_header
from rota.workloads.type_rules import SEPARATOR, TypeRules, type_set, where_recorded

REQUIRED = ("arrival_s", "gpus")
USUAL = (*REQUIRED, "profile")
TYPES = ("gpu_types", "recorded_on")
LINE_ENDS = "\n\r\0"
"""Not quoted by every Python's csv module."""
AMOUNTS = ("steps", "duration_s")
LAUNCH = ("command", "working_directory", "steps_argument", "needs_data_dir")
COLUMNS = (*USUAL, *AMOUNTS, "job_id", "weight", "slo", "tenant", *TYPES, *REQUESTS, *QUEUE, *LAUNCH)


@formats.register("csv")
class CsvTrace:
    """A CSV file with a header: arrival_s, profile, gpus, steps or duration_s, weight, tenant."""

    holds = EVERYTHING

    def __init__(self, *, reference: str | None = None, elsewhere: str = "never") -> None:
        self._reference = reference
        self._types = TypeRules(elsewhere=elsewhere)

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a header with at least two of the usual columns."""
        return "\t" not in first_line and len(set(USUAL) & set(header_of(first_line))) >= 2

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a trace."""
        return from_rows(with_header(file, REQUIRED), self._reference, self._types)

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """A header and one line per job; columns that say nothing are left out."""
        columns = text_columns(jobs)
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        yield buffer.getvalue()


def from_rows(rows: TraceRows, reference: str | None, types: TypeRules) -> Jobs:
    """The jobs of a table whose columns have our names; `reference` goes before what it says about types."""
    if not any(name in rows.cells for name in AMOUNTS):
        fix = "give one of them"
        what = "the header has neither 'steps' nor 'duration_s'"
        raise TraceError(rows.problems.path, 1, f"{what}; {fix}")
    for name in rows.cells:
        near = difflib.get_close_matches(name, COLUMNS, n=1, cutoff=0.8)
        if name not in COLUMNS and near:
            fix = f"did you mean {near[0]!r}?"
            rows.problems.remark(1, f"column {name!r} is not read", fix, name)
    _check_ids(rows)
    steps, duration = _amounts(rows)
    profiles = _profiles(rows, duration)
    as_recorded = np.array([profile == RECORDED for profile in profiles], dtype=bool)
    steps = np.where(as_recorded & np.isnan(steps), duration * RECORDED_RATE, steps)
    allowed, recorded = _gpu_types(rows, profiles, reference, types)
    arrivals = rows.arrivals("arrival_s")
    names = _names(rows)
    return table(
        profile_names=profiles,
        gpus=rows.gpus("gpus"),
        total_steps=steps,
        submitted=arrivals,
        weight=rows.filled("weight", "1").weights("weight"),
        duration=duration,
        slo=rows.filled("slo", "-1").slos("slo"),
        tenant_names=rows.filled("tenant", "default").cells["tenant"],
        launch=_launches(rows),
        requests=_requests(rows),
        allowed_types=allowed,
        recorded_on=recorded,
        names=names,
        queue=read_queue(rows, names or [str(row) for row in range(len(rows))], arrivals),
    )


def _profiles(rows: TraceRows, duration: FloatArray) -> Sequence[str]:
    """The models; `recorded` for jobs that have none but a duration."""
    cells = rows.filled("profile", RECORDED).cells["profile"]
    for row, name in enumerate(cells):
        if name == RECORDED and np.isnan(duration[row]):
            what = "a job without a profile needs duration_s"
            fix = "give its model in the column profile, or how long it took"
            rows.problems.error(rows.lines[row], what, fix, "profile", "")
    return cells


def _gpu_types(
    rows: TraceRows, profiles: Sequence[str], reference: str | None, types: TypeRules
) -> tuple[list[TypeSet], list[str]]:
    """Where each job may run, and the type that its duration is about."""
    allowed = [type_set(cell) for cell in rows.filled("gpu_types", "").cells["gpu_types"]]
    said = [cell.strip() for cell in rows.filled("recorded_on", "").cells["recorded_on"]]
    recorded = [reference] * len(said) if reference else where_recorded(allowed, said)
    if types.only_where_recorded:
        alone = [profile == RECORDED and bool(where) for profile, where in zip(profiles, recorded, strict=True)]
        allowed = [(where,) if only else some for some, where, only in zip(allowed, recorded, alone, strict=True)]
    return allowed, recorded


def _names(rows: TraceRows) -> list[str] | None:
    ids = rows.cells.get("job_id")
    if ids is None:
        return None
    return [cell.strip() or f"line-{line}" for cell, line in zip(ids, rows.lines, strict=True)]


def _check_ids(rows: TraceRows) -> None:
    seen: dict[str, int] = {}
    for cell, line in zip(rows.cells.get("job_id", ()), rows.lines, strict=False):
        if cell and cell in seen:
            what = f"{cell!r} is also on line {seen[cell]}"
            rows.problems.error(line, what, "give each job its own", "job_id", cell)
        seen.setdefault(cell, line)


def _amounts(rows: TraceRows) -> tuple[FloatArray, FloatArray]:
    """Steps and durations, NaN where a cell is empty; every row needs one of the two."""
    steps = rows.optional("steps", "a number of steps; give a number > 0")
    duration = rows.optional("duration_s", "a duration; give seconds > 0")
    for row in np.flatnonzero(np.isnan(steps) & np.isnan(duration)).tolist():
        what = "neither steps nor duration_s is given"
        rows.problems.error(rows.lines[row], what, "give one of them")
    return steps, duration


def _requests(rows: TraceRows) -> Requests | None:
    if not any(column in rows.cells for column in REQUESTS):
        return None
    wanted = {
        "cpus": "a number of CPUs; give a number > 0, or nothing",
        "memory_gb": "an amount of memory; give GB > 0, or nothing",
        "min_gpus": "a number of GPUs; give a number > 0, or nothing",
        "max_gpus": "a number of GPUs; give a number > 0, or nothing",
    }
    requests = Requests(**{column: rows.optional(column, wanted[column]) for column in REQUESTS})
    for row in np.flatnonzero(requests.min_gpus > requests.max_gpus).tolist():
        low = rows.cells["min_gpus"][row]
        high = rows.cells["max_gpus"][row]
        what = f"min_gpus {low} is above max_gpus {high}"
        rows.problems.error(rows.lines[row], what, "exchange the two", "min_gpus", low)
    return requests


def _launches(rows: TraceRows) -> list[Launch] | None:
    if not any(column in rows.cells for column in LAUNCH):
        return None
    texts = (rows.cells.get(column, [""] * len(rows)) for column in LAUNCH[:3])
    flags = rows.filled("needs_data_dir", "0").flags("needs_data_dir")
    return launches(zip(*texts, flags, strict=True))


def text_columns(jobs: Jobs) -> dict[str, list[str]]:
    """The cells of a table by column; columns that say nothing are left out."""
    text = cells.whole_or_exact
    columns = {
        "job_id": [str(n) for n in range(len(jobs))] if jobs.names is None else _plain_texts(jobs.names.tolist()),
        "arrival_s": [text(v) for v in jobs.submitted.tolist()],
        "profile": _texts(jobs.profiles, jobs.profile),
        "gpus": [str(g) for g in jobs.gpus.tolist()],
        "steps": _known(jobs.total_steps),
        "duration_s": _known(jobs.duration),
        "weight": [text(v) for v in jobs.weight.tolist()],
        "slo": _known(jobs.slo),
        "tenant": _texts(jobs.tenants, jobs.tenant),
    }
    silent = [c for c in ("steps", "duration_s", "slo") if not any(columns[c])]
    if jobs.tenants == ("default",):
        silent.append("tenant")
    kept = {name: column for name, column in columns.items() if name not in silent}
    if jobs.requests is not None:
        asked = {name: _known(getattr(jobs.requests, name)) for name in REQUESTS}
        kept |= {name: column for name, column in asked.items() if any(column)}
    queue = {} if jobs.queue is None else queue_texts(jobs.queue, LINE_ENDS)
    return kept | _type_columns(jobs) | queue | _launch_columns(jobs)


def _type_columns(jobs: Jobs) -> dict[str, list[str]]:
    if jobs.gpu_types is None:
        return {}
    columns = {
        "gpu_types": _plain_texts([SEPARATOR.join(types) for types in jobs.gpu_types.allowed_sets()]),
        "recorded_on": _plain_texts(jobs.gpu_types.recorded_names()),
    }
    return {name: column for name, column in columns.items() if any(column)}


def _launch_columns(jobs: Jobs) -> dict[str, list[str]]:
    if all(launch == Launch() for launch in jobs.launches):
        return {}
    columns = {}
    for name in LAUNCH[:3]:
        texts = [getattr(launch, name) for launch in jobs.launches]
        columns[name] = _texts(texts, jobs.launch)
    needs = [str(int(jobs.launches[i].needs_data_dir)) for i in jobs.launch]
    return columns | {"needs_data_dir": needs}


def _plain_texts(texts: Sequence[str]) -> list[str]:
    return [cells.plain(text, LINE_ENDS) for text in texts]


def _texts(names: Sequence[str], index: IntArray) -> list[str]:
    safe = [cells.plain(name, LINE_ENDS) for name in names]
    return [safe[i] for i in index.tolist()]


def _known(values: FloatArray) -> list[str]:
    return ["" if math.isnan(v) else cells.whole_or_exact(v) for v in values.tolist()]
