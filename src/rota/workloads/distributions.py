"""How the jobs of a trace are distributed.

Counts by time, length, size, tenant and model, ready to be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.jobs import Jobs

HOUR = 3600.0
MOST_BINS = 24
"""Bars of a histogram over time: as many whole hours are taken together as it needs."""
LONGEST_LIST = 12
"""Tenants and models that are named; the rest is one bar."""
LENGTHS = (0.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 10800.0, 36000.0, 86400.0, 259200.0, 864000.0, np.inf)
"""Edges of durations in seconds, about half a power of ten apart."""
LENGTH_NAMES: tuple[str, ...] = (
    "< 1 min", "1-3 min", "3-10 min", "10-30 min", "30-60 min", "1-3 h", "3-10 h", "10-24 h", "1-3 days", "3-10 days",
    "> 10 days",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts with names."""

    title: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]


def histograms(jobs: Jobs) -> dict[str, Histogram]:
    """All histograms of a trace; that of durations is missing if none is known."""
    histogram_by_name = {
        "arrivals": arrivals(jobs.submitted),
        "hour_of_day": hour_of_day(jobs.submitted),
        "durations": durations(jobs.duration),
        "gpus": gpu_counts(jobs.gpus),
        "tenants": by_name("Jobs by tenant", jobs.tenants, jobs.tenant),
        "models": by_name("Jobs by model", jobs.profiles, jobs.profile),
    }
    return {name: histogram for name, histogram in histogram_by_name.items() if histogram.counts}


def arrivals(submitted: FloatArray) -> Histogram:
    """Jobs by hour since the first, several hours together if the trace is long."""
    since = submitted - submitted[0]
    hours = int(since[-1] // HOUR) + 1
    width = -(-hours // MOST_BINS)
    counts = np.bincount((since // (HOUR * width)).astype(np.int64), minlength=-(-hours // width))
    labels = tuple(f"{n * width}-{(n + 1) * width} h" for n in range(len(counts)))
    each = "hour" if width == 1 else f"{width} hours"
    return Histogram(f"Arrivals per {each} since the first", labels, tuple(counts.tolist()))


def hour_of_day(submitted: FloatArray) -> Histogram:
    """Jobs by hour of the day, the first arriving at midnight.

    Nothing for a trace shorter than two days.
    """
    since = submitted - submitted[0]
    if since[-1] < 48 * HOUR:
        return Histogram("Arrivals by hour of the day", (), ())
    counts = np.bincount((since // HOUR).astype(np.int64) % 24, minlength=24)
    labels = tuple(f"{n:02}:00" for n in range(24))
    return Histogram("Arrivals by hour of the day, first job at 0", labels, tuple(counts.tolist()))


def durations(duration: FloatArray) -> Histogram:
    """Jobs by duration in steps of about half a power of ten.

    Empty ones at either end are left out.
    """
    known = duration[~np.isnan(duration)]
    if not len(known):
        return Histogram("Durations", (), ())
    counts = np.histogram(known, bins=np.array(LENGTHS))[0].tolist()
    filled = [i for i, count in enumerate(counts) if count]
    kept = slice(filled[0], filled[-1] + 1)
    return Histogram("Durations", LENGTH_NAMES[kept], tuple(counts[kept]))


def gpu_counts(gpus: IntArray) -> Histogram:
    """Jobs by number of GPUs; the rarest together if there are many."""
    sizes, counts = np.unique(gpus, return_counts=True)
    if len(sizes) <= MOST_BINS:
        return Histogram("GPUs per job", tuple(map(str, sizes.tolist())), tuple(counts.tolist()))
    powers = np.floor(np.log2(sizes)).astype(np.int64)
    totals = np.bincount(powers, weights=counts).astype(np.int64)
    labels = tuple(f"{2**p}" if p == 0 else f"{2**p}-{2 ** (p + 1) - 1}" for p in range(len(totals)))
    return Histogram("GPUs per job", labels, tuple(totals.tolist()))


def by_name(title: str, names: Sequence[str], index: IntArray) -> Histogram:
    """Jobs by a text, most frequent first."""
    counts = np.bincount(index, minlength=len(names)).tolist()
    pairs = zip(names, counts, strict=True)
    ranked = sorted(((c, n) for n, c in pairs if c), key=lambda pair: (-pair[0], pair[1]))
    shown = ranked[:LONGEST_LIST]
    rest = ranked[LONGEST_LIST:]
    if len(rest) == 1:
        shown = ranked
        rest = []
    labels = [n for _, n in shown]
    values = [c for c, _ in shown]
    if rest:
        labels.append(f"({len(rest)} others)")
        values.append(sum(c for c, _ in rest))
    return Histogram(title, tuple(labels), tuple(values))
