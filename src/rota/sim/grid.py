"""Rounds on a fixed grid, progress is rate x time: the rule of `default`.

A job that comes to its end within a round ends at that second, and so does its bill. Where two jobs share GPUs and one
of them ends, the other goes on at its speed alone for the rest of the round. Under the rule `at_once` the clock stops
in the middle of a round when a job arrives and GPUs are free, or when one ends and somebody could take its GPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray, smallest, some, zeros
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.sim.steppers import NEVER_S, NO_IDS, NO_TIMES, NOTHING, Heed, Stretch, next_round
from rota.sim.tasks import Tasks


class Grid:
    """Rounds on a fixed grid, progress is rate x time."""

    exact = True

    def __init__(self, rules: Rules, offset: float = 0.0) -> None:
        self._round_s = rules.round_s
        self._restart_s = rules.restart_s
        self._at_once = rules.at_once
        self._offset = offset

    def wake(self, arrival: float) -> float:
        """The next round, or at once."""
        return arrival if self._at_once else next_round(arrival, self._round_s, self._offset)

    def starts_at(self, now: float) -> bool:
        """Whether a round begins then."""
        rounds = (now - self._offset) / self._round_s
        return abs(rounds - round(rounds)) <= TOLERANCE

    def pace(self, tasks: Tasks) -> FloatArray | None:
        """Rate x time, once nobody has to start any more."""
        if len(tasks.paired) or (self._restart_s and some(self._lead(tasks) > 0)):
            return None
        return tasks.rate * self._round_s

    def run(
        self,
        tasks: Tasks,
        now: float,
        stop: float,
        last_end: float,  # noqa: ARG002
        limit: float = math.inf,
        heed: Heed = NOTHING,
    ) -> Stretch:
        """As many rounds as pass before `stop` or until a job is through; less if there is something to heed."""
        lead = self._lead(tasks)
        need = tasks.left / tasks.pace
        need += lead
        soonest = smallest(need)
        pairs = None
        if len(tasks.paired):
            pairs = _Pairs.of(tasks, lead, need)
            soonest = min(soonest, smallest(pairs.apart_s))
        end, rounds = self._end(now, stop, soonest)
        pause = self._pause(heed, now + soonest, end)
        cut = limit < min(end, pause)
        if min(limit, pause) < end:
            end = min(limit, pause)
            rounds = self._whole_rounds(end) - self._whole_rounds(now)
        stretch = _singles(tasks, lead, need, now, end, rounds)
        stretch.cut = cut
        if pairs is not None:
            pairs.enter(stretch, tasks)
        tasks.left = tasks.left - stretch.steps
        tasks.partner_left = tasks.partner_left - stretch.partner_steps
        if self._restart_s:
            tasks.lead = np.maximum(lead - (end - now), 0.0)
        return stretch

    def _lead(self, tasks: Tasks) -> FloatArray:
        """Seconds that each task still needs to start."""
        if tasks.lead is None:
            tasks.lead = np.where(tasks.fresh, self._restart_s, 0.0) if self._restart_s else zeros(len(tasks.rate))
        return tasks.lead

    def _end(self, now: float, stop: float, soonest: float) -> tuple[float, int]:
        """When the round ends in which `stop` falls or the first job is through, and how many rounds that are."""
        since = now - self._offset
        first = self._whole_rounds(now)
        last = math.ceil((since + min(soonest, NEVER_S)) / self._round_s - TOLERANCE)
        last = min(last, math.ceil((max(now, min(stop, NEVER_S)) - self._offset) / self._round_s - TOLERANCE))
        rounds = max(1, last - first)
        return (first + rounds) * self._round_s + self._offset, rounds

    def _pause(self, heed: Heed, ends_at: float, end: float) -> float:
        """The first moment before `end`, which a round ends with, at which somebody could start."""
        soon = end - TOLERANCE * self._round_s
        pause = math.inf
        if heed.free_gpus and heed.arrival < soon:
            pause = heed.arrival
        if ends_at < soon and (heed.jobs_wait or heed.arrival < soon):
            pause = min(pause, ends_at)
        return pause

    def _whole_rounds(self, now: float) -> int:
        """Rounds that are over."""
        return math.floor((now - self._offset) / self._round_s + TOLERANCE)


def _singles(tasks: Tasks, lead: FloatArray, need: FloatArray, now: float, end: float, rounds: int) -> Stretch:
    """What tasks do until `end` if they need `need` seconds to their end, of those `lead` to start."""
    span = end - now
    through = (need <= span * (1 + TOLERANCE)) | (now + need <= end)
    work_s = np.maximum(span - lead, 0.0)
    steps = np.where(through, tasks.left, tasks.rate * work_s)
    finished = NO_IDS
    finished_at = NO_TIMES
    if some(through):
        finished = tasks.placement.first[through]
        finished_at = np.minimum(now + need[through], end)
    return Stretch(now, end, rounds, steps, zeros(len(steps)), np.minimum(need, span), finished, finished_at, NO_IDS)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Two jobs on the same GPUs, one entry per pair; seconds count from now."""

    rows: IntArray
    lead_s: FloatArray
    """Until they make progress."""
    apart_s: FloatArray
    """Until one of them is through."""
    first_s: FloatArray
    """Until the first member is through, alone once the other has ended."""
    second_s: FloatArray

    @classmethod
    def of(cls, tasks: Tasks, lead: FloatArray, need: FloatArray) -> _Pairs:
        """`need` is what first members need if they share to their end."""
        rows = tasks.paired
        first_s = need[rows]
        second_s = lead[rows] + tasks.partner_left[rows] / tasks.partner_pace[rows]
        apart_s = np.minimum(first_s, second_s)
        return cls(
            rows=rows,
            lead_s=lead[rows],
            apart_s=apart_s,
            first_s=apart_s + (first_s - apart_s) * (tasks.pace[rows] / tasks.alone),
            second_s=apart_s + (second_s - apart_s) * (tasks.partner_pace[rows] / tasks.partner_alone),
        )

    def enter(self, stretch: Stretch, tasks: Tasks) -> None:
        """Add the second members, and mend what was worked out as if first members shared to their end."""
        rows = self.rows
        span = stretch.end - stretch.start
        first = _Member(self.first_s, tasks.left[rows], tasks.rate[rows], tasks.alone)
        second = _Member(self.second_s, tasks.partner_left[rows], tasks.partner_rate[rows], tasks.partner_alone)
        together_s = np.maximum(np.minimum(self.apart_s, span) - self.lead_s, 0.0)
        first_alone_s = first.alone_s(self.apart_s, span)
        second_alone_s = second.alone_s(self.apart_s, span)
        stretch.steps[rows] = first.steps(together_s, first_alone_s, span)
        stretch.partner_steps = np.zeros(len(stretch.steps))
        stretch.partner_steps[rows] = second.steps(together_s, second_alone_s, span)
        stretch.seconds[rows] = np.minimum(np.maximum(self.first_s, self.second_s), span)
        if some(self.apart_s < span):
            stretch.alone = np.zeros(len(stretch.steps))
            stretch.alone[rows] = first_alone_s - second_alone_s
        self._finish(stretch, tasks, first.through(span), second.through(span))

    def _finish(self, stretch: Stretch, tasks: Tasks, first_ends: BoolArray, second_ends: BoolArray) -> None:
        """Who is through: jobs without a partner as they were, then members of pairs."""
        placement = tasks.placement
        single = ~np.isin(stretch.finished, placement.first[self.rows])
        ids = [
            stretch.finished[single],
            placement.first[self.rows[first_ends]],
            placement.second[self.rows[second_ends]],
        ]
        ends = np.concatenate([self.first_s[first_ends], self.second_s[second_ends]])
        at = np.minimum(stretch.start + ends, stretch.end)
        stretch.finished = np.concatenate(ids)
        stretch.finished_at = np.concatenate([stretch.finished_at[single], at])


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    """One member of each pair."""

    end_s: FloatArray
    """Seconds until it is through."""
    left: FloatArray
    shared_rate: FloatArray
    alone_rate: FloatArray

    def through(self, span: float) -> BoolArray:
        """Who ends in the next `span` seconds."""
        return self.end_s <= span * (1 + TOLERANCE)

    def alone_s(self, apart_s: FloatArray, span: float) -> FloatArray:
        """Seconds of these in which it runs alone, if the other ends at `apart_s`."""
        return np.maximum(np.minimum(self.end_s, span) - apart_s, 0.0)

    def steps(self, together_s: FloatArray, alone_s: FloatArray, span: float) -> FloatArray:
        """Steps in the next `span` seconds."""
        done = self.shared_rate * together_s + self.alone_rate * alone_s
        return np.where(self.through(span), self.left, done)
