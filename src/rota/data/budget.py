"""How many bytes a cache may hold: what the scheduler gave, less what the program itself needs."""

from __future__ import annotations

from collections.abc import Mapping

from rota.core.errors import ConfigError

CACHE_GB = "ROTA_DATA_CACHE_GB"
"""Says it outright, for all ranks of a server together."""
MEMORY_GB = "ROTA_MEMORY_GB"
"""Memory of one rank, set by the agent; empty without a limit."""
LOCAL_RANKS = "ROTA_LOCAL_WORLD_SIZE"
LEAST_RESERVE_GB = 0.5
RESERVED_PART = 0.25
GB = 1e9


def cache_bytes(environ: Mapping[str, str], reserve_gb: float | None = None, *, shared: bool = True) -> int:
    """Bytes for the cache of one server; 0 if nobody said how much memory there is.

    `reserve_gb` is what each rank needs beside the cache, 0.5 GB or a quarter of its memory if not
    given, whichever is more. `shared`: the ranks of a server have one cache.
    """
    outright = _number(environ, CACHE_GB)
    ranks = int(_number(environ, LOCAL_RANKS) or 1)
    if outright is not None:
        return int(outright * GB) if shared else int(outright * GB / ranks)
    memory_gb = _number(environ, MEMORY_GB)
    if memory_gb is None:
        return 0
    reserve = max(LEAST_RESERVE_GB, RESERVED_PART * memory_gb) if reserve_gb is None else reserve_gb
    return int(max(memory_gb - reserve, 0.0) * GB) * (ranks if shared else 1)


def bytes_per_s(environ: Mapping[str, str]) -> float | None:
    """Storage speed that a measurement asks for; None: as fast as it goes."""
    name = "ROTA_DATA_MBPS"
    mb = _number(environ, name)
    if mb == 0:
        raise ConfigError(f"{name}=0: storage that gives nothing; unset it for no limit.")
    return None if mb is None else mb * 1e6


def _number(environ: Mapping[str, str], name: str) -> float | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise ConfigError(f"{name}={text!r}: expected a number, 0 or more.")
    return value
