"""How far tasks get in a round of the published Gavel simulator: a round lasts until its slowest task is through.

A task does as many whole steps as fit into the length of a round; one with fewer steps left than GPUs fails where the
rules say so.
"""

from __future__ import annotations

import math

import numpy as np

from rota import kernels
from rota.core.arrays import BoolArray, FloatArray, IntArray, every, largest, smallest, zeros
from rota.core.rules import Rules
from rota.sim.steppers import NO_IDS, NO_TIMES, NOTHING, Heed, Stretch
from rota.sim.tasks import Tasks


class SlowestTask:
    """Whole steps; a round ends when its slowest task does (the Gavel artifact)."""

    exact = False

    def __init__(self, rules: Rules) -> None:
        self._round_s = rules.round_s
        self._gap_counts = rules.idle_gap_counts
        self._split_fails = rules.gpu_split_fails

    def wake(self, arrival: float) -> float:
        """At once."""
        return arrival

    def starts_at(self, now: float) -> bool:
        """Nothing happens between two rounds."""
        del now
        return True

    def pace(self, tasks: Tasks) -> None:
        """A round ends with its slowest task."""

    def run(
        self,
        tasks: Tasks,
        now: float,
        stop: float,
        last_end: float,
        limit: float = math.inf,  # noqa: ARG002 - rounds are whole
        heed: Heed = NOTHING,  # noqa: ARG002 - likewise
    ) -> Stretch:
        """Full rounds first, all alike, then the round in which a job comes to its end."""
        start = last_end if self._gap_counts else now
        if len(tasks.paired):
            return self._run_pairs(tasks, now, start, stop)
        if stop <= now:
            return self._one(tasks, now, start)
        full, longest = kernels.slowest_full(tasks.rate, tasks.left, self._round_s)
        if full < 1:
            return self._one(tasks, now, start)
        return self._many(tasks, now, start, stop, full, longest)

    def _many(self, tasks: Tasks, now: float, start: float, stop: float, full: float, longest: float) -> Stretch:
        """Up to `full` rounds alike, and the one after them unless `stop` comes first."""
        count = len(tasks.rate)
        end, starts = _rounds(now, stop, full, longest)
        rounds = len(starts)
        each = np.empty((rounds if end >= stop else rounds + 1, count))
        steps = np.empty(count)
        seconds = np.empty(count)
        kernels.slowest_many(tasks.rate, tasks.left, np.array(starts), each, steps, seconds, self._round_s, start)
        if end >= stop:
            return Stretch(start, end, rounds, steps, zeros(count), seconds, NO_IDS, NO_TIMES, NO_IDS, each)
        last_round = self._one(tasks, end, end)
        each[rounds] = last_round.seconds
        last_round.start = start
        last_round.rounds = rounds + last_round.rounds
        last_round.each = each
        last_round.seconds = seconds + last_round.seconds
        last_round.steps = last_round.steps + steps
        return last_round

    def _one(self, tasks: Tasks, now: float, start: float) -> Stretch:
        """One round of jobs that share with nobody."""
        placement = tasks.placement
        left = tasks.left
        count = len(left)
        steps = np.empty(count)
        seconds = np.empty(count)
        finish = np.empty(count)
        done = kernels.slowest_one(
            tasks.rate, left, placement.gpus, steps, seconds, finish, self._round_s, now, start, self._split_fails
        )
        if done is None:
            return self._one_of_pairs(tasks, now, start, np.floor(tasks.rate * self._round_s), steps)
        end, through = done
        finished = NO_IDS
        finished_at = NO_TIMES
        if through:
            over = left <= 0
            finished = placement.first[over]
            finished_at = finish[over]
        return Stretch(start, end, 1, steps, zeros(count), seconds, finished, finished_at, NO_IDS)

    # Some share GPUs, or fail

    def _run_pairs(self, tasks: Tasks, now: float, start: float, stop: float) -> Stretch:
        chunk = np.floor(tasks.rate * self._round_s)
        pairs = tasks.paired
        partner_chunk = np.floor(tasks.partner_rate * self._round_s)
        full = _full_rounds(tasks.left, chunk) if stop > now else 0
        full = min(full, _full_rounds(tasks.partner_left[pairs], partner_chunk[pairs]))
        if full < 1:
            return self._one_of_pairs(tasks, now, start, chunk, partner_chunk)
        return self._many_of_pairs(tasks, now, start, stop, full, chunk, partner_chunk)

    def _many_of_pairs(
        self, tasks: Tasks, now: float, start: float, stop: float, full: int, chunk: FloatArray, partner: FloatArray
    ) -> Stretch:
        """The same as `_many`."""
        pairs = tasks.paired
        span = chunk / tasks.rate
        span[pairs] = np.maximum(span[pairs], partner[pairs] / tasks.partner_rate[pairs])
        end, starts = _rounds(now, stop, full, largest(span))
        rounds = len(starts)
        steps = chunk * rounds
        partner_steps = np.zeros(len(chunk))
        partner_steps[pairs] = partner[pairs] * rounds
        tasks.partner_left = tasks.partner_left - partner_steps
        tasks.left = tasks.left - steps
        each = _seconds_by_round(starts, start, span)
        if end >= stop:
            each = each[:rounds]
            return Stretch(
                start=start,
                end=end,
                rounds=rounds,
                steps=steps,
                partner_steps=partner_steps,
                seconds=np.add.reduce(each),
                finished=NO_IDS,
                finished_at=NO_TIMES,
                lost=NO_IDS,
                each=each,
            )
        last_round = self._one_of_pairs(tasks, end, end, chunk, partner)
        each[rounds] = last_round.seconds
        last_round.start = start
        last_round.rounds = rounds + last_round.rounds
        last_round.each = each
        last_round.seconds = np.add.reduce(each)
        last_round.steps = last_round.steps + steps
        last_round.partner_steps = last_round.partner_steps + partner_steps
        return last_round

    def _one_of_pairs(
        self, tasks: Tasks, now: float, start: float, chunk: FloatArray, partner_chunk: FloatArray
    ) -> Stretch:
        """One round by the letter of the artifact."""
        pairs = tasks.paired
        steps = np.minimum(chunk, tasks.left)
        finish = steps / tasks.pace
        finish += now
        partner_steps = zeros(len(steps))
        if len(pairs):
            partner_steps = np.zeros(len(steps))
            partner_steps[pairs] = np.minimum(partner_chunk[pairs], tasks.partner_left[pairs])
            finish[pairs] = np.maximum(finish[pairs], now + partner_steps[pairs] / tasks.partner_pace[pairs])
        seconds = finish - start
        lost = NO_IDS
        failed = self._failures(tasks, steps, partner_steps)
        if failed is not None:
            steps = np.where(failed, 0.0, steps)
            partner_steps = np.where(failed, 0.0, partner_steps)
            seconds = np.where(failed, 0.0, seconds)
            lost = tasks.placement.first[failed & (tasks.placement.second < 0)]
        tasks.left = tasks.left - steps
        if len(pairs):
            tasks.partner_left = tasks.partner_left - partner_steps
        finished, finished_at = _finished(tasks, finish, failed)
        return Stretch(
            start=start,
            end=largest(finish),
            rounds=1,
            steps=steps,
            partner_steps=partner_steps,
            seconds=seconds,
            finished=finished,
            finished_at=finished_at,
            lost=lost,
        )

    def _failures(self, tasks: Tasks, steps: FloatArray, partner_steps: FloatArray) -> BoolArray | None:
        """Tasks of which one GPU would get no step when all but the last get steps // gpus; None if there is none."""
        if not self._split_fails:
            return None
        gpus = tasks.placement.gpus
        pairs = tasks.paired
        most = gpus[gpus.argmax()]
        if smallest(steps) >= most and (len(pairs) == 0 or every(partner_steps[pairs] >= gpus[pairs])):
            return None
        failed = _split_fails(steps, gpus)
        if len(pairs):
            failed[pairs] |= _split_fails(partner_steps[pairs], gpus[pairs])
        return failed if failed.any() else None


