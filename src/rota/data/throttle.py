"""Reads at a given number of bytes per second, however many workers read: for measuring.

One number in shared memory is the time at which the storage is free again. Who reads moves it on by
the time its bytes take and sleeps until then.
"""

from __future__ import annotations

import struct
import time

from rota.data.segments import Segment

BURST_S = 0.02
"""What was not used may be caught up within this time: sleeping is not exact."""
_TIME = struct.Struct("<Q")
_LOCK_BYTE = 1


class Throttle:
    """The word at `at` of a segment, as storage that gives `bytes_per_s`."""

    def __init__(self, segment: Segment, at: int, bytes_per_s: float) -> None:
        self._segment = segment
        self._at = at
        self.bytes_per_s = bytes_per_s

    def take(self, size: int) -> None:
        """Wait until storage of this speed has delivered so many bytes."""
        now = time.monotonic_ns()
        with self._segment.locked(byte=_LOCK_BYTE):
            free_at = _TIME.unpack_from(self._segment.view, self._at)[0]
            done_at = max(free_at, now - int(BURST_S * 1e9)) + int(size / self.bytes_per_s * 1e9)
            _TIME.pack_into(self._segment.view, self._at, done_at)
        wait_ns = done_at - now
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
