"""The scheduler put together: from a state file and settings to an engine that runs in a thread of its own."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from rota.assembly import make_rules, make_throughputs
from rota.core.cluster import Cluster, cluster_fields
from rota.core.errors import ConfigError, RotaError
from rota.core.events import Event, RunEnded, RunStarted
from rota.core.ports import EveryEvent
from rota.deploy.deciding import TimeLimitedPolicy, deployed_policy
from rota.deploy.events import CheckpointsClaimed
from rota.deploy.scheduler.archive import JobArchive
from rota.deploy.scheduler.catalogue import OpenCatalogue, opened
from rota.deploy.scheduler.checkpoint_folder import Claim, JobsOfFolder, StateFile, claim
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
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.order_board import NodeOrders, OrderBoard
from rota.deploy.scheduler.reasons import Reasons, cluster_as_it_is
from rota.deploy.scheduler.recorder import Recorder
from rota.deploy.scheduler.recovery import Recovered, Recovery
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.requests import Requests
from rota.deploy.scheduler.round_report import RoundReport, cluster_now
from rota.deploy.scheduler.secrets import SecretStore, secrets_file
from rota.deploy.scheduler.speed_estimates import SpeedEstimates
from rota.deploy.scheduler.speed_measuring import SpeedMeter
from rota.deploy.scheduler.starting import events_of_start
from rota.deploy.scheduler.tenant_limits import QueueLimits, TenantLimits
from rota.deploy.scheduler.world import DeploymentWorld
from rota.engine.live_state import LiveState
from rota.engine.loop import Engine
from rota.mechanisms.registry import build

log = logging.getLogger(__name__)


_CHECKPOINTS_LOOKED_FOR = 1000
_MOST_DAMAGE = 20
"""Damaged rows of the state file that are named in the log."""
_LOOK_S = 60.0
"""Wall seconds that the owner may take to answer."""


def _jobs_in_memory(registry: Registry) -> JobsOfFolder:
    over = {number: job.ended for number, job in registry.ended.items() if job.attempt is None}
    return JobsOfFolder(
        next_job=registry.next_job,
        own_from=registry.own_checkpoints_from,
        not_over=frozenset(registry.jobs.keys() - over.keys()),
        ended=over,
    )


class Scheduler:
    """One deployment. `start` runs the loop in a thread, the owner; other threads `post` to it and read `published`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rules = make_rules(options.rules, options.round_s, options.rule_settings)
        self.mechanism_name = options.mechanism or self.rules.mechanism
        if self.mechanism_name == "ideal":
            raise ConfigError("the mechanism 'ideal' gives jobs fractions of a round; it can only be simulated")
        self._catalogue: OpenCatalogue = opened(make_throughputs(options.profiles))
        self._policy = self._make_policy()
        self._mechanism = build(
            self.mechanism_name, self.rules, options.seed, dict(options.mechanism_settings), watched=True
        )
        self.journal = Journal(options.state)
        try:
            self._secrets = SecretStore(secrets_file(options.state))
            self._recovery = Recovery(self.journal, self._catalogue, self.rules, self._make_state)
            self._recovered: Recovered = self._recover()
        except BaseException:
            self.journal.close()
            raise
        self._limits = TenantLimits(options.tenants, lambda: self._usage.by_tenant() if self._usage else {})
        self._put_together(self._recovered.registry)
        try:
            self._claimed = self._claim_checkpoints()
        except BaseException:
            self.journal.close()
            raise
        self._removal = self._make_removal(self._claimed)
        self._usage = None if self._claimed is None else CheckpointUsage(self._claimed.folder, self._tenants_of)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    def _recover(self) -> Recovered:
        """What the state file says. What is damaged of it and not needed is named."""
        recovered = self._recovery.recover()
        path = self.journal.path
        damage = self.journal.damage(self.journal.last)
        for what in damage[:_MOST_DAMAGE]:
            log.error("%s: %s is damaged and left out; `rota journal repair %s` removes it", path, what, path)
        if len(damage) > _MOST_DAMAGE:
            log.error("%s: ... and %d more; see `rota journal check %s`", path, len(damage) - _MOST_DAMAGE, path)
        return recovered

    def _make_policy(self) -> TimeLimitedPolicy:
        options = self.options
        weights = options.tenants.weights() if options.fair_by == "tenant" else None
        policy = deployed_policy(options.policy, options.policy_settings, options.seed, self.rules, weights=weights)
        wall_round_s = self.rules.round_s / options.time_scale
        return TimeLimitedPolicy(policy, options.solve_budget_s or max(0.05, min(wall_round_s / 4, 5.0)))

    def _make_state(self, cluster: Cluster) -> LiveState:
        return LiveState(cluster, self._catalogue, self.rules, by_need=self._mechanism.by_need)

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
        gang_stops = GangStops(generation)
        self.board = OrderBoard(registry, self.heartbeats, gang_stops, self._secrets, generation)
        self._recorder = Recorder(registry, self.heartbeats, self.journal)
        self._inbox = Inbox()
        self._loop = ControlLoop(
            options=options,
            clock=self.clock,
            inbox=self._inbox,
            registry=registry,
            heartbeats=self.heartbeats,
            recorder=self._recorder,
            gang_stops=gang_stops,
            board=self.board,
            leases=LeaseKeeper(self.clock, options.timing, round_s),
            secrets=self._secrets,
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
            clock=self.clock, registry=registry, loop=self._loop, round_report=report, rules=self.rules, meter=meter
        )
        self.speeds = SpeedEstimates(registry.speeds, self._catalogue)

    # Checkpoints

    def _claim_checkpoints(self) -> Claim | None:
        if not self.options.checkpoints:
            return None
        registry = self.registry
        saved = (job.checkpoint for job in registry.jobs.values() if job.checkpoint)
        state = StateFile(
            id=self.journal.id,
            path=self.journal.path.absolute(),
            next_job=registry.next_job,
            checkpoints=frozenset(itertools.islice(saved, _CHECKPOINTS_LOOKED_FOR)),
        )
        return claim(Path(self.options.checkpoints), state, take_over=self.options.claim_checkpoints)

    def _record_claim(self, claimed: Claim) -> None:
        registry = self.registry
        known = (registry.checkpoints, registry.own_checkpoints_from)
        if known != (str(claimed.folder), claimed.own_from) or claimed.next_job > registry.next_job:
            event = CheckpointsClaimed(
                at=self.clock.now(),
                folder=str(claimed.folder),
                own_from=claimed.own_from,
                next_job=claimed.next_job,
            )
            self._recorder.record(event)

    def _make_removal(self, claimed: Claim | None) -> CheckpointRemoval | None:
        if claimed is None:
            return None
        keep_s = self.options.retention.keep_checkpoints_s
        return CheckpointRemoval(
            folder=claimed.folder,
            journal_id=self.journal.id,
            keep_s=keep_s,
            jobs=self._jobs_of_folder,
            ended_before=lambda: self.clock.now() - keep_s * self.clock.scale,
        )

    def _jobs_of_folder(self) -> JobsOfFolder | None:
        if time.monotonic() < self._housekeeping.removes_from or not self.alive():
            return None
        memory: JobsOfFolder = self.look("checkpoints", _jobs_in_memory).result(_LOOK_S)
        return dataclasses.replace(memory, ended={**self.archive.ends(), **memory.ended})

    def _tenants_of(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """Whose jobs are, for the thread that counts checkpoints."""
        asked = list(numbers)
        if not self.alive():
            return {}
        known: dict[int, str] = self.look(
            "checkpoints", lambda registry: {n: registry.jobs[n].tenant for n in asked if n in registry.jobs}
        ).result(_LOOK_S)
        return {**self.archive.tenants(set(asked) - known.keys()), **known}

    # Any thread

    def start(self) -> None:
        """Begin to serve."""
        self._recorder.apply(events_of_start(self.registry, self.clock, self.options.described(self.rules)))
        self._recorder.commit()
        if self._claimed is not None:
            self._record_claim(self._claimed)
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

    def alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def post(self, what: str, work: Work) -> Future[Any]:
        """Let the owner do something; `what` names it in the log, should it fail."""
        return self._inbox.post(what, work)

    def look(self, what: str, question: Callable[[Registry], Any]) -> Future[Any]:
        """Let the owner make a value of the registry."""
        return self.post(what, lambda _: self.requests.look(question))

    def reasons(self) -> Reasons:
        """What explains jobs, as everything is now. Called by the owner."""
        silent_s = {node: self.heartbeats.silent_s(node) for node in self.registry.nodes}
        silent = {node: seconds for node, seconds in silent_s.items() if seconds > self.options.timing.dead_after_s}
        scale = self.clock.scale
        cluster = cluster_as_it_is(self.registry, self.clock.now(), time_scale=scale, silent_s=silent)
        return Reasons(cluster, self._catalogue, self._secrets.missing, limits=self._limits, registry=self.registry)

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

    # The owner

    def _run(self) -> None:
        try:
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
            self._recorder.commit_engine_event(RunStarted(at=world.now(), config=self._config(cluster)))
            recovered.begin(cluster, self._make_state, self.rules)
        state = recovered.state
        trigger = recovered.trigger
        assert state is not None  # it is there from the first server on
        assert trigger is not None  # it comes with the state
        world.attach(state)
        engine = Engine(
            state=state,
            policy=self._policy,
            mechanism=self._mechanism,
            clock=world,
            executor=world,
            observers=[EveryEvent(self._recorder.apply_engine_event)],
            trigger=trigger,
            journal=EveryEvent(self._before),
            tolerant=True,
        )
        engine.run(lambda: self._loop.stopped)

    def _config(self, cluster: Cluster) -> dict[str, Any]:
        return {**self.options.described(self.rules), "cluster": cluster_fields(cluster)}

    def _before(self, event: Event) -> None:
        """Every event of the engine is committed first."""
        if not isinstance(event, RunEnded):  # a service that stops goes on when it is started again
            self._recorder.commit_engine_event(event)
