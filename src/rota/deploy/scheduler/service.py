"""The scheduler put together: from a state file and settings to an engine that runs in a thread of its own."""

from __future__ import annotations

import dataclasses
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from rota.assembly import make_throughputs
from rota.core.cluster import Cluster, cluster_fields
from rota.core.errors import RotaError
from rota.core.events import Event, RunEnded, RunStarted
from rota.core.ports import EveryEvent
from rota.core.rules import Rules
from rota.deploy.deciding import TimeLimitedPolicy
from rota.deploy.events import SettingsChanged
from rota.deploy.scheduler import lost_events
from rota.deploy.scheduler.archive import JobArchive
from rota.deploy.scheduler.catalogue import OpenCatalogue, opened
from rota.deploy.scheduler.checkpoint_claim import claim_to_record, claimed_folder
from rota.deploy.scheduler.checkpoint_folder import Claim, JobsOfFolder, jobs_in_memory
from rota.deploy.scheduler.checkpoint_removal import CheckpointRemoval
from rota.deploy.scheduler.checkpoint_usage import CheckpointUsage
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.control_loop import ControlLoop
from rota.deploy.scheduler.gang_stops import GangStops
from rota.deploy.scheduler.heartbeats import Heartbeats
from rota.deploy.scheduler.housekeeping import Housekeeping
from rota.deploy.scheduler.inbox import Inbox, Work
from rota.deploy.scheduler.journal import Journal
from rota.deploy.scheduler.leases import LeaseKeeper
from rota.deploy.scheduler.live_settings import (
    CHANGED_MEANWHILE,
    Deciders,
    deciders_at_start,
    make_deciders,
    ways_of,
)
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.order_board import NodeOrders, OrderBoard
from rota.deploy.scheduler.owner_time import OwnerTime, Payer
from rota.deploy.scheduler.reasons import Reasons
from rota.deploy.scheduler.reasons_now import ReasonsNow
from rota.deploy.scheduler.recorder import Recorder
from rota.deploy.scheduler.recovery import Recovered, Recovery
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.requests import Answer, Refused, Requests
from rota.deploy.scheduler.round_report import RoundReport, cluster_now
from rota.deploy.scheduler.secrets import SecretStore, secrets_file
from rota.deploy.scheduler.speed_estimates import SpeedEstimates
from rota.deploy.scheduler.speed_measuring import SpeedMeter
from rota.deploy.scheduler.stage_times import Stage, StageTimes, TimedEventLog, TimedMechanism, TimedPolicy
from rota.deploy.scheduler.starting import first_events
from rota.deploy.scheduler.tenant_limits import QueueLimits, TenantLimits
from rota.deploy.scheduler.world import Decision, DeploymentWorld
from rota.engine.live_state import LiveState
from rota.engine.loop import Engine

log = logging.getLogger(__name__)


_MOST_DAMAGE = 20
"""Damaged rows of the state file that are named in the log."""
_LOOK_S = 60.0
"""Wall seconds that the owner may take to answer."""


