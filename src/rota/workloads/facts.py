"""What a trace is like, in a few numbers: how many jobs, when they arrive, what they ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.core.jobs import Jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFacts:
    """Numbers of a trace; None where the trace does not say enough."""

    jobs: int
    first_arrival_s: float
    last_arrival_s: float
    jobs_per_hour: float | None
    median_duration_s: float | None
    mean_duration_s: float | None
    jobs_without_duration: int
    gpu_hours: float | None
    offered_gpus: float | None
    """GPUs that would be busy on average if no job waited."""
    jobs_by_gpus: dict[str, int]
    jobs_by_profile: dict[str, int]
    tenants: int
    jobs_with_slo: int
    jobs_by_types: dict[str, int]
    """By the types on which they may run, `a100|h100`; empty if any will do for all."""
    jobs_by_recorded: dict[str, int]
    """By the type that their duration is about; empty if the trace names none."""


def trace_facts(jobs: Jobs) -> TraceFacts:
    """The numbers of jobs in order of arrival."""
    sizes, counts = np.unique(jobs.gpus, return_counts=True)
    by_profile = np.bincount(jobs.profile, minlength=len(jobs.profiles)).tolist()
    profiles = sorted(zip(jobs.profiles, by_profile, strict=True))
    span = float(jobs.submitted[-1] - jobs.submitted[0])
    known = ~np.isnan(jobs.duration)
    length = jobs.duration[known]
    busy_gpu_s = float((length * jobs.gpus[known]).sum())
    return TraceFacts(
        jobs=len(jobs),
        first_arrival_s=float(jobs.submitted[0]),
        last_arrival_s=float(jobs.submitted[-1]),
        jobs_per_hour=len(jobs) / span * 3600 if span > 0 else None,
        median_duration_s=float(np.median(length)) if len(length) else None,
        mean_duration_s=float(length.mean()) if len(length) else None,
        jobs_without_duration=int(np.count_nonzero(~known)),
        gpu_hours=busy_gpu_s / 3600 if len(length) else None,
        offered_gpus=busy_gpu_s / span if len(length) and span > 0 else None,
        jobs_by_gpus=dict(zip(map(str, sizes.tolist()), counts.tolist(), strict=True)),
        jobs_by_profile={name: count for name, count in profiles if count},
        tenants=len(np.unique(jobs.tenant)),
        jobs_with_slo=int(np.count_nonzero(~np.isnan(jobs.slo))),
        jobs_by_types=_counted(["|".join(types) for types in jobs.allowed_types()], "any"),
        jobs_by_recorded=_counted([] if jobs.gpu_types is None else jobs.gpu_types.recorded_names(), "not said"),
    )


def _counted(texts: Sequence[str], nothing: str) -> dict[str, int]:
    """How often each text is there; nothing if all are empty."""
    counts = Counter(texts)
    return {text or nothing: counts[text] for text in sorted(counts)} if any(counts) else {}
