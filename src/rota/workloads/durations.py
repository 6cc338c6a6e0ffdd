"""Steps and duration determine one another through the speed on the type where the duration was recorded.

That type is the one which the trace names for the job. Where it names none, it is the reference type
of the catalogue: the one that the catalogue states, else its only one, else the only one of the
cluster.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError, ProfileMissing
from rota.core.gpu_types import NOT_SAID
from rota.core.jobs import RECORDED, Jobs
from rota.core.ports import Counted, Listed, Referring, Throughputs


def default_reference(throughputs: Throughputs, cluster_types: Sequence[str] = ()) -> str:
    """The type that durations are about if nobody says it. Raises ConfigError if that is not clear."""
    stated = throughputs.reference_type if isinstance(throughputs, Referring) else None
    if stated is not None:
        return stated
    if len(cluster_types) == 1:
        return cluster_types[0]
    types = ", ".join(throughputs.types) if isinstance(throughputs, Listed) else "several types"
    raise ConfigError(
        f"jobs have durations, but nobody says on which type: catalogue {throughputs.name!r} has {types} and states no "
        "reference; give --set-trace reference=TYPE, name the type of each job in the trace (column recorded_on of "
        "csv), or state `reference` in the catalogue file"
    )


def with_durations(
    jobs: Jobs,
    throughputs: Throughputs,
    reference_type: str | None = None,
    cluster_types: Sequence[str] = (),
) -> Jobs:
    """The same jobs with durations, steps and deadlines filled in where a trace leaves them out.

    duration = steps / speed where it was recorded (NaN where the job does not fit there), steps =
    duration * speed, deadline = arrival + slo * duration. `reference_type` is the type for all jobs,
    whatever the trace says. Raises ProfileMissing for a job that was not measured, and ConfigError
    for one that has only a duration and does not fit the type.
    """
    missing = np.isnan(jobs.duration) | np.isnan(jobs.total_steps)
    if not missing.any():
        return jobs
    speed = _speeds(jobs, missing, throughputs, reference_type, cluster_types)
    steps = np.where(np.isnan(jobs.total_steps), jobs.duration * speed, jobs.total_steps)
    if np.isnan(steps).any():
        raise _impossible(jobs, int(np.argmax(np.isnan(steps))))
    duration = np.where(np.isnan(jobs.duration), steps / speed, jobs.duration)
    deadline = jobs.submitted + jobs.slo * duration
    return replace(
        jobs,
        total_steps=steps,
        duration=duration,
        deadline=np.where(np.isnan(deadline), np.inf, deadline),
    )


def _speeds(
    jobs: Jobs,
    which: np.ndarray[tuple[int], np.dtype[np.bool_]],
    throughputs: Throughputs,
    reference: str | None,
    cluster_types: Sequence[str],
) -> FloatArray:
    """Steps/s where the duration was recorded; NaN for other jobs, and for those that do not fit there."""
    rows = np.flatnonzero(which).tolist()
    recorded = [NOT_SAID] * len(jobs) if jobs.gpu_types is None else jobs.gpu_types.recorded_names()
    keys = [(jobs.profiles[jobs.profile[row]], int(jobs.gpus[row]), reference or recorded[row]) for row in rows]
    speed_of: dict[tuple[str, int, str], float] = {}
    for profile, gpus, gpu_type in set(keys):
        at = gpu_type
        if not at:  # asked for only where it matters: a catalogue need not have one
            at = NOT_SAID if profile == RECORDED else default_reference(throughputs, cluster_types)
        speed_of[profile, gpus, gpu_type] = speed_on(throughputs, profile, gpus, at)
    speeds = np.array([speed_of[key] for key in keys])
    column = np.full(len(jobs), np.nan)
    column[rows] = np.where(speeds > 0, speeds, np.nan)
    return column


def speed_on(throughputs: Throughputs, profile: str, gpus: int, gpu_type: str) -> float:
    """Steps/s on a type with this number of GPUs, or with the next smaller one that was measured there.

    Raises ProfileMissing if there is none.
    """
    try:
        return throughputs.rate(profile, gpus, gpu_type)
    except ProfileMissing:
        counts = throughputs.gpu_counts(profile) if isinstance(throughputs, Counted) else ()
        for count in sorted((c for c in counts if c < gpus), reverse=True):
            with contextlib.suppress(ProfileMissing):
                return throughputs.rate(profile, count, gpu_type)
        raise


def _impossible(jobs: Jobs, job: int) -> ConfigError:
    where = NOT_SAID if jobs.gpu_types is None else jobs.gpu_types.recorded_names()[job]
    return ConfigError(
        f"job {job}: {jobs.profiles[jobs.profile[job]]!r} with {jobs.gpus[job]} GPUs has a duration but no steps, and "
        f"runs at 0 steps/s on {where or 'the reference type'}; give its steps or another reference type"
    )


def with_known_durations(jobs: Jobs, throughputs: Throughputs, reference_type: str | None = None) -> Jobs:
    """The same jobs with durations where they follow from steps and a measured speed.

    The others stay unknown.
    """
    duration = jobs.duration.copy()
    wanted = np.isnan(duration) & ~np.isnan(jobs.total_steps)
    pairs = zip(jobs.profile[wanted].tolist(), jobs.gpus[wanted].tolist(), strict=True)
    for profile, gpus in sorted(set(pairs)):
        with contextlib.suppress(ConfigError):
            at = reference_type or default_reference(throughputs)
            speed = throughputs.rate(jobs.profiles[profile], gpus, at)
            these = wanted & (jobs.profile == profile) & (jobs.gpus == gpus)
            duration[these] = jobs.total_steps[these] / speed if speed > 0 else np.nan
    return replace(jobs, duration=duration)
