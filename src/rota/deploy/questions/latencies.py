"""How much time passes between what is decided and what happens, as a journal shows it.

Two delays of every attempt that no profile knows: from the end of one job to the order to start the next (the
scheduler hears of it, decides and commits), and from that order until the agent has begun, together with the time until
the end is heard of. Both are small against a round of a real cluster; on an emulated one whose clock runs fast they add
up over the jobs that run one after the other.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_REMEMBERED = 64
"""Attempts of which the delays are kept; the median of them counts."""
_FEWEST = 4
"""With fewer than that, nothing is said."""


def _recent() -> deque[float]:
    return deque(maxlen=_REMEMBERED)


@dataclass(slots=True, kw_only=True)
class Latencies:
    """Delays of the last attempts, engine seconds."""

    _started: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    """(when, steps from which it goes on, steps per second) of attempts that run, by job."""
    _last_end: float = -1.0
    _handing_over: deque[float] = field(default_factory=_recent)
    _around: deque[float] = field(default_factory=_recent)

    @property
    def hand_over_s(self) -> float:
        """From the end of a job to the order to start the next."""
        return _usual(self._handing_over)

    @property
    def around_s(self) -> float:
        """That an emulated job holds its GPUs beyond the time of its steps."""
        return _usual(self._around)

    def observe(self, fields: Mapping[str, Any], emulated_steps: Callable[[int], int]) -> None:
        """Take an event of the journal into account; `emulated_steps` are those of an emulated job, else 0."""
        kind = fields["event"]
        if kind == "AttemptStarted":
            self._start(fields)
        elif kind == "AttemptResized":
            self._started.pop(fields["job"], None)
        elif kind == "AttemptEnded":
            self._end(fields, emulated_steps)

    def _start(self, fields: Mapping[str, Any]) -> None:
        at = float(fields["at"])
        self._started[fields["job"]] = (at, float(fields["resume_step"]), float(fields["rate"]))
        if 0 <= self._last_end <= at:
            self._handing_over.append(at - self._last_end)
            self._last_end = -1.0

    def _end(self, fields: Mapping[str, Any], emulated_steps: Callable[[int], int]) -> None:
        at = float(fields["at"])
        self._last_end = at
        began = self._started.pop(fields["job"], None)
        steps = emulated_steps(fields["job"])
        if began is None or fields["outcome"] != "completed" or steps == 0 or began[2] <= 0:
            return
        self._around.append(max(0.0, at - began[0] - (steps - began[1]) / began[2]))


def _usual(delays: deque[float]) -> float:
    return statistics.median(delays) if len(delays) >= _FEWEST else 0.0
