"""The simulated world: a clock that jumps, and an executor that computes.

Between two decisions nothing can surprise us, so time jumps to the next moment that matters: the round in which the
horizon of the decision is over, in which a job arrives (if that ends it), or in which one is through. Cost grows with
events, not with seconds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rota.core.arrays import FloatArray, IntArray, smallest
from rota.core.events import Event, JobsDropped, JobsFinished, JobsRejected, JobsSubmitted, RoundsRan
from rota.core.horizon import Horizon, Outlook
from rota.core.jobs import Source
from rota.core.placement import Placement, Plan
from rota.core.ports import Beliefs, Handler
from rota.core.rules import Rules
from rota.core.tenant_rules import RunningLimits
from rota.core.tolerance import TOLERANCE
from rota.core.view import View
from rota.sim.grid import Grid
from rota.sim.measuring import Measuring
from rota.sim.queue_rules import QueueRules
from rota.sim.slowest_task import SlowestTask
from rota.sim.steppers import NO_IDS, NO_TIMES, NOTHING, Fluid, Heed, Stepper, Stretch, Whole
from rota.sim.tasks import Tasks, make_tasks

_WORTH_LOOKING = 3
"""Rounds that must be quiet before it is worth asking how long a ranking stays as it is."""


class World:
    """Clock and executor of a simulation."""

    def __init__(
        self, source: Source, rules: Rules, beliefs: Beliefs | None = None, running: RunningLimits | None = None
    ) -> None:
        """`beliefs` says what is made of speeds that were found out, where they are not known from the start.

        `running` are limits to the jobs of tenants at the same time.
        """
        self._source = source
        self._spread_costs = rules.spread_costs
        self._at_once = rules.at_once
        self._restart_s = rules.restart_s
        self._round_s = rules.round_s
        self._whole = rules.round_s if rules.rounds == "whole" else 0.0
        self._rounds: Stepper = _stepper(rules, late=source.static)
        self._just_after_s = 0.0 if rules.rounds == "slowest-task" else TOLERANCE * rules.round_s
        """Who arrives so little after the start of a round is there at its start."""
        self._fluid: Stepper = Fluid()
        self._tasks: Tasks | None = None
        self._now = 0.0
        self._last_end = 0.0
        self._taken = 0
        self._next: float | None = None
        """When the next job arrives, once it was asked for."""
        self.interrupted = False
        """Whether time was up before the next decision point."""
        self._stop = -math.inf
        """Then: the moment that was to be reached, ..."""
        self._through: tuple[IntArray, FloatArray] = (NO_IDS, NO_TIMES)
        """... and jobs that came to their end in the round that is not over, and when."""
        self._measuring = Measuring(beliefs, rules.round_s) if beliefs is not None and beliefs.learns else None
        self._lead: FloatArray | None = None
        """Seconds that the tasks of a checkpoint still need to start."""
        self._exchanged = False
        """Whether the placement in force is replaced at the moment at which it was made."""
        self._queue: QueueRules | None = None if running is None else QueueRules(running)
        """What jobs said about when they start and how long they run, once one has; limits of tenants."""

    def now(self) -> float:
        """Simulated seconds."""
        return self._now

    @property
    def exhausted(self) -> bool:
        """Whether no job will ever arrive again."""
        return math.isinf(self._arrival())

    def apply(self, plan: Plan, view: View) -> None:
        """From now on these tasks run."""
        before = self._tasks
        running = len(plan.placement) > 0
        self._tasks = (
            make_tasks(plan.placement, view, spread_costs=self._spread_costs, whole=self._whole) if running else None
        )
        if self._tasks is not None:
            self._tasks.lead = self._lead
            carried = self._at_once or self._exchanged
            if before is not None and before.lead is not None and carried and self._restart_s:
                self._tasks.lead = _lead_of(self._tasks, before.placement.first, before.lead, self._restart_s)
            if self._measuring is not None:
                self._measuring.watch(self._tasks, view)
            if self._queue is not None:
                self._queue.cut(self._tasks, self._restart_s)
        if self._queue is not None:
            self._queue.run(plan.placement, _idle_gpus(plan.placement, view))
        self._lead = None
        self._exchanged = False

    def handler(self, kind: type[Event]) -> Handler | None:
        """What the engine says about jobs that it gives up matters to those that come after them."""
        return self._given_up if kind in (JobsDropped, JobsRejected) else None

    def _given_up(self, event: JobsDropped | JobsRejected) -> None:
        if self._queue is not None:
            self._queue.over(event.jobs.tolist(), finished=False)

    def close(self) -> None:
        """Nothing to stop."""

    @property
    def between_rounds(self) -> bool:
        """Whether a round is under way."""
        tasks = self._tasks
        if not self._at_once or tasks is None or tasks.placement.fraction is not None:
            return False
        return not self._rounds.starts_at(self._now)

    def advance(self, horizon: Horizon, limit: float) -> list[Event]:
        """Go to the first decision point at which the horizon is over: at least one round, unless nothing runs.

        At `limit` time is up, even in the middle of a round (in which case the world is `interrupted`, and what
        happens next does not depend on it). Asked again at that moment, it says who has ended or arrived by then.
        """
        if limit <= self._now:
            return [*self._ended_early(), *self._arrived()]
        if self._exchange():
            return self._arrived()
        arrival = self._arrival()
        if self._tasks is None:
            self._rest(arrival, horizon.until, limit)
            events: list[Event] = []
        else:
            ends_it = arrival if JobsSubmitted in horizon.ended_by else math.inf
            jobs_wait = horizon.jobs_wait or (self._queue is not None and self._queue.gate.waiting)
            heed = Heed(arrival, horizon.free_gpus, jobs_wait) if self._at_once else NOTHING
            events = self._run(self._tasks, self._until(self._tasks, horizon, ends_it), limit, heed)
        return events if self.interrupted else [*events, *self._arrived()]

    def _exchange(self) -> bool:
        """Whether other jobs of arrays are let in at once, because GPUs are idle that those inside cannot use."""
        if self._queue is None or self.interrupted or not self._rounds.exact or not self._queue.use_idle_gpus():
            return False
        tasks = self._tasks
        if tasks is not None and tasks.lead is None and self._restart_s:  # nobody has begun to start yet
            tasks.lead = np.where(tasks.fresh, self._restart_s, 0.0)
        self._exchanged = True
        return True

    def _rest(self, arrival: float, until: float, limit: float) -> None:
        """Nothing runs: go to the round in which a job arrives."""
        if until <= self._now < arrival:  # nobody may run, and the same would be decided again: with the next round
            until = (math.floor(self._now / self._round_s + TOLERANCE) + 1) * self._round_s
        wake = min(self._rounds.wake(arrival) if arrival < math.inf else math.inf, until)
        last = math.isinf(wake) and self.exhausted  # what is left is decided about now, and not when time is up
        self.interrupted = limit < wake and not last
        if last:
            return
        target = min(wake, limit)
        if target < math.inf:
            self._now = max(self._now, target)

    def _until(self, tasks: Tasks, horizon: Horizon, arrival: float) -> float:
        """When to stop; the moment that was to be reached before, if the world was interrupted."""
        if self.interrupted:
            return self._stop
        if tasks.surprise or (self._measuring is not None and self._measuring.eager):
            return self._now
        until = horizon.until if horizon.outlook is None else self._foreseen(tasks, horizon.outlook, arrival)
        return min(arrival, until)

    def _arrived(self) -> list[Event]:
        now = self._now + self._just_after_s
        jobs = self._source.take(now) if self._arrival() <= now else None
        if jobs is None:
            return [] if self._queue is None else self._queue.events(self._now)
        first = self._taken
        self._next = None
        self._taken += len(jobs)
        if jobs.queue is not None and self._queue is None:
            self._queue = QueueRules()
        if self._queue is None:
            return [JobsSubmitted(at=self._now, first_id=first, jobs=jobs)]
        self._queue.arrive(first, jobs)
        return self._queue.events(self._now)

    def _ended_early(self) -> list[Event]:
        """Jobs that came to their end in a round that is not over."""
        jobs, finished_at = self._through
        return self._ends(self._now, jobs, finished_at)

    def _ends(self, at: float, jobs: IntArray, finished_at: FloatArray) -> list[Event]:
        """Jobs came to their end, or to the end of the time that they may run."""
        if not len(jobs):
            return []
        if self._queue is not None:
            return self._queue.ends(at, jobs, finished_at)
        return [JobsFinished(at=at, jobs=jobs, finished_at=finished_at)]

    def _foreseen(self, tasks: Tasks, outlook: Outlook, arrival: float) -> float:
        """When the decision has to be looked at again, given the pace of the tasks."""
        steps = self._quiet_pace(tasks, arrival)
        rounds = 1 if steps is None else outlook.rounds(steps)
        return self._now + (rounds - 0.5) * self._round_s if rounds > 1 else -math.inf

    def _quiet_pace(self, tasks: Tasks, arrival: float) -> FloatArray | None:
        """Steps of the tasks in every round; None if rounds differ, or a job arrives or ends within the next few."""
        if tasks.placement.fraction is not None or len(tasks.paired):
            return None
        if arrival <= self._now + _WORTH_LOOKING * self._round_s:
            return None
        steps = self._rounds.pace(tasks)
        return None if steps is None or smallest(tasks.left / steps) <= _WORTH_LOOKING else steps

    def _arrival(self) -> float:
        if self._next is None:
            self._next = self._source.peek()
        if self._queue is not None and self._queue.gate.pending:
            return self._now
        return self._next

    def _run(self, tasks: Tasks, stop: float, limit: float, heed: Heed) -> list[Event]:
        fluid = tasks.placement.fraction is not None
        stepper = self._fluid if fluid else self._rounds
        if not stepper.exact:
            stop = min(stop, limit)
        stretch = stepper.run(tasks, self._now, stop, self._last_end, limit, heed)
        self._now = self._last_end = stretch.end
        if self._queue is not None:
            self._queue.ran(tasks, stretch)
        if self.interrupted:
            self._recall(stretch)
        self.interrupted = stretch.cut
        events: list[Event] = [_ran(stretch)]
        if self._measuring is not None:
            events += self._measuring.learned(stretch.seconds, stretch.end)
        order = stretch.finished.argsort()
        finished = stretch.finished[order]
        finished_at = stretch.finished_at[order]
        if stretch.cut:
            self._stop = stop
            self._through = (finished, finished_at)
        else:
            events += self._ends(stretch.end, finished, finished_at)
        return events

    def _recall(self, stretch: Stretch) -> None:
        """Jobs that were through before time was up ended then, not now."""
        jobs, finished_at = self._through
        for job, at in zip(jobs.tolist(), finished_at.tolist(), strict=True):
            stretch.finished_at[stretch.finished == job] = at
        self._through = (NO_IDS, NO_TIMES)

    # Checkpoints

    def snapshot(self) -> dict[str, Any]:
        """What is needed to go on later (the tasks follow from the state)."""
        return {
            "now": self._now,
            "last_end": self._last_end,
            "taken": self._taken,
            "interrupted": self.interrupted,
            "stop": self._stop,
            "through": self._through,
            "lead": None if self._tasks is None else self._tasks.lead,
            "measured": None if self._measuring is None else self._measuring.snapshot(),
            "queue": self._queue,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from a snapshot; the source is moved forward by its own restore."""
        self._now = saved["now"]
        self._last_end = saved["last_end"]
        self._taken = saved["taken"]
        self.interrupted = saved["interrupted"]
        self._stop = saved["stop"]
        self._through = saved["through"]
        self._lead = saved["lead"]
        self._queue = saved["queue"]
        if self._measuring is not None:
            self._measuring.restore(saved["measured"])
        self._next = None


