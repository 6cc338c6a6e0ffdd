"""What a data set tells a profiler: its size, its cache, and its counters while it is read.

A profiler names a folder in ROTA_DATA_REPORT. Every data set of the job makes two files there:
`NAME.json`, what it is, once; `NAME.counters`, its table of counters, as it goes on.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rota.core import files
from rota.core.errors import ConfigError
from rota.data import segments
from rota.data.counters import TABLE_BYTES, Counters, CounterTable
from rota.data.segments import Segment

if TYPE_CHECKING:
    from rota.data.cache import FixedSetCache

FOLDER = "ROTA_DATA_REPORT"
_numbers = itertools.count()


class DataReport(NamedTuple):
    """All data sets of a job together."""

    items: int = 0
    data_bytes: int = 0
    cache_bytes: int = 0
    """What the caches may hold."""
    cached_bytes: int = 0
    """Of items in the cached sets, read already or not."""
    cached_items: int = 0
    workers: int = 0
    """Processes that read, beside those that made the data sets."""
    counters: Counters = Counters()


def publish(environ: Mapping[str, str], cache: FixedSetCache, cache_bytes: int) -> Segment | None:
    """Describe a data set to a profiler; where its counters go then. None if nobody asked."""
    folder = environ.get(FOLDER, "")
    if not folder:
        return None
    name = f"{os.getpid()}-{next(_numbers)}"
    facts = {
        "pid": os.getpid(),
        "items": len(cache.layout.slots),
        "data_bytes": cache.layout.total_bytes,
        "cache_bytes": cache_bytes,
        "cached_bytes": cache.cached_bytes,
        "cached_items": cache.places,
    }
    segment = segments.in_file(Path(folder) / f"{name}.counters", TABLE_BYTES, reserved=TABLE_BYTES)
    files.write_text(Path(folder) / f"{name}.json", json.dumps(facts), durable=False)
    return segment


def read(folder: Path) -> DataReport | None:
    """What the data sets of a job have told so far; None if there are none."""
    parts = [_readable(path) for path in sorted(folder.glob("*.json")) if path.is_file()]
    if not parts:
        return None
    return DataReport(
        items=sum(part.items for part in parts),
        data_bytes=sum(part.data_bytes for part in parts),
        cache_bytes=sum(part.cache_bytes for part in parts),
        cached_bytes=sum(part.cached_bytes for part in parts),
        cached_items=sum(part.cached_items for part in parts),
        workers=max(part.workers for part in parts),
        counters=Counters(*(sum(values) for values in zip(*(part.counters for part in parts), strict=True))),
    )


def _readable(path: Path) -> DataReport:
    try:
        return _read(path)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        fix = "let nothing but rota.data write to the folder that it names"
        raise ConfigError(f"{path} is no report of a data set ({error!r}), see {FOLDER}; {fix}") from None


def _read(path: Path) -> DataReport:
    facts = json.loads(path.read_text(encoding="utf-8"))
    table = CounterTable(segments.in_file(path.with_suffix(".counters"), TABLE_BYTES))
    rows = table.by_process()
    busy = [pid for pid, counts in rows.items() if pid != facts["pid"] and counts.hits + counts.misses]
    return DataReport(
        items=int(facts["items"]),
        data_bytes=int(facts["data_bytes"]),
        cache_bytes=int(facts["cache_bytes"]),
        cached_bytes=int(facts["cached_bytes"]),
        cached_items=int(facts["cached_items"]),
        workers=len(busy),
        counters=table.total(),
    )
