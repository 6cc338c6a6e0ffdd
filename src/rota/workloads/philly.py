"""The Philly log: what is shipped of it, and how jobs without a model become jobs with one.

The log tells when a job was submitted, how long it ran on how many GPUs, and for whom, but not what
it trained. Its jobs get the models of Synergy's workloads in the mix of `synergy_models`, in order
of arrival, and as many steps as take the duration on one V100 each with its fair share of CPUs.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.jobs import Jobs, intern
from rota.workloads.synergy_models import MODELS, Mix, step_seconds

DATA = Path(__file__).parent / "data" / "philly.csv.gz"
SYNERGY_GPUS = DATA.with_name("philly-synergy-gpus.txt.gz")
SHORTEST_S = 10**1.5 * 60
LONGEST_S = 10**4 * 60
"""Synergy keeps the jobs between the two."""
GPU_COUNTS = (1, 2, 4, 8, 16)
"""Synergy keeps these, if it looks at GPUs at all."""
SINGLE_GPU_JOBS = 31_725
"""Jobs between the two limits, whatever their GPUs: known here, so that single-GPU streams need not
read the log."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PhillyLog:
    """Jobs in the order of the log, which is not that of time."""

    submitted: FloatArray
    """Seconds since the earliest."""
    duration: FloatArray
    gpus: IntArray
    tenants: tuple[str, ...]
    """Virtual clusters."""
    tenant: IntArray

    def only(self, keep: BoolArray | IntArray) -> PhillyLog:
        """Some of the jobs, by mask or by index."""
        columns = {name: getattr(self, name)[keep] for name in ("submitted", "duration", "gpus", "tenant")}
        return PhillyLog(tenants=self.tenants, **columns)

    def of_usual_length(self) -> PhillyLog:
        """The jobs that Synergy keeps because of their duration."""
        return self.only((self.duration > SHORTEST_S) & (self.duration < LONGEST_S))

    def by_arrival(self) -> PhillyLog:
        """Sorted by time, the order of the log where times are equal; the first arrives at 0."""
        log = self.only(np.argsort(self.submitted, kind="stable"))
        submitted = log.submitted - log.submitted[0] if len(log.submitted) else log.submitted
        return PhillyLog(
            submitted=submitted, duration=log.duration, gpus=log.gpus, tenants=log.tenants, tenant=log.tenant
        )


@cache
def shipped() -> PhillyLog:
    """The log that comes with Rota."""
    lines = gzip.decompress(DATA.read_bytes()).decode().splitlines()
    rows = [line.split(",") for line in lines if not line.startswith("#")][1:]
    submitted, duration, gpus, tenant = zip(*rows, strict=True)
    arrivals = np.array(submitted, dtype=np.float64)
    return a_log(arrivals, np.array(duration, dtype=np.float64), gpus, tenant)


@cache
def synergy_gpus() -> list[int]:
    """GPU counts in the order of the log as Synergy keeps them.

    One it does not know becomes 1, beyond 16 the job goes.

    They follow from the log; a file of its own, one digit per job (the power of two), is read a
    hundred times faster.
    """
    powers = np.frombuffer(gzip.decompress(SYNERGY_GPUS.read_bytes()), dtype=np.uint8) - ord("0")
    return [int(g) for g in (1 << powers.astype(np.int64))]


def a_log(
    submitted: FloatArray,
    duration: FloatArray,
    gpus: Sequence[str] | Sequence[int] | IntArray,
    tenants: Sequence[str],
) -> PhillyLog:
    """A log from columns."""
    names, tenant = intern(tenants)
    return PhillyLog(
        submitted=submitted, duration=duration, gpus=np.array(gpus, dtype=np.int64), tenants=names, tenant=tenant
    )


def with_models(log: PhillyLog, profiles: str = "synergy") -> Jobs:
    """The jobs of a log by arrival, each with a model and the steps that fill its duration."""
    log = log.by_arrival()
    count = len(log.submitted)
    model = Mix().take(count)
    step_s = np.array([step_seconds(profiles, name) for name in MODELS])
    return Jobs(
        profiles=MODELS,
        profile=model,
        gpus=log.gpus,
        total_steps=log.duration / step_s[model],
        submitted=log.submitted,
        weight=np.ones(count),
        deadline=np.full(count, np.inf),
        duration=log.duration,
        slo=np.full(count, np.nan),
        tenants=log.tenants,
        tenant=log.tenant,
    )


def seconds(text: object) -> float | None:
    """A time such as `2017-10-09 07:01:55` as seconds, only good for differences.

    None if it is none.
    """
    if not isinstance(text, str) or len(text) != 19:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.toordinal() * 86400.0 + at.hour * 3600 + at.minute * 60 + at.second
