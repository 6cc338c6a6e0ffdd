"""A scheduler reads itself back: the last snapshot, then the events after it."""

from __future__ import annotations

import io
import logging
import pickle
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rota._version import __version__
from rota.core.cluster import Cluster, cluster_from
from rota.core.errors import ConfigError, IllegalTransition
from rota.core.events import RunStarted
from rota.core.ports import Throughputs
from rota.core.rules import Rules
from rota.deploy.events import KINDS, DeployEvent, from_fields
from rota.deploy.scheduler.old_journals import translated
from rota.deploy.scheduler.registry import Registry
from rota.engine.checkpoint import SafeReader
from rota.engine.live_state import LiveState
from rota.engine.log import LineReader
from rota.engine.trigger import Trigger

log = logging.getLogger(__name__)

_SNAPSHOT = f"{__version__}/2"
"""Snapshots of another version of Rota, or with other contents, are not used: the journal is read instead."""


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


class Events(Protocol):
    """Where events and snapshots are read: the journal."""

    @property
    def path(self) -> Path:
        """For messages."""

    def events(self, after: int = 0) -> Iterable[tuple[int, dict[str, Any]]]:
        """(number, fields) of the events behind `after`."""

    def snapshot(self, version: str) -> tuple[int, bytes] | None:
        """The newest snapshot of a version: number of its last event, contents."""

    def save_snapshot(self, version: str, body: bytes) -> None:
        """Keep the state as it is after the last event."""


class Recovery:
    """Reads and writes what a scheduler needs to go on."""

    def __init__(
        self, journal: Events, catalogue: Throughputs, rules: Rules, make_state: Callable[[Cluster], LiveState]
    ) -> None:
        self._journal = journal
        self._catalogue = catalogue
        self._rules = rules
        self._make_state = make_state

    def recover(self) -> Recovered:
        """Everything that was committed. Raises ConfigError if it cannot be read."""
        snapshot = self._journal.snapshot(_SNAPSHOT)
        recovered, after = (Recovered(), 0) if snapshot is None else self._from_snapshot(*snapshot)
        reader = LineReader()
        number = after
        try:
            for number, fields in self._journal.events(after):  # noqa: B007 - for the message
                self._replay(recovered, reader, fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"{self._journal.path}: event {number} cannot be read ({type(error).__name__}: {error}); "
                "it was written by another version of Rota, or the file is damaged"
            ) from error
        return recovered

    def save(self, recovered: Recovered, at: float) -> None:
        """Write a snapshot."""
        began = time.perf_counter()
        parts = {
            "registry": recovered.registry,
            "state": recovered.state,
            "trigger": recovered.trigger,
            "at": at,
        }
        self._journal.save_snapshot(_SNAPSHOT, pickle.dumps(parts, protocol=5))
        log.debug("snapshot in %.3f s", time.perf_counter() - began)

    def _from_snapshot(self, number: int, body: bytes) -> tuple[Recovered, int]:
        try:
            parts = SafeReader(io.BytesIO(body)).load()
            recovered = Recovered(
                registry=parts["registry"], state=parts["state"], trigger=parts["trigger"], last_at=parts["at"]
            )
        except Exception as error:  # noqa: BLE001 - a snapshot only saves time
            log.warning("the snapshot cannot be used (%s); reading the whole journal", error)
            return Recovered(), 0
        if recovered.state is not None:
            recovered.state.attach(self._catalogue)
        return recovered, number

    def _replay(self, recovered: Recovered, reader: LineReader, fields: dict[str, Any]) -> None:
        recovered.last_at = max(recovered.last_at, float(fields["at"]))
        event = _deploy_event(fields) if fields["event"] in KINDS else self._engine_event(recovered, reader, fields)
        try:
            recovered.registry.apply(event)
        except IllegalTransition as error:  # it was the same then, and the job was given up in the next event
            log.warning("%s was left out: %s", type(event).__name__, error)

    def _engine_event(self, recovered: Recovered, reader: LineReader, fields: dict[str, Any]) -> Any:
        event = reader.read(fields)
        if isinstance(event, RunStarted):
            recovered.begin(cluster_from(event.config["cluster"]), self._make_state, self._rules)
        if recovered.state is not None and recovered.trigger is not None:
            recovered.state.apply(event)
            recovered.trigger.observe(event)
        return event


def _deploy_event(fields: Mapping[str, Any]) -> DeployEvent:
    try:
        return from_fields(translated(fields))
    except ConfigError as error:  # a job that cannot be: the caller says which event it is
        raise ValueError(str(error)) from error
