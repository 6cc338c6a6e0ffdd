"""CPU and memory limits of a task.

By control groups where they may be written, else by affinity and rlimits.

A backend says which it is (`describe`). Without control groups memory is limited by RLIMIT_DATA: it
holds for each process, not for their sum, and not for shared memory; RLIMIT_AS is not used, because
a GPU program reserves far more addresses than memory. A program then sees a failed allocation
instead of being ended, so nobody can tell `out-of-memory` from any other failure.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rota.deploy.worker import procs

KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """What a task may use.

    `quota` counts CPUs and is given for fractions only; whole CPUs are limited by pinning.
    """

    cpus: tuple[int, ...] = ()
    memory_bytes: int | None = None
    quota: float | None = None
    read_bytes_per_s: int | None = None
    """From each of `read_disks`, all processes of the task together."""
    read_disks: tuple[str, ...] = ()
    """As the kernel numbers them, `254:0`."""
    first: bool = False
    """Whether its processes go before those of other programs: for measuring."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """The limits of a task in force: groups to enter, or what the process sets for itself."""

    name: str
    groups: dict[str, Path] = field(default_factory=dict)  # by controller
    affinity: tuple[int, ...] = ()
    data_limit: int | None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the groups, each once."""
        return tuple(dict.fromkeys(self.groups.values()))

    @property
    def oom_events(self) -> Path | None:
        """The file that counts processes ended for want of memory."""
        group = self.groups.get("memory")
        if group is None:
            return None
        return group / (
            "memory.events" if (group / "memory.events").exists() else "memory.oom_control"
        )

    def members(self) -> list[procs.Process]:
        """Processes in the groups and in groups below them."""
        pids: set[int] = set()
        for top in self.folders:
            for folder, _, _ in os.walk(top):  # groups may vanish meanwhile
                pids.update(_numbers(Path(folder) / "cgroup.procs"))
        return procs.by_number(sorted(pids))

    def kill_all(self, seconds: float = KILL_SECONDS) -> bool:
        """End everybody inside, however they hide; True when nobody is left."""
        end = time.monotonic() + seconds
        while members := self.members():
            if time.monotonic() > end:
                return False
            if not self._kill_at_once():
                for process in members:
                    procs.send(process, signal.SIGKILL)
            time.sleep(0.01)
        return True

    def usage(self) -> procs.Usage:
        """CPU seconds (where the kernel counts, also of ended processes) and resident bytes."""
        used = procs.usage(self.members())
        counted = self.counted_cpu_seconds()
        return used if counted is None else procs.Usage(counted, used.rss_bytes)

    def counted_cpu_seconds(self) -> float | None:
        """CPU seconds as its control group counts them, read at once; None if none does."""
        return _cpu_seconds(self.groups)

    def remove(self) -> bool:
        """Take the groups away; False if somebody is still inside."""
        removed = [_remove(folder) for folder in self.folders]
        return all(removed)

    def _kill_at_once(self) -> bool:
        files = [folder / "cgroup.kill" for folder in self.folders]
        if not files or not all(file.exists() for file in files):
            return False
        for file in files:
            file.write_text("1", encoding="ascii")
        return True


class Backend(Protocol):
    """A way to hold tasks to their limits.

    `version` is that of the control groups, 0 without any.
    """

    version: int
    bases: Mapping[str, Path]
    """By controller, the group below which those of tasks are made."""
    folder: str
    """The group in them that holds all groups of tasks."""

    def describe(self) -> str:
        """One line that says what is limited and by what."""

    def enclose(self, name: str, limits: ResourceLimits) -> Enclosure:
        """Put limits in force for a task that is about to start."""

    def resize(self, name: str, limits: ResourceLimits) -> None:
        """Other limits for the groups of a task that runs."""

    def attach(self, name: str) -> Enclosure:
        """The enclosure of a task that was started before."""

    def names(self) -> list[str]:
        """Enclosures that are there now, whoever made them."""


