"""The simulated world: a clock that jumps, and an executor that computes.

Between two decisions nothing can surprise us, so time jumps to the next moment that matters: the round in which the
horizon of the decision is over, in which a job arrives (if that ends it), or in which one is through. Cost grows with
events, not with seconds.
"""

from __future__ import annotations

import math

from rota.core.arrays import FloatArray, smallest
from rota.core.events import Event, JobsFinished, JobsSubmitted, RoundsRan
from rota.core.horizon import Horizon, Outlook
from rota.core.jobs import Source
from rota.core.placement import Plan
from rota.core.rules import Rules
from rota.core.view import View
from rota.sim.slowest_task import SlowestTask
from rota.sim.steppers import Fluid, Grid, Stepper, Stretch, Whole
from rota.sim.tasks import Tasks, make_tasks

_WORTH_LOOKING = 3
"""Rounds that must be quiet before it is worth asking how long a ranking stays as it is."""


class World:
    """Clock and executor of a simulation."""

    def __init__(self, source: Source, rules: Rules) -> None:
        self._source = source
        self._spread_costs = rules.spread_costs
        self._round_s = rules.round_s
        self._whole = rules.round_s if rules.rounds == "whole" else 0.0
        self._rounds: Stepper = _stepper(rules, late=source.static)
        self._fluid: Stepper = Fluid()
        self._tasks: Tasks | None = None
        self._now = 0.0
        self._last_end = 0.0
        self._taken = 0
        self._next: float | None = None
        """When the next job arrives, once it was asked for."""

    def now(self) -> float:
        """Simulated seconds."""
        return self._now

    @property
    def exhausted(self) -> bool:
        """Whether no job will ever arrive again."""
        return math.isinf(self._arrival())

    def apply(self, plan: Plan, view: View) -> None:
        """From now on these tasks run."""
        running = len(plan.placement) > 0
        self._tasks = (
            make_tasks(plan.placement, view, spread_costs=self._spread_costs, whole=self._whole) if running else None
        )

    def close(self) -> None:
        """Nothing to stop."""

    def advance(self, horizon: Horizon, limit: float) -> list[Event]:
        """Go to the first decision point at which the horizon is over: at least one round, unless nothing runs."""
        arrival = self._arrival()
        tasks = self._tasks
        events: list[Event] = []
        if tasks is None:
            wake = self._rounds.wake(arrival) if arrival < math.inf else math.inf
            target = min(wake, horizon.until, limit)
            if target < math.inf:
                self._now = max(self._now, target)
        else:
            heed = arrival if JobsSubmitted in horizon.ended_by else math.inf
            until = horizon.until
            if tasks.surprise:
                until = self._now
            elif horizon.outlook is not None:
                until = self._foreseen(tasks, horizon.outlook, heed)
            events = self._run(tasks, min(heed, until, limit))
        jobs = self._source.take(self._now) if arrival <= self._now else None
        if jobs is not None:
            self._next = None
            events.append(JobsSubmitted(at=self._now, first_id=self._taken, jobs=jobs))
            self._taken += len(jobs)
        return events

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
        return self._next

    def _run(self, tasks: Tasks, stop: float) -> list[Event]:
        fluid = tasks.placement.fraction is not None
        stepper = self._fluid if fluid else self._rounds
        stretch = stepper.run(tasks, self._now, stop, self._last_end)
        self._now = self._last_end = stretch.end
        events: list[Event] = [_ran(stretch)]
        if len(stretch.finished):
            order = stretch.finished.argsort()
            events.append(
                JobsFinished(at=stretch.end, jobs=stretch.finished[order], finished_at=stretch.finished_at[order])
            )
        return events

    # Checkpoints

    def snapshot(self) -> dict[str, float]:
        """What is needed to go on later (the tasks follow from the state)."""
        return {"now": self._now, "last_end": self._last_end, "taken": float(self._taken)}

    def restore(self, saved: dict[str, float]) -> None:
        """Go on from a snapshot; the source is moved forward by its own restore."""
        self._now = saved["now"]
        self._last_end = saved["last_end"]
        self._taken = int(saved["taken"])
        self._next = None


def _stepper(rules: Rules, *, late: bool) -> Stepper:
    offset = rules.static_offset_s if late else 0.0
    if rules.rounds == "slowest-task":
        return SlowestTask(rules)
    return Whole(rules, offset) if rules.rounds == "whole" else Grid(rules, offset)


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
    )
