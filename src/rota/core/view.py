"""All that a decision may know: the state between two rounds, as a value.

Matrices are [J, T] in the order `jobs` x `types`. Jobs with the same (profile, GPUs, weight) form a *class*:
they are interchangeable in a linear program, so `classes` holds their rates once and `job_class` points into it.
Nothing that can be reached from a view changes after it was made: arrays cannot be written to, and whoever keeps a view
(a solve in another thread, a question, a test) finds it later as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rota.core.allocation import Allocation, Options
from rota.core.arrays import BoolArray, FloatArray, IntArray, frozen
from rota.core.classes import Classes
from rota.core.cluster import Cluster

if TYPE_CHECKING:
    from rota.core.placement import Placement


@dataclass(slots=True, eq=False)
class Terms:
    """What the allocation in force promises to jobs; the same for all views until it or the jobs change."""

    share: FloatArray
    """[T, J] promised fraction of time."""
    promised: IntArray
    """[J] 1 for jobs that the allocation knows."""
    newcomers: bool
    """Whether there are jobs that it does not know."""
    classes: Classes
    job_class: IntArray
    _runs: BoolArray | None = None
    _wants: BoolArray | None = None

    @property
    def runs(self) -> BoolArray:
        """[T, J] whether a job has any speed on a type."""
        if self._runs is None:
            self._runs = frozen(np.ascontiguousarray(self.classes.runs_on[self.job_class].T))
        return self._runs

    @property
    def wants(self) -> BoolArray:
        """[T, J] whether a job has a share that it can use."""
        if self._wants is None:
            self._wants = frozen((self.share > 0) & self.runs)
        return self._wants


@dataclass(slots=True, eq=False)
class PairAccounts:
    """Time of extra options (pairs) received and owed, [T, P]."""

    options: Options
    received: FloatArray
    owed: FloatArray
    share: FloatArray

    def __len__(self) -> int:
        return len(self.options)


@dataclass(slots=True, eq=False)
class Accounts:
    """Time that jobs have received against time they were promised, columns [T, J]."""

    terms: Terms
    received: FloatArray
    """Seconds since the last allocation, opening credit included."""
    owed: FloatArray
    """Seconds behind the promise when the last allocation was made."""
    type_time: FloatArray
    """[T] seconds received by all options together since the last allocation."""
    extras: PairAccounts
    """Accounts of pairs."""

    @property
    def share(self) -> FloatArray:
        """Promised fraction of time."""
        return self.terms.share

    @property
    def runs(self) -> BoolArray:
        """Whether a job has any speed on a type."""
        return self.terms.runs

    @property
    def wants(self) -> BoolArray:
        """Whether a job has a share that it can use."""
        return self.terms.wants

    @property
    def promised(self) -> IntArray:
        """[J] 1 for jobs that the allocation in force knows."""
        return self.terms.promised

    @property
    def newcomers(self) -> bool:
        """Whether there are jobs that the allocation in force does not know."""
        return self.terms.newcomers

    def part(self, keep: IntArray, ids: IntArray) -> Accounts:
        """The accounts of some jobs, given by position and id, and of pairs of two of them."""
        terms = self.terms
        pairs = self.extras
        if len(pairs):
            both = np.isin(pairs.options.first, ids) & np.isin(pairs.options.second, ids)
            pairs = PairAccounts(
                options=pairs.options.rows(both),
                received=pairs.received[:, both],
                owed=pairs.owed[:, both],
                share=pairs.share[:, both],
            )
        return Accounts(
            terms=Terms(
                share=terms.share[:, keep],
                promised=terms.promised[keep],
                newcomers=terms.newcomers,
                classes=terms.classes,
                job_class=terms.job_class[keep],
            ),
            received=self.received[:, keep],
            owed=self.owed[:, keep],
            type_time=self.type_time,
            extras=pairs,
        )


@dataclass(slots=True, eq=False)
class View:
    """What a policy or a mechanism sees.

    Never changed after it is made. The class is not frozen because several are made every round, and that would cost
    more than all else about them; `dataclasses.replace` makes a changed one.
    """

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
    last_ran: FloatArray
    """[J] when each job ran last, or arrived."""
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
    staying: BoolArray | None = None
    """[K] tasks of `placement` that go on on their GPUs, whatever is decided; None if there are none."""

    @property
    def types(self) -> tuple[str, ...]:
        """Accelerator types, from slow to fast."""
        return self.cluster.types

    @property
    def priority(self) -> IntArray | None:
        """[J] priorities, higher ones first; None if all are 0."""
        by_class = self.classes.priority
        return None if by_class is None else by_class[self.job_class]

    @property
    def prices(self) -> FloatArray:
        """Hourly price of one GPU by type; NaN where none is known."""
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

    def later(self, now: float, steps_done: FloatArray, attained: FloatArray) -> View:
        """The same jobs at another time, with other progress (quicker than `dataclasses.replace`)."""
        return View(
            now, self.round, self.cluster, self.capacity, self.classes, self.jobs, self.job_class, self.gpus,
            self.weight, self.submitted, self.total_steps, steps_done, self.deadline, self.tenant, self.tenants,
            attained, self.speed, self.last_ran, self.urgent, self.patient, self.previous, self.placement,
            self.last_task, self.single_gpu, self.accounts, self.solved_at, self.staying,
        )  # fmt: skip

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
            last_ran=self.last_ran[keep],
            urgent=None if self.urgent is None else self.urgent[keep],
            patient=self.patient,
            previous=None,
            placement=None,
            accounts=None,
            solved_at=self.solved_at,
        )

    def beside_staying(self, staying: BoolArray) -> View:
        """What the jobs of tasks that stay leave to the others: those jobs, and the GPUs by type that are left."""
        placement = self.placement
        assert placement is not None  # tasks of it stay
        waits = np.ones(len(self.jobs), dtype=np.bool_)
        waits[self.position(placement.first[staying])] = False
        if placement.shared:
            partner = placement.second[staying]
            waits[self.position(partner[partner >= 0])] = False
        keep = waits.nonzero()[0]
        taken = np.bincount(placement.type[staying], weights=placement.gpus[staying], minlength=len(self.capacity))
        part = self.some_jobs(keep, self.capacity - taken.astype(np.int64))
        part.placement = None
        part.last_task = None
        if not staying.all():
            part.placement = placement.rows(~staying)
            row = np.full(len(placement) + 1, -1, dtype=np.int64)
            row[:-1][~staying] = np.arange(len(part.placement))
            part.last_task = None if self.last_task is None else row[self.last_task[keep]]
        return part

    def some_jobs(self, keep: IntArray, capacity: IntArray) -> View:
        """The same instant with fewer jobs and GPUs, with their accounts and what runs."""
        part = self.part(keep, capacity)
        part.accounts = None if self.accounts is None else self.accounts.part(keep, part.jobs)
        part.previous = self.previous
        part.single_gpu = self.single_gpu
        part.placement = self.placement
        part.last_task = None if self.last_task is None else self.last_task[keep]
        return part

    def with_tasks(self, placement: Placement, last_task: IntArray | None, staying: BoolArray | None) -> View:
        """The same with other tasks that run, of which some have to stay (quicker than `dataclasses.replace`)."""
        return View(
            self.now, self.round, self.cluster, self.capacity, self.classes, self.jobs, self.job_class, self.gpus,
            self.weight, self.submitted, self.total_steps, self.steps_done, self.deadline, self.tenant, self.tenants,
            self.attained, self.speed, self.last_ran, self.urgent, self.patient, self.previous, placement,
            last_task, self.single_gpu, self.accounts, self.solved_at, staying,
        )  # fmt: skip
