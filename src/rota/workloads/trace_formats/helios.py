"""Logs of SenseTime's Helios clusters.

CSV with a header (Hu et al., SC 2021; S-Lab-System-Group/HeliosData).

job_id, user, vc, gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time, duration
(seconds), queue. A job arrives at submit_time and takes duration, or from start_time to end_time
where that column is missing. Jobs without GPUs (about half of the log), and those that never ran,
are left out. The tenant is vc (tenant=user for the user); cpu_num is kept as a request. Jobs that
failed or were cancelled or timed out held their GPUs and are kept; with failed=drop only COMPLETED
ones stay.

The log names no types of GPU. A virtual cluster has servers of its own: partitions=vcA:v100,vcB:p100
says of which type, and partitions=as-types takes each for a type of that name. Jobs are replayed as
recorded unless assign gives them models.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.gpu_types import ANY, NOT_SAID
from rota.core.jobs import Jobs, requests
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.logs import Left, names_of, read_only
from rota.workloads.registry import EVERYTHING, formats
from rota.workloads.rows import TraceRows, header_of, with_header
from rota.workloads.settings import chosen
from rota.workloads.type_rules import TypeRules

REQUIRED = ("gpu_num", "submit_time")


@formats.register("helios")
class HeliosTrace:
    """Logs of the Helios clusters. Only read; replayed as recorded, or with models by a rule."""

    holds = EVERYTHING

    def __init__(
        self,
        *,
        assign: str = "recorded",
        assign_seed: int | None = None,
        profiles: str | None = None,
        reference: str | None = None,
        failed: str = "keep",
        tenant: str = "vc",
        elsewhere: str = "never",
        partitions: str = "",
    ) -> None:
        self._types = TypeRules(elsewhere=elsewhere, partitions=partitions)
        self._assignment = Assignment(assign, assign_seed, profiles, reference, self._types)
        self._failed = chosen("failed", failed, ("keep", "drop"))
        self._tenant = chosen("tenant", tenant, ("vc", "user"))

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a header with the needed columns."""
        columns = set(header_of(first_line))
        return set(REQUIRED) <= columns and bool({"duration", "end_time"} & columns)

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a log."""
        rows = with_header(file, REQUIRED, kind="log")
        submitted = rows.times("submit_time", needed=True)
        gpus = rows.gpus("gpu_num", 0)
        duration = _durations(rows)
        left = Left(file, rows.lines)
        left.out(gpus == 0, "ask for no GPU")
        left.out(~(duration > 0), "never ran")
        said = rows.filled("state", "COMPLETED").cells["state"]
        states = np.array([state.strip().upper() for state in said])
        left.unfinished(states != "COMPLETED", self._failed)
        cpus = rows.optional("cpu_num", "a number of CPUs; give a number >= 0", zero=True)
        count = len(rows)
        clusters = [name.strip() for name in rows.filled("vc", "").cells["vc"]]
        asked, ran_on = self._types.by_partition([ANY] * count, [NOT_SAID] * count, clusters, rows.problems)
        log = Logged(
            submitted=submitted,
            duration=duration,
            gpus=gpus,
            tenants=[name.strip() for name in rows.filled(self._tenant, "default").cells[self._tenant]],
            requests=requests(len(rows), cpus=np.where(cpus > 0, cpus, np.nan)),
            asked=asked,
            ran_on=ran_on,
            names=names_of(rows, "job_id"),
        )
        return left.jobs(log, self._assignment)

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """Refuses: a log has neither models nor steps."""
        raise read_only("helios", jobs)


def _durations(rows: TraceRows) -> FloatArray:
    """Seconds that jobs ran; NaN where they did not."""
    if "duration" in rows.cells:
        return rows.optional("duration", "a duration; give seconds >= 0", zero=True)
    named = all(column in rows.cells for column in ("start_time", "end_time"))
    if not named:
        return np.full(len(rows), np.nan)
    return rows.times("end_time", needed=False) - rows.times("start_time", needed=False)
