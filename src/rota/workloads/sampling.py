"""Some of the jobs of a trace: a number, a part, or a window of time.

Jobs are drawn without replacement and keep their arrivals, so that days and nights, bursts and gaps
stay what they are and only the load falls. `keep_load` squeezes time by the part that is left, so
that as many jobs arrive per hour as before.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError
from rota.core.jobs import Jobs


def sample(
    jobs: Jobs,
    *,
    count: int | None = None,
    fraction: float | None = None,
    from_s: float = 0.0,
    to_s: float = np.inf,
    seed: int = 0,
    keep_load: bool = False,
) -> Jobs:
    """A number or a part of the jobs that arrive in [from_s, to_s); the first arrives at 0."""
    if count is not None and fraction is not None:
        raise ConfigError("give a number of jobs or a fraction, not both")
    since = jobs.submitted - (jobs.submitted[0] if len(jobs) else 0.0)
    inside = np.flatnonzero((since >= from_s) & (since < to_s))
    if not len(inside):
        raise ConfigError(
            f"no job arrives between {from_s / 3600:g} h and {to_s / 3600:g} h; the last one does "
            f"at {since[-1] / 3600:,.1f} h"
        )
    if fraction is not None:
        if not 0 < fraction <= 1:
            fix = "give a number above 0 and up to 1"
            raise ConfigError(f"fraction = {fraction!r} is not a part of the jobs; {fix}")
        count = max(1, round(fraction * len(inside)))
    if count is None:
        return shifted(jobs.take(inside))
    if not 1 <= count <= len(inside):
        fix = f"give 1 to {len(inside):,}, or use synthesize for more"
        raise ConfigError(f"{count:,} of {len(inside):,} jobs cannot be drawn; {fix}")
    chosen = np.sort(np.random.default_rng(seed).choice(inside, size=count, replace=False))
    return shifted(jobs.take(chosen), count / len(inside) if keep_load else 1.0)


def shifted(jobs: Jobs, squeeze: float = 1.0) -> Jobs:
    """The same jobs with the first arrival at 0 and time squeezed.

    Deadlines keep their distance.
    """
    if not len(jobs):
        return moved(jobs, jobs.submitted)
    return moved(jobs, (jobs.submitted - jobs.submitted[0]) * squeeze)


def moved(jobs: Jobs, submitted: FloatArray) -> Jobs:
    """The same jobs with other arrivals; deadlines move with them."""
    return replace(jobs, submitted=submitted, deadline=submitted + (jobs.deadline - jobs.submitted))
