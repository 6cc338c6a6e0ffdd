"""What ranks say over their connections, at a rate that leaves time for everybody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.client.wire import LONGEST_LINE, Lines, decode
from rota.deploy.worker.ranks import IgnoredMessages, RankId, TokenBucket

PAUSE_S = 0.05
"""Seconds for which nothing more is read from a rank that floods."""


@dataclass(slots=True)
class RankConnection:
    """A connection, and the rank at its other end once that said hello."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    door: Path
    rank_id: RankId | None = None
    _lines: Lines = field(default_factory=Lines)
    _read: bytes = b""

    async def first(self) -> dict[str, Any] | None:
        """The message of the first line; None if it is none."""
        data = b""
        while b"\n" not in data and len(data) < LONGEST_LINE:
            more = await self.reader.read(LONGEST_LINE)
            if not more:
                return None
            data += more
        line, _, self._read = data.partition(b"\n")
        return decode(line) if len(line) < LONGEST_LINE else None

    async def messages(
        self, bucket: TokenBucket, ignored: IgnoredMessages
    ) -> AsyncIterator[dict[str, Any]]:
        """What comes after the first line.

        Who floods is not decoded until its bucket allows it again: that would cost all others.
        """
        while True:
            if bucket.take(time.monotonic(), 0):
                for message in self._decoded(bucket, ignored):
                    yield message
                await asyncio.sleep(0)  # let others speak while one floods
            else:
                ignored.floods += self._read.count(b"\n")
                self._lines.skip(self._read)
                await asyncio.sleep(PAUSE_S)
            self._read = await self.reader.read(LONGEST_LINE)
            if not self._read:
                return

    def _decoded(self, bucket: TokenBucket, ignored: IgnoredMessages) -> Iterator[dict[str, Any]]:
        """The messages in what was read; lines that make no sense count as well."""
        bad_before = self._lines.bad
        for message in self._lines.feed(self._read):
            if bucket.take(time.monotonic()):
                yield message
            else:
                ignored.floods += 1
        bad = self._lines.bad - bad_before
        ignored.bad_lines += bad
        bucket.take(time.monotonic(), bad)
