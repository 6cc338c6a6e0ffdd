"""The progress bar: on standard error, only when that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.api import Progress


@contextlib.contextmanager
def progress_bar(label: str) -> Iterator[Callable[[Progress], None] | None]:
    """A callback for `simulate`, or None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
    )
    # No thread of its own: the CPU time of a run is reported.
    with Bar(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(label, total=None, detail="")

        def update(progress: Progress) -> None:
            day = progress.now / 86400
            detail = f"{progress.finished:,} done, {progress.active:,} active, day {day:,.0f}"
            target = progress.target
            done = progress.finished if target is None else min(progress.finished, target)
            bar.update(task, completed=done, total=progress.target, detail=detail, refresh=True)

        yield update
