"""Events as older versions of Rota wrote them, brought into the words of this one. Nobody else knows the old words.

Layout 1 (Rota 0.1.0): the specification of a job was a table with `counted`, the reason to stop was a sentence that was
parsed ("a rank ended: killed", "hung: no step for 60 s"), and an agent's identity was called its memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from rota.core.errors import ConfigError
from rota.core.job_spec import FIELDS, JobSpec, default_of, job_label, spec_from, spec_values
from rota.core.lifecycle import AttemptOutcome, StopReason, outcome_named

log = logging.getLogger(__name__)

_RANK_ENDED = "a rank ended: "
_HUNG = "hung: "
_PHASES_AS_REASONS = {"failed": StopReason.GIVEN_UP}
_MAY_GO = frozenset(
    {"weight", "deadline_s", "checkpoint_every_s", "hung_after_s", "cpus", "memory_gb", "max_restarts", "ranks"}
)
"""Fields whose default does no harm."""
_STOP_REASONS = frozenset(reason.value for reason in StopReason)


def translated(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an event as this version writes them; those of this version are given back as they are."""
    translate = _TRANSLATIONS.get(fields["event"])
    return fields if translate is None else translate(fields)


def _accepted(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = fields["spec"]
    if "counted" not in spec:
        return fields
    return {**fields, "spec": _spec(spec)}


def _spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in spec.items() if name in FIELDS and value not in (None, "", [], {})}
    if not spec["counted"]:
        values.pop("steps", None)
    try:
        return spec_values(spec_from(values))
    except ConfigError as error:
        log.warning("%s was accepted by an older version: %s", job_label(spec.get("name")), error)
        return _usable(values)


def lenient_spec(values: Mapping[str, Any]) -> JobSpec:
    """The job of plain values, also one that this version would not accept: what was accepted is not forgotten."""
    try:
        return spec_from(values)
    except ConfigError as error:
        log.warning("%s was accepted by another version: %s", job_label(values.get("name")), error)
    try:
        return spec_from(_usable(values))
    except ConfigError:
        return _unchecked(values)


def _unchecked(values: Mapping[str, Any]) -> JobSpec:
    """The job as it is written, without the checks of its fields."""
    spec = object.__new__(JobSpec)
    for name in FIELDS:
        object.__setattr__(spec, name, _as_written(name, values.get(name, default_of(name))))
    return spec


def _as_written(name: str, value: Any) -> Any:
    """One value in the type of its field; the default where it has another."""
    try:
        return getattr(spec_from({"emulated": True, "steps": 1, name: value}), name)
    except ConfigError:
        default = default_of(name)
        return value if type(value) is type(default) else default


def _usable(values: Mapping[str, Any]) -> dict[str, Any]:
    """The job without what no job may have any more: one that was accepted is not forgotten."""
    usable = {name: value for name, value in values.items() if name not in _MAY_GO or _stands_alone(name, value)}
    return spec_values(spec_from(usable))


def _stands_alone(name: str, value: Any) -> bool:
    try:
        spec_from({"emulated": True, "steps": 1, name: value})
    except ConfigError:
        return False
    return True


def _joined(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    if "memory" not in fields:
        return fields
    rest = {name: value for name, value in fields.items() if name != "memory"}
    return {**rest, "identity": fields["memory"]}


def _stopping(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    sentence = str(fields["reason"])
    if sentence in _STOP_REASONS:
        return fields
    reason, detail = _stop_reason(sentence)
    return {**fields, "reason": reason.value, "detail": detail}


def _stop_reason(sentence: str) -> tuple[StopReason, str]:
    if sentence.startswith(_HUNG):
        return StopReason.HUNG, sentence.removeprefix(_HUNG)
    if sentence.startswith(_RANK_ENDED):
        stopped = sentence.removeprefix(_RANK_ENDED) == AttemptOutcome.STOPPED.value
        return StopReason.RANK_STOPPED if stopped else StopReason.RANK_FAILED, sentence
    return _PHASES_AS_REASONS.get(sentence, StopReason.PREEMPTED), sentence


def _ended(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Outcomes were any word that an agent said."""
    outcome, detail = outcome_named(str(fields["outcome"]), str(fields.get("detail", "")))
    return {**fields, "outcome": outcome.value, "detail": detail}


_TRANSLATIONS: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "JobAccepted": _accepted,
    "NodeJoined": _joined,
    "AttemptStopping": _stopping,
    "AttemptEnded": _ended,
}
