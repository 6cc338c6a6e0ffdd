"""Records as plain values, ready for JSON, and back: by the types of their fields, so that a new field needs nothing.

Used for snapshots. A field that is missing has its default, one that is not known is refused: a newer version wrote it.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias

from rota.core.job_spec import FIELDS, JobSpec, default_of

Conversion: TypeAlias = Callable[[Any], Any]


def to_plain(kind: Any, value: Any) -> Any:
    """A value of a type out of JSON's own types. A set is a sorted list; a table is a list of pairs."""
    convert = writer(kind)
    return value if convert is None else convert(value)


def from_plain(kind: Any, value: Any) -> Any:
    """The value of a type. Raises KeyError, TypeError or ValueError if it is none."""
    convert = reader(kind)
    return value if convert is None else convert(value)


# By type; None: the value is plain as it is


@functools.cache
def writer(kind: Any) -> Conversion | None:
    """What makes plain values out of those of a type, written as in an annotation."""
    if _is_record(kind):
        return _write_record(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value: value.value
    return _of_parts(kind, writer, _write_table, sets=sorted)


@functools.cache
def reader(kind: Any) -> Conversion | None:
    """The way back."""
    if _is_record(kind):
        return _read_record(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return _of_parts(kind, reader, _read_table, sets=set)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def _of_parts(
    kind: Any, part: Callable[[Any], Conversion | None], table: Callable[..., Conversion], sets: Conversion
) -> Conversion | None:
    """The conversion of what has parts: an optional value, a list, a set, a table."""
    origin = typing.get_origin(kind)
    parts = [part(inner) or _as_it_is for inner in typing.get_args(kind) if inner not in (Ellipsis, type(None))]
    if origin is None:
        return None
    if origin in (typing.Union, types.UnionType):
        (convert,) = parts
        return lambda value: None if value is None else convert(value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return table(*parts)
    if origin in (set, frozenset):
        return lambda values: sets([parts[0](value) for value in values])
    if origin is tuple and Ellipsis not in typing.get_args(kind):
        return lambda values: tuple(convert(value) for convert, value in zip(parts, values, strict=True))
    if origin in (tuple, list):
        return lambda values: origin(parts[0](value) for value in values)
    raise TypeError(f"{kind} cannot be part of a snapshot")


def _as_it_is(value: Any) -> Any:
    return value


def _write_table(key: Conversion, value: Conversion) -> Conversion:
    return lambda table: [[key(name), value(item)] for name, item in table.items()]


def _read_table(key: Conversion, value: Conversion) -> Conversion:
    return lambda pairs: {key(name): value(item) for name, item in pairs}


# Records


def _conversions(kind: type, of: Callable[[Any], Conversion | None]) -> dict[str, Conversion | None]:
    hints = typing.get_type_hints(kind)
    return {known.name: of(hints[known.name]) for known in dataclasses.fields(kind)}


def _write_record(kind: type) -> Conversion:
    fields = _conversions(kind, writer)
    converted = [(name, convert) for name, convert in fields.items() if convert is not None]

    def write(record: Any) -> dict[str, Any]:
        values = {name: getattr(record, name) for name in fields}
        for name, convert in converted:
            values[name] = convert(values[name])
        return values

    return write


def _read_record(kind: type) -> Conversion:
    fields = _conversions(kind, reader)
    converted = [(name, convert) for name, convert in fields.items() if convert is not None]
    make: Callable[..., Any] = _accepted_spec if kind is JobSpec else kind

    def read(plain: Mapping[str, Any]) -> Any:
        values = dict(plain)
        unknown = values.keys() - fields.keys()
        if unknown:
            raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
        for name, convert in converted:
            if name in values:
                values[name] = convert(values[name])
        return make(**values)

    return read


def _accepted_spec(**values: Any) -> JobSpec:
    """A job that was accepted, and is not checked again: this version may have other rules."""
    spec = object.__new__(JobSpec)
    for name in FIELDS:
        object.__setattr__(spec, name, values[name] if name in values else default_of(name))
    return spec
