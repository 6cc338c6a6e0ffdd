"""The state of a deployment: servers come and go, and jobs may step aside for a while.

Simulation needs neither. A job steps aside for reasons that no policy should know about: it is backing off after a
failure, its last lease has not run out, or no server that is up could hold it.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from rota.core.arrays import FloatArray, IntArray, counting, frozen
from rota.core.cluster import Cluster
from rota.core.errors import ProfileMissing
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
from rota.core.ports import Handler, Throughputs
from rota.core.rules import Rules
from rota.engine import moving
from rota.engine.classes import Key
from rota.engine.columns import (
    CLASS,
    DONE,
    GPUS,
    ID,
    LAST_RAN,
    LAST_TASK,
    PROMISED,
    URGENT,
    JobColumns,
)
from rota.engine.pairs import PairLedger
from rota.engine.state import State


class LiveState(State):
    """A state that takes over what only happens to real machines."""

    def __init__(self, cluster: Cluster, throughputs: Throughputs, rules: Rules, *, by_need: bool = False) -> None:
        super().__init__(cluster, throughputs, rules, by_need=by_need)
        self._aside = JobColumns(len(cluster.types), self._credit_s)
        """Columns of parked jobs."""

    def _handlers(self) -> dict[type, Handler]:
        return super()._handlers() | {
            ProgressMade: self._progressed,
            JobsParked: self._parked,
            JobsReturned: self._returned,
            ClusterChanged: self._cluster_changed,
        }

    @property
    def parked(self) -> frozenset[int]:
        """Ids of the jobs that stepped aside."""
        return frozenset(self._aside.named[ID].tolist())

    def _submitted(self, event: JobsSubmitted) -> None:
        """A job that had to wait for a server may come after jobs with higher numbers."""
        super()._submitted(event)
        ids = self._jobs.named[ID]
        if len(ids) > len(event.jobs) and ids[-len(event.jobs) - 1] > event.first_id:
            self._replace(self._jobs.taken(np.argsort(ids, kind="stable")))

    def _planned(self, event: Planned) -> None:
        """Journals of earlier versions do not say how fast the CPUs and the memory of a task make it."""
        placement = event.plan.placement
        if placement.speed is None and placement.cpus is not None and placement.memory_gb is not None:
            speed = self._speeds_of(placement, placement.cpus, placement.memory_gb)
            plan = replace(event.plan, placement=replace(placement, speed=speed))
            event = Planned(at=event.at, plan=plan)
        super()._planned(event)

    def _speeds_of(self, placement: Placement, cpus: FloatArray, memory_gb: FloatArray) -> FloatArray:
        known = self.classes.value.configurations
        groups = self._jobs.named[CLASS, self._jobs.positions(placement.first)]
        speed = np.ones(len(placement))
        for task in range(len(placement)):
            with contextlib.suppress(ProfileMissing):
                amounts = (float(cpus[task]), float(memory_gb[task]))
                speed[task] = known.speed_of(int(groups[task]), int(placement.type[task]), *amounts)
        return speed

    def _progressed(self, event: ProgressMade) -> None:
        for columns in (self._jobs, self._aside):
            known = np.isin(event.jobs, columns.named[ID])
            progress = columns.progress.copy()
            progress[DONE, columns.positions(event.jobs[known])] += event.steps[known]
            columns.set_progress(progress)

    def _left(self, event: JobsFinished | JobsDropped | JobsRejected) -> None:
        """Other events may come before the next plan, so the placement is kept true to who is there."""
        super()._left(event)
        self._keep_running_without(event.jobs)

    def _parked(self, event: JobsParked) -> None:
        left, taken = self._jobs.split(self._jobs.positions(event.jobs))
        self._aside = self._aside.merged(taken)
        self._replace(left)
        self._pairs.drop(event.jobs)
        self._keep_running_without(event.jobs)

    def _returned(self, event: JobsReturned) -> None:
        """Like newcomers, but with what they had done and attained."""
        self._aside, back = self._aside.split(self._aside.positions(event.jobs))
        progress = back.progress.copy()
        progress[back.share] = 0.0
        progress[back.owed] = 0.0
        progress[back.received] = self._credit_s
        progress[LAST_RAN] = event.at
        back.set_progress(progress)
        status = back.status.copy()
        status[LAST_TASK] = -1
        status[PROMISED] = 0
        status[URGENT] = 0
        back.set_status(status)
        self._replace(self._jobs.merged(back))
        self._newcomers = True

    def _cluster_changed(self, event: ClusterChanged) -> None:
        """Accounts follow their type, tasks their server; there is no allocation until the policy is asked again."""
        old = self.cluster
        keys = self.classes.keys()
        self.cluster = event.cluster
        self.allocation = None
        self.classes = self.classes.renewed(event.cluster, self.holds, self._configurations())
        self._pairs = PairLedger(len(event.cluster.types))
        self._type_time = frozen(np.zeros(len(event.cluster.types)))
        self._aside = self._moved(self._aside, old, keys)
        self._replace(self._moved(self._jobs, old, keys))
        if self.placement is not None:
            self._put(moving.moved(self.placement, old, event.cluster))

    def _moved(self, columns: JobColumns, old: Cluster, keys: list[Key]) -> JobColumns:
        again = [(*key[:3], key[4]) for key in keys]
        classes = [self.classes.number(*again[c]) for c in columns.named[CLASS].tolist()]
        speed = self._speeds_at_best(np.array(classes, dtype=np.int64))
        return columns.retyped(old.types, self.cluster.types, classes, speed)

    def _replace(self, columns: JobColumns) -> None:
        self._jobs = columns
        self._gangs = int(np.count_nonzero(columns.named[GPUS] > 1))
        self._rows = None
        self._terms = None

    def _keep_running_without(self, jobs: IntArray) -> None:
        if self.placement is not None:
            self._put(moving.without(self.placement, jobs))

    def _put(self, placement: Placement) -> None:
        """The placement in force, changed by something else than a plan."""
        self.placement = placement
        self._paired = (placement.second >= 0).nonzero()[0]
        self._rows = rows = self._jobs.positions(placement.first)
        status = self._jobs.status.copy()
        status[LAST_TASK] = -1
        status[LAST_TASK, rows] = counting(len(rows))
        self._jobs.set_status(status)
