"""Generated jobs as a source.

Made in growing blocks as simulated time goes on, so that a stream may be endless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from rota.core.errors import ConfigError
from rota.core.jobs import COLUMNS, Jobs, Source

Draw: TypeAlias = Callable[[int], Jobs]
"""The next jobs, a number of them; fewer only when the stream has ended. All answers share their
text tables."""

SMALLEST_BLOCK = 256
LARGEST_BLOCK = 65_536


class Stream:
    """Jobs from a generator that can be started anew. Job k depends only on the settings and k."""

    def __init__(
        self,
        begin: Callable[[], Draw],
        *,
        endless: bool,
        static: bool = False,
        count: int | None = None,
    ) -> None:
        """`static` says that all jobs are there within the first second, `count` how many come."""
        self.endless = endless
        self.count = count
        self.static = static
        self._begin = begin
        self._draw: Draw | None = None
        self._block: Jobs | None = None
        self._next = 0
        self._taken = 0

    def peek(self) -> float:
        """Arrival of the next job; infinity when there is none left."""
        block = self._current()
        return np.inf if block is None else float(block.submitted[self._next])

    def take(self, now: float) -> Jobs | None:
        """All jobs that have arrived by `now` and were not taken before."""
        if self.endless and now == np.inf:
            fix = "give jobs=N or ask for the next N jobs"
            raise ConfigError(f"an endless workload cannot be taken whole; {fix}")
        parts: list[Jobs] = []
        while (block := self._current()) is not None:
            stop = int(block.submitted.searchsorted(now, side="right"))
            if stop > self._next:
                parts.append(self._advance(block, stop))
            if stop < len(block):
                break
        return joined(parts) if parts else None

    def next(self, count: int) -> Jobs | None:
        """The next `count` jobs whatever their arrival, or as many as are left.

        None if there are none.
        """
        parts: list[Jobs] = []
        while count > 0 and (block := self._current()) is not None:
            part = self._advance(block, min(len(block), self._next + count))
            parts.append(part)
            count -= len(part)
        return joined(parts) if parts else None

    def snapshot(self) -> dict[str, int]:
        """How many jobs were taken: enough, as the rest follows from the settings."""
        return {"taken": self._taken}

    def restore(self, saved: Mapping[str, int]) -> None:
        """Generate anew and go on after the jobs that were taken."""
        self._draw = None
        self._block = None
        self._next = 0
        self._taken = 0
        left = int(saved["taken"])
        while left and (block := self._current()) is not None:
            left -= len(self._advance(block, min(len(block), self._next + left)))

    def _current(self) -> Jobs | None:
        """The block with the next job, made if necessary."""
        if self._block is None or (self._next == len(self._block) and len(self._block)):
            self._draw = self._draw or self._begin()
            # A quarter of what was taken so far: nobody waits for many jobs that are never used.
            self._block = self._draw(min(max(SMALLEST_BLOCK, self._taken // 4), LARGEST_BLOCK))
            self._next = 0
        return self._block if len(self._block) else None

    def _advance(self, block: Jobs, stop: int) -> Jobs:
        part = block.rows(self._next, stop)
        self._taken += len(part)
        self._next = stop
        return part


def materialise(source: Source, count: int | None = None) -> Jobs:
    """The next `count` jobs of a source as one table; all that are left without a count."""
    if isinstance(source, Stream) and count is not None:
        return _some(source.next(count)).rows(0, count)
    jobs = _some(source.take(np.inf))
    return jobs if count is None else jobs.rows(0, count)


def _some(jobs: Jobs | None) -> Jobs:
    if jobs is None:
        raise ConfigError("the workload has no jobs left")
    return jobs


def joined(parts: Sequence[Jobs]) -> Jobs:
    """Tables with the same text tables, one after the other."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        columns[name] = np.concatenate([getattr(part, name) for part in parts])
    return Jobs(profiles=first.profiles, tenants=first.tenants, launches=first.launches, **columns)