def _rounds(now: float, stop: float, most: float, length: float) -> tuple[float, list[float]]:
    """When rounds begin, up to so many or until one ends at `stop` or after it; and when the last one ends."""
    starts: list[float] = []
    while len(starts) < most:
        starts.append(now)
        now += length
        if now >= stop:
            break
    return now, starts


def _seconds_by_round(starts: list[float], start: float, span: FloatArray) -> FloatArray:
    """[rounds + 1, K] seconds that each task is held in rounds that begin at `starts`; a last row is left empty.

    The first round counts from `start`. Seconds are end - begin, to the last bit as in the artifact.
    """
    rounds = len(starts)
    began = np.array(starts)
    each = np.empty((rounds + 1, len(span)))
    np.add(began[:, None], span, out=each[:rounds])
    began[0] = start
    each[:rounds] -= began[:, None]
    return each


def _finished(tasks: Tasks, finish: FloatArray, failed: BoolArray | None) -> tuple[IntArray, FloatArray]:
    """Jobs of tasks that end at `finish` which have nothing left, and when; a task that failed finishes nobody."""
    placement = tasks.placement
    pairs = tasks.paired
    finished = NO_IDS
    finished_at = NO_TIMES
    if smallest(tasks.left) <= 0:
        through = tasks.left <= 0
        if failed is not None:
            through &= ~failed
        finished = placement.first[through]
        finished_at = finish[through]
    if len(pairs):
        done = pairs[tasks.partner_left[pairs] <= 0]
        done = done if failed is None else done[~failed[done]]
        finished = np.concatenate([finished, placement.second[done]])
        finished_at = np.concatenate([finished_at, finish[done]])
    return finished, finished_at


def _full_rounds(left: FloatArray, chunk: FloatArray) -> int:
    """Rounds in which nobody comes to the end; 0 if somebody cannot do a single step in a round."""
    if smallest(chunk) <= 0:
        return 0
    return max(0, math.ceil(smallest(left / chunk)) - 1)


def _split_fails(steps: FloatArray, gpus: IntArray) -> BoolArray:
    """Whether one of the GPUs would get no step when all but the last get steps // gpus."""
    return (steps <= 0) | ((gpus > 1) & (steps < gpus))
