"""Whether the events of a log make sense, one by one and after what the log has said before.

A log is a file that anybody may have written or damaged. Whatever reads it (metrics, figures, reports) takes numbers of
jobs, types and servers for positions in its tables, so they are looked at here, once, before anybody sees an event.
Raises ValueError or TypeError with what is wrong; `engine/log.py` adds the file and the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.cluster import Cluster, cluster_from
from rota.core.events import (
    Allocated,
    CapacityChanged,
    Event,
    JobsDropped,
    JobsFinished,
    JobsParked,
    JobsPinned,
    JobsRejected,
    JobsReturned,
    JobsSubmitted,
    PlacementFailed,
    Planned,
    ProgressMade,
    RoundsRan,
    RunEnded,
    RunStarted,
    SolveFailed,
    SpeedsLearned,
)
from rota.core.jobs import Jobs
from rota.core.placement import Placement

LARGEST = 1e18
"""Of times, steps and weights: sums of them are still numbers."""
MOST_GPUS = 2**31 - 1
"""Of a job or a slot."""
MOST_UNUSED_IDS = 1_000_000
"""Ids that no job has, below those that jobs have: tables have a row for each."""
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters but for tabs and ends of lines, and halves of characters."""
DEEPEST = 50
"""Levels of lists and objects within the configuration of a run."""


