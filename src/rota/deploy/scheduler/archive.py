"""Jobs that left memory: a table of the journal, written with the event that lets go of them.

Everything is read through a connection of its own, so that any thread may ask.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler.records import Job, job_from, job_values

SCHEMA = """
CREATE TABLE IF NOT EXISTS finished_jobs (
    job INTEGER PRIMARY KEY, tenant TEXT NOT NULL, phase TEXT NOT NULL, request TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS finished_jobs_by_request ON finished_jobs (request) WHERE request != '';
CREATE INDEX IF NOT EXISTS finished_jobs_by_tenant ON finished_jobs (tenant, phase);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs somebody wants to see; empty: all."""

    tenant: str = ""
    phases: frozenset[JobPhase] = frozenset()
    jobs: frozenset[int] = frozenset()
    below: int = 0
    """Only jobs with lower numbers; 0: all."""

    def takes(self, job: Job) -> bool:
        """Whether a job is one of them."""
        if (self.tenant and job.tenant != self.tenant) or (self.below and job.id >= self.below):
            return False
        return (not self.phases or job.phase in self.phases) and (not self.jobs or job.id in self.jobs)


def insert(db: sqlite3.Connection, jobs: Iterable[Job]) -> None:
    """Write jobs into the table, within the transaction of the caller."""
    rows = [(job.id, job.tenant, job.phase.value, job.request, _body(job)) for job in jobs]
    db.executemany("INSERT OR REPLACE INTO finished_jobs VALUES (?, ?, ?, ?, ?)", rows)


def _body(job: Job) -> str:
    return json.dumps(job_values(job), separators=(",", ":"))


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a state file that cannot change it, for any thread."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        yield db
    finally:
        db.close()


class JobArchive:
    """Reads the table."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    def _open(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return reading(self._path)

    def job(self, number: int) -> Job | None:
        """One job; None if it is not there."""
        with self._open() as db:
            row = db.execute("SELECT body FROM finished_jobs WHERE job = ?", (number,)).fetchone()
        return None if row is None else job_from(json.loads(row[0]))

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

    def select(self, wanted: JobFilter, limit: int = 0) -> tuple[list[Job], int]:
        """Jobs, the newest first, at most `limit` (0: all), and how many there are in all."""
        conditions = _conditions(wanted)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        values = list(conditions.values())
        count = f"SELECT count(*) FROM finished_jobs {where}"  # noqa: S608 - conditions are fixed texts with marks
        query = f"SELECT body FROM finished_jobs {where} ORDER BY job DESC LIMIT ?"  # noqa: S608 - likewise
        with self._open() as db:
            (total,) = db.execute(count, values).fetchone()
            bodies = [body for (body,) in db.execute(query, [*values, limit or -1])]
        return [job_from(json.loads(body)) for body in bodies], int(total)


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
