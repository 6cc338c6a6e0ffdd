"""The one loop: what happened -> state -> policy -> mechanism -> plan -> executor.

Simulation and deployment differ only in the clock and the executor that are handed in. A failed solve never stops a
round: the last good allocation stays in force and the failure is an event.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError, RotaError
from rota.core.events import (
    Allocated,
    Event,
    JobsDropped,
    JobsRejected,
    JobsSubmitted,
    Planned,
    RoundsRan,
    RunEnded,
    SolveFailed,
)
from rota.core.placement import Placement, Plan, nobody
from rota.core.ports import Clock, Executor, Mechanism, Policy, RankingPolicy
from rota.core.view import View
from rota.engine.outlook import unchanged_rounds
from rota.engine.state import State
from rota.engine.trigger import Trigger

log = logging.getLogger(__name__)

Observer = Callable[[Event], None]

_LOOK_AHEAD = 3
"""Rounds that must be quiet before it is worth asking how long a ranking stays as it is."""


class World(Clock, Executor, Protocol):
    """Clock and executor in one, as a simulation has it."""

    @property
    def exhausted(self) -> bool:
        """Whether no job will ever arrive again."""

    def pace(self, least: int) -> FloatArray | None:
        """Steps of the running tasks in every round; None if rounds differ, or a job arrives or ends within `least`."""

    def hold(self, *, held: bool) -> None:
        """Whether the tasks of now run on until somebody has to look again."""


class _Routes(dict[type, tuple[Observer, ...]]):
    """Who has to hear of events of a kind, found out once by kind.

    An observer that is a method of something with a `handler(kind)` is asked which part of it that is; None is no one.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        super().__init__()
        self._observers = observers

    def __missing__(self, kind: type) -> tuple[Observer, ...]:
        parts = (_part(observer, kind) for observer in self._observers)
        self[kind] = found = tuple(part for part in parts if part is not None)
        return found


def _part(observer: Observer, kind: type) -> Observer | None:
    ask: Callable[[type], Observer | None] | None
    ask = getattr(getattr(observer, "__self__", None), "handler", None)
    return observer if ask is None else ask(kind)


