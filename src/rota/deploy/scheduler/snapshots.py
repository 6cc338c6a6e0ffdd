"""The state after an event as a document that any later version of Rota can read: JSON, with a number for its format.

Together with the events after it, a snapshot is all that a restart needs, so events before it may be removed. It holds
values by name only: no classes of Python, no positions in tables that are elsewhere (docs/decisions/0010).
"""

from __future__ import annotations

import dataclasses
import json
import typing
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from rota.core.cluster import Cluster, cluster_from
from rota.core.rules import Rules
from rota.deploy.scheduler.plain_values import from_plain, to_plain
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.engine.live_state import LiveState
from rota.engine.trigger import Trigger

FORMAT = 1
"""Of the document. A change that an older version would misread is a new number; `read` then knows both."""

_SELECTIONS = ("live", "running", "ended")
"""Fields of the registry that hold some of its jobs: saved as their numbers, in order."""
_APART = frozenset({"jobs", "config", *_SELECTIONS})

MakeState = Callable[[Cluster], LiveState]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a snapshot holds."""

    registry: Registry
    state: LiveState | None
    trigger: Trigger | None
    at: float
    """Engine second of its last event."""


class SnapshotWriter:
    """Makes documents. Jobs that are over do not change any more, so their text is made once."""

    def __init__(self) -> None:
        self._over: dict[int, str] = {}

    def write(self, saved: Saved) -> bytes:
        """The document, compressed."""
        registry = saved.registry
        self._over = {number: text for number, text in self._over.items() if number in registry.ended}
        rest = {
            "at": saved.at,
            "registry": _registry_values(registry),
            "engine": None if saved.state is None else saved.state.saved(),
            "trigger": None if saved.trigger is None else saved.trigger.saved(),
        }
        jobs = ",".join(self._text(job) for job in registry.jobs.values())
        text = f'{{"format":{FORMAT},"jobs":[{jobs}],"rest":{_text(rest)}}}'
        return zlib.compress(text.encode(), level=1)

    def prepare(self, registry: Registry, most: int) -> None:
        """Make the text of some jobs that are over, so that there is less to do at once."""
        for number, job in registry.ended.items():
            if most <= 0 or len(self._over) >= len(registry.ended):
                return
            if number not in self._over:
                self._text(job)
                most -= 1

    def _text(self, job: Job) -> str:
        known = self._over.get(job.id)
        if known is not None:
            return known
        text = _text(to_plain(Job, job))
        if job.over and job.attempt is None and job.id not in self._over:
            self._over[job.id] = text
        return text


def unpacked(body: bytes) -> dict[str, Any]:
    """The document as plain values. Raises KeyError, TypeError, ValueError or zlib.error if it is none."""
    document: dict[str, Any] = json.loads(zlib.decompress(body))
    if document["format"] != FORMAT:
        raise ValueError(f"it has format {document['format']}; this version reads format {FORMAT}")
    return document


def settings_in(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of the scheduler that wrote a document."""
    config: Mapping[str, Any] = document["rest"]["registry"]["config"]
    return config


def read(document: Mapping[str, Any], make_state: MakeState, rules: Rules) -> Saved:
    """The state of a document. Raises KeyError, TypeError or ValueError if it is none."""
    rest = document["rest"]
    state = None
    trigger = None
    if rest["engine"] is not None:
        state = make_state(cluster_from(rest["engine"]["cluster"]))
        state.restore(rest["engine"])
        trigger = Trigger(rules)
        trigger.restore(rest["trigger"])
    registry = _registry(rest["registry"], document["jobs"])
    return Saved(registry=registry, state=state, trigger=trigger, at=float(rest["at"]))


def config_of(body: bytes) -> Mapping[str, Any]:
    """The settings of the scheduler that wrote a packed document. Raises as `unpacked` does."""
    return settings_in(unpacked(body))


def _text(values: Any) -> str:
    return json.dumps(values, separators=(",", ":"))


def _registry_values(registry: Registry) -> dict[str, Any]:
    hints = typing.get_type_hints(Registry)
    others = (known.name for known in dataclasses.fields(registry) if known.name not in _APART)
    values: dict[str, Any] = {name: to_plain(hints[name], getattr(registry, name)) for name in others}
    values["config"] = dict(registry.config)
    for name in _SELECTIONS:
        values[name] = list(getattr(registry, name))
    return values


def _registry(values: Mapping[str, Any], jobs: list[Mapping[str, Any]]) -> Registry:
    hints = typing.get_type_hints(Registry)
    others: dict[str, Any] = {
        name: from_plain(hints[name], value) for name, value in values.items() if name not in _APART
    }
    known = {job.id: job for job in (from_plain(Job, job) for job in jobs)}
    chosen: dict[str, Any] = {name: {number: known[number] for number in values[name]} for name in _SELECTIONS}
    return Registry(jobs=known, config=values["config"], **chosen, **others)
