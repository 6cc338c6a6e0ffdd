"""Where the time of a training loop goes: computing, waiting for preparation, waiting for storage.

The iterator times how long it waits for the next item; the rest of a step is computing. Whoever
reads data (`rota.data`) says how long reading and decoding took, in all its workers. The wait is
divided in that proportion, which is exact when the loop reads by itself, and with workers says what
kept the workers busy while the loop waited.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping
from collections.abc import Iterator as Items
from typing import Any, NamedTuple, TypeVar

VARIABLE = "ROTA_STALLS"
"""`off`: nothing is timed."""

Reader = TypeVar("Reader")
_sources: list[Callable[[], tuple[float, float] | None]] = []


class StallTimes(NamedTuple):
    """Seconds of a loop since it began. Saving checkpoints is in none of them."""

    compute_s: float = 0.0
    prepare_s: float = 0.0
    """Waited for data that was being decoded, or queued behind that."""
    storage_s: float = 0.0
    """Waited for data that was being read."""


NOTHING_SPENT = StallTimes()


def mean_times(times: list[StallTimes]) -> StallTimes:
    """Of several loops that run together; those that do not say are left out."""
    said = [one for one in times if any(one)]
    if not said:
        return NOTHING_SPENT
    return StallTimes(*(sum(column) / len(said) for column in zip(*said, strict=True)))


def add_source(reader: Reader, times: Callable[[Reader], tuple[float, float]]) -> None:
    """`times(reader)` says the seconds of reading and decoding so far, while `reader` lives."""
    own = weakref.ref(reader)

    def ask() -> tuple[float, float] | None:
        living = own()
        return None if living is None else times(living)

    _sources.append(ask)


def is_on(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether loops are timed: in Rota unless switched off, elsewhere if asked for."""
    word = environ.get(VARIABLE, "").strip().lower()
    return word not in {"off", "0", "no"} and bool(word or environ.get("ROTA_JOB"))


class StallMeter:
    """Times one loop over what `opened` gives; `times` may be asked from another thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._compute_s = 0.0
        self._wait_s = 0.0
        self._handed_out: float | None = None
        self._read_before = _read_so_far()

    def next(self, source: Items[Any]) -> Any:
        """The next item of `source`."""
        clock = self._clock
        asked = clock()
        if self._handed_out is not None:
            self._compute_s += asked - self._handed_out
        try:
            return next(source)
        finally:
            self._handed_out = clock()
            self._wait_s += self._handed_out - asked

    def opened(self, open_pass: Callable[[], Items[Any]]) -> Items[Any]:
        """The items of a pass, whose opening counts as waiting: workers start, files are found."""
        self.pause()
        asked = self._clock()
        source = open_pass()
        self._wait_s += self._clock() - asked
        return _TimedItems(self, source)

    def leave_out(self, seconds: float) -> None:
        """Time that belongs to neither, such as a checkpoint, has passed since the last item."""
        if self._handed_out is not None:
            self._handed_out += seconds

    def pause(self) -> None:
        """The loop was left: time until the next item is not computing."""
        self._handed_out = None

    def times(self) -> StallTimes:
        """What was spent so far."""
        fetch_s, decode_s = (
            now - before for now, before in zip(_read_so_far(), self._read_before, strict=True)
        )
        busy_s = fetch_s + decode_s
        storage_s = self._wait_s * fetch_s / busy_s if busy_s > 0 else 0.0
        return StallTimes(self._compute_s, self._wait_s - storage_s, storage_s)


class _TimedItems:
    def __init__(self, meter: StallMeter, source: Items[Any]) -> None:
        self._meter = meter
        self._source = source

    def __iter__(self) -> Items[Any]:
        return self

    def __next__(self) -> Any:
        return self._meter.next(self._source)


def _read_so_far() -> tuple[float, float]:
    answers = [times for ask in _sources if (times := ask()) is not None]
    return sum(fetch_s for fetch_s, _ in answers), sum(decode_s for _, decode_s in answers)
