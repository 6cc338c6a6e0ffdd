"""What users said about when their jobs start and how long they run, in a simulated world.

Jobs that are kept back are not known to the engine; it hears of them when they are let in, with the arrival that they
had. A job of an array or tenant with a limit that was let in and does not run may have to step aside for another one
of it; it is parked until its turn comes. A job that comes after one that did not finish is submitted and dropped at
once, with the reason. Time counts while a job holds its slots, starts included.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.events import Event, JobsDropped, JobsFinished, JobsParked, JobsReturned, JobsSubmitted
from rota.core.jobs import Jobs
from rota.core.placement import Placement
from rota.core.queue_columns import QueueColumns
from rota.core.tenant_rules import RunningLimits
from rota.sim.idle_choice import IdleChoice
from rota.sim.queue_gate import GatedJob, QueueGate, array_key
from rota.sim.steppers import Stretch
from rota.sim.tasks import Tasks

Row = tuple[Jobs, int]
"""A job as a row of a table."""
MAKES_WAY = "as many jobs of its array or tenant are let in as may run, and it does not run"
TIME_IS_UP = "it ran for as long as it may (its time limit)"
_NO_FEWER = 1e-9
"""Steps, relative, by which a task must be cut short for its time limit to end it."""


class QueueRules:
    """Of one run; made when the first job comes that is not like all others."""

    def __init__(self, running: RunningLimits | None = None) -> None:
        """`running` are limits to the jobs of tenants at the same time."""
        self.gate = QueueGate()
        self._running = running
        self._kept: dict[int, Row | None] = {}
        """Jobs that the engine does not know; None: it knows them, they are parked."""
        self._numbers: dict[str, int] = {}
        """Keys of jobs and arrays by name."""
        self._heads: dict[str, int] = {}
        """Numbers of arrays by name: that of the first job of each."""
        self._names: dict[int, str] = {}
        self.left_s: dict[int, float] = {}
        """Seconds that jobs with a time limit may still run."""
        self._idle = IdleChoice()
        self._cut: set[int] = set()
        """Jobs that their time limit ends in the placement in force."""

    # Who comes

    def arrive(self, first_id: int, jobs: Jobs) -> None:
        """Jobs of a table are there."""
        queue = jobs.queue
        names = [str(first_id + row) for row in range(len(jobs))] if jobs.names is None else jobs.names.tolist()
        for row, name in enumerate(names):
            self._numbers.setdefault(name, first_id + row)
            self._names[first_id + row] = name
        gated = [self._of_tenant(self._gated(first_id + row, row, queue), jobs, row) for row in range(len(jobs))]
        for job in gated:
            self.gate.expect(job)
        self._idle.arrive(first_id, jobs, gated)
        for row, job in enumerate(gated):
            self._kept[job.job] = (jobs, row)
            self.gate.arrive(job)
            if queue is not None and math.isfinite(queue.time_limit_s[row]):
                self.left_s[job.job] = float(queue.time_limit_s[row])

    def keep(self, job: GatedJob, row: Row | None) -> None:
        """A job waits that arrived before; without a row, the engine knows it and has parked it."""
        self._kept[job.job] = row
        self.gate.arrive(job)

    def _gated(self, number: int, row: int, queue: QueueColumns | None) -> GatedJob:
        if queue is None:
            return GatedJob(job=number)
        name = queue.array[row]
        array = self._heads.setdefault(name, number) if name else -1
        if name:
            self._numbers[name] = array_key(array)
        return GatedJob(
            job=number,
            after=self._keys(queue.after[row]),
            after_any=self._keys(queue.after_any[row]),
            array=array,
            limit=int(queue.array_limit[row]),
        )

    def _of_tenant(self, job: GatedJob, jobs: Jobs, row: int) -> GatedJob:
        """The job with the limit of its tenant."""
        if self._running is None:
            return job
        tenant = jobs.tenants[int(jobs.tenant[row])]
        return replace(job, tenant=tenant, tenant_limit=self._running.of(tenant))

    def _keys(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self._numbers[name] for name in names if name in self._numbers)

    def events(self, now: float) -> list[Event]:
        """Jobs that are let in by now; and those that never can be, to the end of each chain."""
        events: list[Event] = []
        while self.gate.pending:
            aside = self.gate.step_aside()
            if aside:
                self._kept.update(dict.fromkeys(aside))
                events.append(JobsParked(at=now, jobs=np.array(aside, dtype=np.int64), reason=MAKES_WAY))
            ready, hopeless = self.gate.take()
            events += self._submitted([number for number in (*ready, *hopeless) if self._kept.get(number)], now)
            back = [number for number in ready if number in self._kept and self._kept[number] is None]
            if back:
                events.append(JobsReturned(at=now, jobs=np.array(back, dtype=np.int64)))
            for number in ready:
                self._kept.pop(number, None)
            for number, failed in hopeless.items():
                if self._kept.pop(number, None) is not None:
                    events.append(JobsDropped(at=now, jobs=np.array([number]), reason=self._why(failed)))
                self.gate.over(number, finished=False)
        return events

    def run(self, placement: Placement, free: Mapping[str, int]) -> None:
        """These tasks run from now on, beside so many GPUs by type that nobody uses."""
        self.gate.run(np.concatenate([placement.first, placement.second]).tolist())
        self._idle.free = free

    def use_idle_gpus(self) -> bool:
        """Before time goes on: whether other jobs of arrays are let in because GPUs are idle that they could use."""
        self._idle.choose(self.gate)
        return self.gate.pending

    def _submitted(self, numbers: list[int], now: float) -> list[Event]:
        """One event for each run of consecutive numbers of one table."""
        runs: list[tuple[int, Jobs, int, int]] = []
        for number in sorted(numbers):
            kept = self._kept[number]
            assert kept is not None  # the caller has looked
            jobs, row = kept
            if runs and runs[-1][1] is jobs and runs[-1][3] == row and runs[-1][0] + row - runs[-1][2] == number:
                first, _, start, _ = runs.pop()
                runs.append((first, jobs, start, row + 1))
            else:
                runs.append((number, jobs, row, row + 1))
        return [JobsSubmitted(at=now, first_id=first, jobs=jobs.rows(a, b)) for first, jobs, a, b in runs]

    def _why(self, key: int) -> str:
        if key < 0:
            return f"a job of array {self._names.get(-1 - key, -1 - key)}, after which it comes, did not finish"
        return f"job {self._names.get(key, key)}, after which it comes, did not finish"

    # Who goes

    def over(self, jobs: Iterable[int], *, finished: bool) -> None:
        """Jobs are over."""
        for number in jobs:
            self._idle.over(number)
            self.gate.over(number, finished=finished)
            self.left_s.pop(number, None)

    # Time

    def cut(self, tasks: Tasks, restart_s: float) -> None:
        """Let tasks end when the time of their jobs is up, if that is before they are done."""
        self._cut = set()
        if not self.left_s:
            return
        lead = np.where(tasks.fresh, restart_s, 0.0) if tasks.lead is None else tasks.lead
        placement = tasks.placement
        limits = np.array([self.left_s.get(number, np.inf) for number in placement.first.tolist()])
        if (limits < lead).any():  # its time is up before it has started
            lead = np.minimum(lead, limits)
            tasks.lead = lead
        tasks.left = self._within_limit(placement.first, tasks.left, tasks.pace, lead)
        pairs = tasks.paired
        if len(pairs):
            partner_left = tasks.partner_left.copy()
            partner_left[pairs] = self._within_limit(
                placement.second[pairs], partner_left[pairs], tasks.partner_pace[pairs], lead[pairs]
            )
            tasks.partner_left = partner_left

    def _within_limit(self, jobs: IntArray, left: FloatArray, pace: FloatArray, lead: FloatArray) -> FloatArray:
        limits = np.array([self.left_s.get(number, np.inf) for number in jobs.tolist()])
        most = pace * np.maximum(limits - lead, 0.0)
        short = most < left * (1 - _NO_FEWER)
        self._cut.update(jobs[short].tolist())
        return np.where(short, most, left)

    def ran(self, tasks: Tasks, stretch: Stretch) -> None:
        """Tasks held their slots for so long."""
        placement = tasks.placement
        for members in (placement.first, placement.second):
            for number, spent in zip(members.tolist(), stretch.seconds.tolist(), strict=True):
                if number in self.left_s:
                    self.left_s[number] = max(0.0, self.left_s[number] - spent)

        if placement.fraction is not None:
            _take_off(tasks, stretch)

    def ends(self, at: float, jobs: IntArray, finished_at: FloatArray) -> list[Event]:
        """Jobs came to their ends: those that did their last step, and those whose time is up."""
        up = np.isin(jobs, list(self._cut))
        self.over(jobs[~up].tolist(), finished=True)
        self.over(jobs[up].tolist(), finished=False)
        events: list[Event] = []
        if not up.all():
            events.append(JobsFinished(at=at, jobs=jobs[~up], finished_at=finished_at[~up]))
        if up.any():
            events.append(JobsDropped(at=at, jobs=jobs[up], reason=TIME_IS_UP))
        return events


def _take_off(tasks: Tasks, stretch: Stretch) -> None:
    """Without rounds, tasks go on as they are when somebody arrives who is kept back: they have less to do then."""
    placement = tasks.placement
    done: dict[int, float] = {}
    pairs = ((placement.first, stretch.steps), (placement.second, stretch.partner_steps))
    for members, steps in pairs:
        for number, count in zip(members.tolist(), steps.tolist(), strict=True):
            done[number] = done.get(number, 0.0) + count
    tasks.left = tasks.left - np.array([done[number] for number in placement.first.tolist()])
    tasks.partner_left = tasks.partner_left - np.array([done[number] for number in placement.second.tolist()])
