"""Control groups of the kernel, versions 1 and 2.

Groups are made below the agent's own group, as `rota/NAME`.

Below its own group and not at the root: a limit that somebody set on the agent holds for its tasks
too.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from rota.core.errors import ConfigError
from rota.deploy.worker.limits import Enclosure, ResourceLimits

FOLDER = "rota"
AGENT_GROUP = "rota-agent"
"""Where the agent moves: version 2 allows no processes in a group whose members have limits."""
PERIOD_US = 20_000
"""Of quotas. With the kernel's 100 ms a job with steps of 20 ms runs in bursts."""
_FIRST = {1: ("cpu.shares", "262144"), 2: ("cpu.weight", "10000")}
"""By version, the most weight that there is: such a group runs as soon as it wants to."""
_V1_LIMIT = "memory.limit_in_bytes"
_V1_SWAP_LIMIT = "memory.memsw.limit_in_bytes"
_log = logging.getLogger(__name__)
_V1 = ("cpuset", "cpu", "cpuacct", "memory", "blkio")
_V2 = ("cpuset", "cpu", "memory", "io")


class ControlGroups:
    """Shared by both versions: a base folder per controller, and what each controller is told."""

    def __init__(self, version: int, bases: Mapping[str, Path], folder: str = FOLDER) -> None:
        self.version = version
        self.bases: Mapping[str, Path] = dict(bases)
        self.folder = folder

    def describe(self) -> str:
        """One line that says what is limited and by what."""
        pinned = "CPUs pinned by cpuset" if "cpuset" in self.bases else "CPUs pinned by affinity"
        quota = "fractions by quota" if "cpu" in self.bases else "fractions of a CPU not limited"
        memory = (
            "memory by group" if "memory" in self.bases else "memory by RLIMIT_DATA per process"
        )
        return f"cgroup v{self.version}: {pinned}, {quota}, {memory}"

    def limits_reads(self) -> bool:
        """Whether it can hold tasks to a storage bandwidth."""
        return ("blkio" if self.version == 1 else "io") in self.bases

    def enclose(self, name: str, limits: ResourceLimits) -> Enclosure:
        """Make the groups of a task and set its limits.

        Nothing is left behind if one of them is refused.
        """
        enclosure = Enclosure(
            name,
            {controller: base / self.folder / name for controller, base in self.bases.items()},
            () if "cpuset" in self.bases else limits.cpus,
            None if "memory" in self.bases else limits.memory_bytes,
        )
        try:
            self._make_groups(enclosure, limits)
        except OSError as error:
            if not isinstance(error, FileExistsError):
                enclosure.remove()
            raise ConfigError(
                f"cannot limit task {name}: {error.filename}: {error.strerror} (CPUs "
                f"{list(limits.cpus)}, memory {limits.memory_bytes} bytes, quota {limits.quota})"
            ) from error
        return enclosure

    def _make_groups(self, enclosure: Enclosure, limits: ResourceLimits) -> None:
        for folder in enclosure.folders:
            _make(folder, self.version)
        if "cpuset" in self.bases:
            self._pin(enclosure.groups["cpuset"], limits.cpus)
        if "cpu" in self.bases and limits.quota is not None:
            self._set_quota(enclosure.groups["cpu"], limits.quota)
        if "memory" in self.bases and limits.memory_bytes is not None:
            self._set_memory(enclosure.groups["memory"], limits.memory_bytes)
        if limits.read_bytes_per_s is not None and self.limits_reads():
            self._set_reads(enclosure, limits.read_bytes_per_s, limits.read_disks)
        if "cpu" in self.bases and limits.first:
            group = enclosure.groups["cpu"]
            for folder in (group.parent, group):
                file, most = _FIRST[self.version]
                _put(folder / file, most)

    def _set_reads(self, enclosure: Enclosure, bytes_per_s: int, disks: tuple[str, ...]) -> None:
        for disk in disks:
            if self.version == 2:
                _put(enclosure.groups["io"] / "io.max", f"{disk} rbps={bytes_per_s}")
            else:
                file = enclosure.groups["blkio"] / "blkio.throttle.read_bps_device"
                _put(file, f"{disk} {bytes_per_s}")

    def resize(self, name: str, limits: ResourceLimits) -> None:
        """Other limits for a task that runs.

        Memory that it uses already is not taken away: that limit stays.
        """
        enclosure = self.attach(name)
        try:
            if "cpuset" in enclosure.groups:
                self._pin(enclosure.groups["cpuset"], limits.cpus)
            if "cpu" in enclosure.groups:
                self._set_quota(enclosure.groups["cpu"], limits.quota)
            if "memory" in enclosure.groups and limits.memory_bytes is not None:
                self._change_memory(enclosure.groups["memory"], limits.memory_bytes)
        except OSError as error:
            raise ConfigError(
                f"cannot change the limits of {name}: {error.filename}: {error.strerror}"
            ) from error

    def attach(self, name: str) -> Enclosure:
        """The groups of a task that was started before, as far as they are there."""
        groups = {controller: base / self.folder / name for controller, base in self.bases.items()}
        return Enclosure(
            name, {controller: path for controller, path in groups.items() if path.is_dir()}
        )

    def names(self) -> list[str]:
        """Groups that are there now."""
        names: set[str] = set()
        for base in self.bases.values():
            folder = base / self.folder
            if folder.is_dir():
                names.update(path.name for path in folder.iterdir() if path.is_dir())
        return sorted(names)

    def _pin(self, group: Path, cpus: tuple[int, ...]) -> None:
        if (
            self.version == 1
        ):  # a group of version 1 is unusable until both are set, its parent's first
            _inherit_cpuset(group.parent)
            _inherit_cpuset(group)
        if cpus:
            _put(group / "cpuset.cpus", ",".join(str(cpu) for cpu in cpus))

    def _set_quota(self, group: Path, cpus: float | None) -> None:
        quota = None if cpus is None else max(1000, round(cpus * PERIOD_US))
        if self.version == 2:
            _put(group / "cpu.max", f"{'max' if quota is None else quota} {PERIOD_US}")
            return
        _put(group / "cpu.cfs_period_us", str(PERIOD_US))
        _put(group / "cpu.cfs_quota_us", str(-1 if quota is None else quota))

    def _change_memory(self, group: Path, size: int) -> None:
        """Set the limits of memory and of memory with swap, in the order that the kernel wants.

        The one with swap must never be the smaller one, so the order depends on the direction.
        """
        limit_text = _text(group / ("memory.max" if self.version == 2 else _V1_LIMIT))
        limit = int(limit_text) if limit_text.isdigit() else None
        used = int(
            _text(group / ("memory.current" if self.version == 2 else "memory.usage_in_bytes")) or 0
        )
        if limit is not None and size < min(limit, used):
            _log.warning(
                "%s: %d bytes are in use, so the limit stays at %d and not %d",
                group,
                used,
                limit,
                size,
            )
            return
        swap = group / _V1_SWAP_LIMIT
        if self.version == 1 and swap.exists() and limit is not None and size > limit:
            _put(swap, str(size))
        self._set_memory(group, size)

    def _set_memory(self, group: Path, size: int) -> None:
        if self.version == 2:
            _put(group / "memory.max", str(size))
            if (group / "memory.swap.max").exists():
                _put(group / "memory.swap.max", "0")
            if (group / "memory.oom.group").exists():
                _put(
                    group / "memory.oom.group", "1"
                )  # a task is ended whole, not one process of it
            return
        _put(group / _V1_LIMIT, str(size))
        if (group / _V1_SWAP_LIMIT).exists():
            _put(group / _V1_SWAP_LIMIT, str(size))


