"""One turn of the thread that owns the registry: requests, failures, reconciliation, commit, orders, answers.

Whatever goes wrong in a request or in one of the steps is logged and answered, and the loop goes on. Only a journal
that cannot be written ends it: nobody may hear of what is not durable.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator

from rota.core.errors import OutputError
from rota.deploy.events import DeployEvent
from rota.deploy.scheduler import time_limits
from rota.deploy.scheduler.agent_reports import events_of_attempt
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.failure_detection import FailureDetector
from rota.deploy.scheduler.gang_stops import GangStops
from rota.deploy.scheduler.heartbeats import Heartbeats
from rota.deploy.scheduler.inbox import Inbox
from rota.deploy.scheduler.leases import LeaseKeeper, extension, saving_attempts
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.order_board import OrderBoard
from rota.deploy.scheduler.own_stalls import OWNER, OwnStalls
from rota.deploy.scheduler.predecessors import hopeless_dependents
from rota.deploy.scheduler.reconciliation import DesiredAttempt, reconcile
from rota.deploy.scheduler.recorder import Recorder
from rota.deploy.scheduler.records import troubled
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.request_turns import RequestTurns
from rota.deploy.scheduler.retention import jobs_to_archive
from rota.deploy.scheduler.secrets import SecretStore, waits_for_secrets
from rota.deploy.scheduler.starting import clock_set

log = logging.getLogger(__name__)

_LONGEST_LOOK_S = 0.25
"""Wall seconds between two looks at what is silent or hangs."""
_SAME_FAILURE_S = 60.0
"""Wall seconds for which the same failure of a step is not logged again."""


def _nothing() -> None:
    """For a loop without a state file."""


def _not_counted(_: float) -> None:
    """For a loop whose time is turned by a test."""


class ControlLoop:
    """Brings what runs in line with what should, turn after turn."""

    def __init__(
        self,
        *,
        options: Options,
        clock: WallClock,
        inbox: Inbox,
        registry: Registry,
        heartbeats: Heartbeats,
        recorder: Recorder,
        gang_stops: GangStops,
        board: OrderBoard,
        leases: LeaseKeeper,
        secrets: SecretStore | None = None,
        stalls: OwnStalls | None = None,
    ) -> None:
        """`stalls` hears when agents are listened to; None: nobody wants to know."""
        self._options = options
        self._clock = clock
        self._inbox = inbox
        listening = _not_counted if stalls is None else functools.partial(stalls.listening, OWNER)
        self._turns = RequestTurns(inbox, recorder, clock.now, listening)
        self._registry = registry
        self._heartbeats = heartbeats
        self._recorder = recorder
        self._gang_stops = gang_stops
        self._board = board
        self._leases = leases
        self._secrets = secrets or SecretStore()
        self._queue_seen = -1
        """Version of the index of queued jobs when jobs that can never start were looked for."""
        self._failures = FailureDetector(registry, heartbeats, options.timing)
        self._look_every_s = min(_LONGEST_LOOK_S, options.timing.heartbeat_s / 4)
        self._looked = -math.inf
        self._stopped = False
        self.interrupted = False
        """Whether the engine has to come back before it decides again, as settings were changed."""
        self._logged: dict[tuple[str, str], float] = {}
        self.round_start = 0.0
        """Engine second at which the round of now began."""
        self.something_happened = False
        """Whether something happened since the world looked last that may let a job start."""
        self.desired: Callable[[], dict[int, DesiredAttempt]] = dict
        """What the placement in force wants to run."""
        self.housekeeping: Callable[[], None] = _nothing
        """What is done for the state file between two turns."""

    # Any thread

    def stop(self) -> None:
        """End the loop soon; what runs keeps running until its lease ends."""
        self._stopped = True
        self._inbox.post("stop", lambda _: ([], lambda: None))

    @property
    def stopped(self) -> bool:
        """Whether the loop was asked to end."""
        return self._stopped

    # The owner

    def turn(self, nap_s: float) -> None:
        """Wait so long for requests, answer all that are there, and see to what follows."""
        self._turns.work_off(nap_s)
        monotonic_now = self._heartbeats.monotonic()
        looking = monotonic_now - self._looked >= self._look_every_s
        if looking:
            self._looked = monotonic_now
            self._look_after()
        if self._registry.queue.version != self._queue_seen:
            self._cancel_hopeless()
        moving = self._recorder.moving
        if moving:
            self._reconcile()
        self.something_happened = self.something_happened or self._recorder.lets_jobs_start
        began = time.thread_time()
        self._recorder.commit()
        self._turns.charge_commit(time.thread_time() - began)
        if looking:
            self._let_go_of_secrets()
        self._publish(moving=moving)
        self._turns.answer()
        with self.surviving("housekeeping"):
            self.housekeeping()

    def carry_out(self) -> None:
        """After a decision: start and stop attempts, extend the leases of those that go on."""
        self._reconcile()
        with self.surviving("leases"):
            now = self._clock.now()
            silent = self._failures.silent_nodes()
            saving = saving_attempts(self._registry, self._heartbeats, now, self._clock.scale)
            longer = extension(self._registry, silent, now, self._leases.end_of_lease(self.round_start), saving)
            self._recorder.apply([] if longer is None else [longer])
        moving = self._recorder.moving
        self._recorder.commit()
        if moving:
            self._publish(moving=True)

    def remember(self, events: Iterable[DeployEvent]) -> None:
        """Take over what was noticed while the engine was told of a round; it is committed with the next turn."""
        self._recorder.apply(events)

    # What follows

    def _look_after(self) -> None:
        """Give up nodes that are silent, stop jobs that hang, and let go of jobs that are over for long."""
        now = self._clock.now()
        with self.surviving("clock"):
            set_by_s = self._clock.wall_was_set()
            self._recorder.apply([clock_set(set_by_s, now, running=True)] if set_by_s else [])
        with self.surviving("failure detection"):
            for lost in self._failures.lost_nodes(now):
                self._recorder.apply([lost])
                for job, _ in self._registry.attempts_on(lost.node):
                    scale = self._clock.scale
                    self._recorder.apply(events_of_attempt(self._registry, self._heartbeats, job, now, scale))
            self._recorder.apply(self._failures.hung_attempts(now))
        with self.surviving("time limits"):
            self._recorder.apply(time_limits.warnings(self._registry, now))
            self._recorder.apply(time_limits.stops(self._registry, now))
        with self.surviving("retention"):
            jobs = jobs_to_archive(self._registry, self._options.retention, now, self._clock.scale)
            if jobs:
                self._recorder.archive(jobs, now)

    def _cancel_hopeless(self) -> None:
        """Cancel jobs that can never start, then those that come after them, to the end of the chain."""
        with self.surviving("dependencies"):
            while events := hopeless_dependents(self._registry, self._clock.now()):
                self._recorder.apply(events)
            self._queue_seen = self._registry.queue.version

    def _reconcile(self) -> None:
        with self.surviving("reconciliation"):
            now = self._clock.now()
            lease_until = self._leases.end_of_lease(self.round_start)
            silent = self._failures.silent_nodes() | troubled(self._registry.nodes)
            desired = self.desired()
            waits = waits_for_secrets(self._registry, self._secrets, desired, now, self._clock.scale)
            self._recorder.apply(waits.events)
            startable = {number: want for number, want in desired.items() if number not in waits.jobs}
            self._recorder.apply(reconcile(self._registry, startable, now, lease_until, silent))

    def _let_go_of_secrets(self) -> None:
        """Delete the values of jobs that are over, once that is committed; if it fails, later."""
        try:
            with self.surviving("deletion of secrets"):
                self._secrets.let_go(self._registry)
        except OutputError as error:
            self._log_failure("deletion of secrets", error)

    def _publish(self, *, moving: bool) -> None:
        with self.surviving("orders"):
            if self._gang_stops.advance(self._registry, self._heartbeats) or moving:
                self._board.publish()

    @contextlib.contextmanager
    def surviving(self, step: str) -> Iterator[None]:
        """Log what goes wrong in a step, and go on."""
        try:
            yield
        except OutputError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop goes on
            self._log_failure(step, error)

    def _log_failure(self, step: str, error: Exception) -> None:
        key = (step, repr(error))
        now = self._heartbeats.monotonic()
        if now - self._logged.get(key, -_SAME_FAILURE_S) >= _SAME_FAILURE_S:
            self._logged = {known: at for known, at in self._logged.items() if now - at < _SAME_FAILURE_S}
            self._logged[key] = now
            if isinstance(error, OutputError):  # a full disk, in one line
                log.error("%s failed; the scheduler goes on: %s", step, error)
            else:
                log.error("%s failed; the scheduler goes on", step, exc_info=error)
