"""How far tasks get in a round: four rules behind one method.

`Grid` is the sane one: rounds start at multiples of the round's length and progress is rate x time. `SlowestTask` (in a
module of its own) is the published Gavel simulator: whole steps, and a round lasts until its slowest task is through.
`Whole` is the published Synergy simulator: whole steps on the grid, and jobs end with their round. `Fluid` has no
rounds: it goes from one arrival or completion to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rota import kernels
from rota.core.arrays import FloatArray, IntArray, level, smallest, zeros
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.sim.tasks import Tasks

NO_IDS: IntArray = np.zeros(0, dtype=np.int64)
NO_TIMES: FloatArray = np.zeros(0)
_NEVER_S = 1e15
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


class Stepper(Protocol):
    """Moves the tasks of a plan forward."""

    def run(self, tasks: Tasks, now: float, stop: float, last_end: float) -> Stretch:
        """Run to the first decision point at or after `stop`, or to one at which a job is through.

        At least to the next one: `stop` may lie in the past.
        """

    def wake(self, arrival: float) -> float:
        """When an idle cluster looks at a job that arrives at `arrival`."""

    def pace(self, tasks: Tasks) -> FloatArray | None:
        """Steps that tasks do in every round from now on; None if rounds are not alike."""


class Grid:
    """Rounds on a fixed grid, progress is rate x time."""

    def __init__(self, rules: Rules, offset: float = 0.0) -> None:
        self._round_s = rules.round_s
        self._restart_s = rules.restart_s
        self._offset = offset

    def wake(self, arrival: float) -> float:
        """The next round."""
        return _next_round(arrival, self._round_s, self._offset)

    def pace(self, tasks: Tasks) -> FloatArray | None:
        """Rate x time, once nobody has to start any more."""
        if len(tasks.paired) or (self._restart_s and tasks.fresh.any()):
            return None
        return tasks.rate * self._round_s

    def run(self, tasks: Tasks, now: float, stop: float, last_end: float) -> Stretch:  # noqa: ARG002
        """As many rounds as pass before `stop` or until a job is through."""
        lead = np.where(tasks.fresh, self._restart_s, 0.0)
        need = lead + tasks.left / tasks.pace
        partner_need = lead + tasks.partner_left / tasks.partner_pace
        soonest = min(need.min(), partner_need[tasks.paired].min(initial=np.inf))
        since = now - self._offset
        first = math.floor(since / self._round_s + TOLERANCE)
        last = math.ceil((since + min(float(soonest), _NEVER_S)) / self._round_s - TOLERANCE)
        last = min(last, math.ceil((max(now, min(stop, _NEVER_S)) - self._offset) / self._round_s - TOLERANCE))
        rounds = max(1, last - first)
        end = (first + rounds) * self._round_s + self._offset
        work = np.maximum(end - now - lead, 0.0)
        return self._outcome(tasks, now, end, rounds, work, need, partner_need)

    def _outcome(
        self,
        tasks: Tasks,
        now: float,
        end: float,
        rounds: int,
        work_s: FloatArray,
        need_s: FloatArray,
        partner_need_s: FloatArray,
    ) -> Stretch:
        """What tasks do until `end` if they make progress for `work_s` and need `need_s` to their end."""
        span = end - now
        through = need_s <= span * (1 + TOLERANCE)
        steps = np.where(through, tasks.left, tasks.rate * work_s)
        partner_steps = np.zeros(len(steps))
        held_s = np.minimum(need_s, span)
        finished = tasks.placement.first[through]
        finished_at = now + need_s[through]
        pairs = tasks.paired
        if len(pairs):
            partner_need_s = partner_need_s[pairs]
            done = partner_need_s <= span * (1 + TOLERANCE)
            partner_steps[pairs] = np.where(done, tasks.partner_left[pairs], tasks.partner_rate[pairs] * work_s[pairs])
            held_s[pairs] = np.minimum(np.maximum(need_s[pairs], partner_need_s), span)
            finished = np.concatenate([finished, tasks.placement.second[pairs[done]]])
            finished_at = np.concatenate([finished_at, now + partner_need_s[done]])
        tasks.left = tasks.left - steps
        tasks.partner_left = tasks.partner_left - partner_steps
        tasks.fresh = np.zeros(len(steps), dtype=np.bool_)
        finished_at = np.minimum(finished_at, end)
        return Stretch(now, end, rounds, steps, partner_steps, held_s, finished, finished_at, NO_IDS)


class Whole:
    """Rounds on a fixed grid, whole steps; a job that is through ends with its round (the Synergy artifact)."""

    def __init__(self, rules: Rules, offset: float = 0.0) -> None:
        self._round_s = rules.round_s
        self._offset = offset

    def wake(self, arrival: float) -> float:
        """The next round."""
        return _next_round(arrival, self._round_s, self._offset)

    def pace(self, tasks: Tasks) -> FloatArray:
        """Whole steps, at least one."""
        if tasks.chunk is None:
            tasks.chunk = np.maximum(np.floor(self._round_s / (1.0 / tasks.pace)), 1.0)
        return tasks.chunk

    def run(self, tasks: Tasks, now: float, stop: float, last_end: float) -> Stretch:  # noqa: ARG002
        """As many rounds as pass before `stop` or until a job is through."""
        chunk = self.pace(tasks)
        left = tasks.left
        pairs = tasks.paired
        placement = tasks.placement
        rounds = 1
        if stop > now:
            rounds = 1 if len(pairs) else math.ceil(smallest(left / chunk))
            rounds = max(1, min(rounds, math.ceil((min(stop, _NEVER_S) - now) / self._round_s - TOLERANCE)))
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

    def wake(self, arrival: float) -> float:
        """At once."""
        return arrival

    def pace(self, tasks: Tasks) -> None:
        """There are no rounds."""

    def run(self, tasks: Tasks, now: float, stop: float, last_end: float) -> Stretch:  # noqa: ARG002
        """Every task runs its fraction of the time; that a pair does not fit is noticed at once."""
        placement = tasks.placement
        fraction = placement.fraction if placement.fraction is not None else np.ones(len(placement))
        ids = np.concatenate([placement.first, placement.second[tasks.paired]])
        speed = np.concatenate([tasks.pace * fraction, (tasks.partner_pace * fraction)[tasks.paired]])
        left = np.concatenate([tasks.left, tasks.partner_left[tasks.paired]])
        jobs, first_row, member = np.unique(ids, return_index=True, return_inverse=True)
        total = np.bincount(member, weights=speed)
        need = left[first_row] / total
        end = min(stop, now + float(need.min()))
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
            rounds=1,
            steps=steps[: len(placement)],
            partner_steps=partner_steps,
            seconds=fraction * span,
            finished=jobs[through],
            finished_at=np.minimum(now + need[through], end),
            lost=NO_IDS,
        )


def _next_round(arrival: float, round_s: float, offset: float) -> float:
    return math.ceil((arrival - offset) / round_s - TOLERANCE) * round_s + offset
