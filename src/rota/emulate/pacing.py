"""Steps on absolute deadlines.

A wait that ends late shortens the next one, so errors do not add up.

    synchronous   copied = max(computed', ready) + x           computed = max(copied, computed') + c
    overlapped    copied = max(copied', started', ready) + x   computed = max(copied, computed') + c

x and c are the seconds of copying and computing of a step, primes mark the step before, `ready` is
when its data were there. With overlap the next batch is copied while this one is computed, one
batch ahead: N steps take x + (N - 1) max(x, c) + c instead of N (x + c). All phases of a step are
waited for at once, at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Protocol

from rota.core.errors import ConfigError
from rota.emulate.catalogue import StepTime
from rota.emulate.lateness import Lateness, LatenessReport

CATCH_UP_S = 5.0
"""A wait that ends later than this is not made good by hurrying afterwards: the time is lost and
reported as such."""


def checked_compression(factor: float) -> float:
    """A factor by which emulated time may run faster than the clock."""
    if not 1.0 <= factor <= 1e6:
        raise ConfigError(
            f"time compression {factor} is not possible; choose a factor from 1 to 1000000"
        )
    return factor


class StepTimeline:
    """The arithmetic of one job's steps, without any waiting.

    All times are real seconds of one clock.
    """

    def __init__(self, *, overlap: bool = False, compression: float = 1.0) -> None:
        self.overlap = overlap
        self.compression = checked_compression(compression)
        self._copied = self._started = self._computed = float("-inf")

    def begin(self, now: float) -> None:
        """Nothing happens before `now`.

        That is the start, or the end of real work such as saving a checkpoint.
        """
        self._copied = self._started = self._computed = now

    @property
    def last_end(self) -> float:
        """When the last step should have ended."""
        return self._computed

    def copied(self, step: StepTime, ready: float | None = None) -> float:
        """When the data of the next step are on the device; changes nothing."""
        earliest = max(self._copied, self._started) if self.overlap else self._computed
        if ready is not None:
            earliest = max(earliest, ready)
        return earliest + step.transfer_s / self.compression

    def computed(self, copied: float, start: float, end: float) -> None:
        """A step was computed from `start` to `end`, by whoever decides that."""
        self._copied = copied
        self._started = start
        self._computed = end

    def next(self, step: StepTime, ready: float | None = None) -> float:
        """The end of the next step on a device of one's own."""
        copied = self.copied(step, ready)
        start = max(copied, self._computed)
        self.computed(copied, start, start + step.compute_s / self.compression)
        return self._computed


class Interrupt:
    """Ends a wait from another thread or a signal handler, at once.

    Not an `Event`: setting one inside a signal handler can block for ever on its own lock. A
    `SimpleQueue` may be used there by design.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[None] = SimpleQueue()
        self._set = False

    def set(self) -> None:
        """End the wait under way and all later ones."""
        self._set = True
        self._queue.put(None)

    def is_set(self) -> bool:
        """Whether it was asked to stop."""
        return self._set

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; whether it was interrupted."""
        if self._set or seconds <= 0.0:
            return self._set
        try:
            self._queue.get(timeout=seconds)
        except Empty:
            return self._set
        self._queue.put(None)
        return True


class Waits(Protocol):
    """Something to wait with: an `Interrupt`, or a lease of Rota."""

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; whether it was interrupted."""
        ...


class Pacer:
    """Waits for the steps of one job on a device of its own, in a thread or process of its own."""

    def __init__(
        self,
        *,
        overlap: bool = False,
        compression: float = 1.0,
        interrupt: Waits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.interrupt = interrupt or Interrupt()
        self._clock = clock
        self._timeline = StepTimeline(overlap=overlap, compression=compression)
        self._lateness = Lateness()
        self._begun = False

    def begin(self) -> None:
        """Count from now: at the start, and after real work while the device stood still."""
        self._timeline.begin(self._clock())
        self._begun = True

    def step(self, step: StepTime, ready: float | None = None) -> bool:
        """Wait until the step is over; False if it was interrupted, and then it does not count.

        `ready` is when the data of this step were there (on the clock of `time.monotonic`), if that
        is known.
        """
        if not self._begun:
            self.begin()
        before = self._timeline.last_end
        behind = self._clock() - max(before, ready or before)
        if behind > CATCH_UP_S:
            self._lateness.lost_s += behind
            self._timeline.begin(self._clock())
            before = self._timeline.last_end
        end = self._timeline.next(step, ready)
        if self.interrupt.wait(end - self._clock()):
            self._begun = False
            return False
        self._lateness.add(self._clock() - end, end - before)
        return True

    def report(self) -> LatenessReport:
        """How late steps ended."""
        return self._lateness.report()
