"""The state of a deployment: servers come and go, and jobs may step aside for a while.

Simulation needs neither. A job steps aside for reasons that no policy should know about: it is backing off after a
failure, its last lease has not run out, or no server that is up could hold it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rota.core.arrays import FloatArray, IntArray, counting, frozen
from rota.core.cluster import Cluster, cluster_fields
from rota.core.errors import ProfileMissing
from rota.core.events import (
    Allocated,
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
from rota.core.placement import Placement, Plan
from rota.core.ports import Handler, Throughputs
from rota.core.rules import Rules
from rota.engine import moving
from rota.engine.classes import Key
from rota.engine.columns import (
    CLASS,
    DONE,
    ID,
    LAST_RAN,
    LAST_TASK,
    PINNED,
    PROMISED,
    URGENT,
    JobColumns,
)
from rota.engine.log import LineReader, LineWriter
from rota.engine.pairs import PairLedger
from rota.engine.state import State

MOST_CLASSES = 2000
"""From so many on, classes without jobs are forgotten now and then."""


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
        super()._submitted(event)
        if len(self.classes) > max(MOST_CLASSES, 4 * (len(self) + len(self.parked))):
            self._forget_classes()

    def _forget_classes(self) -> None:
        """Keep only classes of jobs that are there: a service would have more and more of them."""
        keys = self.classes.keys()
        self.classes = self.classes.renewed(self.cluster, self.holds, self._configurations())
        self._aside = self._moved(self._aside, self.cluster, keys)
        self._replace(self._moved(self._jobs, self.cluster, keys))

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
        status[PINNED] = 0
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
        estimating = self.classes.estimating
        again = [(*key[:3], *key[4:], "" if estimating else key[3] or "") for key in keys]
        classes = [self.classes.number(*again[c]) for c in columns.named[CLASS].tolist()]
        speed = self._speeds_at_best(np.array(classes, dtype=np.int64))
        return columns.retyped(old.types, self.cluster.types, classes, speed)

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

    # As plain values, for snapshots

    def saved(self) -> dict[str, Any]:
        """All that events have made of it, ready for JSON: the same that reading the events again would give."""
        types = self.cluster.types
        allocation = None if self.allocation is None else Allocated(at=self.solved_at, allocation=self.allocation)
        return {
            "cluster": cluster_fields(self.cluster),
            "classes": self.classes.saved(),
            "tenants": list(self._tenants),
            "jobs": self._jobs.saved(types),
            "aside": self._aside.saved(types),
            "pairs": self._pairs.saved(),
            "type_time": self._type_time.tolist(),
            "allocation": None if allocation is None else json.loads(LineWriter(memory=True).write(allocation)),
            "placement": self._saved_placement(),
            "round": self.round,
            "solved_at": self.solved_at,
            "newly_urgent": self.newly_urgent,
            "waiting_long": self._waiting_long,
            "failing": self._failing,
            "newcomers": self._newcomers,
        }

    def _saved_placement(self) -> dict[str, Any] | None:
        if self.placement is None:
            return None
        plan = Plan(round=self.round, start=self.solved_at, placement=self.placement)
        fields: dict[str, Any] = json.loads(LineWriter().write(Planned(at=self.solved_at, plan=plan)))
        return fields

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was saved, on the same cluster. Raises KeyError, TypeError or ValueError if it is none."""
        types = self.cluster.types
        self.classes.restore(saved["classes"])
        self._tenants = {name: number for number, name in enumerate(saved["tenants"])}
        self._tenant_names = tuple(self._tenants)
        self._aside.restore(saved["aside"], types)
        columns = JobColumns(len(types), self._credit_s)
        columns.restore(saved["jobs"], types)
        self._replace(columns)
        self._pairs.restore(saved["pairs"])
        self._type_time = frozen(np.array(saved["type_time"], dtype=np.float64))
        self.round = int(saved["round"])
        self.solved_at = float(saved["solved_at"])
        self.newly_urgent = bool(saved["newly_urgent"])
        self._waiting_long = bool(saved["waiting_long"])
        self._failing = bool(saved["failing"])
        self._newcomers = bool(saved["newcomers"])
        self._pins = bool(self._jobs.status[PINNED].any())
        self._restore_decisions(saved["allocation"], saved["placement"])

    def _restore_decisions(self, allocation: Mapping[str, Any] | None, placement: Mapping[str, Any] | None) -> None:
        if allocation is not None:
            self.allocation = LineReader().read(dict(allocation)).allocation  # type: ignore[union-attr]
        if placement is not None:
            status = self._jobs.status
            self._put(LineReader().read(dict(placement)).plan.placement)  # type: ignore[union-attr]
            self._jobs.set_status(status)


class ParkingState(LiveState):
    """Of a simulation in which jobs step aside: a placement stays as it is until the next plan, as in `State`."""

    def _keep_running_without(self, jobs: IntArray) -> None:  # noqa: ARG002 - nobody who is parked runs
        self._rows = None
