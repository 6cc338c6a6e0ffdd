"""The one loop: what happened -> state -> policy -> mechanism -> plan -> executor.

Simulation and deployment differ only in the clock and the executor that are handed in. Every decision says how long it
holds (`core/horizon.py`); the loop takes the least, tells the clock, and asks again when that is over. A decision that
fails, is late or makes no sense never stops a round: the last good one stays in force and the failure is an event.
docs/loop.md explains this page.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rota.core.arrays import IntArray
from rota.core.classes import Classes
from rota.core.errors import AnswerError, ConfigError, RotaError, SolveLate
from rota.core.events import (
    Allocated,
    ClusterChanged,
    Event,
    JobsDropped,
    JobsRejected,
    JobsReturned,
    JobsSubmitted,
    PlacementFailed,
    Planned,
    RunEnded,
    SolveFailed,
    SpeedsLearned,
)
from rota.core.horizon import CHANGES, EVERY_ROUND, FollowsRanking, Horizon
from rota.core.placement import Placement, Plan, nobody
from rota.core.ports import Clock, Executor, Mechanism, Observer, Policy
from rota.core.quotas import Quotas
from rota.core.view import View
from rota.engine import placement_sense, sense, staying
from rota.engine.outlook import RankingOutlook
from rota.engine.refusing import reason_to_refuse
from rota.engine.routes import Routes
from rota.engine.sense import EVERYTHING, Checks
from rota.engine.state import State
from rota.engine.taking_back import keeping_their_place
from rota.engine.trigger import Trigger

log = logging.getLogger(__name__)

_NOTHING_TO_DECIDE = Horizon(math.inf, CHANGES)
"""Nobody is there, or nobody can run: until something changes."""


_LEAVING = CHANGES - {JobsSubmitted, JobsReturned, ClusterChanged, SpeedsLearned}
"""Kinds of events after which somebody who ran may be gone."""


class Engine:
    """Runs one cluster."""

    def __init__(
        self,
        *,
        state: State,
        policy: Policy,
        mechanism: Mechanism,
        clock: Clock,
        executor: Executor,
        observers: Sequence[Observer] = (),
        trigger: Trigger | None = None,
        journal: Observer | None = None,
        tolerant: bool = False,
        checks: Checks = EVERYTHING,
        quotas: Quotas | None = None,
    ) -> None:
        """What was planned last in the state runs on; `trigger` is given in the middle of a run.

        `journal` hears of every event before the state does, so that nothing is acted on that was not kept. With
        `tolerant`, no error of a policy or mechanism ends the run. `checks` says whose answers are looked at before
        they are used. For `quotas` of tenants, borrowed GPUs are taken back from jobs that may not be preempted.
        """
        self.state = state
        self._quotas = quotas or Quotas()
        self.trigger = Trigger(state.rules) if trigger is None else trigger
        self._mechanism = mechanism
        self._policy = policy
        self._clock = clock
        self._executor = executor
        self._tolerant = tolerant
        self._checks = checks
        first = () if journal is None else (journal,)
        self.emit = Routes((*first, state, self.trigger, *observers)).emit
        """Make an event happen: state first, then whoever listens."""
        self._outlook = RankingOutlook(state, clock)
        self._while_ranked = Horizon(-math.inf, CHANGES, FollowsRanking.AT_ONCE, self._outlook)
        self._ended = False
        """Whether something happened that ends the placement in force."""
        self._somebody_left = False
        """Whether a job left since the last plan."""
        self._known_speeds: Classes | None = None
        """What was known about the speeds of jobs when it was made."""
        if state.placement is not None:
            plan = Plan(round=state.round, start=clock.now(), placement=state.placement, last=state.placement)
            executor.apply(plan, state.view(clock.now()))

    def saved(self) -> dict[str, bool]:
        """What it remembers beside state and trigger, for a checkpoint."""
        return {"ended": self._ended, "somebody_left": self._somebody_left}

    def restore(self, saved: Mapping[str, bool]) -> None:
        """Go on from a checkpoint: what happened before it still ends the placement in force."""
        self._ended = saved["ended"]
        self._somebody_left = saved["somebody_left"]

    def run(self, finished: Callable[[], bool], until: float = math.inf) -> str:
        """Go round until `finished` says so, time is up, or no job is left; says why it ended."""
        reason = self._run(finished, until)
        self.emit(RunEnded(at=self._clock.now(), reason=reason))
        return reason

    def _run(self, finished: Callable[[], bool], until: float) -> str:
        state = self.state
        clock = self._clock
        while True:
            if finished():
                return "measured jobs are done"
            if clock.now() >= until:
                self._take_in(clock.advance(_NOTHING_TO_DECIDE, until))
                return "time is up"
            self._take_in(clock.advance(self._horizon(), until))
            if clock.interrupted:
                continue
            if len(state):
                self.decide(clock.now())
            elif clock.exhausted:
                return "all jobs are done"
            else:
                self._rest(clock.now())

    # How long the decisions in force hold

    def _horizon(self) -> Horizon:
        """When to look again, and what is looked at between two rounds."""
        horizon = self._promised()
        placement = self.state.placement
        if not self.state.rules.at_once or placement is None:
            return horizon
        partners = int(np.count_nonzero(placement.second >= 0)) if placement.shared else 0
        return horizon._replace(
            free_gpus=int(placement.gpus.sum()) < self.state.cluster.gpus,
            jobs_wait=len(self.state) > len(placement) + partners,
        )

    def _promised(self) -> Horizon:
        """The least that is known about how long the decisions in force hold."""
        state = self.state
        placement = state.placement
        if len(state) == 0:
            return _NOTHING_TO_DECIDE
        if placement is None or len(placement) == 0:
            waits = state.rules.idle_until_arrival and not self._clock.exhausted
            return _NOTHING_TO_DECIDE if waits else Horizon(self.trigger.next_due(), CHANGES)
        due = self.trigger.after_change()
        if self._ended or state.allocation is None:
            # Something happened between two rounds: this one is the last.
            return EVERY_ROUND if self._ended else Horizon(due, CHANGES)
        own = placement.horizon
        if own.follows is not FollowsRanking.NEVER and not self.trigger.changed:
            return self._while_ranked
        promised = state.allocation.horizon.ended_by
        if own.until <= due and promised <= own.ended_by:
            return own
        return Horizon(min(own.until, due), own.ended_by | promised)

    # What happened

    def _take_in(self, events: list[Event]) -> None:
        placement = self.state.placement
        ended_by = CHANGES if placement is None else placement.horizon.ended_by
        for event in events:
            self.emit(event)
            self._ended = self._ended or type(event) in ended_by
            self._somebody_left = self._somebody_left or type(event) in _LEAVING
        self._refuse_impossible(events)
        jobs = self.state.given_up()
        if len(jobs):
            reason = f"{self.state.rules.max_failures} failed attempts in a row"
            self._drop(jobs.copy(), reason)

    def _refuse_impossible(self, events: Sequence[Event]) -> None:
        """New jobs that no type can hold or speed up are named and refused; the rest runs."""
        state = self.state
        for event in (event for event in events if isinstance(event, JobsSubmitted)):
            able = state.classes.able(state.cluster.capacity)
            if able is None:
                return
            view = state.view(event.at)
            bad = ((view.jobs >= event.first_id) & ~able[view.job_class]).nonzero()[0]
            for job in bad.tolist():
                self.emit(JobsRejected(at=event.at, jobs=view.jobs[[job]], reason=reason_to_refuse(view, job)))
                self._ended = True

    def _drop(self, jobs: IntArray, reason: str) -> None:
        self.emit(JobsDropped(at=self._clock.now(), jobs=jobs, reason=reason))
        self._ended = True
        self._somebody_left = True

    # Deciding

    def decide(self, now: float) -> None:
        """Ask the policy if its answer is over, then the mechanism if its placement is."""
        state = self.state
        if self._clock.between_rounds and state.placement is not None and len(state.placement):
            self._fill(now)
            return
        if self.trigger.due(now):
            self._solve(now)
        elif self._placement_holds(now):
            return
        if state.allocation is None:
            if self._clock.exhausted:  # nobody will change the policy's mind
                self._drop(state.view(now).jobs.copy(), "the policy has never given an answer")
            return
        view = self._view_of_round(now)
        placement = self._place(view)
        if placement is None:
            return
        if len(placement) == 0 and self._clock.exhausted:
            placement = self._last_resort(now)
            view = state.view(now)
        self._ended = False
        self._known_speeds = view.classes
        again = placement is state.placement
        self._outlook.placed_twice = again
        if not again:
            self._plan(view, placement)

    def _view_of_round(self, now: float) -> View:
        """What is decided on at the start of a round."""
        view = self.state.view(now)
        pinned = self.state.pinned
        if pinned is None:
            return view
        view = staying.still_there(view)
        return staying.pinned_stay(view, keeping_their_place(view, pinned, self._quotas))

    def _fill(self, now: float) -> None:
        """Between two rounds: free GPUs go to jobs that wait, and everybody who runs stays where it is."""
        view = staying.still_there(self.state.view(now))
        placement = self._beside_running(view, now) if staying.has_room(view) else None
        if placement is None and not self._somebody_left:
            return
        running = view.placement
        assert running is not None  # the caller has looked
        self._plan(view, staying.going_on(running) if placement is None else placement)

    def _beside_running(self, view: View, now: float) -> Placement | None:
        """The placement with jobs that start beside those that run; None if nobody does."""
        if self._answer_is_short() and self.trigger.due(now):
            self._solve(now)
            view = staying.still_there(self.state.view(now))
        if self.state.allocation is None:
            return None
        view = staying.everybody_stays(view)
        placement = self._place(view)
        running = view.placement
        if placement is None or running is None or len(placement) <= len(running):
            return None
        if self._checks.mechanism and len(staying.moved(view, placement)):
            return None  # it cannot work around those who run: the others start with the round
        return placement.within_round(kept=placement.kept)

    def _answer_is_short(self) -> bool:
        """Whether the last answer does not know all jobs that wait, or is about more jobs than are left.

        Another number of jobs changes shares; the order of those that wait stays if somebody leaves.
        """
        allocation = self.state.allocation
        return allocation is None or allocation.order is None or self.state.newcomers

    def _placement_holds(self, now: float) -> bool:
        """Whether nothing happened that ends the placement in force, and nothing was learned about speeds."""
        state = self.state
        if self._ended or state.placement is None or state.classes.value is not self._known_speeds:
            return False
        return now < state.placement.horizon.until

    def _solve(self, now: float) -> None:
        view = self.state.view(now)
        try:
            allocation = self._policy.allocate(view)
            if self._checks.policy:
                sense.check_allocation(allocation, view)
        except Exception as error:
            if not self._may_go_on(error):
                raise
            log.warning("the policy failed at %.0f s: %s", now, error)
            self.emit(SolveFailed(at=now, reason=sense.in_words(error)))
            self.trigger.failed(now, ask_again=isinstance(error, SolveLate))
            return
        self.emit(Allocated(at=now, allocation=allocation))

    def _place(self, view: View) -> Placement | None:
        """The mechanism's answer; None if it has none, and the last one stays."""
        allocation = self.state.allocation
        assert allocation is not None  # the caller has looked
        try:
            placement = self._mechanism.place(view, allocation)
            if self._checks.mechanism and (placement is None or placement is not view.placement):
                placement_sense.check_placement(placement, view)
                self._check_pinned(placement, view)
        except Exception as error:
            if not self._tolerant:
                raise
            log.warning("the mechanism failed at %.0f s: %s", view.now, error)
            self.emit(PlacementFailed(at=view.now, reason=sense.in_words(error)))
            return None
        return placement

    def _check_pinned(self, placement: Placement, view: View) -> None:
        """Raise AnswerError if a job is stopped or moved at the start of a round that must not be."""
        if self._clock.between_rounds:
            return
        jobs = staying.moved(view, placement)
        if len(jobs):
            raise AnswerError(
                f"the mechanism moves or stops job {jobs[0]}, which has to stay where it runs (view.staying); give it "
                "the slots that it has in view.placement"
            )

    def _may_go_on(self, error: Exception) -> bool:
        """Whether a failed solve is only a failed solve: always in a service; input that cannot be used ends a run."""
        return self._tolerant or (isinstance(error, RotaError) and not isinstance(error, ConfigError))

    def _plan(self, view: View, placement: Placement) -> None:
        """Announce the next round."""
        state = self.state
        plan = Plan(round=state.round, start=view.now, placement=placement, last=state.placement)
        self.emit(Planned(at=view.now, plan=plan))
        self._somebody_left = False
        self._executor.apply(plan, view)

    def _rest(self, now: float) -> None:
        """Nobody is there: say so once."""
        if self.state.placement is None or len(self.state.placement):
            self._plan(self.state.view(now), nobody())
        self.trigger.nobody_there(now)

    def _last_resort(self, now: float) -> Placement:
        """Nobody runs and nobody will arrive: ask once more, then give up the jobs that are left."""
        self.trigger.changed = True
        self._solve(now)
        placement = self._place(self.state.view(now))
        if placement is None or len(placement) == 0:
            self._drop(self.state.view(now).jobs.copy(), "the policy gives them no GPU and nothing will change")
            return nobody() if placement is None else placement
        return placement
