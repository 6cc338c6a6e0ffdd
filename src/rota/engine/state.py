"""What is the case now. Changes only through `apply(event)`; a log of events rebuilds it.

Live state and snapshot are different things: `view(now)` is a value that stays as it is, this object goes on. Active
jobs are columns (`engine/columns.py`), so arrivals and departures cost a few array operations, and a view is a handful
of row slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation, Options
from rota.core.arrays import BoolArray, FloatArray, IntArray, frozen, level, some
from rota.core.cluster import Cluster
from rota.core.errors import RotaError
from rota.core.events import (
    Allocated,
    Event,
    JobsDropped,
    JobsFinished,
    JobsPinned,
    JobsRejected,
    JobsSubmitted,
    Planned,
    RoundsRan,
    SpeedsLearned,
)
from rota.core.placement import Placement
from rota.core.ports import Handler, Throughputs, on_servers
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.core.view import Accounts, Terms, View
from rota.engine import urgency
from rota.engine.classes import ClassTable
from rota.engine.columns import (
    ATTAINED,
    CLASS,
    DONE,
    FAILURES,
    GPUS,
    ID,
    LAST_RAN,
    LAST_TASK,
    PINNED,
    PROMISED,
    SPEED,
    TENANT,
    URGENT,
    JobColumns,
)
from rota.engine.configurations import ConfigurationTable, shapes
from rota.engine.inheritance import inherited
from rota.engine.pairs import PairLedger

_NONE: IntArray = np.zeros(0, dtype=np.int64)
_NO_TIMES: FloatArray = np.zeros(0)


class State:
    """Active jobs, the allocation in force, the accounts behind it and the last placement."""

    def __init__(self, cluster: Cluster, throughputs: Throughputs, rules: Rules, *, by_need: bool = False) -> None:
        """`by_need` says that the mechanism divides CPUs and memory by need, so jobs may be faster than their rate."""
        self.cluster = cluster
        self.rules = rules
        self.classes = ClassTable(on_servers(throughputs, cluster), cluster.types, self.holds, self._configurations())
        self.allocation: Allocation | None = None
        self.placement: Placement | None = None
        self.now = 0.0
        self.round = 0
        self.solved_at = 0.0
        self.newly_urgent = False
        """Whether somebody became urgent after the last ranking was made."""
        self._by_need = by_need
        self._tenants: dict[str, int] = {}
        self._tenant_names: tuple[str, ...] = ()
        self._jobs = JobColumns(len(cluster.types), self._credit_s)
        self._type_time: FloatArray = frozen(np.zeros(len(cluster.types)))
        self._pairs = PairLedger(len(cluster.types))
        self._terms: Terms | None = None
        self._rows: IntArray | None = None
        """Positions of the jobs that run, in the order of the placement; None if it is out of date."""
        self._paired: IntArray = _NONE
        """Tasks of the placement with two members."""
        self._waiting_long = False
        self._failing = False
        self._gangs = 0
        self._newcomers = False
        self._pins = False
        """Whether a job was ever pinned."""
        self._apply = self._handlers()

    def attach(self, throughputs: Throughputs) -> None:
        """Where rates come from after a checkpoint was read."""
        self.classes.attach(on_servers(throughputs, self.cluster), self.holds)

    def _configurations(self) -> ConfigurationTable:
        return ConfigurationTable(shapes(self.cluster), two_valued=self.rules.speeds == "two-valued")

    @property
    def _credit_s(self) -> float:
        """Seconds that a job is taken to have received when its account is opened or reset."""
        return self.rules.opening_credit * self.rules.round_s

    def _handlers(self) -> dict[type, Handler]:
        return {
            JobsSubmitted: self._submitted,
            JobsRejected: self._left,
            JobsFinished: self._left,
            JobsDropped: self._left,
            JobsPinned: self._pinned,
            Allocated: self._allocated,
            Planned: self._planned,
            RoundsRan: self._ran,
            SpeedsLearned: self._speeds_learned,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the table of handlers."""
        return {**self.__dict__, "_apply": None, "_terms": None}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)
        self._apply = self._handlers()

    def __len__(self) -> int:
        count: int = self._jobs.named.shape[1]
        return count

    @property
    def capacity(self) -> IntArray:
        """GPUs by type."""
        return self.cluster.capacity

    def holds(self, gpus: int) -> list[bool]:
        """On which types a job of so many GPUs can run."""
        fits: list[bool] = (self.cluster.capacity >= gpus).tolist()
        return [True] * len(fits) if self.rules.small_types_count and any(fits) else fits

    def apply(self, event: Event) -> None:
        """Take over what happened."""
        handler = self._apply.get(type(event))
        if handler is not None:
            handler(event)

    def handler(self, kind: type[Event]) -> Handler | None:
        """The part of `apply` for events of a kind."""
        return self._apply.get(kind)

    # Looking

    def view(self, now: float) -> View:
        """The state at this instant, as a value."""
        self.now = now
        jobs = self._jobs
        asked = jobs.fixed or jobs.look()
        progress = jobs.progress
        status = jobs.status
        allocation = self.allocation
        ranked = allocation is not None and allocation.order is not None
        return View(
            now,
            self.round,
            self.cluster,
            self.cluster.capacity,
            self.classes.value,
            asked.jobs,
            asked.job_class,
            asked.gpus,
            asked.weight,
            asked.submitted,
            asked.total_steps,
            progress[DONE],
            asked.deadline,
            asked.tenant,
            self._tenant_names,
            progress[ATTAINED],
            progress[SPEED],
            progress[LAST_RAN],
            status[URGENT] > 0 if self._waiting_long else None,
            self.rules.starvation_s == 0,
            allocation,
            self.placement,
            status[LAST_TASK],
            self._gangs == 0,
            None if ranked else self._accounts(progress, asked.job_class),
            self.solved_at,
        )

    @property
    def _ranked(self) -> bool:
        """Whether a ranking is in force, which needs no accounts."""
        return self.allocation is not None and self.allocation.order is not None

    def _accounts(self, progress: FloatArray, job_class: IntArray) -> Accounts:
        jobs = self._jobs
        terms = self._terms
        if terms is None:
            share = progress[jobs.share]
            terms = Terms(share, jobs.status[PROMISED], self._newcomers, self.classes.value, job_class)
            self._terms = terms
        return Accounts(terms, progress[jobs.received], progress[jobs.owed], self._type_time, self._pairs.value)

    @property
    def newcomers(self) -> bool:
        """Whether there are jobs that the allocation in force does not know."""
        return self._newcomers

    @property
    def running(self) -> IntArray | None:
        """Positions of the jobs that run, in the order of the placement; None if it is out of date."""
        return self._rows

    @property
    def pinned(self) -> BoolArray | None:
        """[J] jobs that must not be preempted or moved while they run; None if there are none."""
        return self._jobs.status[PINNED] > 0 if self._pins else None

    def given_up(self) -> IntArray:
        """Ids of jobs that failed too often in a row."""
        if not self._failing:
            return _NONE
        gone = self._jobs.status[FAILURES] >= self.rules.max_failures
        ids: IntArray = self._jobs.named[ID, gone]
        return ids

    # Handlers

    def _submitted(self, event: JobsSubmitted) -> None:
        jobs = event.jobs
        classes = self.classes.numbers(jobs)
        self._gangs += sum(gpus > 1 for gpus in jobs.gpus.tolist())
        self._jobs.append(event.first_id, jobs, classes, self._numbered(event), self._speeds_at_best(classes))
        self._terms = None
        self._newcomers = True
        ids = self._jobs.named[ID]
        if len(ids) > len(jobs) and ids[-len(jobs) - 1] > event.first_id:  # it had to wait before it was let in
            self._replace(self._jobs.taken(np.argsort(ids, kind="stable")))

    def _replace(self, columns: JobColumns) -> None:
        self._jobs = columns
        self._gangs = int(np.count_nonzero(columns.named[GPUS] > 1))
        self._rows = None
        self._terms = None

    def _numbered(self, event: JobsSubmitted) -> IntArray:
        """The tenants of arriving jobs; nothing as long as there is only one."""
        jobs = event.jobs
        numbers = [self._tenants.setdefault(t, len(self._tenants)) for t in jobs.tenants]
        if len(self._tenants) != len(self._tenant_names):
            self._tenant_names = tuple(self._tenants)
        if len(self._tenants) < 2:
            return _NONE
        return np.array([numbers[t] for t in jobs.tenant.tolist()], dtype=np.int64)

    def _speeds_at_best(self, classes: IntArray) -> FloatArray:
        """How fast jobs of these classes could be, relative to the proportional share."""
        known = self.classes.value.configurations
        return known.best[classes] if self._by_need and known.sensitive else np.ones(len(classes))

    def _left(self, event: JobsFinished | JobsDropped | JobsRejected) -> None:
        at = self._jobs.positions(event.jobs)
        at.sort()
        if self._gangs:
            self._gangs -= sum(gpus > 1 for gpus in self._jobs.named[GPUS][at].tolist())
        if self.allocation is not None and self.allocation.traits.by_tenant:
            self._bequeath(at, event.at)
        self._jobs.remove(at)
        self._pairs.drop(event.jobs)
        self._rows = None
        self._terms = None

    def _bequeath(self, leaving: IntArray, now: float) -> None:
        """What leaving jobs are owed, or had too much, passes to the other jobs of their tenants."""
        jobs = self._jobs
        progress = jobs.progress.copy()
        owed = progress[jobs.owed]
        balance = owed + progress[jobs.share] * (now - self.solved_at) - (progress[jobs.received] - self._credit_s)
        owed += inherited(jobs.named[TENANT], jobs.named[GPUS], leaving, balance)
        jobs.set_progress(progress)

    def _pinned(self, event: JobsPinned) -> None:
        status = self._jobs.status.copy()
        status[PINNED, np.isin(self._jobs.named[ID], event.jobs)] = event.pinned
        self._jobs.set_status(status)
        self._pins = True

    def _allocated(self, event: Allocated) -> None:
        allocation = event.allocation
        if len(allocation.jobs) != len(self):
            raise RotaError(f"allocation for {len(allocation.jobs)} jobs while {len(self)} are active")
        if self._newcomers:
            status = self._jobs.status.copy()
            status[PROMISED] = 1
            self._jobs.set_status(status)
            self._newcomers = False
        self._terms = None
        if allocation.order is None:
            self._settle(allocation, event.at)
        elif self.rules.starvation_s > 0:
            self._mark_urgent(event.at)
        self.allocation = allocation
        self.solved_at = event.at

    def _mark_urgent(self, now: float) -> None:
        """A ranking needs no accounts, but nobody may wait for ever."""
        jobs = self._jobs
        late = urgency.late(jobs.progress[LAST_RAN], now, self.rules.starvation_s)
        self.newly_urgent = late is not None and some(late & (jobs.status[URGENT] == 0))
        if late is not None and self.newly_urgent:
            status = jobs.status.copy()
            status[URGENT] |= late
            jobs.set_status(status)
            self._waiting_long = True

    def _settle(self, allocation: Allocation, now: float) -> None:
        """Close the accounts of the last allocation, open those of the new one."""
        jobs = self._jobs
        credit = self._credit_s
        elapsed = now - self.solved_at
        progress = jobs.progress.copy()
        share = progress[jobs.share]
        received = progress[jobs.received]
        owed = progress[jobs.owed]
        owed += share * elapsed - (received - credit)
        received[:] = credit
        given = allocation.share[: len(self)].T
        share[:] = np.where(given > TOLERANCE, given, 0.0)
        jobs.set_progress(progress)
        entries = len(self)
        if allocation.traits.packs:
            self._settle_pairs(allocation, elapsed)
            sizes = np.bincount(jobs.named[GPUS])
            entries += int((sizes * (sizes - 1)).sum()) // 2
        self._type_time = frozen(level(len(self._type_time), credit * entries))

    def _settle_pairs(self, allocation: Allocation, elapsed: float) -> None:
        self._pairs.settle(elapsed, self._credit_s)
        extra_share = allocation.share[len(self) :].T
        self._pairs.promise(allocation.extras, extra_share, self._pair_opening(), self.rules.all_pairs_fill)

    def _pair_opening(self) -> tuple[float, float]:
        """(received, owed) of a pair that was there at the last allocation without a share."""
        credit = self._credit_s
        return credit, credit - self.rules.pair_opening_credit * self.rules.round_s

    def _planned(self, event: Planned) -> None:
        placement = event.plan.placement
        jobs = self._jobs
        rows = np.empty(len(placement.first), dtype=np.int64)
        known = self.classes.value.configurations
        best = known.best if self._by_need and known.sensitive else _NO_TIMES
        divided = placement.speed is not None
        speed = _NO_TIMES if placement.speed is None else placement.speed
        status = jobs.status.copy()
        progress = jobs.progress.copy() if divided else jobs.progress
        made = kernels.seat(
            jobs.named[ID],
            jobs.named[CLASS],
            placement.first,
            placement.type,
            best,
            speed,
            rows,
            status[LAST_TASK],
            progress[SPEED] if divided else _NO_TIMES,
            len(self.cluster.types),
            divided,
        )
        if made < len(rows):
            job = placement.first[made]
            gpu_type = placement.type[made]
            speed_of = "" if placement.speed is None else f" with speed {placement.speed[made]}"
            where = f"job {job} on type {gpu_type}{speed_of}"
            raise RotaError(f"the mechanism put {where}: no such job or type is there, or no such speed")
        jobs.set_status(status)
        jobs.set_progress(progress)
        self.placement = placement
        self._paired = (placement.second >= 0).nonzero()[0] if placement.shared else _NONE
        self._rows = rows

    def _ran(self, event: RoundsRan) -> None:
        placement = self.placement
        if placement is None:
            raise RotaError("a round ran that was never planned")
        self.round += event.rounds
        jobs = self._jobs
        rows = jobs.positions(placement.first) if self._rows is None else self._rows
        if placement.fraction is not None:
            self._ran_fluid(event, placement, rows)
            return
        progress = jobs.progress.copy()
        ranked = self._ranked
        both = _NONE if ranked else self._paired
        type_time = _NO_TIMES if ranked or len(both) else self._type_time.copy()
        kernels.book(
            rows,
            placement.type,
            placement.gpus,
            event.steps,
            event.seconds,
            event.seconds if event.each is None else event.each,
            progress[DONE],
            progress[ATTAINED],
            progress[LAST_RAN],
            progress[jobs.received],
            type_time,
            event.at,
        )
        jobs.set_progress(progress)
        if len(type_time):
            self._type_time = frozen(type_time)
        if len(event.lost) or self._failing:
            self._count_failures(event, rows)
        if len(both):
            self._ran_pairs(event, placement, rows)

    def _ran_pairs(self, event: RoundsRan, placement: Placement, rows: IntArray) -> None:
        """The other members' progress; accounts are of pairs as of single jobs."""
        jobs = self._jobs
        progress = jobs.progress.copy()
        gpu_types = placement.type
        both = self._paired
        partners = jobs.positions(placement.second[both])
        progress[DONE, partners] += event.partner_steps[both]
        progress[ATTAINED, partners] += (event.seconds * placement.gpus)[both]
        if self.classes.estimating:
            self._learn(rows[both], partners, gpu_types[both])
        single = (placement.second < 0).nonzero()[0]
        received = progress[jobs.received]
        for seconds in _by_round(event):
            received[gpu_types[single], rows[single]] += seconds[single]
        jobs.set_progress(progress)
        ran = Options(first=placement.first[both], second=placement.second[both], gpus=placement.gpus[both])
        self._pairs.credit(ran, gpu_types[both], _by_round(event)[:, both], self._pair_opening())
        spent = np.bincount(gpu_types, weights=event.seconds, minlength=len(self._type_time))
        self._type_time = frozen(self._type_time + spent)

    def _ran_fluid(self, event: RoundsRan, placement: Placement, rows: IntArray) -> None:
        """A job may run on several types at once, so its rows repeat."""
        progress = self._jobs.progress.copy()
        np.add.at(progress[DONE], rows, event.steps)
        np.add.at(progress[ATTAINED], rows, event.seconds * placement.gpus)
        paired = np.flatnonzero(placement.second >= 0)
        partners = self._jobs.positions(placement.second[paired])
        np.add.at(progress[DONE], partners, event.partner_steps[paired])
        self._jobs.set_progress(progress)
        if self.classes.estimating:
            self._learn(rows[paired], partners, placement.type[paired])

    def _speeds_learned(self, event: SpeedsLearned) -> None:
        self.classes.learn_speeds(event)

    def _learn(self, one: IntArray, two: IntArray, gpu_types: IntArray) -> None:
        """These jobs ran together on these types: what was estimated is known now."""
        classes = self._jobs.named[CLASS]
        self.classes.learn(classes[one], classes[two], gpu_types)

    def _count_failures(self, event: RoundsRan, rows: IntArray) -> None:
        """Failures in a row: one more for who was lost, none for who made it."""
        status = self._jobs.status.copy()
        lost = self._jobs.positions(event.lost)
        counts = status[FAILURES, lost] + 1
        status[FAILURES, rows] = 0
        status[FAILURES, lost] = counts
        self._failing = bool(status[FAILURES].any())
        self._jobs.set_status(status)


def _by_round(event: RoundsRan) -> FloatArray:
    """[rounds, K] seconds; one row if they are not told apart."""
    return event.seconds[None, :] if event.each is None else event.each
