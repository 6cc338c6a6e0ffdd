"""The world of a deployment: a clock that waits for the wall, an executor that writes orders for agents.

One thread owns everything here. Requests come through an inbox; whatever follows from them is committed to the journal
before anybody hears of it. Between two rounds on the grid attempts start, stop, end; at the grid the engine is told.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import queue
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

from rota.core.events import Event
from rota.core.horizon import Horizon
from rota.core.placement import Plan
from rota.core.view import View
from rota.deploy import events as happened
from rota.deploy.book import Book, Job
from rota.deploy.boundary import Teller, cluster_now
from rota.deploy.clock import WallClock
from rota.deploy.contacts import Contacts
from rota.deploy.desk import Answer, Desk, Refused
from rota.deploy.gangs import Gangs
from rota.deploy.journal import Journal
from rota.deploy.orders import Want, extended, reconcile, wants
from rota.deploy.reports import judge
from rota.deploy.stopping import STOPPING
from rota.engine.live_state import LiveState
from rota.engine.log import LineWriter
from rota.sim.tasks import make_tasks

log = logging.getLogger(__name__)

_BATCH = 512
_LONGEST_NAP_S = 1.0
_QUIET = (happened.JobAccepted, happened.StepsSaved, happened.Audited)
"""Events that change nothing for what should run before the next round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How patient the scheduler is; wall seconds."""

    heartbeat_s: float = 2.0
    dead_after_s: float = 10.0
    lease_s: float = 30.0
    """How long an attempt may run beyond the end of its round without hearing from the scheduler."""


@dataclass(slots=True)
class _Call:
    work: Callable[[float], Answer]
    done: Future[Any] = field(default_factory=Future)


class Floor:
    """Clock and executor of a deployment."""

    exhausted = False
    """A job may come at any time."""

    def __init__(
        self, *, clock: WallClock, journal: Journal, book: Book, desk: Desk, contacts: Contacts, teller: Teller,
        timing: Timing, round_s: float, publish: Callable[[Book, Gangs], None],
    ) -> None:  # fmt: skip
        self.clock, self.book, self.desk, self.contacts = clock, book, desk, contacts
        self.timing = timing
        self._journal, self._teller, self._round_s, self._publish = journal, teller, round_s, publish
        self._lines = LineWriter()
        self._gangs = Gangs()
        self._inbox: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._open: list[_Call] = []
        """Taken out of the inbox and not answered yet."""
        self._over = False
        self._state: LiveState | None = None
        self._rates: dict[int, float] = {}
        self._now = math.floor(clock.now() / round_s) * round_s
        self._stop = False
        self._since = min(book.last_round, self._now)
        self._looked = 0.0
        self._told_at = 0.0
        self.decided_s = 0.0
        """How long the last round took to be decided."""

    # Any thread

    def post(self, work: Callable[[float], Answer]) -> Future[Any]:
        """Let the owner do something; `work` gets engine seconds. The future holds the answer once it is durable."""
        call = _Call(work)
        self._inbox.put(call)
        if self._over:
            self.refuse_rest()
        return call.done

    def refuse_rest(self) -> None:
        """The owner is gone: whoever still waits for an answer is told so, now and from here on."""
        self._over = True
        calls, self._open = self._open, []
        with contextlib.suppress(queue.Empty):
            while True:
                calls.append(self._inbox.get_nowait())
        for call in calls:
            with contextlib.suppress(InvalidStateError):  # it was answered, or nobody waits any more
                call.done.set_exception(Refused("UNAVAILABLE", f"{STOPPING}; this request was not taken, try again"))

    def stop(self) -> None:
        """End the loop soon; what runs keeps running until its lease ends."""
        self._stop = True
        self.post(lambda _: ([], lambda: None))

    @property
    def stopped(self) -> bool:
        """Whether the loop was asked to end."""
        return self._stop

    # The owner: clock

    def now(self) -> float:
        """The last point of the grid of rounds."""
        return self._now

    def attach(self, state: LiveState) -> None:
        """From here on decisions are made on this state."""
        self._state = state

    def wait_for_servers(self) -> None:
        """Serve requests until there is a server, or the end is asked for."""
        while not self._stop and cluster_now(self.book, None) is None:
            self._serve(_LONGEST_NAP_S)
        self._now = math.floor(self.clock.now() / self._round_s) * self._round_s

    def advance(self, horizon: Horizon, limit: float) -> list[Event]:
        """Serve requests until the next round has to be decided; what the engine has to know by then."""
        del horizon, limit  # nobody knows what real jobs will do: every round on the grid is looked at
        self._carry_out()
        self.decided_s = time.perf_counter() - self._told_at if self._told_at else 0.0
        while not self._stop:
            boundary = self._now + self._round_s
            wait = self.clock.wall_seconds(boundary - self.clock.now())
            self._serve(min(max(wait, 0.0), _LONGEST_NAP_S))
            if self.clock.now() >= boundary:
                self._now = math.floor(self.clock.now() / self._round_s) * self._round_s
                if self._something_to_decide():
                    break
                self._since = self._now
        if self._stop or self._state is None:
            return []
        self._told_at = time.perf_counter()
        events = self._teller.tell(self._state, self._now, self._since)
        self._since = self._now
        return events

    def _something_to_decide(self) -> bool:
        placement = None if self._state is None else self._state.placement
        return bool(self.book.live) or (placement is not None and len(placement) > 0)

    # The owner: executor

    def apply(self, plan: Plan, view: View) -> None:
        """Remember how fast tasks should be; orders follow from the placement in force."""
        self._rates = {}
        if self._state is None or len(plan.placement) == 0:
            return
        tasks = make_tasks(plan.placement, view, spread_costs=True)
        for job, partner, rate, other in zip(
            plan.placement.first.tolist(), plan.placement.second.tolist(), tasks.rate.tolist(),
            tasks.partner_rate.tolist(), strict=True,
        ):  # fmt: skip
            self._rates[job] = rate
            if partner >= 0:
                self._rates[partner] = other

    def close(self) -> None:
        """Jobs go on without us."""

    def journal(self, event: Event) -> None:
        """Commit an event of the engine."""
        self._journal.append([(event.at, type(event).__name__, self._lines.write(event))])

    def begin_anew(self) -> None:
        """Let the next plan be written in full: whoever reads on from a snapshot has not seen the one before."""
        self._lines = LineWriter()

    def observe(self, event: Event) -> None:
        """An event of the engine, once the state has it."""
        self.book.apply(event)

    # Serving

    def _serve(self, nap_s: float) -> None:
        """Wait for requests, answer all that are there, and see to what follows."""
        calls = self._open = self._collect(nap_s)
        answers: list[tuple[_Call, Callable[[], Any]]] = []
        events: list[happened.DeployEvent] = []
        for call in calls:
            try:
                follows, answer = call.work(self.clock.now())
            except Refused as refusal:
                call.done.set_exception(refusal)
                continue
            except Exception as error:
                log.exception("a request failed")
                call.done.set_exception(error)
                continue
            events += self._happen(follows)
            answers.append((call, answer))
        if time.monotonic() - self._looked >= min(0.25, self.timing.heartbeat_s / 4):
            self._looked = time.monotonic()
            events += self._look_after()
        moving = any(not isinstance(event, _QUIET) for event in events)
        if moving:
            events += self._happen(self._reconciled(self.clock.now()))
        if events:
            self._commit(events)
        if self._gangs.look(self.book, self.contacts) or moving:
            self._publish(self.book, self._gangs)
        for call, answer in answers:
            with contextlib.suppress(Exception):
                call.done.set_result(answer())
        self._open = []

    def _collect(self, nap_s: float) -> list[_Call]:
        calls = []
        try:
            calls.append(self._inbox.get(timeout=nap_s) if nap_s > 0 else self._inbox.get_nowait())
            while len(calls) < _BATCH:
                calls.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return calls

    def _happen(self, events: Iterable[happened.DeployEvent]) -> list[happened.DeployEvent]:
        """Apply events; they are committed with the rest of the batch, before anybody hears of them."""
        done = list(events)
        for event in done:
            self.book.apply(event)
            if isinstance(event, happened.AttemptEnded):
                self.contacts.forget((event.job, event.epoch))
        return done

    def _commit(self, events: list[happened.DeployEvent]) -> None:
        rows = []
        for event in events:
            fields = happened.to_fields(event)
            rows.append((event.at, fields["event"], json.dumps(fields, separators=(",", ":"))))
        self._journal.append(rows)

    def record(self, event: happened.DeployEvent) -> None:
        """Make a single event happen."""
        self._commit(self._happen([event]))

    def _wanted(self) -> dict[int, Want]:
        if self._state is None:
            return {}
        return wants(self._state.placement, self._state.cluster, self._rates)

    def _silent(self) -> set[str]:
        return {n for n in self.book.nodes if self.contacts.silent_s(n) > self.timing.dead_after_s}

    def _reconciled(self, now: float) -> list[happened.DeployEvent]:
        return reconcile(self.book, self._wanted(), now, self._lease_end(), self._silent())

    def _lease_end(self) -> float:
        return self._now + self._round_s + self.timing.lease_s * self.clock.scale

    def _carry_out(self) -> None:
        """After a decision: start and stop attempts, extend the leases of those that go on."""
        now = self.clock.now()
        events = self._happen(self._reconciled(now))
        near = self.book.nodes.keys() - self._silent()
        longer = extended(self.book, near, now, self._lease_end())
        if longer is not None:
            events += self._happen([longer])
        if events:
            self._commit(events)
            self._publish(self.book, self._gangs)

    # Looking after attempts and nodes

    def _look_after(self) -> list[happened.DeployEvent]:
        now = self.clock.now()
        events: list[happened.DeployEvent] = []
        for name, node in self.book.nodes.items():
            if not node.lost and self.contacts.silent_s(name) > self.timing.dead_after_s:
                events += self._lose(name, now)
        for job in list(self.book.running.values()):
            if self._hangs(job):
                assert job.attempt is not None  # it runs
                reason = f"hung: no step for {job.spec['hung_after_s']:g} s"
                stop = happened.AttemptStopping(at=now, job=job.id, epoch=job.attempt.epoch, reason=reason)
                events += self._happen([stop])
        return events

    def _lose(self, name: str, now: float) -> list[happened.DeployEvent]:
        """Give a silent node up, once the leases of everything on it have run out."""
        there = [job for job in self.book.running.values() if job.attempt is not None and name in job.attempt.nodes]
        if any(job.attempt is not None and job.attempt.lease_until > now for job in there):
            return []
        silent = self.contacts.silent_s(name)
        events = self._happen([happened.NodeLost(at=now, node=name, reason=f"silent for {silent:.0f} s")])
        for job in there:
            events += self._happen(judge(self.book, self.contacts, job, now, self.clock.scale))
        return events

    def _hangs(self, job: Job) -> bool:
        limit = float(job.spec.get("hung_after_s") or 0.0)
        if limit <= 0 or job.attempt is None or job.attempt.stopping:
            return False
        return self.contacts.idle_s((job.id, job.attempt.epoch), job.attempt.nodes) > limit