class Scheduler:
    """One deployment. `start` runs the loop in a thread, the owner; other threads `post` to it and read `published`."""

    def __init__(self, options: Options) -> None:
        self.deciders = make_deciders(options)
        """What decides: of the command line, and what was set on the live cluster."""
        self._catalogue: OpenCatalogue = opened(make_throughputs(options.profiles))
        self.journal = Journal(options.state, checked=options.state_checked)
        try:
            self._secrets = SecretStore(secrets_file(options.state))
            self._recovery = Recovery(
                self.journal,
                self._catalogue,
                self.rules,
                self._make_state,
                functools.partial(ways_of, catalogue=self._catalogue),
            )
            self._recovered: Recovered = self._recover()
            self._follow_live_settings(options)
        except BaseException:
            self.journal.close()
            raise
        self._limits = TenantLimits(self.options.tenants, lambda: self._usage.by_tenant() if self._usage else {})
        options = self.options
        self._put_together(self._recovered.registry)
        try:
            self._claimed = claimed_folder(self.options, self.journal, self.registry)
        except BaseException:
            self.journal.close()
            raise
        self._removal = self._make_removal(self._claimed)
        self._usage = None if self._claimed is None else CheckpointUsage(self._claimed.folder, self.tenants_of)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    def _recover(self) -> Recovered:
        """What the state file says. What is damaged of it and not needed is named."""
        recovered = self._recovery.recover()
        path = self.journal.path
        damage = [] if self.deciders.options.state_checked else self.journal.damage(self.journal.last)
        for what in damage[:_MOST_DAMAGE]:
            log.error("%s: %s is damaged and left out; `rota journal repair %s` removes it", path, what, path)
        if len(damage) > _MOST_DAMAGE:
            log.error("%s: ... and %d more; see `rota journal check %s`", path, len(damage) - _MOST_DAMAGE, path)
        return recovered

    # What decides

    def _follow_live_settings(self, options: Options) -> None:
        """What was set on the live cluster counts more than the command line, unless that is told to discard it."""
        live = self._recovered.registry.set_live.settings
        if live and not options.discard_live_settings:
            self.deciders = deciders_at_start(options, live)
        self._recovery.follow(self._recovered, self.deciders.described())

    @property
    def options(self) -> Options:
        """The settings in force: of the command line, and what was set on the live cluster."""
        return self.deciders.options

    @property
    def rules(self) -> Rules:
        """The rules in force."""
        return self.deciders.rules

    @property
    def mechanism_name(self) -> str:
        """The mechanism in force."""
        return self.deciders.mechanism_name

    @property
    def _policy(self) -> TimeLimitedPolicy:
        return self.deciders.policy

    def _make_state(self, cluster: Cluster) -> LiveState:
        by_need = self.deciders.mechanism.by_need
        return LiveState(cluster, self._catalogue, self.rules, by_need=by_need)

    def change_settings(self, deciders: Deciders, live: Mapping[str, Any], version: int, by: str, now: float) -> Answer:
        """Let others decide from the next decision on. Called by the owner.

        Refused if settings were changed after `version`, about which the caller has thought.
        """
        registry = self.registry
        if registry.set_live.times != version:
            raise Refused("FAILED_PRECONDITION", CHANGED_MEANWHILE)
        config = deciders.described()
        recovered = dataclasses.replace(self._recovered)
        recovered.switch(ways_of(config, self._catalogue), forget_answer=True)
        event = SettingsChanged(at=now, by=by, live=live, config=config)
        return [event], lambda: self._decide_by(deciders, recovered)

    def _decide_by(self, deciders: Deciders, recovered: Recovered) -> None:
        """Once it is committed, and before anything else is decided."""
        before = self.deciders
        self.deciders = deciders
        self._recovered.state = recovered.state
        self._recovered.trigger = recovered.trigger
        self._limits.tenants = deciders.options.tenants
        self._leases.round_s = deciders.rules.round_s
        self._loop.interrupted = True
        before.policy.close()
        log.warning("settings changed: policy %s, mechanism %s", deciders.options.policy, deciders.mechanism_name)

    def _put_together(self, registry: Registry) -> None:
        options = self.options
        round_s = self.rules.round_s
        self.registry = registry
        self.clock = WallClock(scale=options.time_scale, before=registry.clock, at_least=self._recovered.last_at)
        generation = registry.generation + 1
        self.archive = JobArchive(self.journal.path)
        self.heartbeats = Heartbeats(options.timing.heartbeat_s)
        meter = SpeedMeter(registry, self.heartbeats, options.timing.heartbeat_s, options.time_scale)
        self.requests = Requests(
            registry=registry,
            heartbeats=self.heartbeats,
            catalogue=self._catalogue,
            archive=self.archive,
            declared=options.cluster,
            time_scale=options.time_scale,
            secrets=self._secrets,
            dead_after_s=options.timing.dead_after_s,
            limits=QueueLimits(registry=registry, limits=self._limits, secrets=self._secrets),
            meter=meter,
        )
        self._reasons = ReasonsNow(
            registry=registry,
            heartbeats=self.heartbeats,
            clock=self.clock,
            catalogue=self._catalogue,
            secrets=self._secrets,
            limits=self._limits,
            dead_after_s=options.timing.dead_after_s,
        )
        gang_stops = GangStops(generation)
        self.board = OrderBoard(registry, self.heartbeats, gang_stops, self._secrets, generation)
        self.owner_time = OwnerTime(lambda tenant: self.options.tenants.of(tenant).max_scheduler_share)
        self._stage_times = StageTimes()
        self._recorder = Recorder(registry, self.heartbeats, TimedEventLog(self.journal, self._stage_times))
        self._inbox = Inbox(self.owner_time)
        self._leases = LeaseKeeper(self.clock, options.timing, round_s)
        self._loop = ControlLoop(
            options=options,
            clock=self.clock,
            inbox=self._inbox,
            registry=registry,
            heartbeats=self.heartbeats,
            recorder=self._recorder,
            gang_stops=gang_stops,
            board=self.board,
            leases=self._leases,
            secrets=self._secrets,
            stalls=self.heartbeats.stalls,
        )
        self._housekeeping = Housekeeping(
            journal=self.journal,
            recovery=self._recovery,
            recovered=self._recovered,
            archive=self.archive,
            recorder=self._recorder,
            clock=self.clock,
            retention=options.retention,
        )
        self._loop.housekeeping = self._housekeeping.step
        report = RoundReport(registry, self._catalogue, options.cluster, round_s, self._limits)
        self._world = DeploymentWorld(
            clock=self.clock,
            registry=registry,
            loop=self._loop,
            round_report=report,
            rules=self.rules,
            take_solve_s=self._take_solve_s,
            meter=meter,
        )
        self._world.stage_times = self._stage_times
        self.speeds = SpeedEstimates(registry.speeds, self._catalogue)

    def _take_solve_s(self) -> float:
        """Wall seconds of the policy in force; another one may be by the next round."""
        return self._policy.take_solve_s()

    # Checkpoints

    def _make_removal(self, claimed: Claim | None) -> CheckpointRemoval | None:
        if claimed is None:
            return None
        keep_s = self.options.retention.keep_checkpoints_s
        return CheckpointRemoval(
            folder=claimed.folder,
            journal_id=self.journal.id,
            keep_s=keep_s,
            jobs=self.jobs_of_folder,
            ended_before=lambda: self.clock.now() - keep_s * self.clock.scale,
        )

    def jobs_of_folder(self) -> JobsOfFolder | None:
        """Which jobs are over, and since when; None as long as the clock may be wrong. For any thread but the owner."""
        if time.monotonic() < self._housekeeping.removes_from or not self.alive():
            return None
        memory: JobsOfFolder = self.look("checkpoints", jobs_in_memory).result(_LOOK_S)
        return dataclasses.replace(memory, ended={**self.archive.ends(), **memory.ended})

    def tenants_of(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Whose jobs are, as far as they are known. For any thread but the owner."""
        asked = list(numbers)
        if not self.alive():
            return {}
        known: dict[int, str] = self.look(
            "tenants", lambda registry: {n: registry.jobs[n].tenant for n in asked if n in registry.jobs}
        ).result(_LOOK_S)
        return {**self.archive.tenants(set(asked) - known.keys()), **known}

    # Any thread

    def start(self) -> None:
        """Begin to serve."""
        events = first_events(self.registry, self.clock, self.options, self.deciders.described())
        self._recorder.apply(events)
        if isinstance(events[-1], SettingsChanged):
            self._recovered.switch(ways_of(events[-1].config, self._catalogue), forget_answer=True)
        self._recorder.commit()
        lost_events.forget(self.journal.path)
        claim = None if self._claimed is None else claim_to_record(self.registry, self._claimed, self.clock.now())
        if claim is not None:
            self._recorder.record(claim)
        self.board.publish()
        self._thread.start()
        for thread in (self._removal, self._usage):
            if thread is not None:
                thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the loop and let go of the state file; jobs keep running until their leases end."""
        self._loop.stop()
        for thread in (self._removal, self._usage):
            if thread is not None:
                thread.stop()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self.journal.close()
        self._secrets.close()

    def give_way(self, why: str) -> None:
        """End, because another scheduler is in charge or may be. For any thread."""
        if self.failure is None:
            self.failure = RotaError(f"this scheduler gives way: {why}")
        self._loop.stop()

    def alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def post(self, what: str, work: Work, payer: Payer | None = None) -> Future[Any]:
        """Let the owner do something; `what` names it in the log, should it fail. Without a payer it goes first."""
        return self._inbox.post(what, work, payer)

    def look(self, what: str, question: Callable[[Registry], Any], payer: Payer | None = None) -> Future[Any]:
        """Let the owner make a value of the registry."""
        return self.post(what, lambda _: self.requests.look(question), payer)

    def reasons(self, copy: Registry | None = None) -> Reasons:
        """What explains jobs, as everything is now. Called by the owner, or by any thread about a copy of its own."""
        return self._reasons.of_owner() if copy is None else self._reasons.of(copy)

    def observe(self, events: Callable[[Sequence[Any]], None], stages: Callable[[Stage, float], None]) -> None:
        """Let somebody hear of all that is committed and of how long it took, in the owner's thread: no waiting there.

        Before `start`.
        """
        self._recorder.listener = events
        self._stage_times.listener = stages

    @property
    def published(self) -> Mapping[str, NodeOrders]:
        """What every agent should run, by node."""
        return self.board.published

    @property
    def late_solves(self) -> int:
        """How often the policy was not ready in time."""
        return self._policy.late

    @property
    def round_start(self) -> float:
        """When the round of now began, engine seconds."""
        return self._world.round_start

    @property
    def decided_s(self) -> float:
        """Wall seconds that the last round took to be decided."""
        return self._world.decided_s

    @property
    def decisions(self) -> Sequence[Decision]:
        """How long the last ones took, the newest last. Called by the owner."""
        return self._world.decisions

    # The owner

    def _run(self) -> None:
        try:
            while not self._loop.stopped:
                self._loop.interrupted = False
                self._run_engine()
        except RotaError as error:  # the service says it in one message when it ends
            self.failure = error
        except BaseException as error:  # whatever it is: the service must know and end
            self.failure = error
            log.exception("the scheduler stopped")
        finally:
            self._loop.stop()
            self._inbox.close()

    def _run_engine(self) -> None:
        recovered = self._recovered
        world = self._world
        if recovered.state is None:
            world.wait_for_servers()
            cluster = cluster_now(self.registry, self.options.cluster, self._catalogue)
            if self._loop.stopped or cluster is None:
                return
            self._loop.interrupted = False  # if settings were changed meanwhile, those are in force by now
            self._recorder.commit_engine_event(RunStarted(at=world.now(), config=self._config(cluster)))
            recovered.begin(cluster, self._make_state, self.rules)
        state = recovered.state
        trigger = recovered.trigger
        assert state is not None  # it is there from the first server on
        assert trigger is not None  # it comes with the state
        world.attach(state, self.rules)
        engine = Engine(
            state=state,
            policy=TimedPolicy(self._policy, self._stage_times),
            mechanism=TimedMechanism(self.deciders.mechanism, self._stage_times),
            clock=world,
            executor=world,
            observers=[EveryEvent(self._recorder.apply_engine_event)],
            trigger=trigger,
            journal=EveryEvent(self._before),
            tolerant=True,
            quotas=self.deciders.options.tenants.quotas(),
        )
        engine.run(lambda: self._loop.stopped or self._loop.interrupted)

    def _config(self, cluster: Cluster) -> dict[str, Any]:
        return {**self.options.described(self.rules), "cluster": cluster_fields(cluster)}

    def _before(self, event: Event) -> None:
        """Every event of the engine is committed first."""
        if not isinstance(event, RunEnded):  # a service that stops goes on when it is started again
            self._recorder.commit_engine_event(event)
