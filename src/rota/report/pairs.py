"""Every two lines at every setting.

The ratio of their mean completion times, and whether it is more than noise.

With three seeds or more the interval is Student's t over paired seeds; with one it is the bootstrap
over jobs of `rota compare`, which says nothing about other seeds. Where a run of one of the two is
unstable there is no comparison: the seeds that came to an end are those that were lucky.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rota.analysis.comparison import FEWEST_RATIOS, Estimate, compare_jobs, mean_ratio
from rota.core.errors import ConfigError
from rota.experiments.execution import OK, UNSTABLE
from rota.report.points import SEED, Points
from rota.report.records import Record

MOST_PAIRS = 5000
MOST_BOOTSTRAPS = 150
"""Each takes some hundredths of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two lines at a setting; B over A."""

    setting: int
    a: int
    b: int
    runs: list[tuple[int, int]]
    """Runs with the same seed."""
    estimate: Estimate
    method: str
    """What the interval is from: seeds, jobs, or none."""

    def row(self) -> list[Any]:
        """For JSON."""
        e = self.estimate
        numbers = [None if v is None else round(v, 6) for v in (e.ratio, e.low, e.high)]
        runs = [list(pair) for pair in self.runs]
        return [self.setting, self.a, self.b, runs, *numbers, self.method]


def pairs(records: Sequence[Record], where: Points) -> tuple[list[Pair], str | None]:
    """All pairs that share a seed and have finished runs; and a remark if some were left out."""
    at = _comparable(records, where)
    compared: list[Pair] = []
    bootstraps_left = MOST_BOOTSTRAPS
    for setting in range(len(where.settings)):
        lines = [line for line in range(len(where.lines)) if (setting, line) in at]
        for a, b in itertools.combinations(lines, 2):
            if len(compared) >= MOST_PAIRS:
                return compared, f"differences are given for the first {MOST_PAIRS:,} pairs only"
            first = at[setting, a]
            second = at[setting, b]
            runs = [(first[seed], second[seed]) for seed in first if seed in second]
            if not runs:
                continue
            by_jobs = len(runs) == 1 and bootstraps_left > 0
            bootstraps_left -= by_jobs
            estimate, method = _estimate(records, runs, by_jobs=by_jobs)
            pair = Pair(setting=setting, a=a, b=b, runs=runs, estimate=estimate, method=method)
            compared.append(pair)
    return compared, None


def _comparable(records: Sequence[Record], where: Points) -> dict[tuple[int, int], dict[Any, int]]:
    """Finished runs by setting and line, then by seed; none of a line that is unstable at the setting."""
    places = list(zip(where.setting, where.line, strict=True))
    unstable = {place for place, record in zip(places, records, strict=True) if record.run.status == UNSTABLE}
    at: dict[tuple[int, int], dict[Any, int]] = {}
    for i, record in enumerate(records):
        has_mean = record.run.status == OK and (record.run.metrics.get("mean_jct_s") or 0) > 0
        if has_mean and places[i] not in unstable:
            at.setdefault(places[i], {})[where.axes[i].get(SEED)] = i
    return at


def _estimate(
    records: Sequence[Record],
    runs: Sequence[tuple[int, int]],
    *,
    by_jobs: bool,
) -> tuple[Estimate, str]:
    """The ratio with its interval, and what the interval is from."""
    if by_jobs:
        estimate = _jobs(records, *runs[0])
        if estimate is not None:
            return estimate, "none" if estimate.low is None else "jobs"
    return _seeds(records, runs), "seeds" if len(runs) >= FEWEST_RATIOS else "none"


def _seeds(records: Sequence[Record], runs: Sequence[tuple[int, int]]) -> Estimate:
    mean = [records[i].run.metrics["mean_jct_s"] for pair in runs for i in pair]
    return mean_ratio([b / a for a, b in zip(mean[::2], mean[1::2], strict=True)])


def _jobs(records: Sequence[Record], a: int, b: int) -> Estimate | None:
    first = records[a].jobs
    second = records[b].jobs
    if first is None or second is None:
        return None
    try:
        return compare_jobs(first, second).mean
    except ConfigError:  # not the same jobs: the means can be compared, the jobs cannot
        return None
