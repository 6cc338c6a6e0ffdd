"""Bounds on everything that comes in: how long texts are, how many there are, and that numbers are numbers.

Checked once for every request, before any handler sees it, by walking over what the message has set: the work is linear
in its size, and a field that is added later has bounds without anybody thinking of it. What a value means (a weight
above 0, a job that exists) is checked where it is used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from rota.core.errors import ConfigError

_KB = 1024


class Bound(NamedTuple):
    """What one field may hold."""

    bytes: int = 4 * _KB
    """Of a text, or of a message with everything in it."""
    entries: int = 10_000
    """Of a list or a map."""
    plain: bool = False
    """Whether it is a name that people are shown: without control characters."""


_ANYTHING = Bound()
_NAME = Bound(bytes=256, plain=True)
_WORD = Bound(bytes=128 * _KB - 1)
"""Linux gives a program no longer argument or variable."""

_BOUNDS: Mapping[str, Bound] = {
    "SubmitRequest.jobs": Bound(bytes=512 * _KB, entries=10_000),
    "SubmitRequest.request": _NAME,
    "JobSpec.name": _NAME,
    "JobSpec.tenant": _NAME,
    "JobSpec.profile": _NAME,
    "JobSpec.model": _NAME,
    "JobSpec.ranks": _NAME,
    "JobSpec.preemptible": _NAME,
    "JobSpec.array": _NAME,
    "JobSpec.after": Bound(entries=1_000),
    "JobSpec.after_any": Bound(entries=1_000),
    "JobSpec.types": Bound(bytes=64, entries=64, plain=True),
    "JobSpec.exclude_types": Bound(bytes=64, entries=64, plain=True),
    "JobSpec.labels": Bound(bytes=128, entries=64, plain=True),
    "JobSpec.image": Bound(plain=True),
    "JobSpec.cwd": Bound(plain=True),
    "JobSpec.argv": Bound(bytes=128 * _KB - 1, entries=4_096),
    "JobSpec.env": Bound(entries=1_024, bytes=128 * _KB + 512),
    "EnvEntry.key": Bound(bytes=256, plain=True),
    "EnvEntry.value": _WORD,
    "ListJobsRequest.phases": Bound(bytes=64, entries=16),
    "ListJobsRequest.tenant": _NAME,
    "CancelRequest.arrays": Bound(entries=100),
    "HoldRequest.arrays": Bound(entries=100),
    "LearnedSpeedsRequest.tenant": _NAME,
    "DrainRequest.node": _NAME,
    "RemoveNodeRequest.node": _NAME,
    "RegisterRequest.node": _NAME,
    "JoinRequest.node": _NAME,
    "VoteRequest.node": _NAME,
    "ReplicaRequest.address": _NAME,
    "ReplicaBaseRequest.address": _NAME,
    "ReplicaRequest.journal": _NAME,
    "RegisterRequest.type": _NAME,
    "RegisterRequest.labels": Bound(bytes=128, entries=64, plain=True),
    "RegisterRequest.devices": Bound(entries=1_024),
    "RegisterRequest.replaces": Bound(bytes=256, entries=1_000),
    "Device.id": _NAME,
    "Observed.tasks": Bound(bytes=1_024 * _KB),
    "TaskState.detail": Bound(bytes=32 * _KB),
    "TaskState.saved_path": Bound(bytes=32 * _KB),
    "TaskState.answers": Bound(bytes=65 * _KB, entries=1_024),
    "GangMessage.json": Bound(bytes=64 * _KB),
    "LogUpload.pieces": Bound(bytes=2_048 * _KB, entries=1_000),
    "LogPiece.data": Bound(bytes=1_024 * _KB),
    "LogsRequest.after": Bound(entries=100_000),
    "EtaRequest.jobs": Bound(entries=500),
    "WhatIfRequest.add_servers": Bound(entries=64),
    "WhatIfRequest.drain": _NAME,
    "WhatIfRequest.undrain": _NAME,
    "WhatIfRequest.policy": _NAME,
    "WhatIfRequest.mechanism": _NAME,
    "WhatIfRequest.submit": Bound(bytes=64 * _KB, entries=100),
    "WhatIfRequest.cancel": Bound(entries=100),
    "WhatIfRequest.release": Bound(entries=100),
    "WhatIfRequest.tenant_settings": Bound(entries=64),
    "TenantSetting.tenant": _NAME,
    "TenantSetting.name": _NAME,
    "AddedServer.type": _NAME,
    "SettingsRequest.policy": _NAME,
    "SettingsRequest.mechanism": _NAME,
    "SettingsRequest.rules": _NAME,
    "SettingsRequest.fair_by": _NAME,
    "SettingsRequest.tenants": Bound(bytes=512 * _KB),
    "SettingsRequest.policy_settings": Bound(entries=64),
    "SettingsRequest.mechanism_settings": Bound(entries=64),
    "SettingsRequest.rule_settings": Bound(entries=64),
    "PolicySettingsEntry.key": _NAME,
    "PolicySettingsEntry.value": _NAME,
    "MechanismSettingsEntry.key": _NAME,
    "MechanismSettingsEntry.value": _NAME,
    "RuleSettingsEntry.key": _NAME,
    "RuleSettingsEntry.value": _NAME,
}
"""By message and field; all others may hold `Bound()`."""

_SHOWN = 40
"""Characters of a value in a message."""
_NUMBERS = frozenset({FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT})
_OTHERS_REPEATED = 3
"""What `label` of a repeated field is in versions of protobuf without `is_repeated`."""


class _Kind(Enum):
    TEXT = "text"
    NUMBER = "number"
    MESSAGE = "message"
    MAP = "map"
    HARMLESS = "whole numbers and truth values, which are what they say"


class _Rule(NamedTuple):
    """What has to be looked at in a field."""

    kind: _Kind
    bound: Bound
    repeated: bool


@functools.cache
def _rule(field: FieldDescriptor) -> _Rule:
    bound = _BOUNDS.get(f"{field.containing_type.name}.{field.name}", _ANYTHING)
    repeated = field.is_repeated if hasattr(FieldDescriptor, "is_repeated") else field.label == _OTHERS_REPEATED
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _Rule(_Kind.TEXT, bound, repeated)
    if field.cpp_type in _NUMBERS:
        return _Rule(_Kind.NUMBER, bound, repeated)
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return _Rule(_Kind.HARMLESS, bound, repeated)
    is_map = field.message_type.GetOptions().map_entry
    return _Rule(_Kind.MAP if is_map else _Kind.MESSAGE, bound, repeated)


def check(message: Any) -> None:
    """ConfigError with the field, its size and its bound if a message holds more than it may."""
    if isinstance(message, Message):
        _check(message, "")


def _check(message: Message, where: str) -> None:
    for field, value in message.ListFields():
        rule = _rule(field)
        if rule.kind is _Kind.HARMLESS and not rule.repeated:
            continue
        name = where + field.name
        if not rule.repeated:
            _check_value(rule, value, name)
            continue
        if len(value) > rule.bound.entries:
            raise ConfigError(f"{name} has {len(value):,} entries; at most {rule.bound.entries:,} are taken at once")
        if rule.kind is _Kind.MAP:
            _check_map(field, value, name)
        elif rule.kind is not _Kind.HARMLESS:
            for number, entry in enumerate(value):
                _check_value(rule, entry, f"{name}[{number}]")


def _check_map(field: FieldDescriptor, entries: Any, name: str) -> None:
    key, value = (_rule(part) for part in field.message_type.fields)
    for entry in entries:
        _check_value(key, entry, name)
        _check_value(value, entries[entry], f"{name} of {entry}")


def _check_value(rule: _Rule, value: Any, name: str) -> None:
    if rule.kind is _Kind.TEXT:
        _check_text(value, rule.bound, name)
    elif rule.kind is _Kind.NUMBER and not math.isfinite(value):
        raise ConfigError(f"{name} is {value}; give a finite number")
    elif rule.kind is _Kind.MESSAGE:
        _check(value, f"{name}.")
        size = value.ByteSize()
        if size > rule.bound.bytes:
            raise ConfigError(f"{name} has {size:,} bytes in all; at most {rule.bound.bytes:,} are taken")


def _check_text(value: str | bytes, bound: Bound, name: str) -> None:
    most = len(value) if isinstance(value, bytes) else 4 * len(value)
    if most > bound.bytes and (isinstance(value, bytes) or len(value.encode()) > bound.bytes):
        raise ConfigError(f"{name} is longer than {bound.bytes:,} bytes; give a shorter one")
    if bound.plain and isinstance(value, str) and not value.isprintable():
        raise ConfigError(f"{name} is {value[:_SHOWN]!r}; it may not have control characters in it")
