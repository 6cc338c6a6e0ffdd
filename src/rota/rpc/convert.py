"""Between messages and values: the only place that knows both."""

from __future__ import annotations

from enum import Enum
from typing import Any

from rota.core.job_spec import FIELDS, JobSpec, default_of
from rota.rpc import rota_pb2 as pb

_MESSAGE_FIELDS = pb.JobSpec.DESCRIPTOR.fields_by_name
_LISTS = frozenset(name for name in FIELDS if isinstance(default_of(name), tuple))
_MAPS = frozenset(name for name in FIELDS if isinstance(default_of(name), dict))
_ALWAYS_SAID = frozenset(name for name in FIELDS if _MESSAGE_FIELDS[name].has_presence)
"""Fields of the message that can be 0 by intention and not only for want of a value."""
_NEVER_LEFT_OUT = frozenset(name for name in FIELDS if default_of(name))
"""Fields whose value is written even if it is empty or 0, as that is not their default."""


def spec_message(spec: JobSpec) -> pb.JobSpec:
    """A job as a message."""
    message = pb.JobSpec()
    for name in FIELDS:
        value = getattr(spec, name)
        if name in _LISTS:
            getattr(message, name).extend(value)
        elif name in _MAPS:
            getattr(message, name).update(value)
        else:
            setattr(message, name, value.value if isinstance(value, Enum) else value)
    return message


def spec_fields(message: pb.JobSpec) -> dict[str, Any]:
    """The job of a message as plain values, unchecked, as `core.job_spec.spec_values` writes them."""
    values: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(message, name)
        if name in _LISTS:
            value = list(value)
        elif name in _MAPS:
            value = dict(value)
        if value or name in _NEVER_LEFT_OUT:
            values[name] = value
    return values


def spec_of(message: pb.JobSpec) -> JobSpec:
    """The job of a message; what was not said has its default. Raises ConfigError for a job that cannot be."""
    values: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(message, name)
        said = message.HasField(name) if name in _ALWAYS_SAID else bool(value)
        if said:
            values[name] = tuple(value) if name in _LISTS else dict(value) if name in _MAPS else value
    return JobSpec(**values)
