"""The progress bar: on standard error, only when that is a terminal."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.api import Progress

_FIRST_GUESS_S = 1.0
"""Wall seconds before anything is said about what is left."""
_MEMORY = 0.3
"""The pace is that of about this part of the run so far, and of some seconds at least."""
_SHORTEST_MEMORY_S = 3.0
_DRAW_EVERY_S = 0.25
"""Drawing takes half a millisecond, which counts as CPU time of the run: 0.2 % of it."""


class TimeLeft:
    """Wall seconds until a run is through, from how far it was when.

    The pace is a weighted mean that forgets slower the longer a run takes: the answer follows a run
    whose rounds become slower and does not jump with single rounds.
    """

    def __init__(self) -> None:
        self._start: float | None = None
        self._last = (0.0, 0.0)
        self._pace = 0.0
        self._weight = 0.0

    def after(self, part: float | None, now: float) -> float | None:
        """At wall second `now` this part of the run was done; None as long as nobody can say."""
        if part is None:
            return None
        if self._start is None:
            self._start = now
            self._last = (now, part)
            return None
        past = now - self._last[0]
        elapsed = now - self._start
        if past <= 0:
            return None
        memory = max(_SHORTEST_MEMORY_S, _MEMORY * elapsed)
        kept = math.exp(-past / memory)
        self._pace = kept * self._pace + (1 - kept) * max(0.0, part - self._last[1]) / past
        self._weight = kept * self._weight + (1 - kept)
        self._last = (now, part)
        if elapsed < _FIRST_GUESS_S or self._pace <= 0:
            return None
        return (1.0 - part) * self._weight / self._pace


@contextlib.contextmanager
def progress_bar(label: str) -> Iterator[Callable[[Progress], None] | None]:
    """A callback for `simulate`, or None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"))
    # No thread of its own: the CPU time of a run is reported.
    with Bar(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(label, total=None, detail="")
        left = TimeLeft()
        next_at = 0.0

        def update(progress: Progress) -> None:
            nonlocal next_at
            now = time.monotonic()
            if now < next_at:
                return
            next_at = now + _DRAW_EVERY_S
            part = progress.part
            seconds = left.after(part, now)
            total = None if part is None else 1.0
            detail = describe(progress, seconds)
            bar.update(task, completed=part or 0.0, total=total, detail=detail, refresh=True)

        yield update


def describe(progress: Progress, seconds_left: float | None) -> str:
    """How far a run is, in words; what matters most comes first, as a narrow window cuts the rest."""
    day = f"day {progress.now / 86400:,.0f}"
    if progress.until is not None:
        day += f" of {progress.until / 86400:,.0f}"
    done = f"{progress.over:,}" if progress.total is None else f"{progress.over:,} of {progress.total:,}"
    words = [] if progress.part is None else [f"{100 * progress.part:.0f} %"]
    if seconds_left is not None:
        words.append(f"{clock(seconds_left)} left")
    return ", ".join([*words, f"{done} jobs done", f"{progress.active:,} active", day])


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, or days."""
    if seconds >= 86400:
        return f"{seconds / 86400:,.1f} days"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
