"""The TOML schema of a cluster.

name = "lab"                 # optional
[[server]]                   # one table per kind of server
type = "v100"                # accelerator type, free text
count = 9                    # servers of this kind (default 1)
gpus = 4                     # per server
cpus = 32                    # the rest per server, optional, default 0 = unknown
memory_gb = 256
storage_mbps = 500
network_gbps = 25
rack = "rack0"
labels = ["zone=a"]          # jobs may ask for servers that have them
[[accelerator]]              # optional; data/accelerators.toml has what is known of common types
name = "v100"
memory_gb = 16               # left out: unknown
hourly_price = 0.74          # of one GPU; left out: unknown
source = "..."               # of the price, for people, with its date
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from rota.core.cluster import MOST_SERVERS, AcceleratorType, Resources, Server, too_many_servers
from rota.core.errors import ConfigError, UnknownName
from rota.core.labels import checked_labels
from rota.core.parsing import parse_toml

Document: TypeAlias = Mapping[str, Any]

DATA = Path(__file__).parent / "data"
TOP_KEYS = ("name", "server", "accelerator")
SERVER_KEYS = ("type", "count", "gpus", "cpus", "memory_gb", "storage_mbps", "network_gbps", "rack", "labels")
ACCELERATOR_KEYS = ("name", "memory_gb", "hourly_price", "source")
MOST = 10**7
"""Of GPUs in a server: more is a slip of the keyboard."""
LARGEST = sys.float_info.max
"""A whole number in TOML may be larger."""


def read_toml(path: Path) -> Document:
    """A TOML document with only the keys of a cluster at its top."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        fix = "check the path"
        raise ConfigError(f"cannot read cluster file {str(path)!r}: {problem}; {fix}") from None
    try:
        document: Document = parse_toml(text)
    except ValueError as problem:
        raise ConfigError(f"{path} is not valid TOML: {problem}") from None
    _check_keys(document, TOP_KEYS, str(path))
    return document


def servers_in(document: Document, path: str) -> tuple[Server, ...]:
    """The servers, numbered by type in the order of the file."""
    numbers: Counter[str] = Counter()
    servers: list[Server] = []
    for place, entry in _entries(document, "server", SERVER_KEYS, path):
        gpu_type = _text(entry, "type", place)
        capacity = Resources(
            _whole(entry, "gpus", place),
            *(_amount(entry, key, place) for key in ("cpus", "memory_gb", "storage_mbps", "network_gbps")),
        )
        rack = _text(entry, "rack", place) if "rack" in entry else "rack0"
        labels = checked_labels(_texts(entry, "labels", place), place)
        count = _whole(entry, "count", place) if "count" in entry else 1
        if len(servers) + count > MOST_SERVERS:
            raise ConfigError(f"{place}: count = {count} makes {too_many_servers()}")
        for _ in range(count):
            servers.append(
                Server(
                    id=f"{gpu_type}-{numbers[gpu_type]}",
                    type=gpu_type,
                    capacity=capacity,
                    rack=rack,
                    labels=labels,
                )
            )
            numbers[gpu_type] += 1
    if not servers:
        raise ConfigError(f"{path} has no [[server]]; give at least one with type and gpus")
    return tuple(servers)


def accelerators_in(document: Document, path: str) -> tuple[AcceleratorType, ...]:
    """The accelerator types that the document describes."""
    return tuple(
        AcceleratorType(
            name=_text(entry, "name", place),
            memory_gb=_amount(entry, "memory_gb", place),
            hourly_price=_amount(entry, "hourly_price", place) if "hourly_price" in entry else None,
        )
        for place, entry in _entries(document, "accelerator", ACCELERATOR_KEYS, path)
    )


def _entries(
    document: Document,
    key: str,
    allowed: Iterable[str],
    path: str,
) -> list[tuple[str, Document]]:
    entries = document.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise ConfigError(f"{path}: {key!r} must be tables written as [[{key}]], not {entries!r}")
    places = [f"{path}, [[{key}]] number {n}" for n in range(1, len(entries) + 1)]
    for place, entry in zip(places, entries, strict=True):
        _check_keys(entry, allowed, place)
    return list(zip(places, entries, strict=True))


def _check_keys(given: Iterable[str], allowed: Iterable[str], place: str) -> None:
    for key in given:
        if key not in tuple(allowed):
            raise UnknownName(f"key in {place}:", key, allowed)


def _text(entry: Document, key: str, place: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        shown = "is missing" if key not in entry else f"= {value!r} is not a text"
        raise ConfigError(f'{place}: {key} {shown}; give e.g. {key} = "v100"')
    return value.strip()


def _texts(entry: Document, key: str, place: str) -> list[str]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigError(f'{place}: {key} = {value!r} is not a list of texts; give e.g. {key} = ["zone=a"]')
    return value


def _whole(entry: Document, key: str, place: str) -> int:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        shown = "is missing" if key not in entry else f"= {value!r}"
        raise ConfigError(f"{place}: {key} {shown}; give a whole number >= 1 and <= {MOST}")
    return value


def _amount(entry: Document, key: str, place: str) -> float:
    value = entry.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST:
        raise ConfigError(f"{place}: {key} = {value!r}; give a number >= 0")
    return float(value)
