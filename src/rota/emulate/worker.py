"""A loader process: reads real bytes and burns real CPU time for each sample.

Run by path in an isolated interpreter (`python -I -S worker.py`), so it imports nothing of Rota,
starts at once and stays small. It reads JSON lines from standard input, the settings first and then
one line per batch, and answers each batch with a line. It ends when its input ends, which is also
what happens when its parent is killed.

CPU time is metered, not counted in loops: hashing goes on until the process has used what its
samples cost together. A core shared with a neighbour, or half a core of quota, thus gives exactly
that part of the samples per second.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

PAGE = 4096
CHUNK = 16384
"""Bytes hashed at a time: some 20 microseconds."""
BURST_S = 0.05
"""How much unused bandwidth may be made good later."""


class Reader:
    """Samples of a file, through a cache of fixed content that all workers share."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.size = int(settings["sample_bytes"])
        self.bandwidth = settings.get("bandwidth")
        self.buffer = mmap.mmap(-1, -(-self.size // PAGE) * PAGE)
        self.view = memoryview(self.buffer)[: self.size]
        self.file, self.direct = _open(
            settings["path"], bool(settings.get("direct")) and self.size % PAGE == 0
        )
        self.slots = int(settings.get("slots", 0))
        self.cache = (
            mmap.mmap(int(settings["cache_fd"]), self.slots * (self.size + 1))
            if self.slots
            else None
        )
        self.disk_bytes = self.hits = 0
        self._paced = 0.0

    def read(self, sample: int, slot: int) -> None:
        """Bring one sample into the buffer, from the cache if it is there.

        A sample with a slot is kept.
        """
        cache = self.cache
        at = self.slots + slot * self.size
        if cache is not None and slot >= 0 and cache[slot]:
            self.view[:] = memoryview(cache)[at : at + self.size]
            self.hits += 1
            return
        self._throttle()
        if os.preadv(self.file, [self.view], sample * self.size) != self.size:
            raise OSError(f"sample {sample} is not in the file")
        if not self.direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.file, sample * self.size, self.size, os.POSIX_FADV_DONTNEED)
        self.disk_bytes += self.size
        if cache is not None and slot >= 0:
            cache[at : at + self.size] = bytes(self.view)
            cache[slot] = 1

    def _throttle(self) -> None:
        if not self.bandwidth:
            return
        now = time.monotonic()
        self._paced = max(self._paced, now - BURST_S) + self.size / float(self.bandwidth)
        if self._paced > now:
            time.sleep(self._paced - now)


def _open(path: str, direct: bool) -> tuple[int, bool]:
    """The file, past the page cache where the file system can."""
    if direct and hasattr(os, "O_DIRECT"):
        with contextlib.suppress(OSError):
            return os.open(path, os.O_RDONLY | os.O_DIRECT), True
    return os.open(path, os.O_RDONLY), False


class Meter:
    """Burns CPU time: so much per sample, exactly on the average."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due: float | None = None

    def sample(self, data: memoryview) -> None:
        """Hash the data until this sample, and all before it, cost what they should."""
        if self._due is None:
            self._due = time.process_time()
        self._due += self.seconds
        place = 0
        while time.process_time() < self._due:
            hashlib.blake2b(data[place : place + CHUNK]).digest()
            place = (place + CHUNK) % max(1, len(data))


def _lines(stream: Any) -> Iterator[dict[str, Any]]:
    for line in stream:
        yield json.loads(line)


def main() -> None:
    """Serve until the input ends."""
    orders = _lines(sys.stdin)
    settings = next(orders)
    reader = Reader(settings)
    meter = Meter(float(settings["cpu_s"]))
    for order in orders:
        disk_bytes_before = reader.disk_bytes
        hits_before = reader.hits
        cpu_s_before = time.process_time()
        for sample, slot in zip(order["samples"], order["slots"], strict=True):
            reader.read(sample, slot)
            meter.sample(reader.view)
        answer = {
            "batch": order["batch"],
            "disk_bytes": reader.disk_bytes - disk_bytes_before,
            "hits": reader.hits - hits_before,
            "cpu_s": time.process_time() - cpu_s_before,
            "ready": time.monotonic(),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        main()
