"""The state of a deployment: servers come and go, and jobs may step aside for a while.

Simulation needs neither. A job steps aside for reasons that no policy should know about: it is backing off after a
failure, its last lease has not run out, or no server that is up could hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rota.core.arrays import counting
from rota.core.cluster import Cluster
from rota.core.events import (
    ClusterChanged,
    JobsDropped,
    JobsFinished,
    JobsParked,
    JobsRejected,
    JobsReturned,
    JobsSubmitted,
    Planned,
    ProgressMade,
)
from rota.core.placement import Placement
from rota.core.ports import Throughputs
from rota.core.rules import Rules
from rota.engine import moving
from rota.engine.configurations import Configurations, shapes
from rota.engine.pairs import PairAccounts
from rota.engine.state import (
    CLASS,
    DONE,
    FLOATS,
    GPUS,
    ID,
    LAST,
    LAST_RAN,
    PROMISED,
    SPEED,
    URGENT,
    State,
)


class LiveState(State):
    """A state that takes over what only happens to real machines."""

    def __init__(self, cluster: Cluster, throughputs: Throughputs, rules: Rules, *, by_need: bool = False) -> None:
        super().__init__(cluster, throughputs, rules, by_need=by_need)
        self._aside: moving.Table = (self._f.copy(), self._i.copy())
        """Columns of parked jobs."""

    def _handlers(self) -> dict[type, Callable[[Any], None]]:
        return super()._handlers() | {
            ProgressMade: self._progressed,
            JobsParked: self._parked,
            JobsReturned: self._returned,
            ClusterChanged: self._cluster_changed,
        }

    @property
    def parked(self) -> frozenset[int]:
        """Ids of the jobs that stepped aside."""
        return frozenset(self._aside[1][ID].tolist())

    def _submitted(self, event: JobsSubmitted) -> None:
        """A job that had to wait for a server may come after jobs with higher numbers."""
        super()._submitted(event)
        ids = self._i[ID]
        if len(ids) > len(event.jobs) and ids[-len(event.jobs) - 1] > event.first_id:
            nobody = moving.split((self._f, self._i), counting(0))[1]
            self._replace(moving.merged((self._f, self._i), nobody, ID))

    def _planned(self, event: Planned) -> None:
        """A plan out of a log does not say which configuration the CPUs and the memory of a task are."""
        placement = event.plan.placement
        if placement.config is None and placement.cpus is not None and placement.memory_gb is not None:
            groups = self._i[CLASS, self._positions(placement.first)]
            columns = (groups, placement.type, placement.cpus, placement.memory_gb)
            number = self.classes.configurations.number
            rows = [number(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]
            placement.config = np.array(rows, dtype=np.int64)
        super()._planned(event)

    def _progressed(self, event: ProgressMade) -> None:
        for table in ((self._f, self._i), self._aside):
            known = np.isin(event.jobs, table[1][ID])
            table[0][DONE, table[1][ID].searchsorted(event.jobs[known])] += event.steps[known]

    def _left(self, event: JobsFinished | JobsDropped | JobsRejected) -> None:
        """Other events may come before the next plan, so the placement is kept true to who is there."""
        super()._left(event)
        if self.placement is not None:
            self._put(moving.without(self.placement, event.jobs))

    def _parked(self, event: JobsParked) -> None:
        left, taken = moving.split((self._f, self._i), self._positions(event.jobs))
        self._aside = moving.merged(self._aside, taken, ID)
        self._replace(left)
        self.pairs.drop(event.jobs)
        if self.placement is not None:
            self._put(moving.without(self.placement, event.jobs))

    def _returned(self, event: JobsReturned) -> None:
        """Like newcomers, but with what they had done and attained."""
        self._aside, (f, i) = moving.split(self._aside, self._aside[1][ID].searchsorted(event.jobs))
        f[self._share], f[self._owed] = 0.0, 0.0
        f[self._received] = self.rules.opening_credit * self.rules.round_s
        f[LAST_RAN], i[LAST], i[PROMISED], i[URGENT] = event.at, -1, 0, 0
        self._replace(moving.merged((self._f, self._i), (f, i), ID))
        self.newcomers = True

    def _cluster_changed(self, event: ClusterChanged) -> None:
        """Accounts follow their type, tasks their server; there is no allocation until the policy is asked again."""
        old, new, types = self.cluster, event.cluster, len(event.cluster.types)
        keys = self.classes.keys()
        self.cluster, self.capacity, self.allocation = new, new.capacity, None
        known = Configurations(shapes(new), two_valued=self.rules.speeds == "two-valued")
        self.classes = self.classes.renewed(new, self.holds, known)
        self.pairs = self.extras = PairAccounts(types)
        self.type_time = np.zeros(types)
        self._lay_out(types)
        for table in ((self._f, self._i), self._aside):
            f = moving.retyped(table[0], FLOATS, 3, old.types, new.types)
            table[1][CLASS] = [self.classes.number(*keys[c][:3]) for c in table[1][CLASS].tolist()]
            f[SPEED] = self._speeds_at_best(table[1][CLASS])
            if table[1] is self._i:
                self._f = f
            else:
                self._aside = (f, table[1])
        self._replace((self._f, self._i))
        if self.placement is not None:
            self._put(moving.moved(self.placement, old, new))

    def _replace(self, table: moving.Table) -> None:
        self._f, self._i = table
        self._gangs = int(np.count_nonzero(self._i[GPUS] > 1))
        self._rows = self._runs = self._wants = None

    def _put(self, placement: Placement) -> None:
        """The placement in force, changed by something else than a plan."""
        self.placement = placement
        self._paired = (placement.second >= 0).nonzero()[0]
        self._rows = rows = self._positions(placement.first)
        self._i[LAST] = -1
        self._i[LAST, rows] = counting(len(rows))
