"""Measuring waits: on a clock that jumps, where results are exact, and on the real one, where machines are busy."""

from __future__ import annotations

import asyncio
import selectors

import pytest


class _Jumping(selectors.DefaultSelector):
    """Never waits: moves the clock of its loop to the next timer instead."""

    now = 1000.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("all tasks wait for something that will never happen")
        if not ready:
            self.now += timeout
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self):
        return self._clock.now


def run_virtual(coroutine):
    """Like `asyncio.run`, on a clock that jumps from timer to timer."""
    loop = _VirtualLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def within(expected, part, measure, tries=4):
    """Check `measure() -> (value, lateness report)` on the real clock.

    A machine that others use may spoil some tries. Where every try was late by the report's own judgement, nothing can
    be said here, and the test is skipped with the figures; a wrong value on a machine that is not late fails.
    """
    found = []
    for _ in range(tries):
        value, report = measure()
        if abs(value / expected - 1) <= part:
            return
        found.append((value, report))
    if all(report.max_s > part * expected for _, report in found):
        pytest.skip(f"this machine is too busy to measure: waits end up to {found[-1][1].max_s:.3f} s late")
    pytest.fail(f"{[value for value, _ in found]} is not {expected} within {part:.1%}")
