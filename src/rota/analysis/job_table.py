"""What became of every job, as columns that grow while a run goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.jobs import Jobs

UNFINISHED, FINISHED, DROPPED, REJECTED = range(4)
STATUS_NAMES = ("unfinished", "finished", "dropped", "rejected")

_FLOATS = ("arrival_s", "finish_s", "left_s", "weight", "steps", "deadline_s")
_INTS = ("gpus", "profile", "tenant", "status")
_FROM_JOBS = {
    "arrival_s": "submitted",
    "weight": "weight",
    "steps": "total_steps",
    "deadline_s": "deadline",
    "gpus": "gpus",
}
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
            self._map = np.array([self.known.setdefault(n, len(self.known)) for n in names], dtype=np.int64)
        self._last = names
        return self._map[values]

    def text(self, index: IntArray) -> NDArray[np.object_]:
        """Names by number."""
        return np.array(list(self.known), dtype=object)[index] if len(index) else np.zeros(0, dtype=object)


class JobTable:
    """Every job submitted so far; its id is its row. Room is doubled when it runs out."""

    def __init__(self) -> None:
        self.count = 0
        self._profiles = Names()
        self._tenants = Names()
        self._columns: dict[str, NDArray[np.generic]] = {}
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

    def _grow(self, room: int) -> None:
        for names, dtype in ((_FLOATS, np.float64), (_INTS, np.int64)):
            for name in names:
                column = np.full(room, np.nan if dtype is np.float64 else 0, dtype=dtype)
                if self.count:
                    column[: self.count] = self._columns[name][: self.count]
                self._columns[name] = column
        self._room = room

    def floats(self, name: str) -> FloatArray:
        """A column of numbers."""
        self._write()
        return self._columns[name][: self.count]  # type: ignore[return-value]

    def ints(self, name: str) -> IntArray:
        """A column of whole numbers."""
        self._write()
        return self._columns[name][: self.count]  # type: ignore[return-value]

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
        for name, source in _FROM_JOBS.items():
            self._columns[name][ids] = np.concatenate([getattr(jobs, source) for _, jobs in new])
        profile = self._profiles.index
        tenant = self._tenants.index
        self._columns["profile"][ids] = np.concatenate([profile(jobs.profiles, jobs.profile) for _, jobs in new])
        self._columns["tenant"][ids] = np.concatenate([tenant(jobs.tenants, jobs.tenant) for _, jobs in new])

    def finish(self, ids: IntArray, at: FloatArray) -> None:
        """Jobs did their last step."""
        self._columns["finish_s"][ids] = at
        self._columns["left_s"][ids] = at
        self._columns["status"][ids] = FINISHED

    def give_up(self, ids: IntArray, status: int, at: float) -> None:
        """Jobs that will never finish: DROPPED or REJECTED."""
        self._columns["left_s"][ids] = at
        self._columns["status"][ids] = status

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
