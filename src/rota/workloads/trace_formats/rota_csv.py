"""Our own trace: CSV with a header, easy to write by hand or from a spreadsheet.

Needed are arrival_s, profile, gpus, and steps or duration_s (seconds on the reference type). Optional: job_id (only
checked for repetitions: jobs are numbered in order of arrival), weight, slo (multiple of the duration, empty or -1 for
none), tenant, and for real machines command, working_directory, steps_argument, needs_data_dir. Other columns are
ignored. With duration_s but no steps, total_steps is NaN until `with_durations` fills it in.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import TraceError
from rota.core.jobs import Jobs, Launch, table
from rota.workloads import cells
from rota.workloads.registry import formats
from rota.workloads.rows import Rows, launches

REQUIRED = ("arrival_s", "profile", "gpus")
LINE_ENDS = "\n\r\0"
"""Not quoted by every Python's csv module."""
AMOUNTS = ("steps", "duration_s")
LAUNCH = ("command", "working_directory", "steps_argument", "needs_data_dir")


@formats.register("csv")
class CsvTrace:
    """A CSV file with a header: arrival_s, profile, gpus, steps or duration_s, weight, slo, tenant."""

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a header with at least two of the needed columns."""
        return "\t" not in first_line and len(set(REQUIRED) & set(_header(first_line))) >= 2

    def read(self, text: str, path: str) -> Jobs:
        """The jobs of a trace."""
        rows = _rows(text, path)
        _check_ids(rows)
        steps, duration = _amounts(rows)
        return table(
            profile_names=rows.names("profile"),
            gpus=rows.gpus("gpus"),
            total_steps=steps,
            submitted=rows.arrivals("arrival_s"),
            weight=_filled(rows, "weight", "1").weights("weight"),
            duration=duration,
            slo=_filled(rows, "slo", "-1").slos("slo"),
            tenant_names=_filled(rows, "tenant", "default").cells["tenant"],
            launch=_launches(rows),
        )

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:  # noqa: ARG002 - always exact
        """A header and one line per job; columns that say nothing are left out."""
        columns = _columns(jobs)
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        yield buffer.getvalue()


def _header(line: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([line.replace("\0", "?")]), [])]


def _rows(text: str, path: str) -> Rows:
    reader = csv.reader(io.StringIO(text.replace("\0", "?"), newline=""))  # Python 3.10 refuses NUL without a place
    numbered = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    if not numbered:
        raise TraceError(path, 1, "the trace is empty; give a header and at least one job")
    (first, header), jobs = numbered[0], numbered[1:]
    columns = [name.strip() for name in header]
    _check_header(columns, path, first)
    if not jobs:
        raise TraceError(path, first, "the trace has a header but no jobs; give at least one line")
    for line, row in jobs:
        if len(row) != len(columns):
            raise TraceError(path, line, f"{len(row)} cells, but the header names {len(columns)} columns")
    cut = zip(*(row for _, row in jobs), strict=True)
    return Rows(path=path, lines=[line for line, _ in jobs], cells=dict(zip(columns, cut, strict=True)))


def _check_header(columns: Sequence[str], path: str, line: int) -> None:
    for name in REQUIRED:
        if name not in columns:
            near = difflib.get_close_matches(name, columns, n=1, cutoff=0.5)
            hint = f"; is it {near[0]!r}?" if near else ""
            raise TraceError(path, line, f"the header has no column {name!r}{hint} Needed are {', '.join(REQUIRED)}.")
    if "steps" not in columns and "duration_s" not in columns:
        raise TraceError(path, line, "the header has neither 'steps' nor 'duration_s'; give one of them")
    for name in columns:
        if columns.count(name) > 1:
            raise TraceError(path, line, f"column {name!r} stands twice in the header; remove one")


def _check_ids(rows: Rows) -> None:
    seen: dict[str, int] = {}
    for cell, line in zip(rows.cells.get("job_id", ()), rows.lines, strict=False):
        if cell and cell in seen:
            raise TraceError(rows.path, line, f"{cell!r} is also on line {seen[cell]}; give each job its own", "job_id")
        seen[cell] = line


def _filled(rows: Rows, column: str, default: str) -> Rows:
    """The same rows with a default where the column is absent or a cell empty."""
    texts = rows.cells.get(column, [""] * len(rows))
    cells_: Mapping[str, Sequence[str]] = {**rows.cells, column: [t if t.strip() else default for t in texts]}
    return Rows(path=rows.path, lines=rows.lines, cells=cells_)


def _amounts(rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Steps and durations, NaN where a cell is empty; every row needs one of the two."""
    given = {c: np.array([bool(t.strip()) for t in rows.cells.get(c, [""] * len(rows))]) for c in AMOUNTS}
    steps = _filled(rows, "steps", "1").steps("steps")
    duration = _filled(rows, "duration_s", "1").floats("duration_s", lambda v: v > 0, "a duration; give seconds > 0")
    neither = ~(given["steps"] | given["duration_s"])
    if neither.any():
        line = rows.lines[int(np.argmax(neither))]
        raise TraceError(rows.path, line, "neither steps nor duration_s is given; give one of them")
    return np.where(given["steps"], steps, np.nan), np.where(given["duration_s"], duration, np.nan)


def _launches(rows: Rows) -> list[Launch] | None:
    if not any(column in rows.cells for column in LAUNCH):
        return None
    texts = (rows.cells.get(column, [""] * len(rows)) for column in LAUNCH[:3])
    flags = _filled(rows, "needs_data_dir", "0").flags("needs_data_dir")
    return launches(zip(*texts, flags, strict=True))


def _columns(jobs: Jobs) -> dict[str, list[str]]:
    text = cells.whole_or_exact
    columns = {
        "job_id": [str(n) for n in range(len(jobs))],
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
    return kept | _launch_columns(jobs)


def _launch_columns(jobs: Jobs) -> dict[str, list[str]]:
    if all(launch == Launch() for launch in jobs.launches):
        return {}
    columns = {name: _texts([getattr(launch, name) for launch in jobs.launches], jobs.launch) for name in LAUNCH[:3]}
    return columns | {"needs_data_dir": [str(int(jobs.launches[i].needs_data_dir)) for i in jobs.launch]}


def _texts(names: Sequence[str], index: IntArray) -> list[str]:
    safe = [cells.plain(name, LINE_ENDS) for name in names]
    return [safe[i] for i in index.tolist()]


def _known(values: FloatArray) -> list[str]:
    return ["" if math.isnan(v) else cells.whole_or_exact(v) for v in values.tolist()]
