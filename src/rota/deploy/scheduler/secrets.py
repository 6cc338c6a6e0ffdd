"""Values of jobs' environments: in a file of their own beside the state file, which only its owner may read.

The journal has names only. `JobAccepted.secrets` is a random name under which the values of the job are kept here, so a
state file that was restored from a copy never finds the values of another job. They are written before the job is
accepted and deleted after it is over. A job whose values are lost does not start: it waits with that reason.

Events of older versions have values in clear text. They are read, and shown to nobody.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rota.core.errors import ConfigError, OutputError
from rota.core.job_spec import HIDDEN, JobSpec
from rota.core.lifecycle import JobPhase
from rota.deploy.events import JobWaits
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry

log = logging.getLogger(__name__)

_SCHEMA = "CREATE TABLE IF NOT EXISTS environments (name TEXT PRIMARY KEY, job INTEGER NOT NULL, body TEXT NOT NULL)"
_LOOK_AGAIN_S = 60.0
"""Wall seconds after which a job whose values are lost is looked at again."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def secrets_file(state: str | Path) -> Path:
    """The file with the values of the jobs of a state file."""
    path = Path(state)
    return path.with_name(f"{path.name}.secrets")


class SecretStore:
    """Values by name. Used by the thread that owns the registry; without a path it is in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._values: dict[str, dict[str, str]] = {}
        self._job_of: dict[str, int] = {}
        self._specs: dict[str, JobSpec] = {}
        if path is not None and path.exists():
            self._read(path)

    def close(self) -> None:
        """Let go of the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    # Questions

    def missing(self, job: Job) -> Sequence[str]:
        """Names of the variables of a job whose values are lost."""
        return () if not job.secrets or job.secrets in self._values else sorted(job.spec.env)

    def filled(self, job: Job) -> JobSpec:
        """The job as it is started: with its values, as far as they are there."""
        if job.secrets not in self._values:
            return job.spec
        spec = self._specs.get(job.secrets)
        if spec is None:
            spec = replace(job.spec, env=self._values[job.secrets])
            self._specs[job.secrets] = spec
        return spec

    # Changes

    def put(self, environments: Mapping[int, Mapping[str, str]]) -> dict[int, str]:
        """Keep values, by number of the job; the names under which they are kept. Raises OutputError."""
        names = {job: secrets.token_hex(16) for job, env in environments.items() if env}
        if not names:
            return {}
        rows = [(name, job, json.dumps(dict(environments[job]))) for job, name in names.items()]
        self._write("INSERT INTO environments VALUES (?, ?, ?)", rows)
        for job, name in names.items():
            self._values[name] = dict(environments[job])
            self._job_of[name] = job
        return names

    def let_go(self, registry: Registry) -> None:
        """Delete the values of jobs that are over, or that never were accepted. Raises OutputError."""
        over = [name for name, job in self._job_of.items() if not _needs(registry, job, name)]
        if not over:
            return
        self._write("DELETE FROM environments WHERE name = ?", [(name,) for name in over])
        for name in over:
            del self._values[name]
            del self._job_of[name]
            self._specs.pop(name, None)

    # The file

    def _write(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        if self._path is None:
            return
        try:
            db = self._db or self._open(self._path)
            self._db = db
            with db:
                db.executemany(statement, rows)
        except (OSError, sqlite3.Error) as error:
            raise OutputError(
                f"the file of secrets {self._path} cannot be written: {error}; make room there"
            ) from error

    def _open(self, path: Path) -> sqlite3.Connection:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        if path.stat().st_mode & _OTHERS:
            path.chmod(0o600)
        db = sqlite3.connect(path, check_same_thread=False)
        db.execute("PRAGMA secure_delete = ON")  # deleted values are overwritten
        db.execute("PRAGMA synchronous = FULL")
        db.execute(_SCHEMA)
        return db

    def _read(self, path: Path) -> None:
        try:
            self._db = self._open(path)
            rows = self._db.execute("SELECT name, job, body FROM environments").fetchall()
            for name, job, body in rows:
                self._values[name] = {str(key): str(value) for key, value in json.loads(body).items()}
                self._job_of[name] = int(job)
        except (OSError, sqlite3.Error, ValueError, AttributeError) as error:
            self.close()
            raise ConfigError(
                f"the file of secrets {path} cannot be read: {error}. Restore it from a copy, or move it away: jobs "
                "whose values were in it then wait until they are cancelled and submitted again"
            ) from error


def _needs(registry: Registry, number: int, name: str) -> bool:
    """Whether a job that may still start, or runs, has its values under this name."""
    job = registry.live.get(number) or registry.running.get(number)
    return job is not None and job.secrets == name


@dataclass(frozen=True, slots=True)
class SecretWaits:
    """Jobs that should start and cannot, as their values are lost."""

    jobs: frozenset[int]
    events: list[JobWaits]


def waits_for_secrets(
    registry: Registry, store: SecretStore, desired: Iterable[int], now: float, time_scale: float
) -> SecretWaits:
    """Jobs that must not start. They wait for a while, so that others get their place, and are looked at again."""
    known = (registry.live.get(number) for number in desired)
    jobs = [job for job in known if job is not None and job.attempt is None and store.missing(job)]
    queued = [job for job in jobs if job.phase is JobPhase.QUEUED and not job.ending]
    until = now + _LOOK_AGAIN_S * time_scale
    events = [
        JobWaits(at=now, job=job.id, until=until, reason="the values of its environment are lost") for job in queued
    ]
    return SecretWaits(frozenset(job.id for job in jobs), events)


def without_values(line: str) -> str:
    """An event as it may be told: of the environment of a job only the names."""
    if '"env"' not in line:
        return line
    fields = json.loads(line)
    spec = fields.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("env"), dict):
        return line
    hidden = {**spec, "env": dict.fromkeys(spec["env"], HIDDEN)}
    return json.dumps({**fields, "spec": hidden}, separators=(",", ":"))
