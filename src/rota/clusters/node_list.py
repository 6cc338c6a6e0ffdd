"""A list of servers as CSV: that of Alibaba's 2023 GPU trace (openb_node_list_*.csv), or one like it.

The header names sn (the server), gpu (how many it has) and model (their type); cpu_milli and memory_mib
are optional. Servers without GPUs are left out. Types are spelt as in the file, and as in `gpu_spec`
of the pods.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.core import packed
from rota.core.cluster import Resources, Server
from rota.core.errors import ConfigError

REQUIRED = ("sn", "gpu", "model")
MOST_GPUS = 10**6


def is_node_list(text: str) -> bool:
    """Whether the name of a file is that of a table."""
    return text.removesuffix(".gz").endswith(".csv")


def read_node_list(path: Path) -> tuple[Server, ...]:
    """The servers of a list. Raises ConfigError with the line and column that cannot be used."""
    reader = csv.reader(io.StringIO(_text(path), newline=""))
    try:
        return _servers(reader, path)
    except csv.Error as problem:
        raise ConfigError(f"{path}:{reader.line_num}: not valid CSV: {problem}") from None


def _servers(reader: Any, path: Path) -> tuple[Server, ...]:
    header = [name.strip() for name in next(reader, [])]
    _check_header(header, path)
    servers: dict[str, Server] = {}
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        place = f"{path}:{reader.line_num}"
        if len(cells) != len(header):
            raise ConfigError(f"{place}: {len(cells)} cells, but the header names {len(header)} columns")
        server = _server(dict(zip(header, map(str.strip, cells), strict=True)), place)
        if server.id in servers:
            raise ConfigError(f"{place}, column sn: {server.id!r} is there twice; keep one")
        servers[server.id] = server
    return tuple(server for server in servers.values() if server.capacity.gpus)


def _server(row: Mapping[str, str], place: str) -> Server:
    gpus = _amount(row, "gpu", place)
    if gpus % 1 or gpus > MOST_GPUS:
        raise ConfigError(f"{place}, column gpu: {row['gpu']!r} is not a number of GPUs; give a whole number >= 0")
    for name in ("sn", "model"):
        if gpus and not row[name]:
            raise ConfigError(f"{place}, column {name}: a server with GPUs has none; give one")
    cpus = _amount(row, "cpu_milli", place) / 1000
    memory_gb = _amount(row, "memory_mib", place) / 1024
    return Server(id=row["sn"], type=row["model"], capacity=Resources(int(gpus), cpus, memory_gb))


def _amount(row: Mapping[str, str], column: str, place: str) -> float:
    text = row.get(column, "") or "0"
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not 0 <= amount < math.inf:
        raise ConfigError(f"{place}, column {column}: {text!r} is not an amount; give a number >= 0")
    return amount


def _check_header(header: list[str], path: Path) -> None:
    for name in REQUIRED:
        if name not in header:
            near = difflib.get_close_matches(name, header, n=1, cutoff=0.5)
            hint = f"is it {near[0]!r}? Needed" if near else "needed"
            raise ConfigError(f"{path}:1: the list of servers has no column {name!r}; {hint} are {', '.join(REQUIRED)}")


def _text(path: Path) -> str:
    try:
        return packed.read_bytes(path).decode("utf-8-sig")
    except (*packed.DAMAGED, UnicodeDecodeError) as problem:
        raise ConfigError(f"cannot read the list of servers {str(path)!r}: {problem}; check the path") from None
