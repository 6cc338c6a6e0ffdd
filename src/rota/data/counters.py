"""What the data path did: counted by every process for itself, and summed over all of them.

A table in shared memory with a row per process. Rows of processes that are gone are added to the
first row and used again: a DataLoader starts new workers in every epoch.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from rota.data import segments
from rota.data.segments import Segment

ROWS = 1024
_ROW_BYTES = 128
TABLE_BYTES = ROWS * _ROW_BYTES
_ROW = struct.Struct("<9Q")
_PID = struct.Struct("<Q")


class Counters(NamedTuple):
    """Since the data set was made. Times are sums over processes, so they may exceed the wall clock's."""

    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    fetched_bytes: int = 0
    fetch_s: float = 0.0
    """Spent in reading items from the source, waits for a throttle included."""
    decode_s: float = 0.0
    decode_cpu_s: float = 0.0
    not_kept: int = 0
    """Items of the cached set that could not be kept: no memory left, or their size has changed."""

    @property
    def hit_ratio(self) -> float:
        """Part of the items that came from the cache; 0 before the first."""
        items = self.hits + self.misses
        return self.hits / items if items else 0.0

    def since(self, before: Counters) -> Counters:
        """What was counted after `before`."""
        return Counters(*(now - then for now, then in zip(self, before, strict=True)))  # type: ignore[arg-type]


class CounterTable:
    """Counts of this process and of those it shares the table with."""

    def __init__(self, segment: Segment | None = None) -> None:
        self._segment = segments.private("counters", TABLE_BYTES) if segment is None else segment
        self._values = [0] * len(Counters._fields)
        self._at = 0
        self._pid = 0

    def __getstate__(self) -> Segment:
        return self._segment

    def __setstate__(self, segment: Segment) -> None:
        self._segment = segment
        self._values = [0] * len(Counters._fields)
        self._at = 0
        self._pid = 0

    def hit(self, size: int) -> None:
        """An item came from the cache."""
        values = self._own()
        values[0] += 1
        values[2] += size
        self._publish()

    def miss(self, size: int, fetch_ns: int, *, lost: bool = False) -> None:
        """An item was read from the source; `lost`: it should have been kept and could not be."""
        values = self._own()
        values[1] += 1
        values[3] += size
        values[4] += fetch_ns
        values[7] += lost
        self._publish()

    def decoded(self, wall_ns: int, cpu_ns: int) -> None:
        """An item was decoded."""
        values = self._own()
        values[5] += wall_ns
        values[6] += cpu_ns
        self._publish()

    def total(self) -> Counters:
        """Of all processes, those that have ended included."""
        rows = [self._row(0), *self._rows_in_use()]
        return _readable([sum(column) for column in zip(*(row[1:] for row in rows), strict=True)])

    def by_process(self) -> dict[int, Counters]:
        """Of every process that has a row, by its process id."""
        found: dict[int, list[int]] = {}
        for pid, *values in self._rows_in_use():
            before = found.get(pid, [0] * len(values))
            found[pid] = [a + b for a, b in zip(before, values, strict=True)]
        return {pid: _readable(values) for pid, values in found.items()}

    def _rows_in_use(self) -> Iterator[tuple[int, ...]]:
        """Rows are taken from the first on, so a free one is the end of them."""
        for number in range(1, ROWS):
            row = self._row(number)
            if not row[0]:
                return
            yield row

    def _own(self) -> list[int]:
        if self._pid != os.getpid():
            self._claim()
        return self._values

    def _publish(self) -> None:
        if self._at:
            _ROW.pack_into(self._segment.view, self._at, self._pid, *self._values)

    def _claim(self) -> None:
        """Find a row for this process. With none left its counts are not seen by others."""
        self._pid = os.getpid()
        self._values = [0] * len(Counters._fields)
        self._at = 0
        with self._segment.locked():
            for number in range(1, ROWS):
                pid = _PID.unpack_from(self._segment.view, number * _ROW_BYTES)[0]
                if pid and (pid == self._pid or _alive(pid)):
                    continue
                self._at = number * _ROW_BYTES
                if pid:
                    self._close_account(number)
                self._publish()
                return

    def _close_account(self, number: int) -> None:
        ended = self._row(number)[1:]
        before = self._row(0)[1:]
        _ROW.pack_into(self._segment.view, 0, 0, *(a + b for a, b in zip(ended, before, strict=True)))

    def _row(self, number: int) -> tuple[int, ...]:
        return _ROW.unpack_from(self._segment.view, number * _ROW_BYTES)


def _readable(values: list[int]) -> Counters:
    named = dict(zip(Counters._fields, values, strict=True))
    seconds = {name: named[name] / 1e9 for name in ("fetch_s", "decode_s", "decode_cpu_s")}
    return Counters(**{**named, **seconds})  # type: ignore[arg-type]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
