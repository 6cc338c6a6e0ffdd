"""Whether one run is better than another, job by job, and whether the difference is more than luck.

Two runs of the same jobs are paired by job. The ratio of their mean completion times (B over A)
gets a 95 % interval from a paired bootstrap in blocks of consecutive jobs (circular block
bootstrap, Politis and Romano 1992): neighbours in a queue wait for the same reasons, so jobs drawn
one by one would promise too much. Few blocks make a percentile interval too short; its percentiles
are moved out to what Student's t would need (Hesterberg 2015, expanded percentiles).

Several runs of each kind are paired by what they share (seed, load), and the interval is Student's
t over the logarithms of their ratios.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota.analysis import student
from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.tolerance import TOLERANCE

CONFIDENCE = 0.95
RESAMPLES = 2000
FEWEST_JOBS = 20
"""Fewer jobs than that make fewer than five blocks, and no interval."""
FEWEST_RATIOS = 3
"""Fewer repetitions than that have an interval in name only: with two, Student's t reaches 13 standard errors."""
SHOWN = 10
"""How many of those that gained and lost most are named."""
SAME_S = 1e-6
"""Times closer than that, or by TOLERANCE of their size, are equal."""

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The ratio of B to A with its interval.

    No interval (None) where there is too little to judge by.
    """

    ratio: float
    low: float | None = None
    high: float | None = None

    @property
    def beyond_noise(self) -> bool | None:
        """Whether the interval excludes 1; None without an interval."""
        return None if self.low is None or self.high is None else not self.low <= 1.0 <= self.high

    def verdict(self, a: str = "A", b: str = "B") -> str:
        """One sentence. "x % faster" means that the time is x % shorter than that of the other."""
        if self.ratio == 1.0 and self.low == self.high == 1.0:
            return "no difference"
        percent = 100.0 * (1.0 - min(self.ratio, 1.0 / self.ratio))
        digits = 0 if percent >= 10 else 1
        faster = f"{b if self.ratio < 1.0 else a} is {percent:.{digits}f} % faster"
        if self.beyond_noise is None:
            return f"{faster}, but there is too little to tell it from noise"
        return f"{faster}, beyond noise" if self.beyond_noise else "no difference beyond noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionTimes:
    """Completion times of one run in four numbers."""

    mean_s: float
    median_s: float
    p99_s: float
    longest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One job in both runs."""

    job_id: int
    a_s: float
    b_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs of the same jobs. A job gains when it takes less time in B."""

    jobs: int
    gained: int
    lost: int
    equal: int
    only_a: int
    """Jobs that count (measured and finished) in A but not in B; they are not compared."""
    only_b: int
    other_work: int
    """Compared jobs whose model or number of steps differs between the runs."""
    a: CompletionTimes
    b: CompletionTimes
    mean: Estimate
    block: int
    most_gained: tuple[Change, ...]
    most_lost: tuple[Change, ...]


def compare_jobs(
    a: Columns,
    b: Columns,
    *,
    names: tuple[str, str] = ("A", "B"),
    seed: int = 0,
) -> Comparison:
    """Compare two runs given as the columns of `Result.jobs`.

    job_id, arrival_s and jct_s are needed.

    Raises ConfigError when the runs are not of the same jobs.
    """
    rows_a, rows_b = _common(a["job_id"], b["job_id"], names)
    _same_workload(a, b, (rows_a, rows_b), names)
    counted_a = _counted(a)
    counted_b = _counted(b)
    both = counted_a[rows_a] & counted_b[rows_b]
    rows_a = rows_a[both]
    rows_b = rows_b[both]
    if not len(rows_a):
        fix = "compare runs with the same --measure"
        what = f"no job finished and was measured in both {names[0]} and {names[1]}"
        raise ConfigError(f"{what}; {fix}")
    in_order = np.lexsort((a["job_id"][rows_a], a["arrival_s"][rows_a]))
    rows_a = rows_a[in_order]
    rows_b = rows_b[in_order]
    time_a = np.asarray(a["jct_s"], dtype=np.float64)[rows_a]
    time_b = np.asarray(b["jct_s"], dtype=np.float64)[rows_b]
    for name, time in zip(names, (time_a, time_b), strict=True):
        if not time.any():
            raise ConfigError(f"{name}: every job took 0 s; there is nothing to compare")
    equal = np.isclose(time_a, time_b, rtol=TOLERANCE, atol=SAME_S)
    block = block_length(len(time_a))
    return Comparison(
        jobs=len(time_a),
        gained=int(np.count_nonzero((time_b < time_a) & ~equal)),
        lost=int(np.count_nonzero((time_b > time_a) & ~equal)),
        equal=int(np.count_nonzero(equal)),
        only_a=int(np.count_nonzero(counted_a)) - len(time_a),
        only_b=int(np.count_nonzero(counted_b)) - len(time_b),
        other_work=_other_work(a, b, (rows_a, rows_b)),
        a=_times(time_a),
        b=_times(time_b),
        mean=ratio_of_means(time_a, np.where(equal, time_a, time_b), block=block, seed=seed),
        block=block,
        most_gained=_most(a["job_id"][rows_a], time_a, time_b, (time_b < time_a) & ~equal),
        most_lost=_most(a["job_id"][rows_a], time_a, time_b, (time_b > time_a) & ~equal),
    )


def block_length(jobs: int) -> int:
    """The square root: blocks grow with the run, and so does their number."""
    return max(1, round(math.sqrt(jobs)))


def ratio_of_means(a: FloatArray, b: FloatArray, *, block: int, seed: int = 0) -> Estimate:
    """Mean of b over mean of a; the interval draws blocks of consecutive pairs with replacement."""
    ratio = float(b.mean() / a.mean())
    if len(a) < FEWEST_JOBS:
        return Estimate(ratio=ratio)
    whole, rest = divmod(len(a), block)
    blocks = whole + (rest > 0)
    starts = np.random.default_rng(seed).integers(len(a), size=(RESAMPLES, blocks))
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = _drawn_sums(b, starts, block, rest) / _drawn_sums(a, starts, block, rest)
    drawn = np.where(np.isnan(drawn), 1.0, drawn)
    reach = student.quantile(CONFIDENCE, blocks - 1) * math.sqrt(blocks / (blocks - 1))
    tail = 0.5 * math.erfc(reach / math.sqrt(2.0))
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    return Estimate(ratio=ratio, low=float(low), high=float(high))


def mean_ratio(ratios: Sequence[float]) -> Estimate:
    """Geometric mean of independent ratios, with Student's t over their logarithms.

    One or two have no interval.
    """
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    middle = float(logs.mean())
    if len(logs) < FEWEST_RATIOS:
        return Estimate(ratio=math.exp(middle))
    quantile = student.quantile(CONFIDENCE, len(logs) - 1)
    half = quantile * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return Estimate(
        ratio=math.exp(middle),
        low=math.exp(middle - half),
        high=math.exp(middle + half),
    )


def _drawn_sums(values: FloatArray, starts: IntArray, block: int, rest: int) -> FloatArray:
    """[R] sums of the drawn blocks.

    The end of the run is followed by its beginning, the last block is cut to fit.
    """
    total = np.concatenate(([0.0], np.cumsum(np.concatenate((values, values[:block])))))
    first = np.arange(len(values))
    of_block = total[first + block] - total[first]
    if not rest:
        return np.asarray(of_block[starts].sum(axis=1))
    of_rest = total[first + rest] - total[first]
    return np.asarray(of_block[starts[:, :-1]].sum(axis=1) + of_rest[starts[:, -1]])


def _common(a: IntArray, b: IntArray, names: tuple[str, str]) -> tuple[IntArray, IntArray]:
    """Rows of both with the same job."""
    for name, ids in zip(names, (a, b), strict=True):
        seen, times = np.unique(ids, return_counts=True)
        if (times > 1).any():
            fix = "give the jobs of one run"
            raise ConfigError(f"{name}: job {seen[times > 1][0]} is there twice; {fix}")
    common, rows_a, rows_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    if not len(common):
        fix = "compare runs of the same workload"
        raise ConfigError(f"{names[0]} and {names[1]} have no job in common; {fix}")
    return rows_a, rows_b


def _same_workload(
    a: Columns,
    b: Columns,
    rows: tuple[IntArray, IntArray],
    names: tuple[str, str],
) -> None:
    """The same job must arrive at the same time and ask for as many GPUs in both runs."""
    for column, unit in (("arrival_s", "arrives at {:g} s"), ("gpus", "asks for {:g} GPUs")):
        if column not in a or column not in b:
            continue
        of_a = a[column][rows[0]]
        of_b = b[column][rows[1]]
        differs = ~np.isclose(of_a, of_b, rtol=TOLERANCE, atol=SAME_S)
        if differs.any():
            i = int(differs.argmax())
            raise ConfigError(
                f"the workloads differ: job {a['job_id'][rows[0][i]]} {unit.format(of_a[i])} in "
                f"{names[0]} and {unit.format(of_b[i])} in {names[1]}; compare runs with the same "
                "jobs and the same seed"
            )


def _other_work(a: Columns, b: Columns, rows: tuple[IntArray, IntArray]) -> int:
    differs = np.zeros(len(rows[0]), dtype=np.bool_)
    if "profile" in a and "profile" in b:
        differs |= np.asarray(a["profile"][rows[0]] != b["profile"][rows[1]], dtype=np.bool_)
    if "steps" in a and "steps" in b:
        steps_a = a["steps"][rows[0]]
        steps_b = b["steps"][rows[1]]
        differs |= ~np.isclose(steps_a, steps_b, rtol=TOLERANCE, equal_nan=True)
    return int(np.count_nonzero(differs))


def _counted(jobs: Columns) -> BoolArray:
    finished: BoolArray = np.isfinite(jobs["jct_s"])
    return finished & jobs["measured"].astype(np.bool_) if "measured" in jobs else finished


def _times(values: FloatArray) -> CompletionTimes:
    median, p99 = np.percentile(values, [50, 99])
    mean_s = float(values.mean())
    return CompletionTimes(
        mean_s=mean_s,
        median_s=float(median),
        p99_s=float(p99),
        longest_s=float(values.max()),
    )


def _most(ids: IntArray, a: FloatArray, b: FloatArray, chosen: BoolArray) -> tuple[Change, ...]:
    """The chosen jobs with the largest change in seconds; ties by id."""
    rows = np.flatnonzero(chosen)
    order = rows[np.lexsort((ids[rows], -np.abs(a[rows] - b[rows])))][:SHOWN]
    return tuple(Change(job_id=int(ids[i]), a_s=float(a[i]), b_s=float(b[i])) for i in order)
