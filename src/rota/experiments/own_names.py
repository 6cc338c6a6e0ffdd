"""Policies and mechanisms of users in a sweep: one spelling for each, so that runs are told apart by it.

A class becomes `file.py:Class`. A path is seen from the working directory, or else from the folder of the sweep's file,
and is written as from the working directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.core import own_code

_KEYS = frozenset({"policy", "policies", "mechanism", "mechanisms"})


def spelled(document: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """The same settings with every name of a policy or mechanism in its one spelling, at any depth."""
    return {key: _value(value, folder, named=key in _KEYS) for key, value in document.items()}


def _value(value: Any, folder: Path | None, *, named: bool) -> Any:
    if isinstance(value, Mapping):
        return spelled(value, folder)
    if isinstance(value, list | tuple):
        return type(value)(_value(v, folder, named=named) for v in value)
    return _name(value, folder) if named else value


def _name(value: Any, folder: Path | None) -> Any:
    if isinstance(value, type):
        return str(own_code.reference_to(value))
    own = own_code.reference(str(value)) if isinstance(value, str | Path) else None
    if own is None:
        return value
    beside = None if folder is None else own_code.Reference(folder / own.path, own.name)
    if beside is not None and not own.file.is_file() and beside.file.is_file():
        own = beside
    return str(own.short())
