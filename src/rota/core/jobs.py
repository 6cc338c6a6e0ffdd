"""Jobs as columns: what was asked, never what happened.

A table holds one array per attribute; text is kept once and referred to by index. `Source` is where the engine
gets jobs from: a finished table (a trace) or a generator that makes them as simulated time goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.gpu_types import ANY, GpuTypes, TypeSet, gpu_types
from rota.core.queue_columns import QueueColumns

RECORDED = "recorded"
"""The profile of a job of which only the duration is known. Its steps are seconds, wherever it may run."""
RECORDED_RATE = 1.0
"""Its steps/s."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a job is started on a real machine (carried along, not used in simulation)."""

    command: str = ""
    working_directory: str = ""
    steps_argument: str = ""
    needs_data_dir: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Requests:
    """What jobs ask for beside a number of GPUs (carried along, not used in simulation); NaN where nothing was said."""

    cpus: FloatArray
    """CPUs of the whole job."""
    memory_gb: FloatArray
    """Main memory of the whole job, GB."""
    min_gpus: FloatArray
    """The least number of GPUs with which the job may run."""
    max_gpus: FloatArray
    """The largest number of GPUs with which the job may run."""

    def take(self, which: IntArray | slice) -> Requests:
        """Those of some of the jobs."""
        return Requests(
            cpus=self.cpus[which],
            memory_gb=self.memory_gb[which],
            min_gpus=self.min_gpus[which],
            max_gpus=self.max_gpus[which],
        )


REQUESTS = ("cpus", "memory_gb", "min_gpus", "max_gpus")


def requests(count: int, **columns: FloatArray) -> Requests:
    """Requests of so many jobs, unknown but for the columns given."""
    return Requests(**{name: columns.get(name, np.full(count, np.nan)) for name in REQUESTS})


