"""Keeps a pool of pilots: looks at the place and at the scheduler, decides, acts, and looks again.

It can be killed at any moment. What it is about to ask for is written down first, under a name that is never used
again; what was accepted is found by that name. Nothing is concluded from silence, neither of the place nor of the
scheduler.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rota.core.errors import ConfigError, OutputError, RotaError
from rota.deploy.clocks import wall_date, wall_s
from rota.deploy.control import Client
from rota.deploy.providers.backoff import Backoff
from rota.deploy.providers.demand import demand_of
from rota.deploy.providers.orders import pilot_command
from rota.deploy.providers.pool import (
    Decision,
    Demand,
    NodeFacts,
    PilotRecord,
    PilotState,
    PilotView,
    PoolLimits,
    decide,
    has_not_heard,
    has_nothing_to_do,
    is_failure,
    views,
)
from rota.deploy.providers.pool_folder import PoolFolder, PoolSettings
from rota.deploy.providers.port import (
    PilotOrder,
    PilotPhase,
    PilotStatus,
    PlaceDescription,
    PlaceRefused,
    PlaceSilent,
    Provider,
)
from rota.deploy.security.joining import TICKET_HOURS, make_ticket, withdraw_ticket

log = logging.getLogger(__name__)

_SUBMITTING_S = 120.0
"""Seconds after which a pilot that was asked for and that its place does not know was never accepted."""
_KEPT_S = 3600.0
"""Seconds for which pilots that are over are listed."""
_POOL = "the pool"


@dataclass(kw_only=True)
class Keeper:
    """Keeps one pool."""

    folder: PoolFolder
    settings: PoolSettings
    provider: Provider
    client: Client
    tell: Callable[[str], None] = log.info
    begin_with: int = 0
    """Pilots to begin with, whatever the queue is like."""
    backoff: Backoff = field(default_factory=Backoff)
    failures: Backoff = field(default_factory=Backoff)
    """Of pilots that end before they have joined: others would fare no better."""
    place: PlaceDescription | None = None
    _idle_since: dict[str, float] = field(default_factory=dict)
    stopped: bool = False
    """Whether `rota pilots stop` was said, when it was looked last."""
    _missing_since: dict[str, float] = field(default_factory=dict)
    """When the place began not to name a pilot."""
    _wanted: int | None = None
    """The number of pilots that was wanted last; None: not known."""
    _silent: dict[str, str] = field(default_factory=dict)
    """Who does not answer, and what was said about it."""
    _turns: int = 0

    def __post_init__(self) -> None:
        self.records, self._last = self.folder.pilots()

    # One turn

    def turn(self) -> list[PilotView] | None:
        """Look, decide, act; what was seen, or None if nothing is known or could be done.

        What is wrong in the first turn is raised. Later a disk may fill up, or a file system be away for a while: that
        is told, and nothing is changed meanwhile.
        """
        try:
            seen = self._turn()
        except (OSError, ConfigError) as error:
            if not self._turns:
                raise
            self._say_silent(_POOL, str(error))
            return None
        self._turns += 1
        self._say_silent(_POOL, "")
        return seen

    def _turn(self) -> list[PilotView] | None:
        self.stopped = self.folder.settings().stopped
        statuses = self._listed()
        nodes = self._nodes()
        if statuses is None:
            self._publish([], Decision(wanted=-1))
            return None
        self._adopt(statuses)
        pilots = views(self.records, statuses, nodes, self._idle(nodes), self._missing(statuses))
        self._learn(pilots)
        decision = Decision()
        if not self.stopped:
            demand = self._demand(nodes)
            decision = decide(self._limits(), pilots, demand, self._gpus_per_pilot(pilots), before=self._wanted)
            self._wanted = decision.wanted
            here = sum(pilot.state is not PilotState.OVER for pilot in pilots)
            decision = replace(decision, submit=max(decision.submit, self.begin_with - here))
            self.begin_with = 0
            self._act(decision, pilots)
        elif late := [pilot.record.name for pilot in pilots if has_nothing_to_do(pilot)]:
            self.stop(late, gently=True)
        self._publish(pilots, decision)
        return pilots

    def _limits(self) -> PoolLimits:
        asked = self.settings
        return PoolLimits(least=asked.least, most=asked.most, replace_s=asked.replace_s, idle_s=asked.idle_s)

    def _listed(self) -> Sequence[PilotStatus] | None:
        try:
            if self.place is None:
                self.place = self.provider.describe()
            found = self.provider.list()
        except (PlaceSilent, PlaceRefused) as error:
            self._say_silent("the place", str(error))
            return None
        self._say_silent("the place", "")
        return found

    def _nodes(self) -> Mapping[str, NodeFacts] | None:
        try:
            nodes = self.client.nodes()
        except RotaError as error:
            self._say_silent("the scheduler", str(error))
            return None
        self._say_silent("the scheduler", "")
        return {
            node.node: NodeFacts(
                state=node.state, busy=node.busy, gpus=node.gpus, jobs=tuple(node.jobs), silent_s=node.last_seen_s
            )
            for node in nodes
        }

    def _say_silent(self, who: str, why: str) -> None:
        before = self._silent.get(who, "")
        self._silent[who] = why
        if why and not before:
            problem = "cannot be kept" if who == _POOL else "does not answer"
            self.tell(f"{who} {problem}, nothing is changed meanwhile: {why}")
        elif before and not why:
            self.tell(f"{who} {'is kept' if who == _POOL else 'answers'} again")

    def _demand(self, nodes: Mapping[str, NodeFacts] | None) -> Demand | None:
        if nodes is None:
            return None
        try:
            return demand_of(self.client, "" if self.place is None else self.place.gpu_type)
        except RotaError:
            return None

    def _gpus_per_pilot(self, pilots: Sequence[PilotView]) -> int:
        seen = [pilot.node.gpus for pilot in pilots if pilot.node is not None and pilot.node.gpus]
        asked = self.place.gpus if self.place is not None else 0
        return asked or max(seen, default=1)

    def _idle(self, nodes: Mapping[str, NodeFacts] | None) -> dict[str, float]:
        """Seconds since each pilot had something to do; those that wait for a machine have nothing to do."""
        now = time.monotonic()
        for record in self.records:
            node = None if nodes is None else nodes.get(record.name)
            if nodes is None or (node is not None and (node.jobs or node.busy)):
                self._idle_since[record.name] = now
            self._idle_since.setdefault(record.name, now)
        return {name: now - since for name, since in self._idle_since.items()}

    def _missing(self, statuses: Sequence[PilotStatus]) -> dict[str, float]:
        """Seconds for which the place has not named each pilot."""
        now = time.monotonic()
        named = {status.name for status in statuses}
        self._missing_since = {
            record.name: self._missing_since.get(record.name, now)
            for record in self.records
            if record.name not in named
        }
        return {name: now - since for name, since in self._missing_since.items()}

    # What follows from it

    def _adopt(self, statuses: Sequence[PilotStatus]) -> None:
        """Pilots that the place knows and we do not, and ids that we did not hear."""
        before = self.records, self._last
        known = {record.name for record in self.records}
        self._last = max(self._last, *(self._number_of(status.name) for status in statuses), -1)
        for status in statuses:
            if status.name not in known and status.phase is not PilotPhase.OVER:
                known.add(status.name)
                now = wall_s()  # its ticket may be lost with what was written down of it
                self.records.append(PilotRecord(name=status.name, id=status.id, asked_at=now, ticket_until=now))
                self.tell(f"{status.name} is there already, as {status.id}")
        ids = {status.name: status.id for status in statuses}
        self.records = [
            record if record.id or record.name not in ids else replace(record, id=ids[record.name])
            for record in self.records
        ]
        if before != (self.records, self._last):
            self._keep()

    def _number_of(self, name: str) -> int:
        """The number in the name of a pilot of this pool: no other one gets it, whatever was forgotten."""
        number = name.removeprefix(f"{self.settings.name}-")
        return int(number) if number.isdecimal() else -1

    def _learn(self, pilots: Sequence[PilotView]) -> None:
        """Write down which pilots have joined and which are over; forget those that were over for long."""
        now = wall_s()
        kept: list[PilotRecord] = []
        failed: PilotRecord | None = None
        for pilot in pilots:
            record = self._learned(pilot, now)
            if record.end and not pilot.record.end and is_failure(record):
                failed = record
            listed = pilot.node is not None or pilot.status is not None
            if listed or not record.end or now - record.asked_at < _KEPT_S:
                kept.append(record)
        if kept != self.records:
            self.records = kept
            self._keep()
        if failed is not None:
            words = f"{failed.name} ended before it had joined ({failed.end}); see {self.folder.log(failed.name)}"
            pause_s = self.failures.refused(words, time.monotonic())
            self.tell(f"{words}; the next try is in {pause_s:g} s")

    def _learned(self, pilot: PilotView, now: float) -> PilotRecord:
        """What is known of a pilot now."""
        record = pilot.record
        if pilot.node is not None and not record.joined:
            record = replace(record, joined=True)
            self.failures.over()
        end = _end_of(pilot, now)
        if record.end and pilot.state is not PilotState.OVER:
            self.tell(f"{record.name} is there again, as {record.id}")
            return replace(record, end="", ticket_until=now)  # with a new ticket, if it still needs one
        if end and not record.end:
            self.tell(f"{record.name} is over: {end}")
            withdraw_ticket(Path(self.settings.certs), self.folder.ticket(record.name))
            shutil.rmtree(self.folder.ticket(record.name), ignore_errors=True)
            return replace(record, end=end)
        return record

    def _keep(self) -> None:
        self.folder.write_pilots(self.records, self._last)

    def _act(self, decision: Decision, pilots: Sequence[PilotView]) -> None:
        for name in decision.remove:
            with contextlib.suppress(RotaError):  # it needs an administrator's token
                self.client.remove_node(name)
        if decision.stop:
            self.stop(decision.stop, gently=True)
        self._cancel([pilot.record.id for pilot in pilots if has_not_heard(pilot)], gently=True)
        self._renew_tickets(pilots)
        now = time.monotonic()
        for _ in range(decision.submit):
            if now < max(self.backoff.until, self.failures.until) or not self._submit():
                return

    def stop(self, names: Sequence[str], *, gently: bool) -> None:
        """Let pilots go."""
        ids = [record.id for record in self.records if record.name in names and record.id]
        self.records = [replace(one, stop_asked=True) if one.name in names else one for one in self.records]
        self._keep()
        self.tell(f"{', '.join(names)} {'leave' if len(names) > 1 else 'leaves'}")
        self._cancel(ids, gently=gently)

    def _cancel(self, ids: Sequence[str], *, gently: bool) -> None:
        with contextlib.suppress(PlaceSilent):  # those that do not hear of it are told again
            self.provider.cancel(ids, gently=gently)

    def _renew_tickets(self, pilots: Sequence[PilotView]) -> None:
        """A pilot that waits for long gets another ticket before its own ends."""
        soon = wall_s() + TICKET_HOURS * 900.0  # a quarter of its time
        for pilot in pilots:
            if pilot.state is PilotState.PENDING and 0 < pilot.record.ticket_until < soon:
                until = self._make_ticket(pilot.record.name)
                self.records = [
                    replace(one, ticket_until=until) if one.name == pilot.record.name else one for one in self.records
                ]

    def _make_ticket(self, name: str) -> float:
        now = wall_date().replace(microsecond=0)
        return make_ticket(Path(self.settings.certs), name, self.folder.ticket(name), now).timestamp()

    def _submit(self) -> bool:
        """Ask for one pilot. False if there is no use in asking for more now."""
        self._last += 1
        name = f"{self.settings.name}-{self._last}"
        until = self._make_ticket(name)
        self.records.append(PilotRecord(name=name, asked_at=wall_s(), ticket_until=until))
        end_s = 10.0 if self.place is None else self.place.end_s
        command = pilot_command(self.settings, name, self.folder.ticket(name), end_s)
        order = PilotOrder(name=name, command=command, log=self.folder.log(name))
        try:
            self._keep()  # before anybody hears of it
            number = self.provider.submit(order)
        except PlaceRefused as error:
            self._refused(name, str(error))
            return False
        except (OSError, OutputError):  # nobody has heard of it
            self._forget(name)
            raise
        except PlaceSilent as error:
            self._say_silent("the place", str(error))
            return False
        self.backoff.over()
        self.records = [replace(one, id=number) if one.name == name else one for one in self.records]
        self._keep()
        self.tell(f"{name} is asked for, as {number}")
        if self.folder.settings().stopped:  # since we looked, and whoever stopped the pool has not seen this one
            self.stop((name,), gently=True)
            return False
        return True

    def _refused(self, name: str, words: str) -> None:
        pause_s = self.backoff.refused(words, time.monotonic())
        self.tell(f"no pilot now, the next try is in {pause_s:g} s: {words}")
        withdraw_ticket(Path(self.settings.certs), self.folder.ticket(name))
        self._forget(name)
        self._keep()

    def _forget(self, name: str) -> None:
        shutil.rmtree(self.folder.ticket(name), ignore_errors=True)
        self.records = [one for one in self.records if one.name != name]

    def _publish(self, pilots: Sequence[PilotView], decision: Decision) -> None:
        self.folder.write_status(
            {
                "at": wall_s(),
                "place": "" if self.place is None else self.place.words,
                "wanted": decision.wanted,
                "refused": self.backoff.words,
                "failed": self.failures.words,
                "silent": {who: why for who, why in self._silent.items() if why},
                "pilots": len([pilot for pilot in pilots if pilot.state is not PilotState.OVER]),
            }
        )


def _end_of(pilot: PilotView, now: float) -> str:
    """How a pilot ended; empty if it has not."""
    if pilot.state is PilotState.SUBMITTING and now - pilot.record.asked_at > _SUBMITTING_S:
        return "its place never heard of it"
    if pilot.state is not PilotState.OVER:
        return ""
    if pilot.status is None:
        return "its place does not know it any more, and its agent is silent"
    return pilot.status.reason or "ended"
