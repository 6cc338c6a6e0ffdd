"""What the agent remembers of its tasks.

A folder each, on disk, so that its own end loses nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from rota.core import files
from rota.core.errors import ConfigError, OutputError
from rota.deploy.worker.spec import TaskId, TaskSpec

_SPEC = "spec.json"
_LEASE = "lease"
"""The supervisor reads it; a task without one may not run."""


_RESERVE_BYTES = 8192
"""Room that the supervisor gives up to write down how the task ended when the disk is full."""


class Lease(NamedTuple):
    """How long a task may run when nobody says more."""

    end: float
    """Seconds since boot."""
    patience_s: float = 0.0
    """Seconds on top of that for one that ends by itself then, to save."""


FOR_EVER = Lease(math.inf)


class TaskTable:
    """Tasks by folder below one folder, which one agent at a time may hold.

    Close it to let the next one in.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.tasks_folder = self.folder / "tasks"
        try:
            self.tasks_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(
                self.folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise OutputError(f"cannot use {self.folder} for tasks: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise ConfigError(
                f"another agent uses {self.folder}; stop it, or give this one a folder of its own"
            ) from None
        self._remove_unfinished()

    def close(self) -> None:
        """Let another agent have the folder. Tasks go on."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def path(self, task: TaskId) -> Path:
        """The folder of a task, whether it is there or not."""
        return self.tasks_folder / str(task)

    def add(self, spec: TaskSpec, lease: Lease = FOR_EVER) -> Path:
        """Write a task down with its first lease, all of it or nothing; its folder."""
        target = self.path(spec.id)
        if target.exists():
            raise ConfigError(
                f"task {spec.id} is already here; every lease of a job needs an epoch of its own"
            )
        building = self.tasks_folder / f".{spec.id}.part"
        try:
            _build(building, spec, lease)
            building.rename(target)
            files.sync_folder(self.tasks_folder)
        except OSError as error:
            shutil.rmtree(building, ignore_errors=True)
            raise OutputError(
                f"cannot write task {spec.id} to {self.tasks_folder}: {error.strerror}; make room "
                "and try again"
            ) from error
        return target

    def lend(self, task: TaskId, lease: Lease) -> None:
        """Write a task's next lease. Raises OSError: then the one before holds."""
        _write_lease(self.path(task), lease)

    def replace(self, spec: TaskSpec) -> None:
        """Write another description of a task that is here."""
        path = self.path(spec.id) / _SPEC
        try:
            _write(path, spec)
        except OSError as error:
            raise OutputError(
                f"cannot write {path}: {error.strerror}; make room and try again"
            ) from error

    def ids(self) -> list[TaskId]:
        """Tasks that were not forgotten, in order. Folders that are no tasks are left alone."""
        tasks = []
        for path in self.tasks_folder.iterdir():
            with contextlib.suppress(ConfigError):
                tasks.append(TaskId.parse(path.name))
        return sorted(tasks)

    def spec(self, task: TaskId) -> TaskSpec:
        """What a task was asked to be."""
        path = self.path(task) / _SPEC
        try:
            return TaskSpec.from_json(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise ConfigError(f"task {task} is not on this machine") from None
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{path} cannot be read ({error}); remove its folder to give up the task"
            ) from error

    def forget(self, task: TaskId) -> None:
        """The end of a task was acknowledged: remove its folder. Forgetting twice is fine."""
        path = self.path(task)
        gone = self.tasks_folder / f".{task}.gone"
        try:
            shutil.rmtree(gone, ignore_errors=True)
            path.rename(gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def _remove_unfinished(self) -> None:
        """What an agent that died was just writing or removing."""
        for path in self.tasks_folder.glob(".*"):
            shutil.rmtree(path, ignore_errors=True)


def _build(folder: Path, spec: TaskSpec, lease: Lease) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "logs").mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    _write_lease(folder, lease)
    (folder / "reserve").write_bytes(bytes(_RESERVE_BYTES))
    _write(folder / _SPEC, spec)


def _write_lease(folder: Path, lease: Lease) -> None:
    # Not synced: after a power cut there is no task that it could end.
    text = f"{lease.end:.3f} {lease.patience_s:g}"
    # Readable: what ends with the lease may run as the user of the task, which cannot change it.
    files.write_text(folder / _LEASE, text, mode=0o644, durable=False)


def _write(path: Path, spec: TaskSpec) -> None:
    """Only the owner may read it: it holds the environment of the task."""
    files.write_text(path, json.dumps(spec.to_json(), indent=1), mode=0o600)
