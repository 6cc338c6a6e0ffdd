"""Steps and duration determine one another through the speed on a reference type."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from rota.core.errors import ConfigError, ProfileMissing, UnknownName
from rota.core.jobs import Jobs
from rota.core.ports import Throughputs


def with_durations(jobs: Jobs, throughputs: Throughputs, reference_type: str = "v100") -> Jobs:
    """The same jobs with durations, steps and deadlines filled in where a trace leaves them out.

    duration = steps / speed on the reference type (NaN where the job does not fit there), steps =
    duration * speed, deadline = arrival + slo * duration. Raises ProfileMissing for a job that was
    not measured, and ConfigError for one that has only a duration and does not fit the reference
    type.
    """
    missing = np.isnan(jobs.duration) | np.isnan(jobs.total_steps)
    if not missing.any():
        return jobs
    keys = np.stack((jobs.profile[missing], jobs.gpus[missing]))
    combinations, which = np.unique(keys, axis=1, return_inverse=True)
    names = jobs.profiles
    rates = [throughputs.rate(names[p], int(g), reference_type) for p, g in combinations.T]
    speeds = np.array(rates)
    speed = np.full(len(jobs), np.nan)
    speed[missing] = np.where(speeds > 0, speeds, np.nan)[which.ravel()]
    steps = np.where(np.isnan(jobs.total_steps), jobs.duration * speed, jobs.total_steps)
    if np.isnan(steps).any():
        job = int(np.argmax(np.isnan(steps)))
        raise ConfigError(
            f"job {job}: {jobs.profiles[jobs.profile[job]]!r} with {jobs.gpus[job]} GPUs has a "
            f"duration but no steps, and runs at 0 steps/s on {reference_type}; give its steps or "
            "another reference type"
        )
    duration = np.where(np.isnan(jobs.duration), steps / speed, jobs.duration)
    deadline = jobs.submitted + jobs.slo * duration
    return replace(
        jobs,
        total_steps=steps,
        duration=duration,
        deadline=np.where(np.isnan(deadline), np.inf, deadline),
    )


def with_known_durations(
    jobs: Jobs,
    throughputs: Throughputs,
    reference_type: str = "v100",
) -> Jobs:
    """The same jobs with durations where they follow from steps and a measured speed.

    The others stay unknown.
    """
    duration = jobs.duration.copy()
    wanted = np.isnan(duration) & ~np.isnan(jobs.total_steps)
    pairs = zip(jobs.profile[wanted].tolist(), jobs.gpus[wanted].tolist(), strict=True)
    for profile, gpus in sorted(set(pairs)):
        with contextlib.suppress(ProfileMissing, UnknownName):
            speed = throughputs.rate(jobs.profiles[profile], gpus, reference_type)
            these = wanted & (jobs.profile == profile) & (jobs.gpus == gpus)
            duration[these] = jobs.total_steps[these] / speed if speed > 0 else np.nan
    return replace(jobs, duration=duration)
