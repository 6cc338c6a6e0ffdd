"""More jobs like those of a trace.

What is fitted, and what comes out:

- The rate of arrivals by hour of the day (24 values, jobs per second over the time that the trace
  covers of each hour) if the trace covers two days or more, one rate otherwise. The clock of the
  trace is taken to begin at midnight.
- Gaps, measured in expected arrivals rather than seconds, so that day and night are out of them.
  New gaps are drawn from these, scaled by a uniform factor of 1 +- jitter, and turned back into
  seconds: bursts stay, and so does the daily wave.
- Jobs as whole rows (model, GPUs, duration, weight, deadline, tenant, requests), drawn with
  replacement, `block` consecutive ones at a time. Durations and steps are scaled by a log-normal
  factor with median 1 and sigma `jitter`.

`load` multiplies the rate of arrivals. The same trace, settings and seed give the same jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.jobs import Jobs

DAY = 86400.0
HOUR = 3600.0
LEAST_DAYS = 2


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When jobs of a trace arrive."""

    rate: FloatArray
    """Jobs per second in each hour of the day."""
    gaps: FloatArray
    """Between consecutive jobs, in expected arrivals."""


def fit_arrivals(submitted: FloatArray) -> Arrivals:
    """Rates and gaps of a trace; `submitted` ascends."""
    since = submitted - submitted[0]
    span = float(since[-1])
    if len(since) < 2 or span <= 0:
        return Arrivals(np.zeros(24), np.zeros(1))
    if span < LEAST_DAYS * DAY:
        rate = np.full(24, (len(since) - 1) / span)
    else:
        hours = (since // HOUR).astype(np.int64) % 24
        seen = np.bincount(hours, minlength=24)
        full, rest = divmod(span, DAY)
        covered = full * HOUR + np.clip(rest - HOUR * np.arange(24), 0.0, HOUR)
        # An hour in which nothing ever arrived gets a thousandth of the mean rate, so that time can
        # pass it.
        rate = np.maximum(seen / covered, 1e-3 * len(since) / span)
    return Arrivals(rate, np.diff(_expected(since, rate)))


def synthesize(
    jobs: Jobs,
    *,
    count: int | None = None,
    hours: float | None = None,
    load: float = 1.0,
    seed: int = 0,
    jitter: float = 0.1,
    block: int = 1,
) -> Jobs:
    """A number of new jobs, or those of some hours."""
    _check(count, hours, load, jitter, block)
    fitted = fit_arrivals(jobs.submitted)
    if hours is not None and not fitted.rate.any():
        problem = "all jobs of this trace arrive at once, so that hours cannot be filled; give jobs"
        raise ConfigError(problem)
    arrivals, rows, lengths = np.random.default_rng(seed).spawn(3)
    wanted = count if count is not None else _enough(fitted, hours or 0.0, load)
    submitted = _arrivals(fitted, wanted, load, jitter, arrivals)
    if hours is not None:
        submitted = submitted[submitted < hours * HOUR]
    drawn = jobs.take(_rows(len(jobs), len(submitted), block, rows))
    many = len(submitted)
    factor = np.exp(lengths.normal(0.0, jitter, many)) if jitter else np.ones(many)
    duration = drawn.duration * factor
    deadline = submitted + drawn.slo * duration
    return replace(
        drawn,
        names=None,
        submitted=submitted,
        duration=duration,
        total_steps=drawn.total_steps * factor,
        deadline=np.where(np.isnan(deadline), np.inf, deadline),
    )


def _check(count: int | None, hours: float | None, load: float, jitter: float, block: int) -> None:
    if (count is None) == (hours is None):
        raise ConfigError("give either a number of jobs or a number of hours")
    for name, value, least in (("jobs", count, 1), ("block", block, 1)):
        if value is not None and value < least:
            raise ConfigError(f"{name} = {value!r}; give a whole number >= {least}")
    for name, number in (("hours", hours), ("load", load)):
        if number is not None and not 0 < number < np.inf:
            raise ConfigError(f"{name} = {number!r}; give a number > 0")
    if not 0 <= jitter < 1:
        raise ConfigError(f"jitter = {jitter!r}; give a number from 0 to below 1")


def _enough(fitted: Arrivals, hours: float, load: float) -> int:
    """More jobs than will arrive in these hours, but for a very unlikely draw."""
    expected = hours * HOUR * float(fitted.rate.max()) * load
    spread = float(fitted.gaps.std() / max(fitted.gaps.mean(), 1e-12))
    return int(expected + 10 * (1 + spread) * np.sqrt(expected + 1)) + 10


def _arrivals(
    fitted: Arrivals,
    count: int,
    load: float,
    jitter: float,
    random: np.random.Generator,
) -> FloatArray:
    if not fitted.rate.any():
        return np.zeros(count)
    drawn = random.choice(fitted.gaps, size=count - 1)
    gaps = drawn * random.uniform(1 - jitter, 1 + jitter, size=count - 1)
    return _seconds(np.concatenate(([0.0], np.cumsum(gaps))), fitted.rate * load)


def _rows(have: int, want: int, block: int, random: np.random.Generator) -> IntArray:
    starts = random.integers(0, have, size=-(-want // block))
    return np.asarray(((starts[:, None] + np.arange(block)) % have).ravel()[:want], dtype=np.int64)


def _expected(seconds: FloatArray, rate: FloatArray) -> FloatArray:
    """How many jobs are expected until then."""
    edges = np.concatenate(([0.0], np.cumsum(rate) * HOUR))
    days, rest = np.divmod(seconds, DAY)
    today = np.interp(rest, HOUR * np.arange(25), edges)
    return np.asarray(days * edges[-1] + today, dtype=np.float64)


def _seconds(expected: FloatArray, rate: FloatArray) -> FloatArray:
    """When this number of jobs is expected: the inverse of `_expected`."""
    edges = np.concatenate(([0.0], np.cumsum(rate) * HOUR))
    days, rest = np.divmod(expected, edges[-1])
    return np.asarray(days * DAY + np.interp(rest, edges, HOUR * np.arange(25)), dtype=np.float64)
