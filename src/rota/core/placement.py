"""Who runs where for one round, and the least change from one round to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray, same
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE, Horizon


@dataclass(slots=True, kw_only=True, eq=False)
class Placement:
    """Tasks of one round as columns. A task is one option (a job, or two that share) on one type.

    Never changed after it is made (not frozen: one is made every round).

    The slots of task k are entries `slot_start[k]:slot_start[k + 1]` of the slot columns.
    """

    first: IntArray
    """Job id."""
    second: IntArray
    """Partner's id or NO_JOB."""
    type: IntArray
    """Index into the cluster's types."""
    gpus: IntArray
    kept: BoolArray
    """Whether the task holds the very slots it had in the round before (its lease is extended)."""
    slot_start: IntArray
    slot_server: IntArray
    """Index into the cluster's ordered servers."""
    slot_gpus: IntArray
    cpus: FloatArray | None = None
    """CPUs of each task, on its servers in proportion to its GPUs there; None: the same part of every server as of
    its GPUs."""
    memory_gb: FloatArray | None = None
    speed: FloatArray | None = None
    """How fast each task is with them, relative to the proportional share; None: 1."""
    fraction: FloatArray | None = None
    """Part of the time each task runs; None means all of it (only the ideal mechanism gives less)."""
    shared: bool = True
    """False where it is known that no task has two members."""
    horizon: Horizon = EVERY_ROUND
    """How long the same would be placed again, whoever is asked."""

    def __len__(self) -> int:
        return len(self.first)

    @property
    def spans(self) -> BoolArray:
        """[K] whether a task is spread over several servers."""
        return np.diff(self.slot_start) > 1

    @property
    def task_of_slot(self) -> IntArray:
        """The task that each slot belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.slot_start))

    def rows(self, keep: BoolArray) -> Placement:
        """Some of the tasks with their slots. What was promised about the whole does not hold for a part."""
        if len(self.slot_server) == len(self):  # one slot each
            slots = keep
            start = np.arange(int(np.count_nonzero(keep)) + 1)
        else:
            slots = keep[self.task_of_slot]
            start = np.concatenate(([0], np.cumsum(np.diff(self.slot_start)[keep]))).astype(np.int64)
        return Placement(
            first=self.first[keep],
            second=self.second[keep],
            type=self.type[keep],
            gpus=self.gpus[keep],
            kept=self.kept[keep],
            slot_start=start,
            slot_server=self.slot_server[slots],
            slot_gpus=self.slot_gpus[slots],
            cpus=None if self.cpus is None else self.cpus[keep],
            memory_gb=None if self.memory_gb is None else self.memory_gb[keep],
            speed=None if self.speed is None else self.speed[keep],
            fraction=None if self.fraction is None else self.fraction[keep],
            shared=self.shared,
        )

    def within_round(self, *, kept: BoolArray) -> Placement:
        """The same tasks, planned within a round: what was promised about later ones does not hold."""
        return Placement(
            first=self.first,
            second=self.second,
            type=self.type,
            gpus=self.gpus,
            kept=kept,
            slot_start=self.slot_start,
            slot_server=self.slot_server,
            slot_gpus=self.slot_gpus,
            cpus=self.cpus,
            memory_gb=self.memory_gb,
            speed=self.speed,
            fraction=self.fraction,
            shared=self.shared,
        )

    def __eq__(self, other: object) -> bool:
        names = (
            "first",
            "second",
            "type",
            "gpus",
            "slot_start",
            "slot_server",
            "slot_gpus",
            "fraction",
            "cpus",
            "memory_gb",
        )
        return isinstance(other, Placement) and all(same(getattr(self, n), getattr(other, n)) for n in names)

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True, kw_only=True)
class Plan:
    """One round: who runs, and how that differs from the round before. Never changed after it is made."""

    round: int
    start: float
    placement: Placement
    last: Placement | None = None

    @property
    def launch(self) -> tuple[int, ...]:
        """Ids of jobs that have to start, ascending."""
        return tuple(sorted(_members(self.placement, ~self.placement.kept)))

    @property
    def stop(self) -> tuple[int, ...]:
        """Ids of jobs that ran and have to stop first (one that moves is in both), ascending."""
        running = set() if self.last is None else _members(self.last, None)
        return tuple(sorted(running - _members(self.placement, self.placement.kept)))


def _members(placement: Placement, rows: BoolArray | None) -> set[int]:
    first = placement.first if rows is None else placement.first[rows]
    second = placement.second if rows is None else placement.second[rows]
    return {int(i) for i in first} | {int(i) for i in second if i >= 0}


def nobody() -> Placement:
    """A round in which nothing runs."""
    none = np.zeros(0, dtype=np.int64)
    return Placement(
        first=none,
        second=none,
        type=none,
        gpus=none,
        kept=np.zeros(0, dtype=np.bool_),
        slot_start=np.zeros(1, dtype=np.int64),
        slot_server=none,
        slot_gpus=none,
        horizon=UNTIL_JOBS_CHANGE,
    )
