"""The scheduler: from a state file and settings to an engine that runs in its own thread."""

from __future__ import annotations

import dataclasses
import io
import logging
import pickle
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota._version import __version__
from rota.assembly import Settings, make_policy, make_rules, make_throughputs
from rota.core.cluster import Cluster, cluster_fields, cluster_from
from rota.core.errors import ConfigError, RotaError
from rota.core.events import Event, RunStarted
from rota.core.ports import EveryEvent
from rota.core.rules import Rules
from rota.deploy import events as happened
from rota.deploy.board import Board
from rota.deploy.book import Book
from rota.deploy.boundary import Teller, cluster_now
from rota.deploy.clock import WallClock
from rota.deploy.contacts import Contacts
from rota.deploy.deciding import TimeLimitedPolicy
from rota.deploy.desk import Desk
from rota.deploy.floor import Floor, Timing
from rota.deploy.journal import Journal
from rota.deploy.speeds import OpenCatalogue, opened
from rota.engine.checkpoint import SafeReader
from rota.engine.live_state import LiveState
from rota.engine.log import LineReader
from rota.engine.loop import Engine
from rota.engine.trigger import Trigger
from rota.mechanisms.registry import build

log = logging.getLogger(__name__)

_SNAPSHOT_EVERY = 2000
"""Events."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `rota serve` was asked for."""

    state: str | Path
    policy: str = "max-min-fairness-perf"
    policy_settings: Settings = field(default_factory=dict)
    mechanism: str | None = None
    mechanism_settings: Settings = field(default_factory=dict)
    profiles: str = "gavel"
    rules: str = "default"
    rule_settings: Settings = field(default_factory=dict)
    round_s: float | None = None
    cluster: Cluster | None = None
    time_scale: float = 1.0
    checkpoints: str = ""
    seed: int = 0
    timing: Timing = field(default_factory=Timing)
    solve_budget_s: float | None = None

    def described(self, rules: Rules) -> dict[str, Any]:
        """As plain values, for the journal."""
        return {
            "policy": self.policy,
            "policy_settings": dict(self.policy_settings),
            "mechanism": self.mechanism or rules.mechanism,
            "mechanism_settings": dict(self.mechanism_settings),
            "profiles": self.profiles,
            "rules": {**dataclasses.asdict(rules), "type_order": list(rules.type_order)},
            "time_scale": self.time_scale,
            "seed": self.seed,
            "version": __version__,
        }


@dataclass(kw_only=True)
class _Memory:
    """What the journal says."""

    book: Book = field(default_factory=Book)
    state: LiveState | None = None
    trigger: Trigger | None = None
    last_at: float = 0.0


