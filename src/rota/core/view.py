"""All that a decision may know: a read-only look at the state between two rounds.

Matrices are [J, T] in the order `jobs` x `types`. Jobs with the same (profile, GPUs, weight) form a *class*:
they are interchangeable in a linear program, so `classes` holds their rates once and `job_class` points into it.
A view shares its arrays with the state and is valid until the next event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rota.core.allocation import Allocation, Options
from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.cluster import Cluster
from rota.core.sensitivity import Sensitivity

if TYPE_CHECKING:
    from rota.core.placement import Placement


class Configurations(Protocol):
    """What jobs of a class may hold beside their GPUs on a type, as columns. Numbers never change."""

    cpus: FloatArray
    """CPUs of the whole job."""
    memory_gb: FloatArray
    speed: FloatArray
    """Relative to the speed with the proportional share."""
    fair: IntArray
    """[C, T] the proportional share."""
    full: IntArray
    """[C, T] the least that makes the class as fast as it can get."""
    cut: IntArray
    """[C, T] what is left of that when all beyond the proportional share is given back."""
    problems: dict[int, str]
    """Why a class cannot run on some type where it has a rate."""
    sensitive: bool
    """Whether the profiles say anything about CPUs and memory, and the cluster has them."""

    def number(self, group: int, kind: int, cpus: float, memory_gb: float) -> int:
        """The row for so much of everything; a new one if there was none yet."""

    def within_share(self, group: int, kind: int, fair: int, wish: int) -> int:
        """What is left of a wish when all beyond the proportional share is given back, if that is no slower."""

    def measured(self, group: int, kind: int) -> Sensitivity | None:
        """What was measured for a class on a type."""

    def choices(self, group: int, kind: int) -> IntArray:
        """Rows that a policy may choose from: no slower than the proportional share, none worse in every respect."""


class Classes(Protocol):
    """Job classes seen so far, as columns. Class numbers never change; new ones are appended."""

    profile: tuple[str, ...]
    gpus: IntArray
    weight: FloatArray
    throughput: FloatArray
    """[C, T] steps/s of the whole job, alone, on GPUs of one server."""
    runs_on: BoolArray
    """[C, T] whether the throughput is positive."""
    best_step_s: FloatArray
    """[C] seconds per step on the best type with the proportional share."""
    spreading_costs: bool
    """Whether some class is slower with its GPUs on several servers."""

    @property
    def configurations(self) -> Configurations:
        """CPUs and memory that jobs may hold."""

    @property
    def pair(self) -> FloatArray:
        """[C, C, T] steps/s of a job of the first class while it shares GPUs with one of the second; 0 = cannot."""

    def __len__(self) -> int: ...


class OptionAccounts(Protocol):
    """The same columns for extra options (pairs), [T, P]."""

    options: Options
    received: FloatArray
    owed: FloatArray
    share: FloatArray

    def __len__(self) -> int: ...


class Accounts(Protocol):
    """Time that jobs have received against time they were promised, columns [T, J]."""

    @property
    def share(self) -> FloatArray:
        """Promised fraction of time."""

    @property
    def received(self) -> FloatArray:
        """Seconds since the last allocation, opening credit included."""

    @property
    def owed(self) -> FloatArray:
        """Seconds behind the promise when the last allocation was made."""

    @property
    def runs(self) -> BoolArray:
        """Whether a job has any speed on a type."""

    @property
    def wants(self) -> BoolArray:
        """Whether a job has a share that it can use."""

    @property
    def promised(self) -> IntArray:
        """[J] 1 for jobs that the allocation in force knows."""

    @property
    def newcomers(self) -> bool:
        """Whether there are jobs that the allocation in force does not know."""

    @property
    def type_time(self) -> FloatArray:
        """[T] seconds received by all options together since the last allocation."""

    @property
    def extras(self) -> OptionAccounts:
        """Accounts of pairs."""


@dataclass(slots=True, kw_only=True)
class View:
    """What a policy or a mechanism sees. Never changed after it is made (not frozen: one is made every round)."""

    now: float
    round: int
    cluster: Cluster
    capacity: IntArray
    """GPUs by type that are up, in the order of `types`."""
    classes: Classes
    jobs: IntArray
    """Ids of active jobs, ascending."""
    job_class: IntArray
    gpus: IntArray
    weight: FloatArray
    submitted: FloatArray
    total_steps: FloatArray
    steps_done: FloatArray
    deadline: FloatArray
    tenant: IntArray
    tenants: tuple[str, ...]
    attained: FloatArray
    """[J] GPU-seconds received so far."""
    speed: FloatArray
    """[J] speed in the last round relative to the proportional share; for who did not run, what it could be."""
    urgent: BoolArray | None
    """[J] who has waited too long under the rules; None if nobody has."""
    patient: bool
    """Whether the rules let jobs wait as long as it takes, so that nobody ever becomes urgent."""
    previous: Allocation | None
    placement: Placement | None
    """What ran in the last round."""
    last_task: IntArray | None = None
    """[J] the row of each job's task (as first member) in `placement`, -1 without one."""
    single_gpu: bool = False
    """Whether it is known that no active job has more than one GPU."""
    accounts: Accounts | None = None
    solved_at: float = 0.0
    """When the last allocation was made."""

    @property
    def types(self) -> tuple[str, ...]:
        """Accelerator types, alphabetical."""
        return self.cluster.types

    @property
    def prices(self) -> FloatArray:
        """Hourly price of one GPU by type."""
        return self.cluster.prices

    @property
    def throughput(self) -> FloatArray:
        """[J, T] steps/s of each job alone on each type."""
        return self.classes.throughput[self.job_class]

    @property
    def steps_left(self) -> FloatArray:
        """[J] steps still to do."""
        return self.total_steps - self.steps_done

    @property
    def remaining_s(self) -> FloatArray:
        """[J] seconds still to run on the best type at the last speed."""
        return self.classes.best_step_s[self.job_class] * (self.total_steps - self.steps_done) / self.speed

    @property
    def duration_s(self) -> FloatArray:
        """[J] seconds of the whole job on the best type with the proportional share."""
        return self.classes.best_step_s[self.job_class] * self.total_steps

    @property
    def demand(self) -> FloatArray:
        """[J, 3] GPUs, CPUs and memory that make each job as fast as it can get, as parts of the whole cluster."""
        known, best = self.classes.configurations, self.classes.throughput.argmax(axis=1)
        full = known.full[np.arange(len(best)), best][self.job_class]
        cluster = self.cluster
        return np.stack(
            [
                self.gpus / cluster.gpus,
                known.cpus[full] / max(float(cluster.server_cpus.sum()), 1.0),
                known.memory_gb[full] / max(float(cluster.server_memory_gb.sum()), 1.0),
            ],
            axis=1,
        )

    @property
    def age(self) -> FloatArray:
        """[J] seconds since arrival."""
        return self.now - self.submitted

    def __len__(self) -> int:
        return len(self.jobs)

    def position(self, ids: IntArray) -> IntArray:
        """Where each job id stands in `jobs`; -1 if it is not active."""
        if len(self.jobs) == 0:
            return np.full(len(ids), -1, dtype=np.int64)
        at = self.jobs.searchsorted(ids)
        at = np.minimum(at, len(self.jobs) - 1, out=at)
        return np.where(self.jobs[at] == ids, at, -1)

    def part(self, keep: IntArray, capacity: IntArray) -> View:
        """The same instant with fewer jobs and GPUs (for partitioned solving)."""
        return View(
            now=self.now,
            round=self.round,
            cluster=self.cluster,
            capacity=capacity,
            classes=self.classes,
            jobs=self.jobs[keep],
            job_class=self.job_class[keep],
            gpus=self.gpus[keep],
            weight=self.weight[keep],
            submitted=self.submitted[keep],
            total_steps=self.total_steps[keep],
            steps_done=self.steps_done[keep],
            deadline=self.deadline[keep],
            tenant=self.tenant[keep],
            tenants=self.tenants,
            attained=self.attained[keep],
            speed=self.speed[keep],
            urgent=None if self.urgent is None else self.urgent[keep],
            patient=self.patient,
            previous=None,
            placement=None,
            accounts=None,
            solved_at=self.solved_at,
        )
