"""Memory that jobs may keep on this server between two attempts: the caches of `rota.data`.

A folder per job in a file system that is memory. The job fills it; the agent makes it, keeps it for a while after an
attempt has ended, so that the next one starts warm, and removes it. What is kept for jobs that do not run here is
bounded: in time, and by the memory that no task was given. A folder per tenant is for jobs that prepare data together.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rota.core.trees import remove_tree
from rota.deploy.clocks import machine_s
from rota.deploy.structured_logs import about
from rota.deploy.worker.tenancy import make_folder
from rota.deploy.worker.users import JobUser

log = logging.getLogger(__name__)

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it belong to their users alone
KEEP_S = 1800.0
"""Seconds for which a job that does not run here keeps its folder."""
UNLIMITED_PART = 0.1
"""Of the machine's memory may be kept while tasks run whose memory has no limit."""
DEEPEST = 8
"""Levels of folders that a job may make in its own; `rota.data` makes none."""
_PREFIX = "rota-agent-"
_REMOVED = "removed-"
_OWNER = "agent.lock"


@dataclass(frozen=True, slots=True)
class JobFolders:
    """What a job is told, and what a container has to see."""

    environment: dict[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()


class DataFolders:
    """The folders of one agent, which is known by its own folder."""

    def __init__(
        self,
        agent: Path,
        memory_bytes: int,
        *,
        separate: bool,
        base: Path = IN_MEMORY,
        clock: Callable[[], float] = machine_s,
    ) -> None:
        """`separate`: tasks run as other users than the agent's."""
        name = hashlib.sha256(str(agent.absolute()).encode()).hexdigest()[:12]
        self._base = base
        self._root = base / f"{_PREFIX}{os.geteuid()}-{name}"
        self._memory_bytes = memory_bytes
        self._mode = 0o711 if separate else 0o700
        self._clock = clock
        self._lock: int | None = None
        self._usable = base.is_dir() and os.access(base, os.W_OK)
        self._idle_since: dict[int, float] = {}
        self._removing = ThreadPoolExecutor(1, "rota-data-removal")

    def open(self, running: Iterable[int]) -> None:
        """Find again what an agent before this one kept, and remove what dead ones left."""
        if not self._usable:
            return
        for other in self._base.glob(f"{_PREFIX}{os.geteuid()}-*"):
            if other != self._root:
                _remove_if_dead(other)
        if self._root.is_dir():
            self._take()
            for path in self._jobs.glob(f"{_REMOVED}*"):
                self._removing.submit(remove_tree, path)
            self._idle_since = dict.fromkeys(self._found() - set(running), self._clock())

    def prepare(self, job: int, tenant: str, user: JobUser | None) -> JobFolders:
        """Make the folders of a job that is about to run. Without room or memory for that there are none."""
        if not self._usable:
            return JobFolders()
        own = self._jobs / str(job)
        shared = self._tenants / hashlib.sha256(tenant.encode()).hexdigest()[:16]
        owner = None if user is None else (user.uid, user.gid)
        try:
            self._take()
            for folder in (own, shared):
                make_folder(folder, 0o700, owner)
        except OSError as error:
            log.warning("job %d gets no memory that is kept: %s", job, error, extra=about(job=job))
            return JobFolders()
        self._idle_since.pop(job, None)
        return JobFolders({"ROTA_DATA_FOLDER": str(own), "ROTA_DATA_SHARED": str(shared)}, (str(own), str(shared)))

    def left(self, job: int, *, over: bool) -> None:
        """A job has no task here any more; `over`: and will not have one again."""
        self._idle_since[job] = self._clock()
        if over or not _bytes_in(self._jobs / str(job)):
            self._remove(job)
        for path in self._tenants.glob("*/*"):
            if path.is_dir() and not path.is_symlink():
                self._remove_aside(path)
            elif not _is_in_use(path):
                with contextlib.suppress(OSError):
                    path.unlink()

    def sweep(self, given_gb: Mapping[int, float]) -> None:
        """Remove what was kept for too long, and then the oldest until the rest fits beside the jobs that run.

        `given_gb` is the memory of each of them, 0 for one without a limit.
        """
        for job in given_gb:
            self._idle_since.pop(job, None)
        limit_s = self._clock() - KEEP_S
        for job in [job for job, since in self._idle_since.items() if since < limit_s]:
            self._remove(job)
        spare = self._spare_bytes(list(given_gb.values()))
        held: dict[int, int] = {}
        for job in list(self._idle_since):
            taken = _bytes_in(self._jobs / str(job))
            if taken is None:
                self._remove(job)
            else:
                held[job] = taken
        for job in sorted(held, key=lambda job: self._idle_since[job]):
            if sum(held.values()) <= spare:
                return
            log.info("the data cache of job %d (%d MB) makes room", job, held[job] // 1_000_000, extra=about(job=job))
            del held[job]
            self._remove(job)

    def close(self, running: Collection[int]) -> None:
        """The agent leaves: what is kept for jobs that do not run goes; those that run keep theirs."""
        for job in self._found() - set(running):
            self._remove(job)
        self._removing.shutdown()
        if self._lock is None:
            return
        _remove_empty(self._root)
        os.close(self._lock)
        self._lock = None

    def _found(self) -> set[int]:
        """Jobs that have a folder."""
        return {int(path.name) for path in self._jobs.glob("*") if path.name.isdecimal()}

    @property
    def _jobs(self) -> Path:
        return self._root / "jobs"

    @property
    def _tenants(self) -> Path:
        return self._root / "tenants"

    def _take(self) -> None:
        """Make the agent's own folder, and hold the lock by which others see that it lives."""
        if self._lock is not None and self._jobs.is_dir():
            return
        self._root.mkdir(mode=0o700, exist_ok=True)
        if self._root.lstat().st_uid != os.geteuid():
            raise PermissionError(f"{self._root} belongs to another user; remove it")
        for folder in (self._root, self._jobs, self._tenants):
            make_folder(folder, self._mode)
        if self._lock is None:
            self._lock = os.open(self._root / _OWNER, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _spare_bytes(self, given_gb: list[float]) -> float:
        spare = self._memory_bytes - sum(given_gb) * 1e9
        if any(gb <= 0 for gb in given_gb):
            spare = min(spare, UNLIMITED_PART * self._memory_bytes)
        return max(spare, 0.0)

    def _remove(self, job: int) -> None:
        """Out of the way at once; giving back the memory takes a second for some GB."""
        self._idle_since.pop(job, None)
        self._remove_aside(self._jobs / str(job))

    def _remove_aside(self, folder: Path) -> None:
        aside = self._jobs / f"{_REMOVED}{secrets.token_hex(8)}"
        with contextlib.suppress(OSError):
            folder.rename(aside)
            self._removing.submit(remove_tree, aside)


def _bytes_in(folder: Path) -> int | None:
    """Memory that the files of a folder take; links are not followed. None: it is too deep to say."""
    total = 0
    level = [str(folder)]
    for _ in range(DEEPEST):
        inner: list[str] = []
        for path in level:
            total += _bytes_directly_in(path, inner)
        if not inner:
            return total
        level = inner
    return None


def _bytes_directly_in(folder: str, inner: list[str]) -> int:
    """Of files; folders are added to `inner`."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                inner.append(entry.path)
                continue
            with contextlib.suppress(OSError):
                total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _remove_if_dead(root: Path) -> None:
    """Remove the folder of an agent that is gone, unless a job of it still has a file open."""
    with contextlib.suppress(OSError):
        if root.is_symlink() or root.lstat().st_uid != os.geteuid():
            return
        if not any(_is_in_use(path) for path in (root / _OWNER, *root.glob("*/*/*"))):
            remove_tree(root)


def _is_in_use(path: Path) -> bool:
    """Whether somebody holds the lock of a file; not of what is none, or may not be opened."""
    if not path.is_file() or path.is_symlink():
        return False
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _remove_empty(root: Path) -> None:
    """Remove the folder of an agent if no job has one in it."""
    if not any((root / "jobs").glob("*")):
        remove_tree(root)