@dataclass(frozen=True, kw_only=True, eq=False)
class Jobs:
    """A table of jobs. All arrays have one entry per job."""

    profiles: tuple[str, ...]
    """Distinct profile (model) names; `profile` points into it."""
    profile: IntArray
    gpus: IntArray
    total_steps: FloatArray
    submitted: FloatArray
    """Arrival, seconds."""
    weight: FloatArray
    deadline: FloatArray
    """Absolute seconds; infinity where there is none."""
    duration: FloatArray
    """Seconds the job was said to take on the type where that was recorded, or on the reference type of the catalogue;
    NaN where unknown."""
    slo: FloatArray
    """Deadline as a multiple of the duration; NaN where there is none."""
    tenants: tuple[str, ...] = ("default",)
    tenant: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    launches: tuple[Launch, ...] = (Launch(),)
    launch: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    requests: Requests | None = None
    gpu_types: GpuTypes | None = None
    """Where jobs may run and where their durations were recorded; None if nothing is said about any job."""
    names: NDArray[np.object_] | None = None
    """What a trace calls its jobs; None if that is only their number in order of arrival."""
    queue: QueueColumns | None = None
    """What jobs say about when they start and how long they run; None if none says anything."""
    beliefs: tuple[str, ...] | None = None
    """[J] among whose jobs of the same profile a speed is found out (a tenant, in a deployment); empty: it is not. None
    if it is so for none."""

    def __post_init__(self) -> None:
        count = len(self.profile)
        if len(self.tenant) != count:
            object.__setattr__(self, "tenant", np.zeros(count, dtype=np.int64))
        if len(self.launch) != count:
            object.__setattr__(self, "launch", np.zeros(count, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.profile)

    def rows(self, start: int, stop: int) -> Jobs:
        """A slice of the table; text tables are shared."""
        columns = self.__dict__.copy()
        for name in COLUMNS:
            columns[name] = columns[name][start:stop]
        if self.requests is not None:
            columns["requests"] = self.requests.take(slice(start, stop))
        if self.gpu_types is not None:
            columns["gpu_types"] = self.gpu_types.take(slice(start, stop))
        if self.names is not None:
            columns["names"] = self.names[start:stop]
        if self.queue is not None:
            columns["queue"] = self.queue.take(slice(start, stop))
        if self.beliefs is not None:
            columns["beliefs"] = self.beliefs[start:stop]
        part = object.__new__(Jobs)  # not made anew: one is taken at every arrival, and this one is known to be sound
        part.__dict__.update(columns)
        return part

    def take(self, which: IntArray) -> Jobs:
        """Some of the jobs, in that order; text tables are shared."""
        names = row_names(len(self)) if self.names is None and self.queue is not None else self.names
        return Jobs(
            profiles=self.profiles,
            profile=self.profile[which],
            gpus=self.gpus[which],
            total_steps=self.total_steps[which],
            submitted=self.submitted[which],
            weight=self.weight[which],
            deadline=self.deadline[which],
            duration=self.duration[which],
            slo=self.slo[which],
            tenants=self.tenants,
            tenant=self.tenant[which],
            launches=self.launches,
            launch=self.launch[which],
            requests=None if self.requests is None else self.requests.take(which),
            gpu_types=None if self.gpu_types is None else self.gpu_types.take(which),
            names=None if names is None else names[which],
            queue=None if self.queue is None else self.queue.take(which),
            beliefs=None if self.beliefs is None else tuple(self.beliefs[at] for at in which.tolist()),
        )

    def by_arrival(self) -> Jobs:
        """The same jobs in order of arrival, those of one moment as they are.

        Jobs without names that have to change places are called by the row in which they were.
        """
        if len(self) < 2 or bool(np.all(self.submitted[1:] >= self.submitted[:-1])):
            return self
        order = np.argsort(self.submitted, kind="stable")
        named = self if self.names is not None else replace(self, names=row_names(len(self)))
        return named.take(order)

    def allowed_types(self) -> Sequence[TypeSet]:
        """The types on which each job may run; empty where any will do."""
        return [ANY] * len(self) if self.gpu_types is None else self.gpu_types.allowed_sets()

    def columns(self) -> dict[str, IntArray | FloatArray]:
        """The arrays by name, in the order of `COLUMNS`."""
        return {
            "profile": self.profile,
            "gpus": self.gpus,
            "total_steps": self.total_steps,
            "submitted": self.submitted,
            "weight": self.weight,
            "deadline": self.deadline,
            "duration": self.duration,
            "slo": self.slo,
            "tenant": self.tenant,
            "launch": self.launch,
        }


COLUMNS = (
    "profile", "gpus", "total_steps", "submitted", "weight", "deadline", "duration", "slo", "tenant", "launch",
)  # fmt: skip
"""The arrays of a table, in the order in which they are written."""


def table(
    *,
    profile_names: Sequence[str],
    gpus: Sequence[int] | IntArray,
    total_steps: Sequence[float] | FloatArray,
    submitted: Sequence[float] | FloatArray,
    weight: Sequence[float] | FloatArray | None = None,
    duration: Sequence[float] | FloatArray | None = None,
    slo: Sequence[float] | FloatArray | None = None,
    tenant_names: Sequence[str] | None = None,
    launch: Sequence[Launch] | None = None,
    requests: Requests | None = None,
    allowed_types: Sequence[Sequence[str]] | None = None,
    recorded_on: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    queue: QueueColumns | None = None,
    beliefs: Sequence[str] | None = None,
) -> Jobs:
    """A table from one plain sequence per attribute; deadlines follow from slo x duration + arrival.

    `allowed_types` are the types of GPU on which a job may run (empty: any), `recorded_on` is the type on which its
    duration was recorded (empty: the reference type of the catalogue). `names` are for results.
    """
    count = len(profile_names)
    said = {"allowed_types": allowed_types, "recorded_on": recorded_on, "names": names, "beliefs": beliefs}
    for name, column in said.items():
        if column is not None and len(column) != count:
            raise ConfigError(f"{name} has {len(column)} entries for {count} jobs; give one for each")
    profiles, profile = intern(profile_names)
    tenants, tenant = intern(tenant_names if tenant_names is not None else ["default"] * count)
    launches, launched = intern(launch if launch is not None else [Launch()] * count)
    arrivals = np.asarray(submitted, dtype=np.float64)
    durations = np.full(count, np.nan) if duration is None else np.asarray(duration, dtype=np.float64)
    multiples = np.full(count, np.nan) if slo is None else np.asarray(slo, dtype=np.float64)
    deadline = arrivals + multiples * durations
    return Jobs(
        profiles=profiles,
        profile=profile,
        gpus=np.asarray(gpus, dtype=np.int64),
        total_steps=np.asarray(total_steps, dtype=np.float64),
        submitted=arrivals,
        weight=np.ones(count) if weight is None else np.asarray(weight, dtype=np.float64),
        deadline=np.where(np.isnan(deadline), np.inf, deadline),
        duration=durations,
        slo=multiples,
        tenants=tenants,
        tenant=tenant,
        launches=launches,
        launch=launched,
        requests=requests,
        gpu_types=gpu_types(count, allowed_types, recorded_on),
        names=own_names(names),
        queue=queue,
        beliefs=tuple(beliefs) if beliefs is not None and any(beliefs) else None,
    )


def own_names(names: Sequence[str] | None) -> NDArray[np.object_] | None:
    """Names as a column; None if they are only the numbers of the rows, which need not be said."""
    if names is None or all(name == str(row) for row, name in enumerate(names)):
        return None
    return np.array([*names, None], dtype=object)[:-1]  # one more, so that no name is taken for a sequence


def row_names(count: int) -> NDArray[np.object_]:
    """Rows as names."""
    return np.array([str(row) for row in range(count)], dtype=object)


def intern(values: Sequence[object]) -> tuple[tuple, IntArray]:  # type: ignore[type-arg]
    """Distinct values in order of appearance, and the index of each value."""
    seen: dict[object, int] = {}
    index = np.fromiter((seen.setdefault(v, len(seen)) for v in values), dtype=np.int64, count=len(values))
    return tuple(seen), index


class Source(Protocol):
    """Where jobs come from, in order of arrival."""

    @property
    def endless(self) -> bool:
        """Whether jobs come for ever."""

    @property
    def static(self) -> bool:
        """Whether all jobs are there within the first second."""

    @property
    def count(self) -> int | None:
        """How many jobs come in all, from the first; None where that is not known beforehand."""

    def peek(self) -> float:
        """Arrival of the next job; infinity when there is none left."""

    def take(self, now: float) -> Jobs | None:
        """All jobs that have arrived by `now` and were not taken before."""

    def snapshot(self) -> dict[str, int]:
        """What `restore` needs to go on from here, for a checkpoint."""

    def restore(self, saved: Mapping[str, int]) -> None:
        """Go on from where the snapshot was taken; the source must have been made with the same settings."""


class TableSource:
    """Jobs of a finished table."""

    endless = False

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._next = 0

    @property
    def static(self) -> bool:
        """Whether all jobs are there within the first second."""
        return len(self._jobs) > 0 and float(self._jobs.submitted[-1]) < 1.0

    @property
    def count(self) -> int:
        """How many jobs the table has."""
        return len(self._jobs)

    def peek(self) -> float:
        """Arrival of the next job; infinity when there is none left."""
        return float(self._jobs.submitted[self._next]) if self._next < len(self._jobs) else np.inf

    def take(self, now: float) -> Jobs | None:
        """All jobs that have arrived by `now` and were not taken before."""
        stop = int(np.searchsorted(self._jobs.submitted, now, side="right"))
        if stop <= self._next:
            return None
        part = self._jobs.rows(self._next, stop)
        self._next = stop
        return part

    def snapshot(self) -> dict[str, int]:
        """How many jobs were taken."""
        return {"taken": self._next}

    def restore(self, saved: Mapping[str, int]) -> None:
        """Go on after the jobs that were taken."""
        self._next = int(saved["taken"])
