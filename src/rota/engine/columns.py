"""Active jobs as columns: four matrices with one column per job, ids ascending.

What was asked never changes while a job is there; what happens to it does. A matrix that a view has seen is never
written to again: whoever changes something takes a copy first (`own_progress`, `own_status`), which costs a
microsecond for a few hundred jobs and nothing where nobody has looked.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from rota import kernels
from rota.core.arrays import FloatArray, IntArray, frozen
from rota.core.jobs import Jobs

SUBMITTED, TOTAL, WEIGHT, DEADLINE, ASKED = range(5)
"""Rows of `asked`; the last is their number."""
ID, CLASS, GPUS, TENANT, NAMED = range(5)
"""Rows of `named`."""
DONE, ATTAINED, LAST_RAN, SPEED, PROGRESS = range(5)
"""Rows of `progress` before those of the accounts."""
FAILURES, PROMISED, LAST_TASK, URGENT, STATUS = range(5)
"""Rows of `status`."""

_GIVEN_ASKED: IntArray = np.array([SUBMITTED, TOTAL, WEIGHT, DEADLINE])
_GIVEN_NAMED: IntArray = np.array([ID, CLASS, GPUS])
_GIVEN_PROGRESS: IntArray = np.array([LAST_RAN, SPEED])
_GIVEN_STATUS: IntArray = np.zeros(0, dtype=np.int64)


class Fixed(NamedTuple):
    """Rows that stay the same until a job arrives or leaves, as a view has them."""

    jobs: IntArray
    job_class: IntArray
    gpus: IntArray
    tenant: IntArray
    submitted: FloatArray
    total_steps: FloatArray
    weight: FloatArray
    deadline: FloatArray


class JobColumns:
    """The columns of some jobs."""

    def __init__(self, types: int, credit_s: float) -> None:
        """`credit_s` is what a job is taken to have received on each type when its account is opened."""
        self.types = types
        self._credit_s = credit_s
        self.asked: FloatArray = np.zeros((ASKED, 0))
        self.named: IntArray = np.zeros((NAMED, 0), dtype=np.int64)
        self.progress: FloatArray = np.zeros((PROGRESS + 3 * types, 0))
        self.status: IntArray = np.zeros((STATUS, 0), dtype=np.int64)
        self._fixed: Fixed | None = None

    def __len__(self) -> int:
        count: int = self.named.shape[1]
        return count

    # Looking

    @property
    def fixed(self) -> Fixed:
        """What was asked, for views."""
        if self._fixed is None:
            named = frozen(self.named)
            asked = frozen(self.asked)
            self._fixed = Fixed(
                named[ID], named[CLASS], named[GPUS], named[TENANT],
                asked[SUBMITTED], asked[TOTAL], asked[WEIGHT], asked[DEADLINE],
            )  # fmt: skip
        return self._fixed

    def positions(self, ids: IntArray) -> IntArray:
        """Where jobs stand in the columns; they must be there."""
        at: IntArray = self.named[ID].searchsorted(ids)
        return at

    @property
    def share(self) -> slice:
        """Rows of `progress`: promised fraction of time by type."""
        return slice(PROGRESS, PROGRESS + self.types)

    @property
    def received(self) -> slice:
        """Rows of `progress`: seconds received by type since the last allocation, opening credit included."""
        return slice(PROGRESS + self.types, PROGRESS + 2 * self.types)

    @property
    def owed(self) -> slice:
        """Rows of `progress`: seconds behind the promise by type when the last allocation was made."""
        return slice(PROGRESS + 2 * self.types, PROGRESS + 3 * self.types)

    # Changing what happens to jobs

    def own_progress(self) -> FloatArray:
        """Progress and accounts, to be written to."""
        if not self.progress.flags.writeable:
            self.progress = self.progress.copy()
        return self.progress

    def own_status(self) -> IntArray:
        """Status, to be written to."""
        if not self.status.flags.writeable:
            self.status = self.status.copy()
        return self.status

    # Changing which jobs there are

    def append(self, first_id: int, jobs: Jobs, classes: IntArray, tenants: IntArray, speed: FloatArray) -> None:
        """Jobs arrive; ids are consecutive from `first_id`, higher than those that are there."""
        count = len(jobs)
        ids = np.arange(first_id, first_id + count)
        asked = (jobs.submitted, jobs.total_steps, jobs.weight, jobs.deadline)
        new_progress = np.zeros((PROGRESS + 3 * self.types, 1))
        new_progress[self.received] = self._credit_s
        new_status = np.zeros((STATUS, 1), dtype=np.int64)
        new_status[LAST_TASK] = -1
        new_asked = np.zeros((ASKED, 1))
        new_named = np.zeros((NAMED, 1), dtype=np.int64)
        self.asked = _longer(self.asked, count, new_asked, _GIVEN_ASKED, *asked)
        self.named = _longer(self.named, count, new_named, _GIVEN_NAMED, ids, classes, jobs.gpus)
        self.progress = _longer(self.progress, count, new_progress, _GIVEN_PROGRESS, jobs.submitted, speed)
        self.status = _longer(self.status, count, new_status, _GIVEN_STATUS)
        if len(tenants):
            self.named[TENANT, -count:] = tenants
        self._fixed = None

    def remove(self, at: IntArray) -> None:
        """Jobs at these positions, ascending, leave."""
        self.asked = _without(self.asked, at)
        self.named = _without(self.named, at)
        self.progress = _without(self.progress, at)
        self.status = _without(self.status, at)
        self._fixed = None

    def taken(self, at: IntArray) -> JobColumns:
        """The columns of some of the jobs (`take`, because indexing may leave rows scattered in memory)."""
        part = JobColumns(self.types, self._credit_s)
        part.asked = self.asked.take(at, axis=1)
        part.named = self.named.take(at, axis=1)
        part.progress = self.progress.take(at, axis=1)
        part.status = self.status.take(at, axis=1)
        return part

    def merged(self, other: JobColumns) -> JobColumns:
        """These jobs and others together, ids ascending."""
        both = JobColumns(self.types, self._credit_s)
        both.asked = np.concatenate([self.asked, other.asked], axis=1)
        both.named = np.concatenate([self.named, other.named], axis=1)
        both.progress = np.concatenate([self.progress, other.progress], axis=1)
        both.status = np.concatenate([self.status, other.status], axis=1)
        return both.taken(np.argsort(both.named[ID], kind="stable"))

    def split(self, at: IntArray) -> tuple[JobColumns, JobColumns]:
        """The jobs that stay and those at `at`."""
        stay = np.delete(np.arange(len(self)), at)
        return self.taken(stay), self.taken(at)

    def retyped(self, old: tuple[str, ...], new: tuple[str, ...], classes: list[int], speed: FloatArray) -> JobColumns:
        """The same jobs on another cluster: accounts follow their type."""
        there = JobColumns(len(new), self._credit_s)
        there.asked = self.asked
        there.named = self.named.copy()
        there.named[CLASS] = classes
        there.status = self.status
        there.progress = np.zeros((PROGRESS + 3 * len(new), len(self)))
        there.progress[:PROGRESS] = self.progress[:PROGRESS]
        there.progress[SPEED] = speed
        for block in range(3):
            for at, gpu_type in enumerate(new):
                if gpu_type in old:
                    row = PROGRESS + block * len(old) + old.index(gpu_type)
                    there.progress[PROGRESS + block * len(new) + at] = self.progress[row]
        return there


_Matrix = TypeVar("_Matrix", FloatArray, IntArray)


def _longer(old: _Matrix, count: int, new: _Matrix, rows: IntArray, *given: _Matrix) -> _Matrix:
    """Columns with `count` more: like `new`, but for these rows, whose values are given."""
    out = np.empty((len(old), old.shape[1] + count), dtype=old.dtype)
    kernels.append(old, new, out, rows, *given)
    return out


def _without(old: _Matrix, at: IntArray) -> _Matrix:
    out = np.empty((len(old), old.shape[1] - len(at)), dtype=old.dtype)
    kernels.without(old, at, out, len(out))
    return out
