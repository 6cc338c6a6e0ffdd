"""Names that jobs and servers agree on: labels like `zone=a`, and types of GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rota.core.errors import ConfigError

MOST_LABELS = 64
"""Of a job or a server, and the most types that a job names."""
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}=[A-Za-z0-9._-]{1,63}")
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,63}")


def checked_labels(labels: Iterable[str], whose: str) -> tuple[str, ...]:
    """Labels in the order of their names, each once. Raises ConfigError for one that cannot be."""
    known = tuple(sorted(set(labels)))
    _check_count(known, "labels", whose)
    for label in known:
        if not _LABEL.fullmatch(label):
            raise ConfigError(
                f"{whose}: label {label[:80]!r} is not NAME=VALUE; give letters, digits, '.', '_' and '-', e.g. zone=a"
            )
    return known


def checked_types(types: Iterable[str], field: str, whose: str) -> tuple[str, ...]:
    """Types of GPU in the order of their names, each once. Raises ConfigError for one that cannot be."""
    known = tuple(sorted(set(types)))
    _check_count(known, field, whose)
    for name in known:
        if not _TYPE.fullmatch(name):
            raise ConfigError(f"{whose}: {field} has {name[:80]!r}, which is no type of GPU; give e.g. v100")
    return known


def _check_count(known: tuple[str, ...], field: str, whose: str) -> None:
    if len(known) > MOST_LABELS:
        raise ConfigError(f"{whose}: {field} has {len(known)} entries; give at most {MOST_LABELS}")
