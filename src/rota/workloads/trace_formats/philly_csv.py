"""The Philly log as CSV with a header: timestamp, duration, num_gpus, maybe cluster (prepared by Sia, SOSP 2023).

Timestamps are `YYYY-MM-DD HH:MM:SS`, durations seconds; other columns (gpu_time) are ignored. The log is in no order:
jobs are sorted by time and numbered by arrival, the first at 0. The cluster is the tenant. A job with no duration or no
GPUs is left out; all others stay, however short or long. Models are given as `rota.workloads.philly` says.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import numpy as np

from rota.core.errors import OutputError, TraceError
from rota.core.jobs import Jobs
from rota.workloads.philly import a_log, seconds, with_models
from rota.workloads.registry import formats
from rota.workloads.rows import Rows

REQUIRED = ("timestamp", "duration", "num_gpus")


@formats.register("philly-csv")
class PhillyCsvTrace:
    """The Philly log as CSV: timestamp, duration, num_gpus, cluster. Only read; models are given by a fixed rule."""

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a header with the needed columns."""
        return set(REQUIRED) <= {name.strip() for name in first_line.split(",")}

    def read(self, text: str, path: str) -> Jobs:
        """The jobs of a log."""
        rows = _rows(text, path)
        submitted = [seconds(cell.strip()) for cell in rows.cells["timestamp"]]
        for row, at in enumerate(submitted):
            if at is None:
                rows.refuse(row, "timestamp", "a time; write it as 2017-10-09 07:01:55")
        duration = rows.floats("duration", lambda v: v >= 0, "a duration; give seconds >= 0")
        wanted = "a number of GPUs; give a whole number >= 0"
        gpus = rows.floats("num_gpus", lambda v: (v >= 0) & (v < 1e9) & (v % 1 == 0), wanted).astype(np.int64)
        tenants = [cell.strip() or "default" for cell in rows.cells.get("cluster", ["default"] * len(rows))]
        log = a_log(np.array(submitted, dtype=np.float64), duration, gpus, tenants)
        ran = (duration > 0) & (gpus > 0)
        if not ran.any():
            raise TraceError(path, rows.lines[0], "no job of the log has a duration and GPUs; give at least one")
        return with_models(log.only(ran))

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:  # noqa: ARG002 - the protocol's
        """Refuses: a log has neither models nor steps."""
        raise OutputError(f"philly-csv is only read: it cannot hold the models of {len(jobs):,} jobs; use csv")


def _rows(text: str, path: str) -> Rows:
    reader = csv.reader(io.StringIO(text.replace("\0", "?"), newline=""))
    try:
        numbered = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as problem:
        raise TraceError(path, reader.line_num, f"not CSV: {problem}; is a quote left open?") from None
    if not numbered:
        raise TraceError(path, 1, "the log is empty; give a header and at least one job")
    (first, header), jobs = numbered[0], numbered[1:]
    columns = [name.strip() for name in header]
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise TraceError(path, first, f"the header has no column {missing[0]!r}; needed are {', '.join(REQUIRED)}")
    if not jobs:
        raise TraceError(path, first, "the log has a header but no jobs; give at least one line")
    for line, row in jobs:
        if len(row) != len(columns):
            raise TraceError(path, line, f"{len(row)} cells, but the header names {len(columns)} columns")
    cut = zip(*(row for _, row in jobs), strict=True)
    return Rows(path=path, lines=[line for line, _ in jobs], cells=dict(zip(columns, cut, strict=True)))
