"""Deadlines that can be kept: who has to run now, and which pace is enough for the others.

A job that would need next to all the time until its deadline is *pressing*: it runs in every round from now on, on one
type. The others need a pace: what is left over the time until the deadline, less a margin for rounds and for who
arrives later. Where no shares keep all paces, jobs take turns instead, earliest deadline first: they are put one after
another on the type that keeps the deadline at the best worth, a job that would be late behind the others is left out,
and who would start now does.

Times are in rounds: whoever starts does so with a round, and GPUs are free with the round in which a job ends.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.tolerance import TOLERANCE
from rota.core.view import View

_PRESSING_ROUNDS = 2.0
"""Rounds of slack below which a job is pressing ..."""
_PRESSING_PART = 0.1
"""... and the part of its own time on top of that: a gang that is spread over servers is slower than its best."""
_MARGIN = 0.2
"""The part of the time until the deadline that is kept in reserve, where there is room for that."""


@dataclass(frozen=True, slots=True, eq=False)
class Seats:
    """Jobs that have to run in every round, each on one type."""

    jobs: IntArray
    """Positions in the view, ascending."""
    gpu_type: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """Who runs, what the others need, and until when that is enough."""

    seats: Seats
    need: FloatArray
    """[J] steps/s; 0 for who has no deadline, or has a seat."""
    until: float


class Deadlines:
    """The deadlines of a view, seconds from now."""

    def __init__(self, view: View, rate: FloatArray, worth: FloatArray, round_s: float, restart_s: float) -> None:
        """`rate` and `worth` of time are [C, T]."""
        self._view = view
        self._rate = rate[view.job_class]
        self._worth = worth[view.job_class]
        self._round_s = round_s
        self._restart_s = restart_s
        self._type = _last_type(view)
        self._best: FloatArray = self._rate.max(axis=1, initial=0.0)
        alone_s = np.divide(view.steps_left, self._best, out=np.full(len(view), np.inf), where=self._best > 0)
        start_s = np.where(self._type >= 0, 0.0, restart_s)
        time = view.deadline - view.now
        with np.errstate(invalid="ignore"):
            self._slack = time - start_s - alone_s
            self.kept: BoolArray = np.isfinite(time) & (self._slack >= -TOLERANCE * time)
        """Deadlines that a job alone could keep."""
        self._time = time - start_s
        self._alone_s = alone_s

    def attempts(self) -> Iterator[Attempt]:
        """With a margin, without one, and one job after the other, which always works."""
        waits_s = self._slack - _PRESSING_ROUNDS * self._round_s - _PRESSING_PART * self._alone_s
        pressing = self.kept & (waits_s <= 0)
        seats = self._in_turn(pressing)
        if len(seats.jobs) == np.count_nonzero(pressing):
            paced = self.kept & ~pressing
            until = self._view.now + float(waits_s[paced].min(initial=np.inf))
            yield Attempt(seats, self._pace(paced, _MARGIN, _PRESSING_ROUNDS), until)
            yield Attempt(seats, self._pace(paced, 0.0, 1.0), until)
        yield Attempt(self._in_turn(self.kept), np.zeros(len(self._view)), math.inf)

    def _pace(self, paced: BoolArray, margin: float, rounds: float) -> FloatArray:
        """Steps/s with which jobs end that part of the time and so many rounds before their deadline, if they can."""
        window = np.maximum(self._time * (1 - margin) - rounds * self._round_s, self._alone_s)
        pace: FloatArray = np.divide(self._view.steps_left, window, out=np.zeros(len(window)), where=paced)
        return pace

    def _in_turn(self, jobs: BoolArray) -> Seats:
        """Who of these runs now if they take turns, earliest deadline first."""
        turns = _Turns(self._view.capacity, self._round_s)
        sizes = self._view.gpus.tolist()
        seats: dict[int, int] = {}
        chosen = jobs.nonzero()[0]
        for job in chosen[np.lexsort((self._slack[chosen], self._time[chosen]))].tolist():
            start_s, gpu_type = self._turn(turns, job, sizes[job])
            if gpu_type >= 0 and start_s == 0:
                seats[job] = gpu_type
        order = sorted(seats)
        return Seats(np.array(order, dtype=np.int64), np.array([seats[job] for job in order], dtype=np.int64))

    def _turn(self, turns: _Turns, job: int, size: int) -> tuple[float, int]:
        """When and where a job runs: the best worth that keeps the deadline with a round to spare, else the soonest."""
        left = float(self._view.steps_left[job])
        deadline_s = float(self._view.deadline[job] - self._view.now)
        options: list[tuple[bool, float, float, float, int]] = []
        for gpu_type in self._rate[job].nonzero()[0].tolist():
            start_s = turns.start(gpu_type, size)
            lead_s = 0.0 if start_s == 0 and self._type[job] == gpu_type else self._restart_s
            end_s = start_s + lead_s + left / float(self._rate[job, gpu_type])
            if end_s <= deadline_s * (1 + TOLERANCE):
                tight = end_s > deadline_s - self._round_s
                cost = end_s if tight else -float(self._worth[job, gpu_type])
                options.append((tight, cost, start_s, end_s, gpu_type))
        if not options:
            return 0.0, -1
        _, _, start_s, end_s, gpu_type = min(options)
        turns.take(gpu_type, size, end_s)
        return start_s, gpu_type


class _Turns:
    """When GPUs are free, by type: ascending (seconds from now, number of GPUs)."""

    def __init__(self, capacity: IntArray, round_s: float) -> None:
        self._round_s = round_s
        self._free: list[list[tuple[float, int]]] = [[(0.0, count)] if count else [] for count in capacity.tolist()]

    def start(self, gpu_type: int, size: int) -> float:
        """When so many are free together."""
        for at, count in self._free[gpu_type]:
            size -= count
            if size <= 0:
                return at
        return math.inf

    def take(self, gpu_type: int, size: int, end_s: float) -> None:
        """Hold so many, those that are free first, until the end of the round in which `end_s` falls."""
        free = self._free[gpu_type]
        end_of_round = math.ceil(end_s / self._round_s - TOLERANCE) * self._round_s
        insort(free, (end_of_round, size))
        while size > 0:
            at, count = free.pop(0)
            if count > size:
                insort(free, (at, count - size))
            size -= count


def _last_type(view: View) -> IntArray:
    """[J] the type on which each job runs; -1 for who waits."""
    if view.placement is None or view.last_task is None or len(view.placement) == 0:
        return np.full(len(view), -1, dtype=np.int64)
    return np.where(view.last_task >= 0, view.placement.type[view.last_task], -1)