class Engine:
    """Runs one cluster."""

    def __init__(
        self, *, state: State, policy: Policy, mechanism: Mechanism, world: World, observers: Sequence[Observer] = ()
    ) -> None:
        self.state = state
        self.trigger = Trigger(state.rules)
        self._policy = policy
        self._mechanism = mechanism
        self._world = world
        self._routes = _Routes((state.apply, self.trigger.observe, *observers))
        self._held_until = 0.0
        self._settled = False
        """Since the last round was laid out nothing happened but rounds and arrivals."""

    def continued(
        self,
        state: State,
        trigger: Trigger,
        world: World,
        observers: Sequence[Observer],
        journal: Observer | None = None,
    ) -> Engine:
        """The same engine in the middle of a run: what was planned last runs on.

        `journal` hears of every event before the state does, so that nothing is acted on that was not kept.
        """
        engine = Engine(state=state, policy=self._policy, mechanism=self._mechanism, world=world, observers=())
        engine.trigger = trigger
        first = () if journal is None else (journal,)
        engine._routes = _Routes((*first, state.apply, trigger.observe, *observers))
        if state.placement is not None:
            plan = Plan(round=state.round, start=world.now(), placement=state.placement, last=state.placement)
            world.apply(plan, state.view(world.now()))
        return engine

    @property
    def mechanism(self) -> Mechanism:
        """Who lays out rounds."""
        return self._mechanism

    def emit(self, event: Event) -> None:
        """Make an event happen: state first, then whoever listens."""
        for observer in self._routes[type(event)]:
            observer(event)

    def run(self, finished: Callable[[], bool], until: float = math.inf) -> str:
        """Go round until `finished` says so, time is up, or no job is left; says why it ended."""
        reason = self._run(finished, until)
        self.emit(RunEnded(at=self._world.now(), reason=reason))
        return reason

    def _run(self, finished: Callable[[], bool], until: float) -> str:
        state, world = self.state, self._world
        while True:
            if finished():
                return "measured jobs are done"
            if world.now() >= until:
                return "time is up"
            for event in world.advance(min(self._next_solve(), until)):
                self.emit(event)
                if isinstance(event, JobsSubmitted):
                    self._refuse_impossible(event)
                elif not isinstance(event, RoundsRan):
                    self._settled = False
            self._drop_failed()
            if len(state) == 0:
                if world.exhausted:
                    return "all jobs are done"
                self._rest(world.now())
                self.trigger.nobody_there(world.now())
                continue
            self.decide(world.now())

    def _next_solve(self) -> float:
        """When the policy is to be asked next, as far as is known now."""
        state = self.state
        if len(state) == 0:
            return math.inf
        idle = state.placement is None or len(state.placement) == 0
        if idle and state.rules.idle_until_arrival and not self._world.exhausted:
            return math.inf
        if state.placement is not None and state.placement.steady and not self.trigger.changed:
            return math.inf  # an older ranking gives the same placement
        return max(self.trigger.next_due(), self._held_until)

    def decide(self, now: float) -> None:
        """Ask the policy if it is time, then lay out the next round."""
        if self.trigger.due(now) or getattr(self._policy, "unfinished", False):
            self._solve(now)
        elif self._settled and self._goes_on(now):
            return
        self._settled = True
        allocation = self.state.allocation
        if allocation is None:
            if self._world.exhausted:  # nobody will change the policy's mind
                stuck = self.state.view(now).jobs.copy()
                self.emit(JobsDropped(at=now, jobs=stuck, reason="the policy has never given an answer"))
            return
        view = self.state.view(now)
        placement = self._mechanism.place(view, allocation)
        if len(placement) == 0 and self._world.exhausted:
            placement = self._last_resort(now)
            view = self.state.view(now)
        again = placement is self.state.placement
        self._plan(view, placement)
        self._held_until = 0.0
        if self.trigger.ages and not placement.steady:
            self._hold(now, again=again)

    def _hold(self, now: float, *, again: bool) -> None:
        """Let the round go on for as long as the ranking stays what it is and so gives the same placement."""
        state, world, allocation = self.state, self._world, self.state.allocation
        world.hold(held=False)
        settled = again or state.rules.repack or state.placement is None or state.placement.config is None
        if allocation is None or not settled or not getattr(self._policy, "linear", False):
            return
        steps = world.pace(_LOOK_AHEAD)
        rows = state.running
        if steps is None or rows is None or state.newly_urgent:
            return
        ranking, view, length = cast("RankingPolicy", self._policy), state.view(now), state.rules.round_s
        rounds = unchanged_rounds(ranking, view, allocation, rows, steps, length)
        rounds = min(rounds, state.rounds_until_urgent(now))
        if rounds > 1:
            world.hold(held=True)
            self._held_until = now + (rounds - 0.5) * length

    def _goes_on(self, now: float) -> bool:
        """Whether nobody has to be placed anew: those who arrived have to wait for the policy."""
        state = self.state
        if state.allocation is None or state.placement is None or not (len(state.placement) and state.placement.steady):
            return False
        return self._mechanism.unmoved(state.view(now), state.allocation)

    def _solve(self, now: float) -> None:
        view = self.state.view(now)
        try:
            allocation = self._policy.allocate(view)
        except ConfigError:
            raise
        except RotaError as error:
            log.warning("solve failed at %.0f s: %s", now, error)
            self.emit(SolveFailed(at=now, reason=str(error)))
            self.trigger.changed = False
            return
        self.emit(Allocated(at=now, allocation=allocation))

    def _plan(self, view: View, placement: Placement) -> None:
        """Announce the next round, unless it is the last one over again: then everybody just goes on."""
        state = self.state
        if placement is state.placement:
            return
        plan = Plan(round=state.round, start=view.now, placement=placement, last=state.placement)
        self.emit(Planned(at=view.now, plan=plan))
        self._world.apply(plan, view)

    def _rest(self, now: float) -> None:
        """Nobody is there: say so once."""
        if self.state.placement is None or len(self.state.placement):
            self._plan(self.state.view(now), nobody())

    def _last_resort(self, now: float) -> Placement:
        """Nobody runs and nobody will arrive: ask once more, then give up the jobs that are left."""
        assert self.state.allocation is not None  # the caller has looked
        self.trigger.changed = True
        self._solve(now)
        placement = self._mechanism.place(self.state.view(now), self.state.allocation)
        if len(placement) == 0:
            stuck = self.state.view(now).jobs.copy()
            self.emit(JobsDropped(at=now, jobs=stuck, reason="the policy gives them no GPU and nothing will change"))
        return placement

    def _refuse_impossible(self, event: JobsSubmitted) -> None:
        """Jobs that no type can hold or speed up are named and refused; the rest runs."""
        state = self.state
        able = state.classes.able(state.cluster.capacity)
        if able is None:
            return
        view = state.view(event.at)
        bad = ((view.jobs >= event.first_id) & ~able[view.job_class]).nonzero()[0]
        for job in bad.tolist():
            self.emit(JobsRejected(at=event.at, jobs=view.jobs[[job]], reason=_why(view, job)))
            self._settled = False

    def _drop_failed(self) -> None:
        jobs = self.state.given_up()
        if len(jobs):
            reason = f"{self.state.rules.max_failures} failed attempts in a row"
            self.emit(JobsDropped(at=self._world.now(), jobs=jobs.copy(), reason=reason))
            self._settled = False


def _why(view: View, job: int) -> str:
    gpus, profile = int(view.gpus[job]), view.classes.profile[view.job_class[job]]
    sizes = ", ".join(f"{t}={n}" for t, n in zip(view.types, view.capacity.tolist(), strict=True))
    if gpus > view.capacity.max():
        return f"asks for {gpus} GPUs of one type; the cluster has {sizes}"
    problem = view.classes.configurations.problems.get(int(view.job_class[job]))
    if problem is not None:
        return problem
    return f"profile {profile!r} with {gpus} GPUs has no measured speed on any type that could hold it ({sizes})"
