"""How late waits ended: counted in buckets, so that a run of any length costs the same memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

_SMALLEST_S = 1e-6
_GROWTH = 1.1
_BUCKETS = 200
"""From a microsecond to three minutes, each bucket 10 % wider than the one before."""

RELATIVE_TOLERANCE = 0.03
ABSOLUTE_TOLERANCE_S = 0.002


@dataclass(frozen=True)
class LatenessReport:
    """What a device or a job says about its pacing, in real seconds."""

    steps: int
    mean_s: float
    p95_s: float
    """Rounded up to a bucket, 10 % at most."""
    max_s: float
    lost_s: float
    """Time that was given up because a wait ended later than can be made good."""
    mean_step_s: float
    flagged: bool
    """Whether p95 is above 3 % of a step and above 2 ms, or more than 1 % of the time was lost."""


class Lateness:
    """Collects by how much waits overran their deadlines."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.steps = 0
        self._sum = 0.0
        self._max = 0.0
        self._planned = 0.0
        self.lost_s = 0.0

    def add(self, late_s: float, step_s: float) -> None:
        """A step of `step_s` real seconds ended `late_s` after its deadline."""
        late = max(0.0, late_s)
        index = 0 if late <= _SMALLEST_S else math.ceil(math.log(late / _SMALLEST_S, _GROWTH))
        self._counts[min(index, _BUCKETS - 1)] += 1
        self.steps += 1
        self._sum += late
        self._max = max(self._max, late)
        self._planned += step_s

    def quantile(self, part: float) -> float:
        """The lateness that `part` of all steps stayed within."""
        wanted = part * self.steps
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if seen >= wanted and count:
                return min(self._max, _SMALLEST_S * _GROWTH**index)
        return self._max

    def report(self) -> LatenessReport:
        """The figures so far."""
        steps = max(1, self.steps)
        mean_step_s = self._planned / steps
        p95_s = self.quantile(0.95)
        late = p95_s > max(RELATIVE_TOLERANCE * mean_step_s, ABSOLUTE_TOLERANCE_S)
        return LatenessReport(
            steps=self.steps,
            mean_s=self._sum / steps,
            p95_s=p95_s,
            max_s=self._max,
            lost_s=self.lost_s,
            mean_step_s=mean_step_s,
            flagged=late or self.lost_s > 0.01 * self._planned,
        )
