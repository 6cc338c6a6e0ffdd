"""What became of every job, as columns that grow while a run goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.gpu_types import ANY, TypeSet
from rota.core.jobs import Jobs

UNFINISHED, FINISHED, DROPPED, REJECTED = range(4)
STATUS_NAMES = ("unfinished", "finished", "dropped", "rejected")

_FLOATS = ("arrival_s", "finish_s", "left_s", "ran_until_s", "weight", "steps", "deadline_s")
_INTS = ("gpus", "profile", "tenant", "status", "allowed")
_AT_ONCE = 256


class Names:
    """Text kept once. Tables that come in pieces may number the same names differently."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._last: Sequence[str] = ()
        self._map: IntArray = np.zeros(0, dtype=np.int64)

    def index(self, names: Sequence[str], values: IntArray) -> IntArray:
        """The numbers here of `names[values]`."""
        if names is not self._last and names != self._last:
            places = [self.known.setdefault(name, len(self.known)) for name in names]
            self._map = np.array(places, dtype=np.int64)
        self._last = names
        return self._map[values]

    def text(self, index: IntArray) -> NDArray[np.object_]:
        """Names by number."""
        if not len(index):
            return np.zeros(0, dtype=object)
        return np.array(list(self.known), dtype=object)[index]


class JobTable:
    """Every job submitted so far; its id is its row. Room is doubled when it runs out."""

    def __init__(self) -> None:
        self.count = 0
        self._profiles = Names()
        self._tenants = Names()
        self._names: dict[int, str] = {}
        self._type_sets: dict[TypeSet, int] = {ANY: 0}
        self._floats: dict[str, FloatArray] = {name: np.zeros(0) for name in _FLOATS}
        self._ints: dict[str, IntArray] = {name: np.zeros(0, dtype=np.int64) for name in _INTS}
        self._new: list[tuple[int, Jobs]] = []
        self._grow(256)

    def __getstate__(self) -> dict[str, Any]:
        self._write()
        return self.__dict__

    def __len__(self) -> int:
        return self.count

    @property
    def profiles(self) -> Names:
        """Names of profiles."""
        self._write()
        return self._profiles

    @property
    def tenants(self) -> Names:
        """Names of tenants."""
        self._write()
        return self._tenants

    @property
    def type_sets(self) -> list[TypeSet]:
        """Types on which jobs may run, by the number in the column `allowed`."""
        self._write()
        return list(self._type_sets)

    def names(self) -> NDArray[np.object_] | None:
        """What the trace calls each job; None if it does not."""
        self._write()
        if not self._names:
            return None
        return np.array([self._names.get(job, str(job)) for job in range(self.count)], dtype=object)

    def _grow(self, room: int) -> None:
        for name, floats in self._floats.items():
            more = np.full(room - len(floats), np.nan)
            self._floats[name] = np.concatenate([floats, more])
        for name, ints in self._ints.items():
            zeros = np.zeros(room - len(ints), dtype=np.int64)
            self._ints[name] = np.concatenate([ints, zeros])
        self._room = room

    def floats(self, name: str) -> FloatArray:
        """A column of numbers."""
        self._write()
        return self._floats[name][: self.count]

    def ints(self, name: str) -> IntArray:
        """A column of whole numbers."""
        self._write()
        return self._ints[name][: self.count]

    def add(self, first_id: int, jobs: Jobs) -> None:
        """Append jobs; ids are consecutive from `first_id`."""
        stop = first_id + len(jobs)
        if stop > self._room:
            self._grow(max(stop, 2 * self._room))
        self.count = max(self.count, stop)
        self._new.append((first_id, jobs))
        if len(self._new) == _AT_ONCE:
            self._write()

    def _write(self) -> None:
        """Jobs mostly come one by one; their columns are filled for many at once."""
        if not self._new:
            return
        new = self._new
        self._new = []
        ids = np.concatenate([np.arange(first, first + len(jobs)) for first, jobs in new])
        tables = [jobs for _, jobs in new]
        self._floats["arrival_s"][ids] = np.concatenate([jobs.submitted for jobs in tables])
        self._floats["weight"][ids] = np.concatenate([jobs.weight for jobs in tables])
        self._floats["steps"][ids] = np.concatenate([jobs.total_steps for jobs in tables])
        self._floats["deadline_s"][ids] = np.concatenate([jobs.deadline for jobs in tables])
        self._ints["gpus"][ids] = np.concatenate([jobs.gpus for jobs in tables])
        profiles = [self._profiles.index(jobs.profiles, jobs.profile) for jobs in tables]
        self._ints["profile"][ids] = np.concatenate(profiles)
        tenants = [self._tenants.index(jobs.tenants, jobs.tenant) for jobs in tables]
        self._ints["tenant"][ids] = np.concatenate(tenants)
        for first, jobs in new:
            self._write_what_few_say(first, jobs)

    def _write_what_few_say(self, first_id: int, jobs: Jobs) -> None:
        if jobs.names is not None:
            self._names.update(enumerate(jobs.names.tolist(), first_id))
        if jobs.gpu_types is not None:
            known = self._type_sets
            numbers = [known.setdefault(types, len(known)) for types in jobs.allowed_types()]
            self._ints["allowed"][first_id : first_id + len(jobs)] = numbers

    def finish(self, ids: IntArray, at: FloatArray) -> None:
        """Jobs did their last step."""
        self._floats["finish_s"][ids] = at
        self._floats["left_s"][ids] = at
        self._floats["ran_until_s"][ids] = at
        self._ints["status"][ids] = FINISHED

    def give_up(self, ids: IntArray, status: int, at: float, ran_until_s: FloatArray | float = np.nan) -> None:
        """Jobs that will never finish: DROPPED or REJECTED. NaN for those that held nothing lately."""
        self._floats["left_s"][ids] = at
        self._floats["ran_until_s"][ids] = ran_until_s
        self._ints["status"][ids] = status

    def submitted(self) -> BoolArray:
        """[N] which numbers are of jobs that are there; jobs with lower ones than others may still be kept back."""
        there: BoolArray = ~np.isnan(self.floats("arrival_s"))
        return there

    def counted(self, measure: tuple[int, int] | None) -> BoolArray:
        """[N] whether a job is in the range that is measured; without a range all are."""
        if measure is None:
            return np.ones(self.count, dtype=np.bool_)
        ids = np.arange(self.count)
        return (ids >= measure[0]) & (ids < measure[1])

    def deadlines(self, counted: BoolArray, now: float) -> tuple[BoolArray, BoolArray]:
        """[N] who of those that count has a deadline, and who of them missed it."""
        status = self.ints("status")
        deadline = self.floats("deadline_s")
        bound = counted & np.isfinite(deadline)
        end = np.where(status == FINISHED, self.floats("finish_s"), now)
        given_up = (status == DROPPED) | (status == REJECTED)
        return bound, bound & (given_up | (end > deadline))

    def with_status(self, status: int) -> int:
        """How many jobs have come to that."""
        return int(np.count_nonzero(self.ints("status") == status))