def _stepper(rules: Rules, *, late: bool) -> Stepper:
    offset = rules.static_offset_s if late else 0.0
    if rules.rounds == "slowest-task":
        return SlowestTask(rules)
    return Whole(rules, offset) if rules.rounds == "whole" else Grid(rules, offset)


def _lead_of(tasks: Tasks, jobs: IntArray, lead: FloatArray, restart_s: float) -> FloatArray:
    """Seconds that tasks still need to start: those that go on as before (`jobs` needed `lead`), the others anew."""
    left = dict(zip(jobs.tolist(), lead.tolist(), strict=True))
    pairs = zip(tasks.placement.first.tolist(), tasks.fresh.tolist(), strict=True)
    return np.array([restart_s if fresh else left.get(job, 0.0) for job, fresh in pairs])


def _ran(stretch: Stretch) -> RoundsRan:
    return RoundsRan(
        at=stretch.end,
        start=stretch.start,
        rounds=stretch.rounds,
        steps=stretch.steps,
        partner_steps=stretch.partner_steps,
        seconds=stretch.seconds,
        lost=stretch.lost,
        each=stretch.each,
        alone=stretch.alone,
    )


def _idle_gpus(placement: Placement, view: View) -> dict[str, int]:
    """GPUs by type that nobody uses in a placement."""
    held = placement.gpus if placement.fraction is None else placement.gpus * placement.fraction
    used = np.bincount(placement.type, weights=held, minlength=len(view.types))
    free = np.floor(view.capacity - used + TOLERANCE)
    return dict(zip(view.types, free.astype(np.int64).tolist(), strict=True))
