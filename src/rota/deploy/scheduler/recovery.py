"""A scheduler reads itself back: the last snapshot, then the events after it."""

from __future__ import annotations

import dataclasses
import logging
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from rota.core.cluster import Cluster, cluster_from
from rota.core.errors import ConfigError, IllegalTransition, RotaError
from rota.core.events import RunStarted
from rota.core.job_spec import JobSpec, spec_values
from rota.core.ports import Throughputs
from rota.core.rules import Rules
from rota.deploy.events import KINDS, DeployEvent, JobAccepted, ServiceStarted, SettingsChanged, from_fields
from rota.deploy.scheduler.old_journals import lenient_spec, translated
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.snapshots import FORMAT, Saved, SnapshotWriter, read, settings_in, unpacked
from rota.engine.live_state import LiveState
from rota.engine.log import LineReader
from rota.engine.trigger import Trigger

log = logging.getLogger(__name__)

_ANY_SPEC = JobSpec(emulated=True, steps=1)
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RotaError)
"""What reading an event or a snapshot raises that makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How events are read: what they do to the state depends on the settings under which they were written."""

    rules: Rules
    by_need: bool
    """Whether the mechanism divides CPUs and memory by need."""
    make_state: Callable[[Cluster], LiveState] = field(compare=False)


def rules_of(config: Mapping[str, Any]) -> Rules:
    """The rules of a configuration in a journal. Raises KeyError, TypeError or ConfigError."""
    fields = dict(config["rules"])
    known = {known.name for known in dataclasses.fields(Rules)}
    return Rules(
        **{name: value for name, value in fields.items() if name in known and name != "type_order"},
        type_order=tuple(fields.get("type_order", ())),
    )


@dataclass(kw_only=True)
class Recovered:
    """What the journal says."""

    registry: Registry = field(default_factory=Registry)
    state: LiveState | None = None
    trigger: Trigger | None = None
    last_at: float = 0.0
    """Engine second of the last event."""

    def begin(self, cluster: Cluster, make_state: Callable[[Cluster], LiveState], rules: Rules) -> None:
        """The engine started, on these servers."""
        self.state = make_state(cluster)
        self.trigger = Trigger(rules)

    def switch(self, ways: Ways, *, forget_answer: bool) -> None:
        """Go on under other settings: jobs, accounts and placement stay.

        With `forget_answer` the policy is asked anew: another one may not understand what the last one remembers.
        """
        if self.state is None or self.trigger is None:
            return
        saved = self.state.saved()
        state = ways.make_state(self.state.cluster)
        state.restore({**saved, "allocation": None} if forget_answer else saved)
        trigger = Trigger(ways.rules)
        trigger.restore(self.trigger.saved())
        if forget_answer:
            trigger.changed = True
            trigger.asked = False
        self.state = state
        self.trigger = trigger


class Events(Protocol):
    """Where events and snapshots are read: the journal."""

    @property
    def path(self) -> Path:
        """For messages."""

    def events(self, after: int = 0) -> Iterable[tuple[int, dict[str, Any]]]:
        """(number, fields) of the events behind `after`."""

    @property
    def begins_after(self) -> int:
        """Number of the event before which events are missing; 0: all are there."""

    def snapshots(self) -> Sequence[Stored]:
        """Snapshots that are whole, the newest first."""

    def save_snapshot(self, format_: int, body: bytes) -> None:
        """Keep the state as it is after the last event."""


class Stored(Protocol):
    """A snapshot in the journal."""

    @property
    def number(self) -> int:
        """Of the last event in it."""

    @property
    def body(self) -> bytes:
        """The document."""


