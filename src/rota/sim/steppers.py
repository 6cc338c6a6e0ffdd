"""How far tasks get in a round: four rules behind one method.

`Grid` (in a module of its own) is the sane one: rounds start at multiples of the round's length and progress is rate x
time. `SlowestTask` (likewise) is the published Gavel simulator: whole steps, and a round lasts until its slowest task
is through. `Whole` is the published Synergy simulator: whole steps on the grid, and jobs end with their round. `Fluid`
has no rounds: it goes from one arrival or completion to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from rota import kernels
from rota.core.arrays import FloatArray, IntArray, level, smallest, zeros
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.sim.tasks import Tasks

NO_IDS: IntArray = np.zeros(0, dtype=np.int64)
NO_TIMES: FloatArray = np.zeros(0)
NEVER_S = 1e15
"""Seconds that no simulation reaches; rounds up to here are still whole numbers."""


@dataclass(slots=True)
class Stretch:
    """What tasks did from `start` to `end` (seconds).

    `steps`, `partner_steps` and `seconds` have an entry per task; `finished` and `lost` are ids of jobs. One is made in
    every round: by position, which takes half the time of keywords.
    """

    start: float
    end: float
    rounds: int
    steps: FloatArray
    partner_steps: FloatArray
    seconds: FloatArray
    finished: IntArray
    finished_at: FloatArray
    lost: IntArray
    each: FloatArray | None = None
    """[rounds, K] seconds round by round."""
    alone: FloatArray | None = None
    """[K] of `seconds`, those after one member of a pair had ended: positive if the first went on, negative if the
    second did; None if no pair lost a member."""
    cut: bool = False
    """Whether time was up before the decision point that tasks were to run to."""


class Heed(NamedTuple):
    """What a stretch stops for in the middle of a round."""

    arrival: float = math.inf
    """When the next job arrives."""
    free_gpus: bool = False
    """Whether GPUs are free: a job that arrives may start at once."""
    jobs_wait: bool = False
    """Whether jobs wait: they may start at once when one ends."""


NOTHING = Heed()


class Stepper(Protocol):
    """Moves the tasks of a plan forward."""

    exact: bool
    """Whether a stretch can be cut at any second, and gone on with later."""

    def run(
        self, tasks: Tasks, now: float, stop: float, last_end: float, limit: float = math.inf, heed: Heed = NOTHING
    ) -> Stretch:
        """Run to the first decision point at or after `stop`, or to one at which a job is through.

        At least to the next one: `stop` may lie in the past. At `limit` time is up, wherever the tasks are. A stretch
        that can be cut anywhere ends earlier for what there is to heed.
        """

    def starts_at(self, now: float) -> bool:
        """Whether a round begins then."""

    def wake(self, arrival: float) -> float:
        """When an idle cluster looks at a job that arrives at `arrival`."""

    def pace(self, tasks: Tasks) -> FloatArray | None:
        """Steps that tasks do in every round from now on; None if rounds are not alike."""


class Whole:
    """Rounds on a fixed grid, whole steps; a job that is through ends with its round (the Synergy artifact)."""

    exact = False

    def __init__(self, rules: Rules, offset: float = 0.0) -> None:
        self._round_s = rules.round_s
        self._offset = offset

    def wake(self, arrival: float) -> float:
        """The next round."""
        return next_round(arrival, self._round_s, self._offset)

    def starts_at(self, now: float) -> bool:
        """Nothing happens between two rounds."""
        del now
        return True

    def pace(self, tasks: Tasks) -> FloatArray:
        """Whole steps, at least one."""
        if tasks.chunk is None:
            tasks.chunk = np.maximum(np.floor(self._round_s / (1.0 / tasks.pace)), 1.0)
        return tasks.chunk

    def run(
        self,
        tasks: Tasks,
        now: float,
        stop: float,
        last_end: float,  # noqa: ARG002
        limit: float = math.inf,  # noqa: ARG002 - rounds are whole
        heed: Heed = NOTHING,  # noqa: ARG002 - likewise
    ) -> Stretch:
        """As many rounds as pass before `stop` or until a job is through."""
        chunk = self.pace(tasks)
        left = tasks.left
        pairs = tasks.paired
        placement = tasks.placement
        rounds = 1
        if stop > now:
            rounds = 1 if len(pairs) else math.ceil(smallest(left / chunk))
            rounds = max(1, min(rounds, math.ceil((min(stop, NEVER_S) - now) / self._round_s - TOLERANCE)))
        end = now + rounds * self._round_s
        steps = np.empty(len(left))
        finished = placement.first[left <= 0] if kernels.whole(chunk, left, steps, rounds) else NO_IDS
        partner_steps = zeros(len(steps))
        if len(pairs):
            partner_steps = np.zeros(len(steps))
            partner_chunk = np.maximum(np.floor(self._round_s * tasks.partner_pace[pairs]), 1.0)
            partner_steps[pairs] = np.minimum(partner_chunk * rounds, tasks.partner_left[pairs])
            tasks.partner_left = tasks.partner_left - partner_steps
            finished = np.concatenate([finished, placement.second[pairs[tasks.partner_left[pairs] <= 0]]])
        seconds = level(len(steps), rounds * self._round_s)
        finished_at = level(len(finished), end) if len(finished) else NO_TIMES
        return Stretch(now, end, rounds, steps, partner_steps, seconds, finished, finished_at, NO_IDS)


class Fluid:
    """No rounds: from one arrival or completion to the next."""

    exact = True

    def wake(self, arrival: float) -> float:
        """At once."""
        return arrival

    def starts_at(self, now: float) -> bool:
        """Any moment will do."""
        del now
        return True

    def pace(self, tasks: Tasks) -> None:
        """There are no rounds."""

    def run(
        self,
        tasks: Tasks,
        now: float,
        stop: float,
        last_end: float,  # noqa: ARG002
        limit: float = math.inf,
        heed: Heed = NOTHING,  # noqa: ARG002 - it stops for everything anyway
    ) -> Stretch:
        """Every task runs its fraction of the time; that a pair does not fit is noticed at once."""
        placement = tasks.placement
        fraction = placement.fraction if placement.fraction is not None else np.ones(len(placement))
        ids = np.concatenate([placement.first, placement.second[tasks.paired]])
        speed = np.concatenate([tasks.pace * fraction, (tasks.partner_pace * fraction)[tasks.paired]])
        left = np.concatenate([tasks.left, tasks.partner_left[tasks.paired]])
        jobs, first_row, member = np.unique(ids, return_index=True, return_inverse=True)
        total = np.bincount(member, weights=speed)
        need = left[first_row] / total
        natural_end = min(stop, now + float(need.min()))
        end = min(natural_end, limit)
        span = end - now
        # What is left may be too little to move the clock; waiting for it would never end.
        through = (need <= span * (1 + TOLERANCE)) | (now + need <= end)
        done = np.where(through, left[first_row], total * span)
        part = speed / total[member]
        steps = part * done[member]
        partner_steps = np.zeros(len(placement))
        partner_steps[tasks.paired] = steps[len(placement) :]
        return Stretch(
            start=now,
            end=end,
            rounds=0 if end < natural_end else 1,
            steps=steps[: len(placement)],
            partner_steps=partner_steps,
            seconds=fraction * span,
            finished=jobs[through],
            finished_at=np.minimum(now + need[through], end),
            lost=NO_IDS,
            cut=end < natural_end,
        )


def next_round(arrival: float, round_s: float, offset: float) -> float:
    """The first point of the grid at or after that second."""
    return math.ceil((arrival - offset) / round_s - TOLERANCE) * round_s + offset
