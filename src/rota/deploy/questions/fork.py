"""A deployment at one committed event, from which simulations go on, as often as one likes."""

from __future__ import annotations

import contextlib
import logging
import math
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rota.core.events import Event
from rota.core.horizon import CHANGES
from rota.core.jobs import Jobs, Source, TableSource, table
from rota.core.ports import Observer
from rota.deploy.questions.facts import JobFacts, facts_of
from rota.deploy.questions.fork_queue import queue_of
from rota.deploy.questions.forked_world import FirstNews, ForkedWorld
from rota.deploy.questions.job_progress import Story
from rota.deploy.questions.latencies import Latencies
from rota.deploy.questions.setup import Setup
from rota.deploy.scheduler.job_kinds import JobKind, requests_of
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.round_report import RoundReport, cluster_now, table_of
from rota.deploy.scheduler.tenant_limits import TenantLimits
from rota.engine.live_state import LiveState
from rota.engine.loop import Engine
from rota.engine.trigger import Trigger

NOBODY_COMES: Jobs = table(profile_names=[], gpus=[], total_steps=[], submitted=[])
_STUCK_ROUNDS = 100
"""Rounds in which nothing that runs comes to an end, and nobody starts or comes, after which nothing will."""


@dataclass(kw_only=True)
class Fork:
    """All that the coming rounds depend on, as it is now."""

    setup: Setup
    registry: Registry | None
    """None where there is only an engine, as in a simulation."""
    state: LiveState
    trigger: Trigger
    facts: Mapping[int, JobFacts]
    now: float
    """Engine seconds."""
    since: float
    """When the engine was told last how long tasks held their slots."""
    next_job: int
    returns: Mapping[int, float] = field(default_factory=dict)
    """When parked jobs come back."""
    hand_over_s: float = 0.0
    """From the moment at which a job could start to the order to do so."""
    around_s: float = 0.0
    """What an emulated job holds its GPUs beyond the time of its steps."""
    first_news: FirstNews | None = None
    """What the engine hears first; None: what the registry has to tell."""
    _frozen: bytes = b""

    def copy(self) -> Fork:
        """The same once more; what happens to one does not happen to the other."""
        if not self._frozen:
            self._frozen = pickle.dumps((self.state, self.trigger, self.registry), protocol=5)
        state, trigger, registry = pickle.loads(self._frozen)  # noqa: S301 - our own bytes, of a moment ago
        state.attach(self.setup.catalogue)
        return replace(self, state=state, trigger=trigger, registry=registry, _frozen=b"")

    def without_saves(self) -> Fork:
        """The same, but nobody who runs saves anything before it ends or is stopped."""
        facts = {number: replace(fact, save_every_s=math.inf) for number, fact in self.facts.items()}
        return replace(self, facts=facts)

    def run(
        self,
        *,
        exact: bool = True,
        until: float = math.inf,
        arrivals: Jobs | None = None,
        finished: Callable[[Story], bool] = lambda _: False,
        observers: list[Observer] | None = None,
    ) -> Future:
        """Go on from here, in a copy, until `finished` says so, nobody is left, or an engine second is reached."""
        fork = self.copy()
        source = TableSource(NOBODY_COMES if arrivals is None else arrivals)
        with quiet():
            return _Run(fork, source, exact=exact, observers=observers or []).run(until, finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class Future:
    """What a simulation of the coming rounds came to."""

    story: Story
    reached: float
    """Engine second up to which it went."""
    complete: bool
    """Whether it went as far as it was to go, or until nothing happens any more."""
    placed: frozenset[int]
    """Jobs of the placement in force at its end."""
    rejected: Mapping[int, str] = field(default_factory=dict)


def fork_of(
    setup: Setup,
    registry: Registry,
    state: LiveState,
    trigger: Trigger,
    *,
    now: float,
    live_steps: Mapping[int, int] | None = None,
    latencies: Latencies | None = None,
) -> Fork:
    """The fork of a scheduler that read itself back, at engine second `now`."""
    delays = latencies or Latencies()
    return Fork(
        setup=setup,
        registry=registry,
        state=state,
        trigger=trigger,
        facts=facts_of(registry, now, live_steps or {}, setup.time_scale, delays.around_s),
        hand_over_s=delays.hand_over_s,
        around_s=delays.around_s,
        now=now,
        since=min(registry.last_round, now),
        next_job=registry.next_job,
        returns={
            job.id: job.wait_until
            for job in registry.live.values()
            if job.admitted and job.parked and now < job.wait_until < math.inf and job.final_phase is None
        },
    )


class _Run:
    """One simulation."""

    def __init__(self, fork: Fork, source: Source, *, exact: bool, observers: list[Observer]) -> None:
        self._fork = fork
        self._engine: Engine | None = None
        self.world = ForkedWorld(
            source,
            fork.setup.rules,
            fork.state,
            fork.facts,
            now=fork.now,
            next_job=fork.next_job,
            exact=exact,
            decided=fork.since,
            returns=fork.returns,
            hand_over_s=fork.hand_over_s,
            first_news=fork.first_news or (None if fork.registry is None else self._tell),
        )
        self._observers = observers
        self._idle_since = math.inf
        self._started = 0

    def run(self, until: float, finished: Callable[[Story], bool]) -> Future:
        fork = self._fork
        world = self.world
        engine = Engine(
            state=fork.state,
            policy=fork.setup.policy(),
            mechanism=fork.setup.mechanism(),
            clock=world,
            executor=world,
            observers=[*self._observers, world],
            trigger=fork.trigger,
            tolerant=True,
            quotas=fork.setup.quotas(),
        )
        self._engine = engine
        out_of_time = Deadline()

        def over() -> bool:
            return finished(world.story) or self._nothing_left() or out_of_time.reached()

        reason = engine.run(over, until)
        placement = fork.state.placement
        placed = () if placement is None else (*placement.first.tolist(), *placement.second.tolist())
        return Future(
            story=world.story,
            reached=world.now(),
            complete=reason == "time is up" or not out_of_time.hit,
            placed=frozenset(number for number in placed if number >= 0),
        )

    def _tell(self, now: float) -> tuple[list[Event], bool]:
        """What the deployment would tell the engine now, and whether it would not wait for the next round."""
        fork = self._fork
        assert fork.registry is not None  # otherwise nobody asks
        rules = fork.setup.rules
        registry = fork.registry
        tenants = fork.setup.tenants
        limits = TenantLimits(tenants)
        report = RoundReport(registry, fork.setup.catalogue, fork.state.cluster, rules.round_s, limits)
        cluster = cluster_now(registry, fork.state.cluster, fork.setup.catalogue)
        running = tenants.running_limits()
        self.world.keep_to(queue_of(registry, report.held_back(cluster, now), now, table_of, running))
        events = report.events(fork.state, now, fork.since)
        return events, rules.at_once and any(type(event) in CHANGES for event in events)

    def _nothing_left(self) -> bool:
        """Whether nobody is there any more, or nobody who is there will ever run."""
        world = self.world
        if world.anybody_comes or world.untold:
            return False
        if len(self._fork.state) == 0:
            return True
        started = len(world.story.starts)
        moves = world.something_ends or started > self._started
        self._started = started
        self._idle_since = math.inf if moves else min(self._idle_since, world.now())
        return world.now() - self._idle_since > _STUCK_ROUNDS * self._fork.setup.rules.round_s


class Deadline:
    """CPU seconds of this process after which a simulation is given up; none until somebody says so."""

    at = math.inf
    """Of the CPU clock of the process."""

    def __init__(self) -> None:
        self.hit = False
        self._calls = 0

    def reached(self) -> bool:
        """Whether it is over. Looked at once in a while, as the clock costs more than a look at the rest."""
        self._calls += 1
        if self._calls % 16 == 0 and time.process_time() > Deadline.at:
            self.hit = True
        return self.hit

    @staticmethod
    def within(cpu_s: float) -> None:
        """From now on, simulations of this process end after so many CPU seconds in all."""
        Deadline.at = time.process_time() + cpu_s


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A policy that fails in a future is no news for the log of today."""
    engine = logging.getLogger("rota.engine")
    before = engine.level
    engine.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        engine.setLevel(before)


def jobs_table(rows: list[Mapping[str, Any]]) -> Jobs:
    """Arrivals of a future, in order; each has profile, gpus, steps, submitted, weight, tenant and maybe its kind."""
    rows = sorted(rows, key=lambda row: float(row["submitted"]))
    kinds = [row.get("kind") or JobKind(str(row["profile"]), int(row["gpus"])) for row in rows]
    return table(
        profile_names=[str(row["profile"]) for row in rows],
        gpus=[int(row["gpus"]) for row in rows],
        total_steps=np.array([float(row["steps"]) for row in rows]),
        submitted=np.array([float(row["submitted"]) for row in rows]),
        weight=np.array([float(row.get("weight", 1.0)) for row in rows]),
        tenant_names=[str(row["tenant"]) for row in rows],
        beliefs=[str(row.get("belief", "")) for row in rows],
        requests=requests_of(kinds),
        labels=[kind.needs.labels for kind in kinds],
        priority=[int(row.get("priority", 0)) for row in rows],
        allowed_types=[kind.types for kind in kinds],
    )
