"""How a profile goes on: a bar with the remaining time on a terminal, a line per run elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rota.cli.progress import clock

if TYPE_CHECKING:
    from rich.progress import Progress

    from rota.profiler.blocks import Estimate
    from rota.profiler.cell import Cell, RunRecord
    from rota.profiler.search import NextRun, Plan

_FIRST_GUESS_S = 15.0
"""Seconds of a run before any is over."""
_DRAW_EVERY_S = 0.25


class RunProgress:
    """Tells people; on standard error."""

    def __init__(self, plan: Plan | None, *, total: int | None = None) -> None:
        self._plan = plan
        self._total = total
        self._done: list[RunRecord] = []
        self._left = total or 1
        self._why = ""
        self._next_draw = 0.0
        self._bar: Progress | None = None
        self._task = 0

    def __enter__(self) -> RunProgress:  # noqa: PYI034 - typing.Self needs Python 3.11
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._bar.start()
            self._task = self._bar.add_task("profiling", total=1.0, detail="")
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, run: NextRun, records: Sequence[RunRecord]) -> None:
        """A run begins."""
        from rota.profiler.search import runs_left

        self._done = list(records)
        self._why = run.why
        if self._plan is not None:
            self._left = max(1, runs_left(self._plan, records))
        elif self._total is not None:
            self._left = max(1, self._total - len(records))

    def look(self, cell: Cell, found: Estimate | None, seconds: float) -> None:
        """A run goes on."""
        now = time.monotonic()
        if self._bar is None or now < self._next_draw:
            return
        self._next_draw = now + _DRAW_EVERY_S
        mean_s = sum(run.seconds for run in self._done) / len(self._done) if self._done else _FIRST_GUESS_S
        left_s = max(0.0, mean_s * self._left - seconds)
        part = len(self._done) / (len(self._done) + self._left)
        known = "" if found is None else f", {found.rate:.4g} steps/s +-{100 * min(found.half_width, 1):.1f} %"
        detail = f"{clock(left_s)} left, run {len(self._done) + 1}: {cell} ({self._why}){known}"
        self._bar.update(self._task, completed=part, detail=detail, refresh=True)  # type: ignore[arg-type]

    def end(self, record: RunRecord) -> None:
        """A run is over."""
        text = f"{record.cell}: {outcome(record)}"
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            click.echo(f"rota: {text}", err=True)


def outcome(record: RunRecord) -> str:
    """How a run came out, in words."""
    from rota.profiler.blocks import WIDE

    if not record.usable:
        return f"{record.outcome}: {record.reason}"
    speed = f"{record.rate:.4g} steps/s +-{100 * record.half_width:.1f} %"
    word = "" if record.outcome == "measured" else " (wide)" if record.half_width > WIDE else " (few blocks)"
    checked = ""
    if record.check is not None:
        checked = f", predicted {record.check:.4g} ({100 * (record.check / record.rate - 1):+.1f} %)"
    return f"{speed}{word} in {record.seconds:.0f} s{checked}"