def _inherit_cpuset(group: Path) -> None:
    for file in ("cpuset.cpus", "cpuset.mems"):
        if not _text(group / file):
            _put(group / file, _text(group.parent / file))


def open_v1(root: Path | None = None, folder: str = FOLDER) -> ControlGroups | str:
    """Version 1 with the controllers that may be written, or why not.

    `root` replaces what the kernel says.
    """
    mounted = (
        _mounted("cgroup")
        if root is None
        else {controller: root / controller for controller in _V1}
    )
    bases: dict[str, Path] = {}
    refused: list[str] = []
    for controller, base in mounted.items():
        if controller not in _V1 or not base.is_dir():
            continue
        if problem := _try(base):
            refused.append(problem)
        else:
            bases[controller] = base
    if "memory" in bases or "cpuset" in bases:
        return ControlGroups(1, bases, folder)
    return "cgroup v1: " + (refused[0] if refused else "not mounted")


def open_v2(root: Path | None = None, folder: str = FOLDER) -> ControlGroups | str:
    """Version 2 with the controllers that may be given to children, or why not."""
    base = _mounted("cgroup2").get("") if root is None else root
    if base is None or not (base / "cgroup.controllers").is_file():
        return "cgroup v2: not mounted"
    if base.name == AGENT_GROUP:
        base = base.parent
    offered = set(_text(base / "cgroup.controllers").split()) & set(_V2)
    if "memory" not in offered and "cpuset" not in offered:
        return f"cgroup v2: only {_text(base / 'cgroup.controllers') or 'no controllers'} in {base}"
    if problem := _try(base):
        return "cgroup v2: " + problem
    try:
        _make_room(base)
    except OSError as error:
        return f"cgroup v2: {error.filename}: {error.strerror}"
    bases = {controller: base for controller in _V2 if controller in offered}
    return ControlGroups(2, bases, folder)


