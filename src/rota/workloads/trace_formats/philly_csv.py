"""The Philly log as CSV with a header.

Timestamp, duration, num_gpus, maybe cluster (prepared by Sia, SOSP 2023).

Timestamps are `YYYY-MM-DD HH:MM:SS`, durations seconds; other columns (gpu_time) are ignored. The
log is in no order: jobs are sorted by time and numbered by arrival, the first at 0. The cluster is
the tenant. A job with no duration or no GPUs is left out; all others stay, however short or long.
Models are given by the rule `assign`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rota.core.jobs import Jobs
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.logs import Left, read_only
from rota.workloads.registry import EVERYTHING, formats
from rota.workloads.rows import with_header

REQUIRED = ("timestamp", "duration", "num_gpus")


@formats.register("philly-csv")
class PhillyCsvTrace:
    """The Philly log as CSV: timestamp, duration, num_gpus, cluster.

    Only read; models are given by a rule.
    """

    holds = EVERYTHING

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a header with the needed columns."""
        return set(REQUIRED) <= {name.strip() for name in first_line.split(",")}

    def __init__(
        self,
        *,
        assign: str = "mix",
        assign_seed: int | None = None,
        profiles: str | None = None,
        reference: str | None = None,
    ) -> None:
        self._assignment = Assignment(assign, assign_seed, profiles, reference)

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a log."""
        rows = with_header(file, REQUIRED, kind="log")
        submitted = rows.times("timestamp", needed=True)
        duration = rows.floats("duration", lambda v: v >= 0, "a duration; give seconds >= 0")
        wanted = "a number of GPUs; give a whole number >= 0"
        gpus = rows.floats("num_gpus", lambda v: (v >= 0) & (v < 1e9) & (v % 1 == 0), wanted).astype(np.int64)
        tenants = rows.filled("cluster", "default").cells["cluster"]
        left = Left(file, rows.lines)
        left.out((duration <= 0) | (gpus <= 0), "have no duration or no GPUs")
        log = Logged(
            submitted=submitted,
            duration=duration,
            gpus=gpus,
            tenants=[t.strip() for t in tenants],
        )
        return left.jobs(log, self._assignment)

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """Refuses: a log has neither models nor steps."""
        raise read_only("philly-csv", jobs)
