"""A data set with a cache: raw bytes are kept, decoding is done anew each time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.client import stalls
from rota.core.errors import ConfigError
from rota.data import budget, report
from rota.data.cache import THROTTLE_AT, CacheLayout, FixedSetCache, remove_stale
from rota.data.counters import Counters, CounterTable
from rota.data.sources import RawItems, sizes_of
from rota.data.throttle import Throttle

FOLDER = "ROTA_DATA_FOLDER"
"""A folder in memory that the agent keeps between two attempts of a job on the same server."""


class CachedDataset:
    """Items of `source`, read once if they belong to the cached set, and decoded each time.

    An indexable data set for any loop, and for a PyTorch DataLoader with any way of starting
    workers. `decode(raw, index)` makes an item of the bytes; without it items are the bytes. The
    cache has `cache_bytes`, else `share` of what the job was given (docs/data-path.md), else none.
    """

    def __init__(
        self,
        source: RawItems,
        decode: Callable[[bytes, int], Any] | None = None,
        *,
        cache_bytes: int | None = None,
        share: float = 1.0,
        reserve_gb: float | None = None,
        sizes: int | Sequence[int] | None = None,
        seed: int = 0,
        bytes_per_s: float | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        if not 0.0 < share <= 1.0:
            raise ConfigError(f"share={share}: the part of the cache's memory for this data set, above 0 and up to 1.")
        if cache_bytes is not None and cache_bytes < 0:
            raise ConfigError(f"cache_bytes={cache_bytes}: expected 0 or more.")
        if bytes_per_s is not None and not 0 < bytes_per_s < math.inf:
            raise ConfigError(f"bytes_per_s={bytes_per_s}: expected bytes per second above 0, or None for no limit.")
        if reserve_gb is not None and not 0 <= reserve_gb < math.inf:
            raise ConfigError(f"reserve_gb={reserve_gb}: expected GB, 0 or more.")
        self.source = source
        self._decode = decode
        layout = CacheLayout.of(sizes_of(source, sizes), seed, getattr(source, "fingerprint", ""))
        place = _Place.read(environ)
        if cache_bytes is None:
            cache_bytes = int(share * budget.cache_bytes(environ, reserve_gb, shared=place.shared))
        self.cache = place.open(layout, cache_bytes)
        self._counts = CounterTable(report.publish(environ, self.cache, cache_bytes))
        speed = budget.bytes_per_s(environ) if bytes_per_s is None else bytes_per_s
        self._throttle = None if speed is None else Throttle(self.cache.segment, THROTTLE_AT, speed)
        stalls.add_source(self, CachedDataset._times)

    def __len__(self) -> int:
        return len(self.cache.layout.slots)

    def __getitem__(self, index: int) -> Any:
        raw = self.raw(index)
        if self._decode is None:
            return raw
        began = time.perf_counter_ns()
        cpu_began = time.thread_time_ns()
        item = self._decode(raw, index)
        self._counts.decoded(time.perf_counter_ns() - began, time.thread_time_ns() - cpu_began)
        return item

    def raw(self, index: int) -> bytes:
        """The bytes of an item, from the cache or from the source."""
        if not 0 <= index < len(self):
            raise IndexError(f"item {index}: the data set has items 0 to {len(self) - 1}")
        cached = self.cache.get(index)
        if cached is not None:
            self._counts.hit(len(cached))
            return cached
        began = time.perf_counter_ns()
        raw = self.source[index]
        if self._throttle is not None:
            self._throttle.take(len(raw))
        fetch_ns = time.perf_counter_ns() - began
        kept = not self.cache.holds(index) or self.cache.put(index, raw)
        self._counts.miss(len(raw), fetch_ns, lost=not kept)
        return raw

    @property
    def counters(self) -> Counters:
        """What was done since the data set was made, by this process and its workers."""
        return self._counts.total()

    @property
    def counters_by_process(self) -> dict[int, Counters]:
        """The same for each living process, by its process id."""
        return self._counts.by_process()

    @property
    def cached_fraction(self) -> float:
        """Part of the items that are in the cached set: the hit ratio from the second epoch on."""
        return self.cache.places / len(self) if len(self) else 0.0

    @property
    def cached_bytes(self) -> int:
        """Bytes of the cached set."""
        return self.cache.cached_bytes

    def _times(self) -> tuple[float, float]:
        """Seconds spent in reading and in decoding, for the account of stalls."""
        counts = self.counters
        return counts.fetch_s, counts.decode_s


class _Place:
    """Where the cache of this process is, and with whom it is shared."""

    def __init__(self, folder: Path | None, group: str, attempt: int) -> None:
        self._folder = folder
        self._group = group
        self._attempt = attempt

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> _Place:
        attempt = environ.get("ROTA_EPOCH", "")
        folder = environ.get(FOLDER, "")
        if folder:
            return cls(Path(folder), "", int(attempt) if attempt.isdecimal() else 0)
        several = environ.get("LOCAL_WORLD_SIZE", "1") not in {"", "0", "1"}
        if several and not environ.get("ROTA_JOB"):
            return cls(None, f"{environ.get('MASTER_ADDR')}:{environ.get('MASTER_PORT')}", 0)
        return cls(None, "", 0)

    @property
    def shared(self) -> bool:
        """Whether the ranks of this server have one cache."""
        return self._folder is not None or bool(self._group)

    def open(self, layout: CacheLayout, cache_bytes: int) -> FixedSetCache:
        if self._folder is None:
            return FixedSetCache.open(layout, cache_bytes, group=self._group)
        if not self._folder.is_dir():
            raise ConfigError(f"{FOLDER}={str(self._folder)!r}: there is no such folder; the agent makes it.")
        remove_stale(self._folder, self._attempt)
        cache = FixedSetCache.open(layout, cache_bytes, folder=self._folder)
        cache.used_by(self._attempt)
        return cache