def own_groups(controller: str) -> list[Path]:
    """The groups this process sits in as to one controller, in either version."""
    groups = (_mounted("cgroup").get(controller), _mounted("cgroup2").get(""))
    return [group for group in groups if group is not None]


def tidy(folder: str = FOLDER) -> None:
    """Take away our folders where nobody is left in them.

    runc makes some below controllers that we do not use.
    """
    for base in {*_mounted("cgroup").values(), *_mounted("cgroup2").values()}:
        with contextlib.suppress(OSError):
            (base / folder).rmdir()


def _make_room(base: Path) -> None:
    """Let children of the base have limits.

    Where the agent itself sits in the base, it moves into a leaf.
    """
    try:
        _enable(base)
    except OSError:
        (base / AGENT_GROUP).mkdir(exist_ok=True)
        _put(base / AGENT_GROUP / "cgroup.procs", "0")
        _enable(base)


def _enable(folder: Path) -> None:
    offered = [c for c in _text(folder / "cgroup.controllers").split() if c in _V2]
    if offered and (
        missing := set(offered) - set(_text(folder / "cgroup.subtree_control").split())
    ):
        _put(folder / "cgroup.subtree_control", " ".join(f"+{c}" for c in sorted(missing)))


def _try(base: Path) -> str:
    """Whether groups may be made here; the reason if not."""
    probe = base / FOLDER / f"probe-{os.getpid()}"
    try:
        _make(probe, 1)
        probe.rmdir()
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    with contextlib.suppress(OSError):  # others are at work there
        probe.parent.rmdir()
    return ""


def _make(folder: Path, version: int) -> None:
    """Make a group and its parent.

    Somebody else may be taking the empty parent away at this moment.
    """
    for last in (False, False, True):
        folder.parent.mkdir(exist_ok=True)
        try:
            if version == 2:
                _enable(folder.parent)
            folder.mkdir()
        except FileNotFoundError:
            if last:
                raise
        else:
            return


def _mounted(file_system: str) -> dict[str, Path]:
    """Own group of this process by controller ("" for version 2), as a folder seen from here."""
    own = _own_group_paths()
    groups: dict[str, Path] = {}
    for line in _text(Path("/proc/self/mountinfo")).splitlines():
        mount, _, source = line.partition(" - ")
        mounted_system, _, options = source.split(" ", 2)
        if mounted_system != file_system:
            continue
        fields = mount.split()
        mount_point = Path(fields[4])
        for controller in [""] if file_system == "cgroup2" else options.split(","):
            if controller in own:
                groups.setdefault(controller, _below(mount_point, fields[3], own[controller]))
    return groups


def _own_group_paths() -> dict[str, str]:
    """The group of this process by controller, as the kernel names it."""
    paths: dict[str, str] = {}
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        number, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(",") if number != "0" else [""], path))
    return paths


def _below(mount: Path, root: str, own: str) -> Path:
    """The folder of a group below a mount point, which may show only a part of the hierarchy."""
    inside = own[len(root) :] if root != "/" and own.startswith(root) else own
    path = mount / inside.strip("/")
    return path if path.is_dir() else mount


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _put(path: Path, value: str) -> None:
    path.write_text(value, encoding="ascii")