class LogCheck:
    """What a log has said so far. Without a cluster in its first event only the events themselves are looked at."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._tasks: int | None = None
        """Of the plan in force."""
        self._there: IntArray = np.zeros(256, dtype=np.int8)
        """By id: whether a job was submitted (1) and has left (2)."""
        self._next_id = 0
        self._submitted_jobs = 0

    def take(self, event: Event) -> None:
        """The next event. Raises ValueError or TypeError if it makes no sense."""
        _number("at", event.at)
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def _started(self, event: RunStarted) -> None:
        if self._next_id or self._cluster is not None:
            raise ValueError("the run starts a second time")
        _check_depth(event.config)
        fields = event.config.get("cluster")
        if fields is not None:
            self._cluster = cluster_from(fields)
            self._tasks = 0

    # Jobs

    def _submitted(self, event: JobsSubmitted) -> None:
        first = event.first_id
        if not isinstance(first, int) or isinstance(first, bool) or first < 0:
            raise ValueError(f"first_id is {_shown(first)}, not a whole number from 0 on")
        jobs = event.jobs
        _check_jobs(jobs)
        if self._cluster is None:
            return
        self._submitted_jobs += len(jobs)
        end = first + len(jobs)
        if self._there[first:end].any():
            raise ValueError(f"first_id is {first}, and one of these {len(jobs)} jobs was submitted before")
        if end > self._submitted_jobs + MOST_UNUSED_IDS:
            raise ValueError(f"first_id is {first} after {self._submitted_jobs - len(jobs)} jobs")
        if end > len(self._there):
            more = np.zeros(max(end, 2 * len(self._there)) - len(self._there), dtype=np.int8)
            self._there = np.concatenate([self._there, more])
        self._there[first:end] = 1
        self._next_id = max(self._next_id, end)

    def _known(self, name: str, jobs: IntArray) -> None:
        """Jobs that were submitted."""
        if self._cluster is None or len(jobs) == 0:
            return
        _within(name, jobs, 0, self._next_id)
        unknown = self._there[jobs] == 0
        if unknown.any():
            raise ValueError(f"{name} has job {jobs[unknown][0]}, which was never submitted")

    def _left(self, event: JobsFinished | JobsDropped | JobsRejected) -> None:
        jobs = event.jobs
        if isinstance(event, JobsFinished):
            _column("finished_at", event.finished_at, len(jobs))
        else:
            _text("reason", event.reason)
        if self._cluster is None:
            return
        self._known("jobs", jobs)
        gone = self._there[jobs] == 2
        if gone.any():
            raise ValueError(f"jobs has job {jobs[gone][0]}, which has left before")
        if len(np.unique(jobs)) != len(jobs):
            raise ValueError("jobs has a job twice")
        self._there[jobs] = 2

    def _progress(self, event: ProgressMade) -> None:
        self._known("jobs", event.jobs)
        _column("steps", event.steps, len(event.jobs))

    def _named(self, event: JobsParked | JobsPinned | JobsReturned) -> None:
        self._known("jobs", event.jobs)

    def _speeds_learned(self, event: SpeedsLearned) -> None:
        count = len(event.profiles)
        for name, texts in (("profiles", event.profiles), ("beliefs", event.beliefs), ("types", event.types)):
            _texts(name, texts)
            if len(texts) != count:
                raise ValueError(f"{name} has {len(texts)} entries where profiles has {count}")
        _length("gpus", event.gpus, count)
        _column("rates", event.rates, count)
        if not np.all((event.rates > 0) & np.isfinite(event.rates)):
            raise ValueError("rates has an entry that is not above 0")

    # Decisions and rounds

    def _allocated(self, event: Allocated) -> None:
        allocation = event.allocation
        _texts("types", allocation.types)
        self._known("jobs", allocation.jobs)
        rows = len(allocation.jobs) + len(allocation.extras)
        if allocation.share.shape != (rows, len(allocation.types)):
            raise ValueError(f"share has not {rows} rows of {len(allocation.types)} types")
        _column("share", allocation.share.reshape(-1), allocation.share.size)
        if allocation.order is not None:
            _within("order", allocation.order, 0, len(allocation.jobs))

    def _planned(self, event: Planned) -> None:
        placement = event.plan.placement
        _count("round", event.plan.round)
        _check_placement(placement)
        self._known("first", placement.first)
        self._known("second", placement.second[placement.second >= 0])
        if self._cluster is not None:
            _within("type", placement.type, 0, len(self._cluster.types))
            _within("slot_server", placement.slot_server, 0, len(self._cluster.ordered))
            self._tasks = len(placement)

    def _ran(self, event: RoundsRan) -> None:
        _number("start", event.start)
        _count("rounds", event.rounds)
        tasks = len(event.steps) if self._tasks is None else self._tasks
        columns = {"steps": event.steps, "partner_steps": event.partner_steps, "seconds": event.seconds}
        if event.alone is not None:
            columns["alone"] = event.alone
        for name, column in columns.items():
            _column(name, column, tasks)
        self._known("lost", event.lost)

    def _capacity_changed(self, event: CapacityChanged) -> None:
        _within("capacity", event.capacity, 0, MOST_GPUS + 1)
        if self._cluster is not None and len(event.capacity) != len(self._cluster.types):
            raise ValueError(f"capacity has {len(event.capacity)} entries for {len(self._cluster.types)} types")

    def _ended(self, event: RunEnded | SolveFailed | PlacementFailed) -> None:
        _text("reason", event.reason)

    _HANDLERS: ClassVar[dict[type, Callable[[LogCheck, Any], None]]] = {
        RunStarted: _started,
        JobsSubmitted: _submitted,
        JobsFinished: _left,
        JobsDropped: _left,
        JobsRejected: _left,
        ProgressMade: _progress,
        JobsParked: _named,
        JobsPinned: _named,
        JobsReturned: _named,
        Allocated: _allocated,
        Planned: _planned,
        RoundsRan: _ran,
        SpeedsLearned: _speeds_learned,
        CapacityChanged: _capacity_changed,
        RunEnded: _ended,
        SolveFailed: _ended,
        PlacementFailed: _ended,
    }


def _check_jobs(jobs: Jobs) -> None:
    count = len(jobs)
    _texts("profiles", jobs.profiles)
    _texts("tenants", jobs.tenants)
    for name, column in (("total_steps", jobs.total_steps), ("submitted", jobs.submitted), ("weight", jobs.weight)):
        _column(name, column, count)
    for name, column in (("deadline", jobs.deadline), ("duration", jobs.duration), ("slo", jobs.slo)):
        _length(name, column, count)  # they may be missing
    _length("gpus", jobs.gpus, count)
    _within("gpus", jobs.gpus, 1, MOST_GPUS + 1)
    _within("profile", jobs.profile, 0, len(jobs.profiles))
    _within("tenant", jobs.tenant, 0, len(jobs.tenants))
    if jobs.names is not None:
        _length("names", jobs.names, count)
        _texts("names", jobs.names.tolist())
    if jobs.beliefs is not None:
        _texts("beliefs", jobs.beliefs)
        if len(jobs.beliefs) != count:
            raise ValueError(f"beliefs has {len(jobs.beliefs)} entries for {count} jobs")
    if jobs.gpu_types is not None:
        _length("allowed_types", jobs.gpu_types.allowed, count)
        for types in jobs.gpu_types.sets:
            _texts("allowed_types", types)


def _check_placement(placement: Placement) -> None:
    count = len(placement)
    for name in ("second", "type", "gpus", "kept"):
        _length(name, getattr(placement, name), count)
    for name in ("cpus", "memory_gb", "speed", "fraction"):
        column = getattr(placement, name)
        if column is not None:
            _column(name, column, count)
    _within("second", placement.second, -1, 2**63 - 1)
    _within("gpus", placement.gpus, 1, MOST_GPUS + 1)
    start = placement.slot_start
    slots = len(placement.slot_server)
    _length("slot_start", start, count + 1)
    _length("slot_gpus", placement.slot_gpus, slots)
    _within("slot_gpus", placement.slot_gpus, 1, MOST_GPUS + 1)
    if start[0] != 0 or start[-1] != slots or (start[1:] < start[:-1]).any():
        raise ValueError(f"slot_start does not go from 0 up to {slots}, the number of slots")


def _number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ValueError(f"{name} is {_shown(value)}, not a number of at most {LARGEST:g}")


def _count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise ValueError(f"{name} is {_shown(value)}, not a whole number from 0 on")


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {_shown(value)}, not a text")
    if _UNSHOWABLE.search(value):
        raise ValueError(f"{name} has a character that no terminal should see: {_shown(value)}")


def _texts(name: str, values: Iterable[Any]) -> None:
    for value in values:
        _text(name, value)


def _length(name: str, column: Any, count: int) -> None:
    if column.shape != (count,):
        raise ValueError(f"{name} has {len(column)} entries instead of {count}")


def _column(name: str, column: FloatArray, count: int) -> None:
    """As many numbers, none of them missing."""
    _length(name, column, count)
    wrong = ~(np.abs(column) <= LARGEST)
    if wrong.any():
        raise ValueError(f"{name} has {column[wrong][0]}, not a number of at most {LARGEST:g}")


def _within(name: str, column: IntArray, least: int, end: int) -> None:
    wrong = (column < least) | (column >= end)
    if wrong.any():
        allowed = f"allowed is {least} to {end - 1}" if end > least else "there is none"
        raise ValueError(f"{name} has {column[wrong][0]}; {allowed}")


def _check_depth(config: Any) -> None:
    level = [config]
    for _ in range(DEEPEST):
        level = [value for part in level if isinstance(part, dict | list | tuple) for value in _parts(part)]
        if not level:
            return
    raise ValueError(f"config has more than {DEEPEST} levels")


def _parts(part: Any) -> Iterable[Any]:
    return part.values() if isinstance(part, dict) else part


def _shown(value: Any) -> str:
    """A value in a message: whatever it is, in some characters."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a huge number"
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."
