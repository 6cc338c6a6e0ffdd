"""Workloads of Sia's simulator: CSV with a header (Subramanya et al., SOSP 2023).

name, time (seconds since the start), application, num_replicas (GPUs asked for), batch_size. The
file says neither how long a job runs nor for how many steps: there, a job ends when its model is
good enough. We give it GPU-hours by the class that the papers (Pollux, OSDI 2021; Sia) put the
application into, the geometric middle of its range: small (0.1 to 1 GPU-hours) cifar10 and ncf,
medium (1 to 10) deepspeech2 and bert, large (10 to 100) yolov3, very large (100 to 1000) imagenet
and gpt; its duration is that over its GPUs. `gpu_hours=cifar10:0.5,bert:4` replaces some of them.
Names and batch sizes are dropped; num_replicas is also the most GPUs the job may get, 1 the least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from rota.core.errors import ConfigError
from rota.core.jobs import Jobs, requests
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.logs import Left, read_only
from rota.workloads.registry import EVERYTHING, formats
from rota.workloads.rows import header_of, with_header

REQUIRED = ("time", "application", "num_replicas")
SMALL, MEDIUM, LARGE, VERY_LARGE = (math.sqrt(low * 10 * low) for low in (0.1, 1.0, 10.0, 100.0))
GPU_HOURS = {
    "cifar10": SMALL, "ncf": SMALL, "deepspeech2": MEDIUM, "bert": MEDIUM, "yolov3": LARGE,
    "imagenet": VERY_LARGE, "gpt": VERY_LARGE, "gpt_pmp": VERY_LARGE,
}  # fmt: skip


@formats.register("sia")
class SiaTrace:
    """Workloads of Sia's simulator.

    Only read; lengths are given by a fixed rule, models by a rule.
    """

    holds = EVERYTHING

    def __init__(
        self,
        *,
        assign: str = "like",
        assign_seed: int | None = None,
        profiles: str | None = None,
        reference: str | None = None,
        gpu_hours: str = "",
    ) -> None:
        self._assignment = Assignment(assign, assign_seed, profiles, reference)
        self._gpu_hours = GPU_HOURS | _hours(gpu_hours)

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a header with the needed columns."""
        return set(REQUIRED) <= set(header_of(first_line))

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a workload."""
        rows = with_header(file, REQUIRED)
        submitted = rows.floats("time", lambda v: v >= 0, "an arrival; give seconds >= 0")
        gpus = rows.gpus("num_replicas")
        models = [name.strip() for name in rows.names("application")]
        hours = np.array([self._gpu_hours.get(name, np.nan) for name in models])
        for row in np.flatnonzero(np.isnan(hours)).tolist():
            known = ", ".join(sorted(self._gpu_hours))
            rows.refuse(
                row, "application", f"one of {known}; give its length with the setting gpu_hours={models[row]}:HOURS"
            )
        max_gpus = gpus.astype(np.float64)
        log = Logged(
            submitted=submitted,
            duration=3600 * np.where(np.isnan(hours), 1.0, hours) / gpus,
            gpus=gpus,
            tenants=["default"] * len(rows),
            models=models,
            requests=requests(len(rows), min_gpus=np.ones(len(rows)), max_gpus=max_gpus),
            from_zero=True,
        )
        return Left(file, rows.lines).jobs(log, self._assignment)

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """Refuses: a workload has neither lengths nor batch sizes."""
        raise read_only("sia", jobs)


def _hours(text: str) -> dict[str, float]:
    hours_by_name = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition(":")
        try:
            hours = float(value)
        except ValueError:
            hours = -1.0
        if not 0 < hours < math.inf:
            fix = "give e.g. gpu_hours=cifar10:0.5,bert:4"
            raise ConfigError(f"gpu_hours: {part!r} is not application:hours; {fix}")
        hours_by_name[name.strip()] = hours
    return hours_by_name
