"""What is the case now. Changes only through `apply(event)`; a log of events rebuilds it.

Active jobs are columns: one float matrix and one integer matrix with a column per job (ids ascending), so that
arrivals and departures cost two array operations, and a view is a handful of row slices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation, Options
from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.cluster import Cluster
from rota.core.errors import RotaError
from rota.core.events import (
    Allocated,
    CapacityChanged,
    Event,
    JobsDropped,
    JobsFinished,
    JobsRejected,
    JobsSubmitted,
    Planned,
    RoundsRan,
)
from rota.core.placement import Placement
from rota.core.ports import Throughputs, on_servers
from rota.core.rules import Rules
from rota.core.view import View
from rota.engine import urgency
from rota.engine.classes import ClassTable
from rota.engine.configurations import Configurations, shapes
from rota.engine.pairs import PairAccounts

SUBMITTED, TOTAL, DONE, WEIGHT, DEADLINE, ATTAINED, SPEED, LAST_RAN, FLOATS = range(9)
ID, CLASS, GPUS, TENANT, FAILURES, PROMISED, LAST, URGENT, INTS = range(9)

_GIVEN_FLOATS: IntArray = np.array([SUBMITTED, LAST_RAN, TOTAL, WEIGHT, DEADLINE, SPEED])
_GIVEN_INTS: IntArray = np.array([ID, GPUS, CLASS])
"""What is known of a job that arrives."""

_NONE: IntArray = np.zeros(0, dtype=np.int64)
_NO_TIMES: FloatArray = np.zeros(0)
_NOISE = 1e-9
"""Shares below this are a solver's rounding."""


