"""Estimates that were given, kept beside the journal, and how they compare with what came.

A file of its own (the name of the state file and `.forecasts`): the journal does not know of questions.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError
from rota.deploy.questions.eta import Estimate
from rota.deploy.scheduler.records import Job

_MOST_KEPT = 20_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS forecasts (
    id INTEGER PRIMARY KEY, job INTEGER NOT NULL, tenant TEXT NOT NULL, asked REAL NOT NULL, round_s REAL NOT NULL,
    start REAL, p10 REAL, p50 REAL, p90 REAL, end REAL, naive REAL, real_start REAL, real_end REAL);
CREATE INDEX IF NOT EXISTS forecasts_open ON forecasts (job) WHERE real_end IS NULL;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A forecast of a start, and the start."""

    round_s: float
    start: float | None
    p10: float | None
    p50: float | None
    p90: float | None
    naive: float | None
    real_start: float
    end: float | None
    real_end: float | None


class Forecasts:
    """Writes estimates down and scores them."""

    def __init__(self, state: Path) -> None:
        self.path = state.with_name(state.name + ".forecasts")

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The file. Raises ConfigError if it cannot be used."""
        try:
            with contextlib.closing(sqlite3.connect(self.path, timeout=5.0)) as db:
                db.executescript(_SCHEMA)
                self.path.chmod(0o600)
                with db:
                    yield db
        except (sqlite3.Error, OSError) as error:
            fix = "estimates are answered, but not scored, until there is room, or the file is removed"
            raise ConfigError(f"the file of estimates {self.path.name} cannot be used ({error}); {fix}") from error

    def keep(self, estimates: Iterable[Estimate], tenant_of: Callable[[int], str], now: float, round_s: float) -> None:
        """Remember estimates of jobs that wait. Raises ConfigError."""
        rows = []
        for estimate in estimates:
            band = estimate.band("starts") or (math.inf,) * 3
            values = (estimate.start, *band, estimate.end, estimate.naive)
            if not estimate.runs and estimate.start is not None:
                known = [None if value is None or math.isinf(value) else value for value in values]
                rows.append((estimate.job, tenant_of(estimate.job), now, round_s, *known))
        if not rows:
            return
        names = "job, tenant, asked, round_s, start, p10, p50, p90, end, naive"
        with self._open() as db:
            db.executemany(f"INSERT INTO forecasts ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
            db.execute("DELETE FROM forecasts WHERE id <= (SELECT max(id) FROM forecasts) - ?", (_MOST_KEPT,))

    def score(self, job_of: Callable[[int], Job | None]) -> list[Scored]:
        """Fill in what came, and give all forecasts whose job has started since. Raises ConfigError."""
        with self._open() as db:
            still_open = db.execute("SELECT id, job, asked FROM forecasts WHERE real_end IS NULL").fetchall()
            for number, job, asked in still_open:
                start, end = _came(job_of(int(job)), float(asked))
                if start is not None:
                    db.execute("UPDATE forecasts SET real_start = ?, real_end = ? WHERE id = ?", (start, end, number))
            names = "round_s, start, p10, p50, p90, naive, real_start, end, real_end"
            rows = db.execute(f"SELECT {names} FROM forecasts WHERE real_start IS NOT NULL").fetchall()  # noqa: S608
        return [Scored(**dict(zip(names.split(", "), row, strict=True))) for row in rows]


def _came(job: Job | None, asked: float) -> tuple[float | None, float | None]:
    """The first start after a question, and the end."""
    if job is None:
        return None, None
    start = min((record.started for record in job.attempts if record.started >= asked), default=None)
    return start, job.ended if job.over and job.phase.value == "finished" else None


def accuracy(scored: list[Scored]) -> dict[str, Any]:
    """How good forecasts were, of all tenants together."""
    alone = [(row.start, row.real_start) for row in scored if row.start is not None]
    banded = [row for row in scored if row.p10 is not None and row.p90 is not None]
    naive = [(row.naive, row.real_start) for row in scored if row.naive is not None]
    medians = [(row.p50, row.real_start) for row in scored if row.p50 is not None]
    ends = [(row.end, row.real_end) for row in scored if row.end is not None and row.real_end is not None]
    return {
        "forecasts": len(scored),
        "same_round": _part([_round(row, row.start) == _round(row, row.real_start) for row in scored if row.start]),
        "start_error_s": _median_error(alone),
        "p50_error_s": _median_error(medians),
        "naive_error_s": _median_error(naive),
        "end_error_s": _median_error(ends),
        "banded": len(banded),
        "band_coverage": _part([within_band(row) for row in banded]),
    }


def within_band(row: Scored) -> bool:
    """Whether a job started in a round of the band from the 10th to the 90th percentile."""
    return _round(row, row.p10) <= _round(row, row.real_start) <= _round(row, row.p90)


def _round(row: Scored, at: float | None) -> int:
    return math.floor((at or 0.0) / row.round_s)


def _part(truths: list[bool]) -> float | None:
    return sum(truths) / len(truths) if truths else None


def _median_error(pairs: list[Any]) -> float | None:
    return statistics.median(abs(said - came) for said, came in pairs) if pairs else None
