"""First in, first out as in Gavel's published simulator (rule `fifo_overfills`): one type is given out without limit.

Jobs keep their type from one solve to the next; where a job has left, the first that waits may take its place. Then
down the queue, while some type has GPUs left: a type is drawn among those with enough of them, but the job gets the
last of the types that have any, whether that has room or not. When GPUs of it are used up to the last one, the type
that was drawn is passed over from then on, and not the type that is full. Jobs on a type with too few GPUs take turns.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.core.allocation import Allocation, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.policies.gandiva import generator_of


class FifoOverfilling:
    """First in, first out with the accidents of the published simulator."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def allocate(self, view: View) -> Allocation:
        """A share of 1 for everybody who has a type."""
        before: Mapping[str, Any] = view.previous.state if view.previous is not None else {}
        rng = generator_of(self._seed, before)
        queue = _Queue.of(view, dict(before.get("types", [])))
        queue.replace_who_left()
        queue.give_out(rng)
        share = np.zeros((len(view), len(view.types)))
        for job, gpu_type in queue.types.items():
            share[queue.place[job], gpu_type] = 1.0
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=share,
            traits=Traits(aware=False, fills=False),
            state={"types": list(queue.types.items()), "random": rng.getstate()},
        )


@dataclass(slots=True)
class _Queue:
    """Who has a type, who waits, and the GPUs that are left."""

    view: View
    types: dict[int, int]
    place: dict[int, int]
    """Position of each job in the view."""
    waiting: list[int]
    free: list[int]

    @classmethod
    def of(cls, view: View, types: dict[int, int]) -> _Queue:
        """Before anything is given out."""
        jobs = view.jobs.tolist()
        place = {job: at for at, job in enumerate(jobs)}
        return cls(view, types, place, [job for job in jobs if job not in types], view.capacity.tolist())

    def replace_who_left(self) -> None:
        """In order of job numbers: who is there holds its GPUs, and who left is followed by the first that waits."""
        for job in sorted(self.types):
            gpu_type = self.types[job]
            if job in self.place:
                self.free[gpu_type] -= self._size(job)
                continue
            if self.waiting and self._size(self.waiting[0]) <= self.free[gpu_type]:
                self._give(gpu_type, from_queue=True)
            del self.types[job]

    def give_out(self, rng: random.Random) -> None:
        """Types for those who wait, until one finds no type with enough GPUs."""
        left = [t for t, count in enumerate(self.free) if count > 0]
        while self.waiting and left:
            size = self._size(self.waiting[0])
            enough = [t for t in left if self.free[t] >= size]
            if not enough:
                return
            drawn = rng.randrange(len(enough))
            gpu_type = left[-1]
            if self._give(gpu_type, from_queue=False) and self.free[gpu_type] == 0:
                left.remove(enough[drawn])

    def _give(self, gpu_type: int, *, from_queue: bool) -> bool:
        """Give the type to the first that waits, if it has any speed there; whether it has."""
        job = self.waiting[0]
        able = bool(self.view.classes.runs_on[self.view.job_class[self.place[job]], gpu_type])
        if able or not from_queue:
            self.waiting.pop(0)
        if able:
            self.types[job] = gpu_type
            self.free[gpu_type] -= self._size(job)
        return able

    def _size(self, job: int) -> int:
        return int(self.view.gpus[self.place[job]])
