"""How far tasks get in a round: four rules behind one method.

`Grid` is the sane one: rounds start at multiples of the round's length and progress is rate x time. `SlowestTask` is
the published Gavel simulator: whole steps, and a round lasts until its slowest task is through. `Whole` is the
published Synergy simulator: whole steps on the grid, and jobs end with their round. `Fluid` has no rounds: it goes
from one arrival or completion to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rota import kernels
from rota.core.arrays import BoolArray, FloatArray, IntArray, every, largest, level, smallest, zeros
from rota.core.rules import Rules
from rota.sim.tasks import Tasks

_NO_IDS: IntArray = np.zeros(0, dtype=np.int64)
_NO_TIMES: FloatArray = np.zeros(0)
_SLACK = 1e-9
"""Relative size of what is left that counts as nothing."""


@dataclass(slots=True)
class Stretch:
    """What tasks did from `start` to `end`."""

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
        self._length = rules.round_s
        self._restart = rules.restart_s
        self._offset = offset

    def wake(self, arrival: float) -> float:
        """The next round."""
        return _next_round(arrival, self._length, self._offset)

    def pace(self, tasks: Tasks) -> FloatArray | None:
        """Rate x time, once nobody has to start any more."""
        if len(tasks.paired) or (self._restart and tasks.fresh.any()):
            return None
        return tasks.rate * self._length

    def run(self, tasks: Tasks, now: float, stop: float, last_end: float) -> Stretch:  # noqa: ARG002
        """As many rounds as pass before `stop` or until a job is through."""
        lead = np.where(tasks.fresh, self._restart, 0.0)
        need = lead + tasks.left / tasks.pace
        partner_need = lead + tasks.partner_left / tasks.partner_pace
        soonest = min(need.min(), partner_need[tasks.paired].min(initial=np.inf))
        since = now - self._offset
        first = math.floor(since / self._length + _SLACK)
        last = math.ceil((since + min(float(soonest), 1e15)) / self._length - _SLACK)
        last = min(last, math.ceil((max(now, min(stop, 1e15)) - self._offset) / self._length - _SLACK))
        rounds = max(1, last - first)
        end = (first + rounds) * self._length + self._offset
        span = end - now
        return self._outcome(tasks, now, end, rounds, np.maximum(span - lead, 0.0), need, partner_need)

    def _outcome(
        self, tasks: Tasks, now: float, end: float, rounds: int, work: FloatArray, need: FloatArray, partner: FloatArray
    ) -> Stretch:
        span = end - now
        through = need <= span * (1 + _SLACK)
        steps = np.where(through, tasks.left, tasks.rate * work)
        partner_steps = np.zeros(len(steps))
        held = np.minimum(need, span)
        ids, times = tasks.placement.first[through], now + need[through]
        pairs = tasks.paired
        if len(pairs):
            done = partner[pairs] <= span * (1 + _SLACK)
            partner_steps[pairs] = np.where(done, tasks.partner_left[pairs], tasks.partner_rate[pairs] * work[pairs])
            held[pairs] = np.minimum(np.maximum(need[pairs], partner[pairs]), span)
            ids = np.concatenate([ids, tasks.placement.second[pairs[done]]])
            times = np.concatenate([times, now + partner[pairs[done]]])
        tasks.left = tasks.left - steps
        tasks.partner_left = tasks.partner_left - partner_steps
        tasks.fresh = np.zeros(len(steps), dtype=np.bool_)
        return Stretch(now, end, rounds, steps, partner_steps, held, ids, np.minimum(times, end), _NO_IDS)


class Whole:
    """Rounds on a fixed grid, whole steps; a job that is through ends with its round (the Synergy artifact)."""

    def __init__(self, rules: Rules, offset: float = 0.0) -> None:
        self._length = rules.round_s
        self._offset = offset

    def wake(self, arrival: float) -> float:
        """The next round."""
        return _next_round(arrival, self._length, self._offset)

    def pace(self, tasks: Tasks) -> FloatArray:
        """Whole steps, at least one."""
        if tasks.chunk is None:
            tasks.chunk = np.maximum(np.floor(self._length / (1.0 / tasks.pace)), 1.0)
        return tasks.chunk

    def run(self, tasks: Tasks, now: float, stop: float, last_end: float) -> Stretch:  # noqa: ARG002
        """As many rounds as pass before `stop` or until a job is through."""
        chunk, left, pairs, placement = self.pace(tasks), tasks.left, tasks.paired, tasks.placement
        rounds = 1
        if stop > now:
            rounds = 1 if len(pairs) else math.ceil(smallest(left / chunk))
            rounds = max(1, min(rounds, math.ceil((min(stop, 1e15) - now) / self._length - _SLACK)))
        end = now + rounds * self._length
        steps = np.empty(len(left))
        ids = placement.first[left <= 0] if kernels.whole(chunk, left, steps, rounds) else _NO_IDS
        partner_steps = zeros(len(steps))
        if len(pairs):
            partner_steps = np.zeros(len(steps))
            partner_chunk = np.maximum(np.floor(self._length * tasks.partner_pace[pairs]), 1.0)
            partner_steps[pairs] = np.minimum(partner_chunk * rounds, tasks.partner_left[pairs])
            tasks.partner_left = tasks.partner_left - partner_steps
            ids = np.concatenate([ids, placement.second[pairs[tasks.partner_left[pairs] <= 0]]])
        seconds = level(len(steps), rounds * self._length)
        times = level(len(ids), end) if len(ids) else _NO_TIMES
        return Stretch(now, end, rounds, steps, partner_steps, seconds, ids, times, _NO_IDS)


class SlowestTask:
    """Whole steps; a round ends when its slowest task does (the Gavel artifact)."""

    def __init__(self, rules: Rules) -> None:
        self._length = rules.round_s
        self._gap_counts = rules.idle_gap_counts
        self._split_fails = rules.gpu_split_fails

    def wake(self, arrival: float) -> float:
        """At once."""
        return arrival

    def pace(self, tasks: Tasks) -> None:
        """A round ends with its slowest task."""

    def run(self, tasks: Tasks, now: float, stop: float, last_end: float) -> Stretch:
        """Full rounds first, all alike, then the round in which a job comes to its end."""
        start = last_end if self._gap_counts else now
        if len(tasks.paired):
            return self._run_pairs(tasks, now, start, stop)
        if stop <= now:
            return self._one(tasks, now, start)
        full, longest = kernels.slowest_full(tasks.rate, tasks.left, self._length)
        if full < 1:
            return self._one(tasks, now, start)
        return self._many(tasks, now, start, stop, full, longest)

    def _many(self, tasks: Tasks, now: float, start: float, stop: float, full: float, longest: float) -> Stretch:
        """Up to `full` rounds alike, and the one after them unless `stop` comes first."""
        count, (end, starts) = len(tasks.rate), _rounds(now, stop, full, longest)
        rounds = len(starts)
        each = np.empty((rounds if end >= stop else rounds + 1, count))
        steps, seconds = np.empty(count), np.empty(count)
        kernels.slowest_many(tasks.rate, tasks.left, np.array(starts), each, steps, seconds, self._length, start)
        if end >= stop:
            return Stretch(start, end, rounds, steps, zeros(count), seconds, _NO_IDS, _NO_TIMES, _NO_IDS, each)
        rest = self._one(tasks, end, end)
        rest.start, rest.rounds = start, rounds + rest.rounds
        each[rounds] = rest.seconds
        rest.each, rest.seconds = each, seconds + rest.seconds
        rest.steps = rest.steps + steps
        return rest

    def _one(self, tasks: Tasks, now: float, start: float) -> Stretch:
        """One round of jobs that share with nobody."""
        placement, left, count = tasks.placement, tasks.left, len(tasks.left)
        steps, seconds, finish = np.empty(count), np.empty(count), np.empty(count)
        done = kernels.slowest_one(
            tasks.rate, left, placement.gpus, steps, seconds, finish, self._length, now, start, self._split_fails
        )
        if done is None:
            return self._one_of_pairs(tasks, now, start, np.floor(tasks.rate * self._length), steps)
        end, through = done
        ids, times = _NO_IDS, _NO_TIMES
        if through:
            over = left <= 0
            ids, times = placement.first[over], finish[over]
        return Stretch(start, end, 1, steps, zeros(count), seconds, ids, times, _NO_IDS)

    # Some share GPUs, or fail

    def _run_pairs(self, tasks: Tasks, now: float, start: float, stop: float) -> Stretch:
        chunk, pairs = np.floor(tasks.rate * self._length), tasks.paired
        partner_chunk = np.floor(tasks.partner_rate * self._length)
        full = _full_rounds(tasks.left, chunk) if stop > now else 0
        full = min(full, _full_rounds(tasks.partner_left[pairs], partner_chunk[pairs]))
        if full < 1:
            return self._one_of_pairs(tasks, now, start, chunk, partner_chunk)
        return self._many_of_pairs(tasks, now, start, stop, full, chunk, partner_chunk)

    def _many_of_pairs(
        self, tasks: Tasks, now: float, start: float, stop: float, full: int, chunk: FloatArray, partner: FloatArray
    ) -> Stretch:
        """The same as `_many`."""
        span, pairs = chunk / tasks.rate, tasks.paired
        span[pairs] = np.maximum(span[pairs], partner[pairs] / tasks.partner_rate[pairs])
        end, starts = _rounds(now, stop, full, largest(span))
        rounds = len(starts)
        steps, partner_steps = chunk * rounds, np.zeros(len(chunk))
        partner_steps[pairs] = partner[pairs] * rounds
        tasks.partner_left = tasks.partner_left - partner_steps
        tasks.left = tasks.left - steps
        began = np.array(starts)
        each = np.empty((rounds + 1, len(span)))
        np.add(began[:, None], span, out=each[:rounds])
        began[0] = start
        each[:rounds] -= began[:, None]
        if end >= stop:
            each = each[:rounds]
            seconds = np.add.reduce(each)
            return Stretch(start, end, rounds, steps, partner_steps, seconds, _NO_IDS, _NO_TIMES, _NO_IDS, each)
        rest = self._one_of_pairs(tasks, end, end, chunk, partner)
        rest.start, rest.rounds = start, rounds + rest.rounds
        each[rounds] = rest.seconds
        rest.each, rest.seconds = each, np.add.reduce(each)
        rest.steps, rest.partner_steps = rest.steps + steps, rest.partner_steps + partner_steps
        return rest

    def _one_of_pairs(
        self, tasks: Tasks, now: float, start: float, chunk: FloatArray, partner_chunk: FloatArray
    ) -> Stretch:
        """One round by the letter of the artifact."""
        placement, pairs = tasks.placement, tasks.paired
        steps = np.minimum(chunk, tasks.left)
        finish = steps / tasks.pace
        finish += now
        partner_steps = zeros(len(steps))
        if len(pairs):
            partner_steps = np.zeros(len(steps))
            partner_steps[pairs] = np.minimum(partner_chunk[pairs], tasks.partner_left[pairs])
            finish[pairs] = np.maximum(finish[pairs], now + partner_steps[pairs] / tasks.partner_pace[pairs])
        seconds, lost = finish - start, _NO_IDS
        failed = self._failures(tasks, steps, partner_steps)
        if failed is not None:
            steps, partner_steps, seconds = (np.where(failed, 0.0, v) for v in (steps, partner_steps, seconds))
            lost = placement.first[failed & (placement.second < 0)]
        tasks.left = tasks.left - steps
        ids, times = _NO_IDS, _NO_TIMES
        if smallest(tasks.left) <= 0:
            through = tasks.left <= 0
            if failed is not None:
                through &= ~failed
            ids, times = placement.first[through], finish[through]
        if len(pairs):
            tasks.partner_left = tasks.partner_left - partner_steps
            done = pairs[tasks.partner_left[pairs] <= 0]
            done = done if failed is None else done[~failed[done]]
            ids = np.concatenate([ids, placement.second[done]])
            times = np.concatenate([times, finish[done]])
        return Stretch(start, largest(finish), 1, steps, partner_steps, seconds, ids, times, lost)

    def _failures(self, tasks: Tasks, steps: FloatArray, partner_steps: FloatArray) -> BoolArray | None:
        """Tasks of which one GPU would get no step when all but the last get steps // gpus; None if there is none."""
        gpus, pairs = tasks.placement.gpus, tasks.paired
        if not self._split_fails:
            return None
        most = gpus[gpus.argmax()]
        if smallest(steps) >= most and (len(pairs) == 0 or every(partner_steps[pairs] >= gpus[pairs])):
            return None
        failed = _split_fails(steps, gpus)
        if len(pairs):
            failed[pairs] |= _split_fails(partner_steps[pairs], gpus[pairs])
        return failed if failed.any() else None


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
        through = (need <= span * (1 + _SLACK)) | (now + need <= end)
        done = np.where(through, left[first_row], total * span)
        part = speed / total[member]
        steps = part * done[member]
        partner_steps = np.zeros(len(placement))
        partner_steps[tasks.paired] = steps[len(placement) :]
        times = np.minimum(now + need[through], end)
        return Stretch(
            now, end, 1, steps[: len(placement)], partner_steps, fraction * span, jobs[through], times, _NO_IDS
        )


def _next_round(arrival: float, length: float, offset: float) -> float:
    return math.ceil((arrival - offset) / length - _SLACK) * length + offset


def _rounds(now: float, stop: float, most: float, length: float) -> tuple[float, list[float]]:
    """When rounds begin, up to so many or until one ends at `stop` or after it; and when the last one ends."""
    starts: list[float] = []
    while len(starts) < most:
        starts.append(now)
        now += length
        if now >= stop:
            break
    return now, starts


def _full_rounds(left: FloatArray, chunk: FloatArray) -> int:
    """Rounds in which nobody comes to the end; 0 if somebody cannot do a single step in a round."""
    if smallest(chunk) <= 0:
        return 0
    return max(0, math.ceil(smallest(left / chunk)) - 1)


def _split_fails(steps: FloatArray, gpus: IntArray) -> BoolArray:
    """Whether one of the GPUs would get no step when all but the last get steps // gpus."""
    return (steps <= 0) | ((gpus > 1) & (steps < gpus))