class State:
    """Active jobs, the allocation in force, the accounts behind it and the last placement."""

    def __init__(self, cluster: Cluster, throughputs: Throughputs, rules: Rules, *, by_need: bool = False) -> None:
        """`by_need` says that the mechanism divides CPUs and memory by need, so jobs may be faster than their rate."""
        self.cluster = cluster
        known = Configurations(shapes(cluster), two_valued=rules.speeds == "two-valued")
        self.classes = ClassTable(on_servers(throughputs, cluster), cluster.types, self.holds, known)
        self.rules = rules
        self.capacity: IntArray = cluster.capacity
        self.allocation: Allocation | None = None
        self.placement: Placement | None = None
        self.pairs = self.extras = PairAccounts(len(cluster.types))
        self.type_time: FloatArray = np.zeros(len(cluster.types))
        self.now = 0.0
        self.round = 0
        self.solved_at = 0.0
        self._tenants: dict[str, int] = {}
        self._tenant_names: tuple[str, ...] = ()
        self._looked: View | None = None
        self._seen: FloatArray | None = None
        self._lay_out(len(cluster.types))
        self._f, self._i = self._new_f[:, :0], self._new_i[:, :0]
        self._rows: IntArray | None = None
        self._paired: IntArray = _NONE
        self._by_need = by_need
        self._waiting_long = False
        self.newly_urgent = False
        """Whether somebody became urgent after the last ranking was made."""
        self._failing = False
        self._gangs = 0
        self.newcomers = False
        self._runs: BoolArray | None = None
        self._wants: BoolArray | None = None
        self._apply = self._handlers()

    def attach(self, throughputs: Throughputs) -> None:
        """Where rates come from after a checkpoint was read."""
        self.classes.attach(on_servers(throughputs, self.cluster), self.holds)

    def _lay_out(self, types: int) -> None:
        """Where the accounts by type stand among the columns."""
        self._share = slice(FLOATS, FLOATS + types)
        self._received = slice(FLOATS + types, FLOATS + 2 * types)
        self._owed = slice(FLOATS + 2 * types, FLOATS + 3 * types)
        self._new_f: FloatArray = np.zeros((FLOATS + 3 * types, 1))
        self._new_f[SPEED] = 1.0
        self._new_f[self._received] = self.rules.opening_credit * self.rules.round_s
        self._new_i: IntArray = np.zeros((INTS, 1), dtype=np.int64)
        self._new_i[LAST] = -1

    def _handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            JobsSubmitted: self._submitted,
            JobsRejected: self._left,
            JobsFinished: self._left,
            JobsDropped: self._left,
            Allocated: self._allocated,
            Planned: self._planned,
            RoundsRan: self._ran,
            CapacityChanged: self._capacity_changed,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the table of handlers and what somebody looked at."""
        return {**self.__dict__, "_apply": None, "_looked": None, "_seen": None}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)
        self._lay_out(len(self.cluster.types))
        self._apply = self._handlers()

    def __len__(self) -> int:
        count: int = self._i.shape[1]
        return count

    def holds(self, gpus: int) -> list[bool]:
        """On which types a job of so many GPUs can run."""
        fits: list[bool] = (self.cluster.capacity >= gpus).tolist()
        return [True] * len(fits) if self.rules.small_types_count and any(fits) else fits

    def apply(self, event: Event) -> None:
        """Take over what happened."""
        handler = self._apply.get(type(event))
        if handler is not None:
            handler(event)

    def handler(self, kind: type) -> Callable[[Any], None] | None:
        """The part of `apply` for events of a kind."""
        return self._apply.get(kind)

    def view(self, now: float) -> View:
        """A read-only look at this instant."""
        self.now = now
        f, i, seen = self._f, self._i, self._looked
        urgent = i[URGENT] > 0 if self._waiting_long else None
        if seen is not None and self._seen is f and seen.capacity is self.capacity:
            # The same jobs in the same columns. Nobody looks at an older instant any more.
            seen.now, seen.round, seen.urgent, seen.placement = now, self.round, urgent, self.placement
            seen.previous, seen.solved_at = self.allocation, self.solved_at
            return seen
        self._seen = f
        self._looked = View(
            now=now,
            round=self.round,
            cluster=self.cluster,
            capacity=self.capacity,
            classes=self.classes,
            jobs=i[ID],
            job_class=i[CLASS],
            gpus=i[GPUS],
            weight=f[WEIGHT],
            submitted=f[SUBMITTED],
            total_steps=f[TOTAL],
            steps_done=f[DONE],
            deadline=f[DEADLINE],
            tenant=i[TENANT],
            tenants=self._tenant_names,
            attained=f[ATTAINED],
            speed=f[SPEED],
            urgent=urgent,
            patient=self.rules.starvation_s == 0,
            previous=self.allocation,
            placement=self.placement,
            last_task=i[LAST],
            single_gpu=self._gangs == 0,
            accounts=self,
            solved_at=self.solved_at,
        )
        return self._looked

    # Accounts, as the selecting half of a mechanism reads them ([T, J], like the columns of a view)

    @property
    def share(self) -> FloatArray:
        """Promised fraction of time."""
        return self._f[self._share]

    @property
    def received(self) -> FloatArray:
        """Seconds received since the last allocation, opening credit included."""
        return self._f[self._received]

    @property
    def owed(self) -> FloatArray:
        """Seconds behind the promise when the last allocation was made."""
        return self._f[self._owed]

    @property
    def runs(self) -> BoolArray:
        """Whether a job has any speed on a type."""
        if self._runs is None:
            self._runs = np.ascontiguousarray(self.classes.runs_on[self._i[CLASS]].T)
        return self._runs

    @property
    def wants(self) -> BoolArray:
        """Whether a job has a share that it can use."""
        if self._wants is None:
            self._wants = (self.share > 0) & self.runs
        return self._wants

    @property
    def promised(self) -> IntArray:
        """1 for jobs the allocation in force knows, 0 for those that came after it."""
        return cast("IntArray", self._i[PROMISED])

    @property
    def running(self) -> IntArray | None:
        """Positions of the jobs that run, in the order of the placement; None if it is out of date."""
        return self._rows

    def rounds_until_urgent(self, now: float) -> int:
        """Rounds before the first waiting job becomes urgent under the rules."""
        return urgency.rounds_until(self._i[URGENT], self._f[LAST_RAN], self._rows, now, self.rules)

    def given_up(self) -> IntArray:
        """Ids of jobs that failed too often in a row."""
        if not self._failing:
            return _NONE
        return cast("IntArray", self._i[ID, self._i[FAILURES] >= self.rules.max_failures])

    # Handlers

    def _submitted(self, event: JobsSubmitted) -> None:
        jobs, first, count = event.jobs, event.first_id, len(event.jobs)
        groups, before = self.classes.numbers(jobs), self._i.shape[1]
        self._gangs += sum(gpus > 1 for gpus in jobs.gpus.tolist())
        given = (jobs.submitted, jobs.submitted, jobs.total_steps, jobs.weight, jobs.deadline)
        f, i = np.empty((len(self._f), before + count)), np.empty((INTS, before + count), dtype=np.int64)
        kernels.append(self._f, self._new_f, f, _GIVEN_FLOATS, *given, self._speeds_at_best(groups))
        kernels.append(self._i, self._new_i, i, _GIVEN_INTS, np.arange(first, first + count), jobs.gpus, groups)
        names = [self._tenants.setdefault(t, len(self._tenants)) for t in jobs.tenants]
        if len(self._tenants) > 1:
            i[TENANT, before:] = [names[t] for t in jobs.tenant.tolist()]
        if len(self._tenants) != len(self._tenant_names):
            self._tenant_names = tuple(self._tenants)
        self._f, self._i = f, i
        self._runs = self._wants = None
        self.newcomers = True

    def _speeds_at_best(self, groups: IntArray) -> FloatArray:
        """How fast jobs of these classes could be, relative to the proportional share."""
        known = self.classes.configurations
        return known.best[groups] if self._by_need and known.sensitive else np.ones(len(groups))

    def _left(self, event: JobsFinished | JobsDropped | JobsRejected) -> None:
        at = self._positions(event.jobs)
        at.sort()
        if self._gangs:
            self._gangs -= sum(gpus > 1 for gpus in self._i[GPUS][at].tolist())
        left = len(self) - len(at)
        f, i = np.empty((len(self._f), left)), np.empty((INTS, left), dtype=np.int64)
        kernels.without(self._f, at, f, len(f))
        kernels.without(self._i, at, i, INTS)
        self._f, self._i = f, i
        self.pairs.drop(event.jobs)
        self._rows = self._runs = self._wants = None

    def _allocated(self, event: Allocated) -> None:
        allocation = event.allocation
        if len(allocation.jobs) != len(self):
            raise RotaError(f"allocation for {len(allocation.jobs)} jobs while {len(self)} are active")
        if allocation.order is not None:
            self._ranked(allocation, event.at)
            return
        credit = self.rules.opening_credit * self.rules.round_s
        elapsed = event.at - self.solved_at
        share, received, owed = self.share, self.received, self.owed
        owed += share * elapsed - (received - credit)
        received[:] = credit
        given = allocation.share[: len(self)].T
        share[:] = np.where(given > _NOISE, given, 0.0)
        self._wants = None
        self._i[PROMISED] = 1
        self.newcomers = False
        self._settle_pairs(allocation, elapsed, credit)
        self.allocation = allocation
        self.solved_at = event.at

    def _ranked(self, allocation: Allocation, now: float) -> None:
        """A ranking needs no accounts, but nobody may wait for ever."""
        self.newly_urgent = urgency.mark(self._i[URGENT], self._f[LAST_RAN], now, self.rules.starvation_s)
        self._waiting_long = self._waiting_long or self.newly_urgent
        self._i[PROMISED] = 1
        self.newcomers = False
        self.allocation = allocation
        self.solved_at = now

    def _settle_pairs(self, allocation: Allocation, elapsed: float, credit: float) -> None:
        entries = len(self)
        if allocation.traits.packs:
            self.pairs.settle(elapsed, credit)
            extra_share = allocation.share[len(self) :].T
            self.pairs.promise(allocation.extras, extra_share, self._pair_opening(), self.rules.all_pairs_fill)
            sizes = np.bincount(self._i[GPUS])
            entries += int((sizes * (sizes - 1)).sum()) // 2
        self.type_time[:] = credit * entries

    def _pair_opening(self) -> tuple[float, float]:
        """(received, owed) of a pair that was there at the last allocation without a share."""
        credit = self.rules.opening_credit * self.rules.round_s
        return credit, credit - self.rules.pair_opening_credit * self.rules.round_s

    def _planned(self, event: Planned) -> None:
        self.placement = placement = event.plan.placement
        self._paired = (placement.second >= 0).nonzero()[0] if placement.shared else _NONE
        self._rows = np.empty(len(placement.first), dtype=np.int64)
        i, known = self._i, self.classes.configurations
        best = known.best if self._by_need and known.sensitive else _NO_TIMES
        divided = placement.config is not None
        config = _NONE if placement.config is None else placement.config
        what = (i[ID], i[CLASS], placement.first, placement.type, best, config, known.speed)
        made = kernels.seat(*what, self._rows, i[LAST], self._f[SPEED], len(self.capacity), divided)
        if made < len(self._rows):
            job, kind = placement.first[made], placement.type[made]
            raise RotaError(f"the mechanism put job {job} on type {kind}: no such job, type or configuration is there")

    def _ran(self, event: RoundsRan) -> None:
        placement = self.placement
        if placement is None:
            raise RotaError("a round ran that was never planned")
        self.round += event.rounds
        rows = self._positions(placement.first) if self._rows is None else self._rows
        if placement.fraction is not None:
            self._ran_fluid(event, placement, rows)
            return
        f, kinds = self._f, placement.type
        ranked = self.allocation is not None and self.allocation.order is not None  # a ranking needs no accounts
        each = event.seconds if event.each is None else event.each
        both = () if ranked else self._paired
        time = _NO_TIMES if ranked or len(both) else self.type_time
        what = (event.steps, event.seconds, each, f[DONE], f[ATTAINED], f[LAST_RAN], self.received, time)
        kernels.book(rows, kinds, placement.gpus, *what, event.at)
        if len(event.lost) or self._failing:
            self._count_failures(event, rows)
        if len(both):
            self._ran_pairs(event, placement, rows)

    def _ran_pairs(self, event: RoundsRan, placement: Placement, rows: IntArray) -> None:
        """The other members' progress; accounts are of pairs as of single jobs."""
        f, kinds, both = self._f, placement.type, self._paired
        partners = self._positions(placement.second[both])
        f[DONE, partners] += event.partner_steps[both]
        f[ATTAINED, partners] += (event.seconds * placement.gpus)[both]
        if self.classes.estimating:
            self._learn(rows[both], partners, kinds[both])
        single = (placement.second < 0).nonzero()[0]
        for seconds in _by_round(event):
            self.received[kinds[single], rows[single]] += seconds[single]
        ran = Options(first=placement.first[both], second=placement.second[both], gpus=placement.gpus[both])
        self.pairs.credit(ran, kinds[both], _by_round(event)[:, both], self._pair_opening())
        self.type_time += np.bincount(kinds, weights=event.seconds, minlength=len(self.type_time))

    def _ran_fluid(self, event: RoundsRan, placement: Placement, rows: IntArray) -> None:
        """A job may run on several types at once, so its rows repeat."""
        np.add.at(self._f[DONE], rows, event.steps)
        np.add.at(self._f[ATTAINED], rows, event.seconds * placement.gpus)
        paired = np.flatnonzero(placement.second >= 0)
        partners = self._positions(placement.second[paired])
        np.add.at(self._f[DONE], partners, event.partner_steps[paired])
        if self.classes.estimating:
            self._learn(rows[paired], partners, placement.type[paired])

    def _learn(self, one: IntArray, two: IntArray, kinds: IntArray) -> None:
        """These jobs ran together on these types: what was estimated is known now."""
        group = self._i[CLASS]
        self.classes.learn(group[one], group[two], kinds)

    def _count_failures(self, event: RoundsRan, rows: IntArray) -> None:
        """Failures in a row: one more for who was lost, none for who made it."""
        lost = self._positions(event.lost)
        counts = self._i[FAILURES, lost] + 1
        self._i[FAILURES, rows] = 0
        self._i[FAILURES, lost] = counts
        self._failing = bool(self._i[FAILURES].any())

    def _capacity_changed(self, event: CapacityChanged) -> None:
        self.capacity = event.capacity

    def _positions(self, ids: IntArray) -> IntArray:
        """Where active jobs stand in the columns."""
        return cast("IntArray", self._i[ID].searchsorted(ids))


def _by_round(event: RoundsRan) -> FloatArray:
    """[rounds, K] seconds; one row if they are not told apart."""
    return event.seconds[None, :] if event.each is None else event.each
