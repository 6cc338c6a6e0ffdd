"""Clock and executor of a fork: the rounds of the deployment go on, with the model of execution in the place of agents.

Like `sim/world.py`, on which it is built, but in the middle of a run and with what only deployments have: jobs that are
further than their last checkpoint, jobs that must not be preempted, jobs that come back after a pause, a start and a
stop that take their time. With `exact` it looks at every round as a deployment does (for the first few hundred), and
credits steps when they would be saved; without, it goes over rounds in which nothing is decided, for many futures in
little time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from rota.core.arrays import FloatArray, smallest, some, zeros
from rota.core.events import (
    Event,
    JobsDropped,
    JobsFinished,
    JobsPinned,
    JobsReturned,
    JobsSubmitted,
    ProgressMade,
    RoundsRan,
)
from rota.core.horizon import Horizon
from rota.core.jobs import Source
from rota.core.placement import Placement, Plan
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.core.view import View
from rota.deploy.questions.facts import JobFacts
from rota.deploy.questions.job_progress import Story, credits_of, fact_of_arrival, job_now, servers_of
from rota.engine.live_state import LiveState
from rota.sim.queue_rules import QueueRules
from rota.sim.steppers import NO_IDS, NO_TIMES, NOTHING, Heed
from rota.sim.tasks import Tasks, make_tasks
from rota.sim.world import World

_EXACT_ROUNDS = 400
"""Rounds after a fork that are looked at one by one; nobody can name the round of what comes later."""
_REST_BETWEEN_LOOKS = 5.0
"""Times a decision takes: itself, and the rest that the scheduler keeps after it (`scheduler/world.py`)."""

FirstNews = Callable[[float], tuple[list[Event], bool]]
"""What the engine has to hear at the moment of the fork, and whether it acts on it at once."""


class ForkedWorld(World):
    """Time passes in rounds; plans are carried out by the model."""

    def __init__(
        self,
        source: Source,
        rules: Rules,
        state: LiveState,
        facts: Mapping[int, JobFacts],
        *,
        now: float,
        next_job: int,
        exact: bool,
        decided: float = -math.inf,
        hand_over_s: float = 0.0,
        returns: Mapping[int, float] | None = None,
        first_news: FirstNews | None = None,
    ) -> None:
        """`decided` is when something was decided last, `returns` when parked jobs come back.

        An order to start comes `hand_over_s` after it could.
        """
        super().__init__(source, replace(rules, rounds="grid", restart_s=0.0))  # real starts take what they take
        self.story = Story()
        self._state = state
        self._exact_until = now + _EXACT_ROUNDS * rules.round_s if exact else -math.inf
        self._now = now
        self._last_end = now
        self._taken = next_job
        begun = math.floor(now / self._round_s) * self._round_s
        self._forked_at = now
        self._round_is_decided = decided >= begun - TOLERANCE * self._round_s
        self._hand_over_s = hand_over_s
        self._next_look = -math.inf
        """Between two rounds, nothing is decided before."""
        self._returns = dict(returns or {})
        self._first_news = first_news
        known = state.view(now)
        credited = dict(zip(known.jobs.tolist(), known.steps_done.tolist(), strict=True))
        self._jobs = {number: job_now(fact, credited.get(number, fact.saved), now) for number, fact in facts.items()}
        self._pinned = set() if state.pinned is None else set(known.jobs[state.pinned].tolist())
        self._waits: dict[int, float] = {
            number: max(0.0, fact.turn_began + fact.start_s - now) for number, fact in facts.items() if fact.runs
        }
        """Seconds that tasks still need until their first step, by job, of all that have a turn."""

    @property
    def _exact(self) -> bool:
        """Whether every round is looked at."""
        return self._now < self._exact_until

    @property
    def exhausted(self) -> bool:
        """A job may come at any time, as in a deployment."""
        return False

    @property
    def between_rounds(self) -> bool:
        """Whether a round is under way; at the moment of the fork, whether it was decided already."""
        if self._now != self._forked_at or self._first_news is not None:
            return super().between_rounds
        return self._at_once and self._tasks is not None and self._round_is_decided

    def keep_to(self, queue: QueueRules | None) -> None:
        """From now on jobs are kept back, and may run, as these rules say."""
        self._queue = queue

    @property
    def anybody_comes(self) -> bool:
        """Whether a job arrives or comes back after a pause in this future."""
        return math.isfinite(self._arrival())

    @property
    def untold(self) -> bool:
        """Whether the engine has not heard yet what there is to tell."""
        return self._first_news is not None

    @property
    def something_ends(self) -> bool:
        """Whether something runs that comes to its end."""
        return self._tasks is not None and bool(np.isfinite(self._tasks.left).any())

    # Time

    def advance(self, horizon: Horizon, limit: float) -> list[Event]:
        """At first what the deployment has to tell; then a round after the other."""
        if self._first_news is not None:
            events, acts = self._first_news(self._now)
            self._first_news = None
            self.interrupted = not acts and self._round_is_decided
            self._stop = -math.inf
            self._heard(events)
            return events
        self._follow_placement()
        return [*super().advance(horizon, limit), *self._pins()]

    def _until(self, tasks: Tasks, horizon: Horizon, arrival: float) -> float:
        return self._now if self._exact else super()._until(tasks, horizon, arrival)

    def _quiet_pace(self, tasks: Tasks, arrival: float) -> FloatArray | None:
        starting = tasks.lead is not None and some(tasks.lead > 0)
        return None if starting else super()._quiet_pace(tasks, arrival)

    def _rest(self, arrival: float, until: float, limit: float) -> None:
        """Nothing runs: whoever waits is looked at in every round."""
        following = (math.floor(self._now / self._round_s + TOLERANCE) + 1) * self._round_s
        coming = self._rounds.wake(arrival) if math.isfinite(arrival) else math.inf
        self.interrupted = False
        wake = min(coming, max(until, following), limit)
        if math.isfinite(wake):
            self._now = max(self._now, wake)

    def _arrival(self) -> float:
        return min(super()._arrival(), min(self._returns.values(), default=math.inf))

    def _arrived(self) -> list[Event]:
        back = [number for number, at in self._returns.items() if at <= self._now + self._just_after_s]
        events: list[Event] = []
        if back:
            self._returns = {number: at for number, at in self._returns.items() if number not in back}
            events.append(JobsReturned(at=self._now, jobs=np.array(sorted(back), dtype=np.int64)))
        new = super()._arrived()
        self._heard(new)
        return [*events, *new]

    def _heard(self, events: list[Event]) -> None:
        """Jobs come and go."""
        for event in events:
            if isinstance(event, JobsSubmitted):
                self._submitted(event)
            elif isinstance(event, JobsReturned):
                self._returns = {n: at for n, at in self._returns.items() if n not in set(event.jobs.tolist())}
            elif isinstance(event, JobsPinned):
                numbers = set(event.jobs.tolist())
                self._pinned = self._pinned | numbers if event.pinned else self._pinned - numbers
            elif isinstance(event, ProgressMade):
                for number, steps in zip(event.jobs.tolist(), event.steps.tolist(), strict=True):
                    if number in self._jobs:
                        self._jobs[number].credited += steps

    def _submitted(self, event: JobsSubmitted) -> None:
        for row in range(len(event.jobs)):
            number = event.first_id + row
            if number not in self._jobs:
                self._jobs[number] = job_now(fact_of_arrival(event.jobs, row, number), 0.0, self._now)

    # Progress

    def _run(self, tasks: Tasks, stop: float, limit: float, heed: Heed) -> list[Event]:
        look = self._late_look(tasks, heed)
        if look is None:
            events = super()._run(tasks, stop, limit, heed)
        else:  # the scheduler is not ready before: whatever happens until then is looked at together
            events = super()._run(tasks, self._now, min(limit, look), NOTHING)
            self._look_now(events, over=look <= limit)
        self._next_look = self._now + _REST_BETWEEN_LOOKS * self._hand_over_s
        ran = events[0]
        assert isinstance(ran, RoundsRan)  # what a stretch begins with
        self._move_on(tasks, ran)
        ran.steps = zeros(len(ran.steps))
        ran.partner_steps = ran.steps
        credited = self._credited(tasks)
        over = [event for event in events if isinstance(event, JobsFinished | JobsDropped)]
        for event in over:
            self._end(event)
        return [ran, *credited, *over]

    def _late_look(self, tasks: Tasks, heed: Heed) -> float | None:
        """When the scheduler looks, if something happens in this round before it is ready to; else None."""
        if self._hand_over_s == 0.0 or not self._at_once:
            return None
        end = (math.floor(self._now / self._round_s + TOLERANCE) + 1) * self._round_s
        assert tasks.lead is not None  # it comes with the tasks
        ends_at = self._now + smallest(tasks.left / tasks.pace + tasks.lead)
        happens = heed.arrival if heed.free_gpus else math.inf
        if heed.jobs_wait or heed.arrival < end:
            happens = min(happens, ends_at)
        return self._next_look if happens < self._next_look < end - TOLERANCE * self._round_s else None

    def _look_now(self, events: list[Event], *, over: bool) -> None:
        """A stretch that was cut for a look, and not because time is up, is over."""
        if not (over and self.interrupted):
            return
        self.interrupted = False
        jobs, finished_at = self._through
        self._through = (NO_IDS, NO_TIMES)
        events += self._ends(self._now, jobs, finished_at)

    def _move_on(self, tasks: Tasks, ran: RoundsRan) -> None:
        """Every task does its steps."""
        placement = tasks.placement
        gpu_s = (ran.seconds * placement.gpus).tolist()
        for row, number in enumerate(placement.first.tolist()):
            self._jobs[number].done += float(ran.steps[row])
            self.story.gpu_s[number] = self.story.gpu_s.get(number, 0.0) + gpu_s[row]
        for row in tasks.paired.tolist():
            self._jobs[int(placement.second[row])].done += float(ran.partner_steps[row])
        assert tasks.lead is not None  # it comes with the tasks
        tasks.lead = np.maximum(tasks.lead - (ran.at - ran.start), 0.0)
        self._waits = dict(zip(placement.first.tolist(), tasks.lead.tolist(), strict=True))

    def _credited(self, tasks: Tasks) -> list[Event]:
        """Steps that the engine hears of: those in a checkpoint, or all."""
        numbers = [*tasks.placement.first.tolist(), *tasks.placement.second[tasks.paired].tolist()]
        for number in numbers:
            self._jobs[number].save_if_due(self._now, self._rate_of, exact=self._exact)
        looked_at = self._jobs.values() if self._exact else map(self._jobs.__getitem__, numbers)
        news = [job for job in looked_at if job.saved > job.credited]
        return credits_of(news, self._now)

    def _rate_of(self, number: int) -> float:
        """Steps per second of a job that runs."""
        tasks = self._tasks
        if tasks is None:
            return 0.0
        rows = (tasks.placement.first == number).nonzero()[0]
        return float(tasks.rate[rows[0]]) if len(rows) else 0.0

    def _end(self, event: JobsFinished | JobsDropped) -> None:
        """Jobs are done, or their time is up."""
        ends = event.finished_at if isinstance(event, JobsFinished) else np.full(len(event.jobs), event.at)
        for number, at in zip(event.jobs.tolist(), ends.tolist(), strict=True):
            self.story.ends[number] = at
            self._jobs.pop(number)
            self._waits.pop(number, None)
            self._pinned.discard(number)

    # Who runs

    def apply(self, plan: Plan, view: View) -> None:
        """From now on these tasks run; those that are not kept have to start."""
        self._build(plan.placement, view, planned=plan.placement is not plan.last)

    def _follow_placement(self) -> None:
        """The placement in force may have lost jobs without a plan."""
        placement = self._state.placement
        here = None if self._tasks is None else self._tasks.placement
        if placement is None or (len(placement) == 0 and here is None) or placement is here:
            return
        self._build(placement, self._state.view(self._now), planned=False)

    def _build(self, placement: Placement, view: View, *, planned: bool) -> None:
        before = self._tasks
        if self._first_news is not None:  # who is over already is in the placement until the engine hears of it
            placement = placement.rows(np.isin(placement.first, list(self._jobs)))
        numbers = placement.first.tolist()
        kept = placement.kept.tolist() if planned else [True] * len(numbers)
        goes_on = {number for number, same in zip(numbers, kept, strict=True) if same and number in self._waits}
        freed = self._stop_others(before, goes_on, placement) if planned else {}
        self._waits = {
            number: self._waits[number] if number in goes_on else self._begin(number, row, placement, freed)
            for row, number in enumerate(numbers)
        }
        if not numbers:
            self._tasks = None
            return
        tasks = make_tasks(placement, view, spread_costs=True)
        self._tasks = self._as_they_are(tasks, numbers)

    def _as_they_are(self, tasks: Tasks, numbers: list[int]) -> Tasks:
        """Tasks with what is really left of their jobs, at the pace that was seen."""
        tasks.lead = np.array([self._waits[number] for number in numbers])
        tasks.left = np.array([self._jobs[number].left for number in numbers])
        if len(tasks.paired):
            seconds = tasks.placement.second[tasks.paired].tolist()
            tasks.partner_left = tasks.partner_left.copy()
            tasks.partner_left[tasks.paired] = [self._jobs[number].left for number in seconds]
        pace = np.array([self._jobs[number].facts.pace for number in numbers])
        if (pace != 1.0).any() and not len(tasks.paired):
            tasks.rate = tasks.rate * pace
            tasks.pace = tasks.rate
        if self._queue is not None:
            self._queue.cut(tasks, 0.0)
        return tasks

    def _stop_others(self, before: Tasks | None, goes_on: set[int], placement: Placement) -> dict[int, float]:
        """Whoever does not go on saves and stops; seconds until their servers are free, by server."""
        freed: dict[int, float] = {}
        if before is None:
            return freed
        old = before.placement
        partners = set(placement.second.tolist()) | set(placement.first.tolist())
        for row, number in enumerate(old.first.tolist()):
            if number not in goes_on and number in self._jobs:
                job = self._jobs[number]
                job.save()
                job.done = job.saved
                for slot in range(int(old.slot_start[row]), int(old.slot_start[row + 1])):
                    server = int(old.slot_server[slot])
                    freed[server] = max(freed.get(server, 0.0), job.facts.stop_s)
        for number in old.second[before.paired].tolist():
            if number not in partners and number in self._jobs:
                self._jobs[number].save()
        return freed

    def _begin(self, number: int, row: int, placement: Placement, freed: Mapping[int, float]) -> float:
        """A turn begins; seconds until the first step."""
        slots = slice(int(placement.slot_start[row]), int(placement.slot_start[row + 1]))
        wait = max((freed.get(server, 0.0) for server in placement.slot_server[slots].tolist()), default=0.0)
        wait += self._hand_over_s
        partner = int(placement.second[row])
        for member in (number, partner) if partner >= 0 else (number,):
            job = self._jobs[member]
            job.began = self._now + wait
            job.next_save = job.began + job.facts.save_every_s if job.facts.save_every_s else math.inf
            self.story.starts.setdefault(member, job.began)
            self.story.places.setdefault(member, servers_of(placement, row, self._state.cluster))
        return max(wait + self._jobs[number].facts.start_s, 0.0)

    # Who must not be preempted

    def _pins(self) -> list[Event]:
        """Jobs that keep their place from now on, and those that need not any more."""
        if self.between_rounds or self._tasks is None:
            return []
        there = [self._jobs[number] for number in self._waits if number in self._jobs]
        pinned = {job.facts.job for job in there if job.keeps_place(self._now, self._rate_of)}
        groups = {True: pinned - self._pinned, False: self._pinned - pinned}
        self._pinned = pinned
        return [
            JobsPinned(at=self._now, jobs=np.array(sorted(numbers), dtype=np.int64), pinned=pin)
            for pin, numbers in groups.items()
            if numbers
        ]
