"""Active jobs as columns: one column per job, ids ascending.

There are four blocks of rows. What was asked (`asked`, `named`) never changes while a job is there; what happens to it
(`progress`, `status`) does. No block is ever written to: a change is a copy that takes the place of the block, which
costs a microsecond for a few hundred jobs. So a view may hold slices of what is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
FAILURES, PROMISED, LAST_TASK, URGENT, PINNED, STATUS = range(6)
"""Rows of `status`."""

_NAMES_ASKED = ("submitted", "total_steps", "weight", "deadline")
_NAMES_NAMED = ("job", "class", "gpus", "tenant")
_NAMES_PROGRESS = ("done", "attained", "last_ran", "speed")
_NAMES_ACCOUNTS = ("share", "received", "owed")
_NAMES_STATUS = ("failures", "promised", "last_task", "urgent", "pinned")
"""Rows by name, as snapshots have them: a row may move, its name stays."""

_GIVEN_FLOATS: IntArray = np.array([SUBMITTED, TOTAL, WEIGHT, DEADLINE, ASKED + LAST_RAN, ASKED + SPEED])
_GIVEN_INTS: IntArray = np.array([ID, CLASS, GPUS])
"""What is known of a job that arrives, among the rows of both blocks."""


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
        self.fixed: Fixed | None = None
        """What was asked, as views have it; None until somebody has looked."""
        self.share = slice(PROGRESS, PROGRESS + types)
        """Rows of `progress`: promised fraction of time by type."""
        self.received = slice(PROGRESS + types, PROGRESS + 2 * types)
        """Rows of `progress`: seconds received by type since the last allocation, opening credit included."""
        self.owed = slice(PROGRESS + 2 * types, PROGRESS + 3 * types)
        """Rows of `progress`: seconds behind the promise by type when the last allocation was made."""
        self._new_floats: FloatArray = np.zeros((ASKED + PROGRESS + 3 * types, 1))
        self._new_floats[ASKED + PROGRESS + types : ASKED + PROGRESS + 2 * types] = credit_s
        self._new_ints: IntArray = np.zeros((NAMED + STATUS, 1), dtype=np.int64)
        self._new_ints[NAMED + LAST_TASK] = -1

    def __len__(self) -> int:
        count: int = self.named.shape[1]
        return count

    # Looking

    def look(self) -> Fixed:
        """What was asked, for views; made when somebody looks for the first time after a job came or left."""
        named = self.named
        asked = self.asked
        self.fixed = Fixed(
            named[ID], named[CLASS], named[GPUS], named[TENANT],
            asked[SUBMITTED], asked[TOTAL], asked[WEIGHT], asked[DEADLINE],
        )  # fmt: skip
        return self.fixed

    def positions(self, ids: IntArray) -> IntArray:
        """Where jobs stand in the columns; they must be there."""
        at: IntArray = self.named[ID].searchsorted(ids)
        return at

    # Changing what happens to jobs

    def set_progress(self, progress: FloatArray) -> None:
        """Progress and accounts from now on: a changed copy of those before."""
        progress.setflags(write=False)
        self.progress = progress

    def set_status(self, status: IntArray) -> None:
        """Status from now on: a changed copy of that before."""
        status.setflags(write=False)
        self.status = status

    # Changing which jobs there are

    def append(self, first_id: int, jobs: Jobs, classes: IntArray, tenants: IntArray, speed: FloatArray) -> None:
        """Jobs arrive; ids are consecutive from `first_id`, higher than those that are there."""
        count = len(jobs.gpus)
        total = self.named.shape[1] + count
        floats = np.empty((len(self._new_floats), total))
        ints = np.empty((len(self._new_ints), total), dtype=np.int64)
        kernels.append(
            self.asked, self.progress, self._new_floats, floats, _GIVEN_FLOATS,
            jobs.submitted, jobs.total_steps, jobs.weight, jobs.deadline, jobs.submitted, speed,
        )  # fmt: skip
        ids = np.arange(first_id, first_id + count)
        kernels.append(self.named, self.status, self._new_ints, ints, _GIVEN_INTS, ids, classes, jobs.gpus)
        if len(tenants):
            ints[TENANT, -count:] = tenants
        self._take_over(floats, ints)

    def remove(self, at: IntArray) -> None:
        """Jobs at these positions, ascending, leave."""
        left = self.named.shape[1] - len(at)
        floats = np.empty((len(self._new_floats), left))
        ints = np.empty((len(self._new_ints), left), dtype=np.int64)
        kernels.without(self.asked, self.progress, at, floats, len(floats))
        kernels.without(self.named, self.status, at, ints, len(ints))
        self._take_over(floats, ints)

    def _take_over(self, floats: FloatArray, ints: IntArray) -> None:
        floats.setflags(write=False)
        ints.setflags(write=False)
        self.asked = floats[:ASKED]
        self.progress = floats[ASKED:]
        self.named = ints[:NAMED]
        self.status = ints[NAMED:]
        self.fixed = None

    def taken(self, at: IntArray) -> JobColumns:
        """The columns of some of the jobs (`take`, because indexing may leave rows scattered in memory)."""
        part = JobColumns(self.types, self._credit_s)
        part.asked = frozen(self.asked.take(at, axis=1))
        part.named = frozen(self.named.take(at, axis=1))
        part.progress = frozen(self.progress.take(at, axis=1))
        part.status = frozen(self.status.take(at, axis=1))
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
        named = self.named.copy()
        named[CLASS] = classes
        there.named = frozen(named)
        there.status = self.status
        progress = np.zeros((PROGRESS + 3 * len(new), len(self)))
        progress[:PROGRESS] = self.progress[:PROGRESS]
        progress[SPEED] = speed
        for block in range(3):
            for at, gpu_type in enumerate(new):
                if gpu_type in old:
                    row = PROGRESS + block * len(old) + old.index(gpu_type)
                    progress[PROGRESS + block * len(new) + at] = self.progress[row]
        there.set_progress(progress)
        return there

    # As plain values

    def saved(self, types: Sequence[str]) -> dict[str, Any]:
        """Every row by its name; accounts by the name of their type."""
        rows = {
            **_rows(_NAMES_ASKED, self.asked),
            **_rows(_NAMES_NAMED, self.named),
            **_rows(_NAMES_PROGRESS, self.progress),
            **_rows(_NAMES_STATUS, self.status),
        }
        for block, name in enumerate(_NAMES_ACCOUNTS):
            first = PROGRESS + block * self.types
            rows[name] = _rows(types, self.progress[first:])
        return rows

    def restore(self, saved: Mapping[str, Any], types: Sequence[str]) -> None:
        """Take over rows that were saved. Raises KeyError or ValueError if they are none."""
        accounts = [saved[name][gpu_type] for name in _NAMES_ACCOUNTS for gpu_type in types]
        progress = [saved[name] for name in _NAMES_PROGRESS]
        count = len(saved[_NAMES_NAMED[ID]])
        self.asked = _block([saved[name] for name in _NAMES_ASKED], np.float64, count)
        self.named = _block([saved[name] for name in _NAMES_NAMED], np.int64, count)
        self.progress = _block(progress + accounts, np.float64, count)
        self.status = _block([saved[name] for name in _NAMES_STATUS], np.int64, count)
        self.fixed = None


def _rows(names: Sequence[str], block: FloatArray | IntArray) -> dict[str, Any]:
    return {name: block[row].tolist() for row, name in enumerate(names)}


def _block(rows: list[Any], kind: Any, jobs: int) -> Any:
    return frozen(np.array(rows, dtype=kind).reshape(len(rows), jobs))
