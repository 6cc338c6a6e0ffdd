"""Estimates of `rota eta` that wait for the start of their job, read from the file in which they are kept.

The file belongs to the process that answers questions (`questions/forecasts`); here it is only read, when it
was written, and by the observer's thread. An estimate counts once, when its job starts after the question.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from rota.deploy.questions.forecasts import Forecasts
from rota.deploy.scheduler.archive import reading
from rota.deploy.security.secret_files import Stamp, stamp

_MOST = 20_000
"""Estimates that are waited for."""
_NEWS = """SELECT id, job, asked, coalesce(p50, start) FROM forecasts
WHERE id > ? AND real_start IS NULL AND coalesce(p50, start) IS NOT NULL ORDER BY id LIMIT ?"""


class OpenEstimates:
    """(when it was asked, when the job was to start) by job; engine seconds."""

    def __init__(self, state: Path) -> None:
        self._path = Forecasts(state).path
        self._seen: Stamp | None = None
        self._last = 0
        self._open: dict[int, list[tuple[float, float]]] = {}
        self._count = 0

    def look(self) -> None:
        """Read estimates that are new, if the file was written."""
        now = stamp(self._path)
        if now is None or now == self._seen or self._count >= _MOST:
            return
        try:
            with reading(self._path) as db:
                rows = db.execute(_NEWS, (self._last, _MOST - self._count)).fetchall()
        except sqlite3.Error:  # nobody asked yet, or it is being written; later
            return
        self._seen = now
        for number, job, asked, start in rows:
            self._last = int(number)
            self._open.setdefault(int(job), []).append((float(asked), float(start)))
            self._count += 1

    def errors_s(self, job: int, started: float) -> list[float]:
        """How far the estimates of a job were from its start; they are closed."""
        self.look()
        estimates = self._open.get(job, [])
        self.forget(job)
        return [abs(started - start) for asked, start in estimates if asked <= started]

    def forget(self, job: int) -> None:
        """A job is over, or its estimates were counted."""
        self._count -= len(self._open.pop(job, []))