class Scheduler:
    """One deployment. `start` runs the loop in a thread; everything else goes through `floor.post`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rules = make_rules(options.rules, options.round_s, options.rule_settings)
        if (options.mechanism or self.rules.mechanism) == "ideal":
            raise ConfigError("the mechanism 'ideal' gives jobs fractions of a round; it can only be simulated")
        self.speeds: OpenCatalogue = opened(make_throughputs(options.profiles))
        policy = make_policy(options.policy, options.policy_settings, options.seed, self.rules)
        wall_round = self.rules.round_s / options.time_scale
        budget = options.solve_budget_s or max(0.05, min(wall_round / 4, 5.0))
        self._policy = TimeLimitedPolicy(policy, budget)
        name = options.mechanism or self.rules.mechanism
        self._mechanism = build(name, self.rules, options.seed, dict(options.mechanism_settings), watched=True)
        self.journal = Journal(options.state)
        try:
            memory = self._recall()
        except BaseException:
            self.journal.close()
            raise
        self._memory = memory
        self.contacts = Contacts(options.timing.heartbeat_s)
        self.board = Board(self.contacts)
        book = memory.book
        begun = book.begun or None
        self.clock = WallClock(scale=options.time_scale, begun=begun, at_least=memory.last_at)
        desk = Desk(book, self.contacts, self.speeds, options.cluster)
        self.floor = Floor(
            clock=self.clock, journal=self.journal, book=book, desk=desk, contacts=self.contacts,
            teller=Teller(book, self.speeds, options.cluster, self.rules.round_s), timing=options.timing,
            round_s=self.rules.round_s, publish=self.board.publish,
        )  # fmt: skip
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._snapshot_at = self.journal.last

    @property
    def late_solves(self) -> int:
        """How often the policy was not ready in time."""
        return self._policy.late

    def start(self) -> None:
        """Begin to serve."""
        started = happened.ServiceStarted(
            at=self.clock.now(), begun=self.clock.begun, config=self.options.described(self.rules)
        )
        self.floor.record(started)
        self.board.publish(self.floor.book)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the loop and let go of the state file; jobs keep running until their leases end."""
        self.floor.stop()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self.journal.close()

    def alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    # The owner's thread

    def _run(self) -> None:
        try:
            self._loop()
        except RotaError as error:  # the service says it in one message when it ends
            self.failure = error
        except BaseException as error:  # whatever it is: the service must know and end
            self.failure = error
            log.exception("the scheduler stopped")
        finally:
            self.floor.stop()
            self.floor.refuse_rest()

    def _loop(self) -> None:
        floor, memory = self.floor, self._memory
        if memory.state is None:
            floor.wait_for_servers()
            if floor.stopped:
                return
            cluster = cluster_now(floor.book, self.options.cluster)
            assert cluster is not None  # that is what was waited for
            first = RunStarted(at=floor.now(), config=self._config(cluster))
            floor.journal(first)
            memory.state = LiveState(cluster, self.speeds, self.rules, by_need=self._mechanism.by_need)
            memory.trigger = Trigger(self.rules)
        state, trigger = memory.state, memory.trigger
        assert trigger is not None  # it comes with the state
        floor.attach(state)
        engine = Engine(
            state=state,
            policy=self._policy,
            mechanism=self._mechanism,
            clock=floor,
            executor=floor,
            observers=[EveryEvent(floor.observe), EveryEvent(self._after)],
            trigger=trigger,
            journal=EveryEvent(self._before),
            tolerant=True,
        )
        engine.run(lambda: floor.stopped)

    def _config(self, cluster: Cluster) -> dict[str, Any]:
        return {**self.options.described(self.rules), "cluster": cluster_fields(cluster)}

    def _before(self, event: Event) -> None:
        """Every event of the engine is committed first."""
        if type(event).__name__ == "RunEnded":
            return  # a service that stops has not ended: it goes on when it is started again
        self.floor.journal(event)

    def _after(self, event: Event) -> None:
        kind = type(event).__name__
        if kind == "Planned" and self.journal.last - self._snapshot_at >= _SNAPSHOT_EVERY:
            self._snapshot()

    # Memory

    def _snapshot(self) -> None:
        began = time.perf_counter()
        memory = self._memory
        parts = {"book": self.floor.book, "state": memory.state, "trigger": memory.trigger, "at": self.clock.now()}
        self.journal.save_snapshot(__version__, pickle.dumps(parts, protocol=5))
        self._snapshot_at = self.journal.last
        self.floor.begin_anew()
        log.debug("snapshot in %.3f s", time.perf_counter() - began)

    def _recall(self) -> _Memory:
        """Read the journal: the last snapshot, then the events after it."""
        memory, after = _Memory(), 0
        found = self.journal.snapshot(__version__)
        if found is not None:
            memory, after = self._from_snapshot(*found)
        reader, number = LineReader(), after
        try:
            for number, fields in self.journal.events(after):  # noqa: B007 - for the message
                self._again(memory, reader, fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"{self.journal.path}: event {number} cannot be read ({type(error).__name__}: {error}); "
                "it was written by another version of Rota, or the file is damaged"
            ) from error
        return memory

    def _from_snapshot(self, number: int, body: bytes) -> tuple[_Memory, int]:
        try:
            parts = SafeReader(io.BytesIO(body)).load()
            memory = _Memory(book=parts["book"], state=parts["state"], trigger=parts["trigger"], last_at=parts["at"])
        except Exception as error:  # noqa: BLE001 - a snapshot only saves time
            log.warning("the snapshot cannot be used (%s); reading the whole journal", error)
            return _Memory(), 0
        if memory.state is not None:
            memory.state.attach(self.speeds)
        return memory, number

    def _again(self, memory: _Memory, reader: LineReader, fields: dict[str, Any]) -> None:
        memory.last_at = max(memory.last_at, float(fields["at"]))
        if fields["event"] in happened.KINDS:
            memory.book.apply(happened.from_fields(fields))
            return
        event = reader.read(fields)
        if isinstance(event, RunStarted):
            cluster = cluster_from(event.config["cluster"])
            memory.state = LiveState(cluster, self.speeds, self.rules, by_need=self._mechanism.by_need)
            memory.trigger = Trigger(self.rules)
        if memory.state is not None and memory.trigger is not None:
            memory.state.apply(event)
            memory.trigger.observe(event)
        memory.book.apply(event)