class Recovery:
    """Reads and writes what a scheduler needs to go on."""

    def __init__(
        self,
        journal: Events,
        catalogue: Throughputs,
        rules: Rules,
        make_state: Callable[[Cluster], LiveState],
        ways_of: Callable[[Mapping[str, Any]], Ways] | None = None,
    ) -> None:
        """`ways_of` says how events are read that were written under a configuration; None: all alike."""
        self._journal = journal
        self._catalogue = catalogue
        self._rules = rules
        self._make_state = make_state
        self._ways_of = ways_of
        self._ways: Ways | None = None
        """In force at the event that was read last; None: as given."""
        self._writer = SnapshotWriter()

    def recover(self) -> Recovered:
        """Everything that was committed. Raises ConfigError if it cannot be read."""
        recovered, after = self.start()
        reader = LineReader()
        for number, fields in self._journal.events(after):
            try:
                self.replay(recovered, reader, fields)
            except UNREADABLE as error:  # noqa: PERF203 - the message names the event
                raise ConfigError(
                    f"{self._journal.path}: event {number} cannot be read ({type(error).__name__}: {error}); it was "
                    "written by another version of Rota, or the file is damaged: see `rota journal check`"
                ) from error
        return recovered

    def start(self) -> tuple[Recovered, int]:
        """The newest snapshot that can be read, else nothing, and the number of the last event in it."""
        problems = []
        for stored in self._journal.snapshots():
            try:
                return self.from_snapshot(stored.body), stored.number
            except (*UNREADABLE, zlib.error) as error:  # noqa: PERF203 - each by itself
                problems.append(f"snapshot after event {stored.number}: {type(error).__name__}: {error}")
                log.warning("%s", problems[-1])
        if self._journal.begins_after:
            raise ConfigError(
                f"{self._journal.path}: events up to {self._journal.begins_after} were removed, and no snapshot after "
                f"them can be read ({'; '.join(problems) or 'there is none'}); a newer version of Rota may read them, "
                "else see `rota journal check` and `rota journal repair`"
            )
        return Recovered(), 0

    def from_snapshot(self, body: bytes) -> Recovered:
        """The state of a snapshot. Raises one of UNREADABLE, or zlib.error."""
        document = unpacked(body)
        self._follow(Recovered(), settings_in(document), forget_answer=False)
        saved = read(document, self._make_state, self._rules)
        return Recovered(registry=saved.registry, state=saved.state, trigger=saved.trigger, last_at=saved.at)

    def save(self, recovered: Recovered, at: float) -> None:
        """Write a snapshot. Raises OutputError."""
        began = time.perf_counter()
        saved = Saved(registry=recovered.registry, state=recovered.state, trigger=recovered.trigger, at=at)
        self._journal.save_snapshot(FORMAT, self._writer.write(saved))
        log.debug("snapshot in %.3f s", time.perf_counter() - began)

    def prepare(self, registry: Registry, most: int) -> None:
        """Do a part of the work for the next snapshot."""
        self._writer.prepare(registry, most)

    def replay(self, recovered: Recovered, reader: LineReader, fields: dict[str, Any]) -> IllegalTransition | None:
        """Take over one event; what the phase of a job did not allow of it. Raises one of UNREADABLE."""
        recovered.last_at = max(recovered.last_at, float(fields["at"]))
        event = _deploy_event(fields) if fields["event"] in KINDS else self._engine_event(recovered, reader, fields)
        try:
            recovered.registry.apply(event)
        except IllegalTransition as error:  # it was the same then, and the job was given up in the next event
            log.warning("%s was left out: %s", type(event).__name__, error)
            return error
        if isinstance(event, ServiceStarted | SettingsChanged):
            self._follow(recovered, event.config, forget_answer=isinstance(event, SettingsChanged))
        return None

    def follow(self, recovered: Recovered, config: Mapping[str, Any]) -> None:
        """The start of a scheduler with these settings, as they will be read in its `ServiceStarted`."""
        self._follow(recovered, config, forget_answer=False)

    def _follow(self, recovered: Recovered, config: Mapping[str, Any], *, forget_answer: bool) -> None:
        ways = self._known_ways(config)
        if ways is None:
            return
        if ways != self._ways or forget_answer:
            try:
                recovered.switch(ways, forget_answer=forget_answer)
            except UNREADABLE as error:
                if forget_answer:
                    raise
                # A start under other settings, of which earlier versions wrote nothing down: read on as before.
                log.warning("%s: events are read by the settings before: %s", self._journal.path, error)
                return
        self._ways = ways
        self._rules = ways.rules
        self._make_state = ways.make_state

    def _known_ways(self, config: Mapping[str, Any]) -> Ways | None:
        """None if nobody knows any more, such as for a mechanism in a file that is gone: then as before."""
        if self._ways_of is None:
            return None
        try:
            return self._ways_of(config)
        except UNREADABLE as error:
            log.warning("%s: settings of earlier events cannot be used: %s", self._journal.path, error)
            return None

    def _engine_event(self, recovered: Recovered, reader: LineReader, fields: dict[str, Any]) -> Any:
        event = reader.read(fields)
        if isinstance(event, RunStarted):
            recovered.begin(cluster_from(event.config["cluster"]), self._make_state, self._rules)
        if recovered.state is not None and recovered.trigger is not None:
            recovered.state.apply(event)
            recovered.trigger.observe(event)
        return event


def _deploy_event(fields: Mapping[str, Any]) -> DeployEvent:
    known = translated(fields)
    try:
        return from_fields(known)
    except ConfigError:  # a job that this version would refuse
        spec = lenient_spec(known["spec"])
        accepted = from_fields({**known, "spec": spec_values(_ANY_SPEC)})
        assert isinstance(accepted, JobAccepted)  # nothing else has a specification
        return replace(accepted, spec=spec)
