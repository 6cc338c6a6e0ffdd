"""The scheduler put together: from a state file and settings to an engine that runs in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from rota.assembly import make_policy, make_rules, make_throughputs
from rota.core.cluster import Cluster, cluster_fields
from rota.core.errors import ConfigError, RotaError
from rota.core.events import Event, Planned, RunEnded, RunStarted
from rota.core.ports import EveryEvent
from rota.deploy.deciding import TimeLimitedPolicy
from rota.deploy.events import ServiceStarted
from rota.deploy.scheduler.archive import JobArchive
from rota.deploy.scheduler.catalogue import OpenCatalogue, opened
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.control_loop import ControlLoop
from rota.deploy.scheduler.gang_stops import GangStops
from rota.deploy.scheduler.heartbeats import Heartbeats
from rota.deploy.scheduler.inbox import Inbox, Work
from rota.deploy.scheduler.journal import Journal
from rota.deploy.scheduler.leases import LeaseKeeper
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.order_board import NodeOrders, OrderBoard
from rota.deploy.scheduler.recorder import Recorder
from rota.deploy.scheduler.recovery import Recovered, Recovery
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.requests import Requests
from rota.deploy.scheduler.round_report import RoundReport, cluster_now
from rota.deploy.scheduler.world import DeploymentWorld
from rota.engine.live_state import LiveState
from rota.engine.loop import Engine
from rota.mechanisms.registry import build

log = logging.getLogger(__name__)

_SNAPSHOT_EVERY = 2000
"""Events."""


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
            self._recovery = Recovery(self.journal, self._catalogue, self.rules, self._make_state)
            self._recovered: Recovered = self._recovery.recover()
        except BaseException:
            self.journal.close()
            raise
        self._put_together(self._recovered.registry)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._snapshot_at = self.journal.last

    def _make_policy(self) -> TimeLimitedPolicy:
        options = self.options
        policy = make_policy(options.policy, options.policy_settings, options.seed, self.rules)
        wall_round_s = self.rules.round_s / options.time_scale
        return TimeLimitedPolicy(policy, options.solve_budget_s or max(0.05, min(wall_round_s / 4, 5.0)))

    def _make_state(self, cluster: Cluster) -> LiveState:
        return LiveState(cluster, self._catalogue, self.rules, by_need=self._mechanism.by_need)

    def _put_together(self, registry: Registry) -> None:
        options = self.options
        round_s = self.rules.round_s
        self.registry = registry
        self.clock = WallClock(scale=options.time_scale, begun=registry.begun or None, at_least=self._recovered.last_at)
        self.archive = JobArchive(self.journal.path)
        self.heartbeats = Heartbeats(options.timing.heartbeat_s)
        self.requests = Requests(
            registry=registry,
            heartbeats=self.heartbeats,
            catalogue=self._catalogue,
            archive=self.archive,
            declared=options.cluster,
            time_scale=options.time_scale,
        )
        gang_stops = GangStops()
        self.board = OrderBoard(registry, self.heartbeats, gang_stops)
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
        )
        report = RoundReport(registry, self._catalogue, options.cluster, round_s)
        self._world = DeploymentWorld(
            clock=self.clock, registry=registry, loop=self._loop, round_report=report, round_s=round_s
        )

    # Any thread

    def start(self) -> None:
        """Begin to serve."""
        config = self.options.described(self.rules)
        self._recorder.record(ServiceStarted(at=self.clock.now(), begun=self.clock.begun, config=config))
        self.board.publish()
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the loop and let go of the state file; jobs keep running until their leases end."""
        self._loop.stop()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self.journal.close()

    def alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def post(self, what: str, work: Work) -> Future[Any]:
        """Let the owner do something; `what` names it in the log, should it fail."""
        return self._inbox.post(what, work)

    def look(self, what: str, question: Callable[[Registry], Any]) -> Future[Any]:
        """Let the owner make a value of the registry."""
        return self.post(what, lambda _: self.requests.look(question))

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
        return self._world.now()

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
            observers=[EveryEvent(self._recorder.apply_engine_event), EveryEvent(self._after)],
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

    def _after(self, event: Event) -> None:
        if isinstance(event, Planned) and self.journal.last - self._snapshot_at >= _SNAPSHOT_EVERY:
            self._recovery.save(self._recovered, self.clock.now())
            self._snapshot_at = self.journal.last
            self._recorder.write_next_plan_in_full()
