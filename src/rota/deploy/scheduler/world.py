"""The engine's clock and executor in a deployment, and nothing else: rounds on a grid of the wall clock.

Between two rounds the `control_loop` serves requests. At the end of one the `round_report` says what happened; under
the rule `at_once` also as soon as something did that may let a job start, so that free GPUs are given out.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rota.core.events import Event
from rota.core.horizon import Horizon
from rota.core.placement import Placement, Plan
from rota.core.rules import Rules
from rota.core.view import View
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.control_loop import ControlLoop
from rota.deploy.scheduler.reconciliation import DesiredAttempt, desired_attempts
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.round_report import RoundReport, has_servers
from rota.deploy.scheduler.speed_measuring import SpeedMeter
from rota.deploy.scheduler.stage_times import Stage, StageTimes
from rota.engine.live_state import LiveState
from rota.sim.tasks import make_tasks

_LONGEST_NAP_S = 1.0
_SHARE_DIGITS = 6
_REST_BETWEEN_LOOKS = 4.0
"""So many times as long as the last decision took, nothing is decided between two rounds: a flood of submissions must
not keep the owner from answering."""

_DECISIONS = 60
"""Decisions whose times are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How long it took to decide."""

    at: float
    """Engine seconds."""
    decided_s: float
    """Wall seconds from the look at the state until orders were written."""
    solve_s: float
    """Of these, wall seconds in the policy; 0: its last answer still held."""


class DeploymentWorld:
    """Time passes on the wall; plans become orders for agents."""

    exhausted = False
    """A job may come at any time."""

    def __init__(
        self,
        *,
        clock: WallClock,
        registry: Registry,
        loop: ControlLoop,
        round_report: RoundReport,
        rules: Rules,
        take_solve_s: Callable[[], float] = lambda: 0.0,
        meter: SpeedMeter | None = None,
    ) -> None:
        """`take_solve_s` says how many wall seconds the policy took since it was asked last."""
        self._clock = clock
        self._registry = registry
        self._loop = loop
        self._round_report = round_report
        self._round_s = rules.round_s
        self._at_once = rules.at_once
        self._state: LiveState | None = None
        self._rates: dict[int, float] = {}
        self._meter = meter
        self._round_start = 0.0
        self._now = 0.0
        """When something was decided last, or the start of the round if that was later."""
        self.between_rounds = False
        """Whether the round is under way."""
        self._begin_round()
        within_round = min(registry.last_round, clock.now())
        self._reported_until = max(self._round_start - self._held_while_away_s(), within_round)
        self._decision_began = 0.0
        self._next_look = 0.0
        """When free GPUs may be given out next, monotonic seconds."""
        self.decided_s = 0.0
        """Wall seconds that the last round took to be decided."""
        self.stage_times = StageTimes()
        self._take_solve_s = take_solve_s
        self.decisions: deque[Decision] = deque(maxlen=_DECISIONS)
        """The last ones, the newest last."""
        loop.desired = self._desired

    def _held_while_away_s(self) -> float:
        """How long jobs held their slots since the last round that was decided: not beyond their leases."""
        attempts = [job.attempt for job in self._registry.running.values() if job.attempt is not None]
        leases_end = max((attempt.lease_until for attempt in attempts), default=self._registry.last_round)
        return max(0.0, min(self._round_start, leases_end) - self._registry.last_round)

    def attach(self, state: LiveState, rules: Rules) -> None:
        """From here on decisions are made on this state, under these rules; the round of now keeps its start."""
        self._state = state
        self._round_s = rules.round_s
        self._at_once = rules.at_once
        self._round_report.round_s = rules.round_s

    # The clock

    @property
    def interrupted(self) -> bool:
        """Whether settings were changed: whoever decides from now on is somebody else."""
        return self._loop.interrupted

    def now(self) -> float:
        """The moment about which the engine decides: the start of the round, or one within it. Engine seconds."""
        return self._now

    @property
    def round_start(self) -> float:
        """The last point of the grid of rounds, engine seconds."""
        return self._round_start

    def wait_for_servers(self) -> None:
        """Serve requests until there is a server, or the end is asked for."""
        while not self._loop.stopped and not has_servers(self._registry):
            self._loop.turn(_LONGEST_NAP_S)
        self._begin_round()

    def advance(self, horizon: Horizon, limit: float) -> list[Event]:
        """Serve requests until the next round has to be decided; what the engine has to know by then."""
        del horizon, limit  # nobody knows what real jobs will do: every round on the grid is looked at
        with self.stage_times.measuring(Stage.CARRY_OUT):
            self._loop.carry_out()
        self._note_decision()
        self._next_look = time.monotonic() + _REST_BETWEEN_LOOKS * self.decided_s
        self._wait()
        if self._loop.stopped or self._loop.interrupted or self._state is None:
            return []
        self._decision_began = time.perf_counter()
        self._loop.something_happened = False
        events: list[Event] = []
        with self._loop.surviving("round report"), self.stage_times.measuring(Stage.REPORT):
            events = self._round_report.events(self._state, self._now, self._reported_until)
            self._reported_until = self._now
        with self._loop.surviving("profiles that are wrong"):
            self._loop.remember(self._round_report.wrong_profiles(self._state, self._clock.now()))
        return events

    def _note_decision(self) -> None:
        self.decided_s = 0.0
        if self._decision_began:
            self.decided_s = time.perf_counter() - self._decision_began
            self.stage_times.took(Stage.TOTAL, self.decided_s)
            self.decisions.append(Decision(at=self._now, decided_s=self.decided_s, solve_s=self._take_solve_s()))

    def _wait(self) -> None:
        """Serve requests until the next round, or until something happened that is acted on at once."""
        while not self._loop.stopped:
            end = self._round_start + self._round_s
            self._loop.turn(self._nap_s(end))
            if self._loop.interrupted:
                return
            if self._clock.now() >= end:
                self._begin_round()
                if self._something_to_decide():
                    return
                self._reported_until = self._round_start
            elif self._act_now():
                self._now = self._clock.now()
                self.between_rounds = True
                return

    def _nap_s(self, end: float) -> float:
        """Wall seconds until something has to be looked at, if nobody asks for anything before."""
        nap_s = min(self._clock.wall_seconds(end - self._clock.now()), _LONGEST_NAP_S)
        if self._at_once and self._loop.something_happened:
            nap_s = min(nap_s, self._next_look - time.monotonic())
        if self._at_once:
            nap_s = min(nap_s, self._clock.wall_seconds(self._round_report.next_return - self._clock.now()))
        return max(nap_s, 0.0)

    def _act_now(self) -> bool:
        """Whether something happened in the middle of a round that may let a job start."""
        if not self._at_once or self._state is None or time.monotonic() < self._next_look:
            return False
        return self._loop.something_happened or self._clock.now() >= self._round_report.next_return

    def _begin_round(self) -> None:
        self._round_start = math.floor(self._clock.now() / self._round_s) * self._round_s
        self._now = self._round_start
        self.between_rounds = False
        self._loop.round_start = self._round_start

    def _something_to_decide(self) -> bool:
        placement = None if self._state is None else self._state.placement
        return bool(self._registry.live) or (placement is not None and len(placement) > 0)

    # The executor

    def apply(self, plan: Plan, view: View) -> None:
        """Remember how fast tasks should be; orders follow from the placement in force."""
        with self._loop.surviving("rates of tasks"):  # if it fails, those of before are as good as any
            self._rates = self._rates_of(plan.placement, view)

    def _rates_of(self, placement: Placement, view: View) -> dict[int, float]:
        if self._state is None or len(placement) == 0:
            return {}
        tasks = make_tasks(placement, view, spread_costs=True)
        rates = dict(zip(placement.first.tolist(), tasks.rate.tolist(), strict=True))
        if self._meter is not None:
            self._meter.shares = _shares(placement, view, rates)
        partners = zip(placement.second.tolist(), tasks.partner_rate.tolist(), strict=True)
        return {**rates, **{partner: rate for partner, rate in partners if partner >= 0}}

    def close(self) -> None:
        """Jobs go on without us."""

    def _desired(self) -> dict[int, DesiredAttempt]:
        if self._state is None:
            return {}
        return desired_attempts(self._state.placement, self._state.cluster, self._rates)


def _shares(placement: Placement, view: View, rates: Mapping[int, float]) -> dict[int, float]:
    """Rates of jobs that run alone, relative to those of their class."""
    groups = view.job_class[view.jobs.searchsorted(placement.first)]
    by_class = view.classes.throughput[groups, placement.type]
    alone = (placement.second < 0) & (by_class > 0)
    numbers = placement.first.tolist()
    rows = alone.nonzero()[0].tolist()
    return {numbers[at]: round(rates[numbers[at]] / float(by_class[at]), _SHARE_DIGITS) for at in rows}
