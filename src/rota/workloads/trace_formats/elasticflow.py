"""ElasticFlow's traces: CSV with a header (Gu et al., ASPLOS 2023).

Published as microsoft/elasticflow-traces, MIT.

Raw files have job_id, submission_time, duration (both seconds) and num_gpu; generated ones also
num_iteration, model_name, deadline (on the clock of the submissions) and batch_size. The first job
arrives at 0; the deadline is kept as a multiple of the duration, and may be below 1, because such
jobs were to get more GPUs than they ask for. Ids and batch sizes are dropped. With assign=keep
models and iterations are those of the file, which no built-in catalogue knows; otherwise steps fill
the duration with the profile assigned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from rota.core.errors import OutputError
from rota.core.jobs import Jobs
from rota.workloads import cells
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.logs import Left
from rota.workloads.registry import Holds, formats
from rota.workloads.rows import header_of, with_header

SHORTEST_S = 1e-6
REQUIRED = ("submission_time", "num_gpu", "duration")
COLUMNS = ("job_id", "submission_time", "num_iteration", "model_name", "deadline", "batch_size", "num_gpu", "duration")


@formats.register("elasticflow")
class ElasticFlowTrace:
    """ElasticFlow's CSV, raw or with models, iterations and deadlines."""

    holds = Holds(durations=True)

    def __init__(
        self,
        *,
        assign: str = "like",
        assign_seed: int | None = None,
        profiles: str | None = None,
        reference: str | None = None,
    ) -> None:
        self._assignment = Assignment(assign, assign_seed, profiles, reference)

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a header with the needed columns."""
        return set(REQUIRED) <= set(header_of(first_line))

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a trace."""
        rows = with_header(file, REQUIRED)
        wanted = "an arrival; give seconds >= 0"
        submitted = rows.floats("submission_time", lambda v: v >= 0, wanted)
        duration = rows.floats("duration", lambda v: v >= 0, "a duration; give seconds >= 0")
        gpus = rows.gpus("num_gpu", 0)
        left = Left(file, rows.lines)
        left.out((duration < SHORTEST_S) | (gpus <= 0), "have no duration or no GPUs")
        wanted = "a deadline; give seconds on the clock of submission_time"
        deadline = rows.optional("deadline", wanted)
        for row in np.flatnonzero(left.keep & (deadline <= submitted)).tolist():
            rows.refuse(row, "deadline", "after the submission; give a later one, or nothing")
        log = Logged(
            submitted=submitted,
            duration=duration,
            gpus=gpus,
            tenants=["default"] * len(rows),
            models=rows.names("model_name") if "model_name" in rows.cells else None,
            steps=rows.optional("num_iteration", "a number of iterations; give a number > 0"),
            deadline=deadline,
        )
        return left.jobs(log, self._assignment)

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """A header and one line per job; the batch size, which we do not know, stays empty."""
        if (jobs.weight != 1).any():
            raise OutputError("the elasticflow format cannot hold weights; use gavel or csv")
        if np.isnan(jobs.duration).any():
            fix = "give --profiles to fill them in, or use csv"
            raise OutputError(f"the elasticflow format needs durations; {fix}")
        names = [cells.plain(name, ',\t\n\r\0"') for name in jobs.profiles]
        yield ",".join(COLUMNS) + "\n"
        deadline = np.where(np.isinf(jobs.deadline), np.nan, jobs.deadline)
        columns = (jobs.submitted, jobs.total_steps, jobs.profile, deadline, jobs.gpus, jobs.duration)
        text = cells.whole_or_exact
        for number, (at, steps, profile, end, gpus, length) in enumerate(
            zip(*(c.tolist() for c in columns), strict=True)
        ):
            until = "" if math.isnan(end) else text(end)
            asked = cells.amount("steps", steps, exact=exact)
            yield f"{number},{text(at)},{asked},{names[profile]},{until},,{gpus},{text(length)}\n"