class RlimitBackend:
    """Affinity and RLIMIT_DATA, set by the process itself before it becomes the command."""

    version = 0
    folder = ""

    def __init__(self, why: str = "") -> None:
        self.why = why
        self.bases: Mapping[str, Path] = {}

    def describe(self) -> str:
        """One line that says what is limited and by what."""
        reason = f" ({self.why})" if self.why else ""
        return (
            "affinity and rlimits: CPUs pinned, fractions of a CPU not limited, "
            f"memory by RLIMIT_DATA per process{reason}"
        )

    def enclose(self, name: str, limits: ResourceLimits) -> Enclosure:
        """Nothing to prepare: the process limits itself."""
        return Enclosure(name, {}, limits.cpus, limits.memory_bytes)

    def resize(self, name: str, limits: ResourceLimits) -> None:
        """There are no groups; `relimit` reaches the processes."""

    def attach(self, name: str) -> Enclosure:
        """There is nothing to find again."""
        return Enclosure(name)

    def names(self) -> list[str]:
        """None are kept."""
        return []


def relimit(
    processes: Iterable[procs.Process], limits: ResourceLimits, controllers: Collection[str]
) -> None:
    """Set affinity and RLIMIT_DATA of processes that run.

    Only as far as no group of theirs (`controllers`) does it.
    """
    size = None if "memory" in controllers else limits.memory_bytes
    cpus = () if "cpuset" in controllers else limits.cpus
    for process in processes:
        with contextlib.suppress(OSError):  # it has just ended
            if cpus:
                _pin_threads(process, cpus)
            if size is not None:
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (size, size))


def _pin_threads(process: procs.Process, cpus: tuple[int, ...]) -> None:
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cpus)


def pick(root: Path | None = None, folder: str = "") -> Backend:
    """The best backend that this process is allowed to use, found by trying.

    `folder` names the group that holds those of tasks, if it is not that of agents.
    """
    from rota.deploy.worker import cgroups  # cgroups needs the types above

    reasons: list[str] = []
    tries: tuple[Callable[[Path | None, str], Backend | str], ...] = (
        cgroups.open_v2,
        cgroups.open_v1,
    )
    for attempt in tries:
        backend = attempt(root, folder or cgroups.FOLDER)
        if not isinstance(backend, str):
            return backend
        reasons.append(backend)
    return RlimitBackend("; ".join(reasons))


def clear(backend: Backend, prefix: str, known: set[str]) -> list[str]:
    """End and remove enclosures of ours (by prefix) that no task owns any more; their names."""
    gone = []
    for name in backend.names():
        if name.startswith(prefix) and name not in known:
            enclosure = backend.attach(name)
            enclosure.kill_all()
            enclosure.remove()
            gone.append(name)
    return gone


def _numbers(path: Path) -> list[int]:
    try:
        return [int(line) for line in path.read_text(encoding="ascii").split()]
    except OSError:
        return []


def _cpu_seconds(groups: dict[str, Path]) -> float | None:
    try:
        if "cpuacct" in groups:
            return int((groups["cpuacct"] / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
        if "cpu" in groups:
            words = (groups["cpu"] / "cpu.stat").read_text(encoding="ascii").split()
            figures = dict(zip(words[::2], words[1::2], strict=True))
            return int(figures["usage_usec"]) / 1e6
    except (OSError, ValueError, KeyError):
        return None
    return None


def _remove(folder: Path) -> bool:
    """Remove a group and the groups below it, then the parent if it is empty.

    Groups need a moment to become empty.
    """
    end = time.monotonic() + 1.0
    while folder.exists():
        with contextlib.suppress(OSError):  # not empty yet
            for inner, _, _ in os.walk(folder, topdown=False):
                Path(inner).rmdir()
            break
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    with contextlib.suppress(OSError):  # other tasks live there
        folder.parent.rmdir()
    return True
