"""Where the warm-up of a run ends.

Before it, numbers are about a cluster that was empty at the beginning.

What is looked at is how many jobs every arriving job found in the system. MSER-5 (White, 1997) cuts
off the beginning: of the means of five arrivals each, it leaves out as many as make the standard
error of the mean of the others smallest,

    d = argmin over d of  sum of (y_i - mean of y_d..y_k)^2 over i >= d, divided by (k - d)^2.

If d falls into the second half there is no steady state. Nor is there one if the two halves of what
is left differ by more than three standard errors (from twenty stretches), as they do while a queue
grows.

A workload that ends is run to its end. Jobs that arrive within the 90th percentile of completion
times before the last arrival are left out too, at most half of what was steady: nobody comes after
them to compete. A workload without an end is looked at after 1,000 arrivals, and each time these
have doubled, up to 8,000; the first look that finds a steady state decides, and the run ends when
the jobs that it chose are done. If none does, the second half counts. A cluster that is asked for
more than it can do (overload.py) ends such a run early.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rota.analysis.job_table import FINISHED, REJECTED, JobTable
from rota.core.arrays import FloatArray

AUTO = "auto"
BATCH = 5
STRETCHES = 20
FEWEST = 2 * STRETCHES * BATCH
"""Arrivals below which nothing is said."""
FIRST_LOOK = 1_000
LAST_LOOK = 8_000
LATER = 1.1
"""A look waits for this multiple of the arrivals that it looks at, so that all that ended till then
is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyWindow:
    """Jobs that count, a half-open range of ids."""

    first: int
    last: int
    steady: bool
    why: str
    """One sentence for people."""

    @property
    def range(self) -> tuple[int, int]:
        """As `--measure` has it."""
        return self.first, self.last


def mser(values: FloatArray, batch: int = BATCH) -> int | None:
    """How many values at the beginning are warm-up.

    None if that would be more than half of them.
    """
    count = len(values) // batch
    if count < 4:
        return None
    means = values[: count * batch].reshape(count, batch).mean(axis=1)
    means = means - means.mean()  # so that squares lose nothing
    left = np.arange(count, 0, -1)
    total = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(means[::-1] ** 2)[::-1]
    rest = np.maximum(squares - total**2 / left, 1e-12 * squares[0])  # below that it is rounding
    error = rest / left**2.0
    # The last few differ little from each other by chance alone.
    cut = int(np.argmin(error[: count - 2]))
    return None if cut > count // 2 else cut * batch


def drift(values: FloatArray) -> float:
    """Difference of the means of both halves, in standard errors."""
    ends = np.linspace(0, len(values), STRETCHES + 1).astype(np.int64)
    means = np.add.reduceat(values, ends[:-1]) / np.diff(ends)
    half = STRETCHES // 2
    spread = math.sqrt((means[:half].var(ddof=1) + means[half:].var(ddof=1)) / half)
    step = abs(float(means[half:].mean() - means[:half].mean()))
    return step / spread if spread > 0 else (math.inf if step > 0 else 0.0)


def present(table: JobTable, arrivals: int) -> FloatArray:
    """[N] number of jobs that each of the first N jobs met in the system."""
    there = table.ints("status")[:arrivals] != REJECTED
    arrival = table.floats("arrival_s")[:arrivals]
    left = table.floats("left_s")[:arrivals]
    before = np.concatenate([[0], np.cumsum(there)[:-1]])
    gone = np.searchsorted(np.sort(left[there & np.isfinite(left)]), arrival, side="right")
    return (before - gone).astype(np.float64)


def at_the_end(table: JobTable) -> SteadyWindow:
    """The jobs that count of a workload that came to its end."""
    count = len(table)
    if count < FEWEST:
        why = f"{count} jobs are too few to tell a warm-up ({FEWEST} are the fewest): all of them count"
        return SteadyWindow(first=0, last=count, steady=False, why=why)
    if float(np.ptp(table.floats("arrival_s"))) < 1.0:
        why = f"all {count} jobs arrive at once, so there is no steady state to look for: all of them count"
        return SteadyWindow(first=0, last=count, steady=False, why=why)
    start, steady = _cut(present(table, count))
    arrival = table.floats("arrival_s")
    jct = (table.floats("finish_s") - arrival)[start:]
    jct = jct[table.ints("status")[start:] == FINISHED]
    tail = float(np.percentile(jct, 90)) if len(jct) else 0.0
    last = int(np.searchsorted(arrival, arrival[-1] - tail, side="right"))
    return _window(table, start, max(last, start + (count - start + 1) // 2), steady=steady)


def on_the_way(table: JobTable) -> SteadyWindow | None:
    """The jobs that count of a workload without an end; None as long as more have to arrive."""
    look = FIRST_LOOK
    while len(table) >= LATER * look:
        start, steady = _cut(present(table, look))
        if steady or look >= LAST_LOOK:
            return _window(table, start, look, steady=steady)
        look *= 2
    return None


def next_look(arrivals: int) -> int:
    """How many arrivals it takes until `on_the_way` may say something new."""
    look = FIRST_LOOK
    while LATER * look <= arrivals:
        look *= 2
    return math.ceil(LATER * look)


def _cut(values: FloatArray) -> tuple[int, bool]:
    """Where to begin, and whether the rest is steady."""
    cut = mser(values)
    if cut is None:
        return len(values) // 2, False
    if drift(values[cut:]) <= 3.0:
        return cut, True
    return len(values) // 2, False


def _window(table: JobTable, first: int, last: int, *, steady: bool) -> SteadyWindow:
    hours = float(table.floats("arrival_s")[first]) / 3600.0
    if steady:
        why = f"measured jobs {first}:{last} of {len(table)}: the warm-up ended after {hours:,.1f} h"
    else:
        why = (
            "no steady state was reached, so the numbers depend on the length of the run: "
            f"measured jobs {first}:{last} of {len(table)}; lower the load, or give more jobs"
        )
    return SteadyWindow(first=first, last=last, steady=steady, why=why)
