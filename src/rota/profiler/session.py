"""A profile from its first run to its last: resumes, stops cleanly, leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import signal
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from rota.core.errors import ConfigError, OutputError
from rota.core.trees import remove_tree
from rota.deploy.worker import cgroups
from rota.deploy.worker.host import Host
from rota.deploy.worker.inventory import Machine, inspect
from rota.deploy.worker.limits import Backend, pick
from rota.deploy.worker.storage import disk_of
from rota.profiler.blocks import Estimate
from rota.profiler.cell import Cell, JobToProfile, RunRecord
from rota.profiler.devices import Devices, choose, serving
from rota.profiler.journal import Journal
from rota.profiler.run import CellRunner, RunRules
from rota.profiler.search import NextRun, Plan, next_run
from rota.profiler.steps import compiled

GROUP = "rota-profile"
"""Control group of profiled jobs: apart from those of agents, because it goes before them."""


class Listener(Protocol):
    """Who is told how it goes."""

    def begin(self, run: NextRun, records: Sequence[RunRecord]) -> None:
        """A run begins."""

    def look(self, cell: Cell, found: Estimate | None, seconds: float) -> None:
        """A run goes on."""

    def end(self, record: RunRecord) -> None:
        """A run is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The machine as far as profiling needs it."""

    machine: Machine
    backend: Backend
    devices: Devices
    disks: tuple[str, ...]
    remarks: tuple[str, ...]


def prepare(job: JobToProfile, storage_mbps: Sequence[float]) -> Bench:
    """Look at the machine, and refuse what it cannot do. Raises ConfigError."""
    machine = inspect()
    backend = pick(folder=GROUP)
    _check_amounts(job, machine, backend)
    if job.steps_regex:
        compiled(job.steps_regex)
    devices = choose(job.device, job.gpus, machine)
    if job.type:
        devices = replace(devices, type=job.type)
    disks = _disks(job)
    remarks = [*devices.remarks]
    if backend.version == 0:
        remarks.append(f"limits by {backend.describe()}: not those of a control group")
    reads = isinstance(backend, cgroups.ControlGroups) and backend.limits_reads()
    if storage_mbps and not (reads and disks):
        why = "no I/O controller" if not reads else f"{job.data or job.cwd} is on no disk"
        remarks.append(f"storage is limited only for scripts with rota.data: {why}")
    return Bench(machine=machine, backend=backend, devices=devices, disks=disks, remarks=tuple(remarks))


def _check_amounts(job: JobToProfile, machine: Machine, backend: Backend) -> None:
    if job.cpus > len(machine.cpus):
        raise ConfigError(f"--cpu {job.cpus:g}: this machine has {len(machine.cpus)}; give that many or fewer")
    if job.memory_gb * 1e9 > machine.memory_bytes:
        have = machine.memory_bytes / 1e9
        raise ConfigError(f"--memory {job.memory_gb:g}: this machine has {have:.1f} GB; give less")
    if "cpu" not in backend.bases and not job.image and job.cpus != int(job.cpus):
        raise ConfigError(f"--cpu {job.cpus:g}: fractions of a CPU cannot be limited here ({backend.describe()})")


def _disks(job: JobToProfile) -> tuple[str, ...]:
    path = job.data or job.cwd
    try:
        disk = disk_of(path)
    except OSError as error:
        raise ConfigError(f"--data {path!r}: {error.strerror}; name a file or folder that is there") from None
    return (disk,) if disk else ()


@contextlib.asynccontextmanager
async def runner_of(job: JobToProfile, bench: Bench, folder: Path, rules: RunRules) -> AsyncIterator[CellRunner]:
    """What runs cells, with folders of its own that are gone afterwards."""
    memory = _private_folder(_memory_base(), folder)
    temporary = _private_folder(_temporary_base(), folder)
    try:
        make_own_folder(folder)
        host = Host(folder / "work", bench.machine, bench.backend)
    except OSError as error:
        raise OutputError(f"cannot use {folder}: {error.strerror}; name another place with -o") from None
    with contextlib.ExitStack() as locks:
        for own in {memory, temporary}:
            locks.enter_context(_locked(own))
        try:
            _end_old_tasks(host)
            async with serving(bench.devices, folder) as env:
                runner = CellRunner(
                    job,
                    host,
                    (folder, memory),
                    rules,
                    devices=bench.devices.ids,
                    extra_env=env,
                    disks=bench.disks,
                    temporary=temporary,
                )
                async with runner:
                    yield runner
        finally:
            host.close()
            remove_tree(folder)
            remove_tree(memory)
            remove_tree(temporary)


async def measure_all(plan: Plan, journal: Journal, runner: CellRunner, listener: Listener) -> None:
    """Run after run, each written down, until the plan has enough."""
    runner.uses_data = any(record.data is not None for record in journal.records)
    runner.fastest = journal.fastest
    while (wanted := next_run(plan, journal.believed)) is not None:
        listener.begin(wanted, journal.believed)
        record = await runner.run(wanted.cell, listener.look)
        record = replace(record, check=wanted.expected)
        journal.add(record)
        listener.end(record)


def run_to_end(work: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine function; Ctrl-C and TERM end it cleanly, as a KeyboardInterrupt."""

    async def main() -> None:
        own = asyncio.current_task()
        loop = asyncio.get_running_loop()
        if own is not None:
            loop.add_signal_handler(signal.SIGTERM, own.cancel)
        await work()

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _end_old_tasks(host: Host) -> None:
    """A profiler that was killed left its task, whose lease may not be over yet."""
    for seen in host.recover():
        launcher = host.launchers["process"]
        launcher.kill(host.table.path(seen.task))
        host.status(seen.task)
        with contextlib.suppress(ConfigError):
            host.forget(seen.task)


def _memory_base() -> Path:
    """Where the cache of the data path is kept, which stays warm between runs."""
    return Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else _temporary_base()  # noqa: S108 - mode 0700


def _temporary_base() -> Path:
    """Where this machine has temporary files."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise OutputError(f"{error.strerror}; set TMPDIR to a folder with room") from None


def _private_folder(base: Path, folder: Path) -> Path:
    """A folder of this profiler alone, in a place that others use, too; those that others left there go."""
    name = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]
    _remove_abandoned(base)
    made = base / f"rota-profile-{os.geteuid()}-{name}"
    try:
        make_own_folder(made)
    except OSError as error:
        raise OutputError(f"cannot make {made}: {error.strerror}") from None
    return made


def make_own_folder(folder: Path) -> None:
    """A folder of this user. ConfigError if something else is there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_own_folder(folder):
        raise ConfigError(f"{folder} belongs to somebody else; remove it")


def _remove_abandoned(base: Path) -> None:
    """Folders of profilers that were killed: nobody holds their lock."""
    for path in filter(_is_own_folder, base.glob(f"rota-profile-{os.geteuid()}-*")):
        with contextlib.suppress(OSError, ConfigError), _locked(path):
            remove_tree(path)


def _is_own_folder(path: Path) -> bool:
    """Anybody may make something with that name, such as a link to a folder where we would write."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"another `rota profile` with this name is at work ({folder}); wait for it") from None
    else:
        yield
    finally:
        os.close(handle)
