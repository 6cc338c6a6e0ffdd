"""Jobs that left memory: a table of the journal, written with the event that lets go of them.

Everything is read through a connection of its own, so that any thread may ask.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler.records import Job, job_from, job_values

SCHEMA = """
CREATE TABLE IF NOT EXISTS finished_jobs (
    job INTEGER PRIMARY KEY, tenant TEXT NOT NULL, phase TEXT NOT NULL, request TEXT NOT NULL, body TEXT NOT NULL,
    crc INTEGER, ended REAL);
CREATE INDEX IF NOT EXISTS finished_jobs_by_request ON finished_jobs (request) WHERE request != '';
CREATE INDEX IF NOT EXISTS finished_jobs_by_tenant ON finished_jobs (tenant, phase);
CREATE INDEX IF NOT EXISTS finished_jobs_by_end ON finished_jobs (ended);
"""
_ROWS = "SELECT job, tenant, phase, request, body, crc, ended FROM finished_jobs"
TEXT = functools.partial(str, encoding="utf-8", errors="replace")
"""How texts are read: a damaged one is another text, whose checksum says so, and not an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs somebody wants to see; empty: all."""

    tenant: str = ""
    phases: frozenset[JobPhase] = frozenset()
    jobs: frozenset[int] = frozenset()
    below: int = 0
    """Only jobs with lower numbers; 0: all."""

    def takes(self, job: Job, phase_of: Callable[[Job], JobPhase]) -> bool:
        """Whether a job is one of them; `phase_of` says its phase as people see it."""
        if (self.tenant and job.tenant != self.tenant) or (self.below and job.id >= self.below):
            return False
        return (not self.jobs or job.id in self.jobs) and (not self.phases or phase_of(job) in self.phases)


def insert(db: sqlite3.Connection, archived: Iterable[Job]) -> None:
    """Write jobs into the table, within the transaction of the caller."""
    jobs = list(archived)
    rows = [(job.id, job.tenant, job.phase.value, job.request, _body(job), None, job.ended) for job in jobs]
    checked = [(*row[:5], row_checksum(row), row[6]) for row in rows]
    db.executemany("INSERT OR REPLACE INTO finished_jobs VALUES (?, ?, ?, ?, ?, ?, ?)", checked)


def rows_of(db: sqlite3.Connection, jobs: Sequence[int]) -> list[tuple[Any, ...]]:
    """Rows of jobs by number, as the table has them."""
    if not jobs:
        return []
    query = f"{_ROWS} WHERE job IN (SELECT value FROM json_each(?))"  # noqa: S608 - fixed texts with a mark
    return db.execute(query, (json.dumps(list(jobs)),)).fetchall()


def remove(db: sqlite3.Connection, jobs: Iterable[int]) -> None:
    """Take jobs out of the table, within the transaction of the caller."""
    db.executemany("DELETE FROM finished_jobs WHERE job = ?", [(number,) for number in jobs])


def _body(job: Job) -> str:
    return json.dumps(job_values(job), separators=(",", ":"))


def row_checksum(row: Sequence[Any]) -> int:
    """CRC-32 of a row but for the column that holds it."""
    job, tenant, phase, request, body, _, ended = row
    text = f"{job} {tenant} {phase} {request} {float(ended or 0.0)!r} {body}"
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def whole(row: Sequence[Any]) -> bool:
    """Whether a row is as it was written; those of earlier versions have a checksum of the body alone, or none."""
    body, crc = row[4], row[5]
    if not isinstance(body, str) or not isinstance(row[6], float | int | None):
        return False
    return crc is None or crc in (row_checksum(row), zlib.crc32(body.encode("utf-8", "surrogatepass")))


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a state file that cannot change it, for any thread."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    db.text_factory = TEXT
    try:
        yield db
    finally:
        db.close()


class JobArchive:
    """Reads the table. A row that is damaged is left out: `Journal.damage` names it when a scheduler starts."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    def _open(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return reading(self._path)

    def job(self, number: int) -> Job | None:
        """One job; None if it is not there."""
        with self._open() as db:
            row = db.execute(f"{_ROWS} WHERE job = ?", (number,)).fetchone()
        return job_from(json.loads(row[4])) if row is not None and whole(row) else None

    def request(self, request: str) -> list[int] | None:
        """Jobs of a submission, by the name that the submitter gave it."""
        with self._open() as db:
            query = "SELECT job FROM finished_jobs WHERE request = ? AND request != '' ORDER BY job"
            jobs = [int(number) for (number,) in db.execute(query, (request,))]
        return jobs or None

    def tenants(self, numbers: Iterable[int]) -> dict[int, str]:
        """Tenants of those jobs that are there."""
        query = "SELECT job, tenant FROM finished_jobs WHERE job IN (SELECT value FROM json_each(?))"
        with self._open() as db:
            return dict(db.execute(query, (json.dumps(list(numbers)),)))

    def phases(self, numbers: Iterable[int]) -> dict[int, JobPhase]:
        """How those of these jobs ended that are there."""
        query = "SELECT job, phase FROM finished_jobs WHERE job IN (SELECT value FROM json_each(?))"
        with self._open() as db:
            rows = db.execute(query, (json.dumps(list(numbers)),)).fetchall()
        return {int(number): JobPhase(phase) for number, phase in rows}

    def damaged(self) -> list[int]:
        """Numbers of the jobs whose rows are not as they were written."""
        with self._open() as db:
            return [int(row[0]) for row in db.execute(_ROWS) if not whole(row)]

    def counts(self, tenant: str) -> dict[str, int]:
        """Jobs of a tenant that are there, by phase."""
        query = "SELECT phase, count(*) FROM finished_jobs WHERE tenant = ? GROUP BY phase"
        with self._open() as db:
            return dict(db.execute(query, (tenant,)))

    def ends(self) -> dict[int, float]:
        """When the jobs that are there ended, engine seconds."""
        with self._open() as db:
            return dict(db.execute("SELECT job, coalesce(ended, 0.0) FROM finished_jobs"))

    def ended_before(self, at: float, limit: int) -> list[int]:
        """Jobs that ended before an engine second, the first that ended first."""
        query = "SELECT job FROM finished_jobs WHERE ended < ? ORDER BY ended LIMIT ?"
        with self._open() as db:
            return [int(number) for (number,) in db.execute(query, (at, limit))]

    def ended_since(self, at: float) -> list[Job]:
        """Jobs that ended at an engine second or later."""
        with self._open() as db:
            rows = [row for row in db.execute(f"{_ROWS} WHERE ended >= ?", (at,)) if whole(row)]
        return [job_from(json.loads(row[4])) for row in rows]

    def select(self, wanted: JobFilter, limit: int = 0) -> tuple[list[Job], int]:
        """Jobs, the newest first, at most `limit` (0: all), and how many there are in all."""
        conditions = _conditions(wanted)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        values = list(conditions.values())
        count = f"SELECT count(*) FROM finished_jobs {where}"  # noqa: S608 - conditions are fixed texts with marks
        query = f"{_ROWS} {where} ORDER BY job DESC LIMIT ?"
        with self._open() as db:
            (total,) = db.execute(count, values).fetchone()
            rows = [row for row in db.execute(query, [*values, limit or -1]) if whole(row)]
        jobs = [job_from(json.loads(row[4])) for row in rows]
        return [job for job in jobs if wanted.tenant in ("", job.tenant)], int(total)


def _conditions(wanted: JobFilter) -> dict[str, str | int]:
    """What rows have to fulfil, with the value of each condition."""
    conditions: dict[str, str | int] = {}
    if wanted.tenant:
        conditions["tenant = ?"] = wanted.tenant
    if wanted.phases:
        conditions["phase IN (SELECT value FROM json_each(?))"] = json.dumps([phase.value for phase in wanted.phases])
    if wanted.below:
        conditions["job < ?"] = wanted.below
    if wanted.jobs:
        conditions["job IN (SELECT value FROM json_each(?))"] = json.dumps(list(wanted.jobs))
    return conditions
