"""Tasks in containers of runc, without a daemon.

A bundle is written beside the task and run in the foreground.

The image is a folder with a root file system, or `host`: the files of this machine, read-only, with
/tmp of its own. Its program is the user of the task, without any capability. The container shares
the network of the machine (ranks of a job must reach each other) and joins the control groups of
the task, so that its limits are the same as those of a process.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path
from typing import Any

from rota.core import files
from rota.core.errors import ConfigError, OutputError
from rota.deploy.worker.cgroups import FOLDER
from rota.deploy.worker.container import call, last_line, wait_for_end
from rota.deploy.worker.container_rules import check_working_folder
from rota.deploy.worker.launcher import HOST
from rota.deploy.worker.limits import Backend, ResourceLimits
from rota.deploy.worker.process import MOST_PROCESSES, Command, ProcessLauncher, limits_of
from rota.deploy.worker.spec import TaskSpec, environment
from rota.deploy.worker.status import Status

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OWN = {"proc", "sys", "dev", "tmp", "run"}  # of the host's root, what a container gets fresh
_CAPABILITIES = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
]
_OPEN_FILES = 65536
_MASKED = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"]
_READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


class RuncLauncher:
    """Containers of runc.

    Its own state lies below `state`, so that agents do not see each other's containers.
    """

    name = "runc"

    def __init__(self, limits: Backend, state: Path, prefix: str = "") -> None:
        self.state = state
        self.prefix = prefix
        self._process = ProcessLauncher(limits, prefix)

    def unavailable(self) -> str:
        """Why runc cannot be used here."""
        if shutil.which("runc") is None:
            return "runc is not installed"
        if os.geteuid() != 0:
            return "runc needs root here: containers without root are not supported"
        completed = call(["runc", "--version"])
        if completed is None or completed.returncode != 0:
            return (
                f"runc does not work: {last_line(completed.stderr) if completed else 'no answer'}"
            )
        return ""

    def start(self, spec: TaskSpec, folder: Path) -> None:
        """Write the bundle and run it in the foreground, under the supervisor."""
        check_working_folder(spec)
        env = environment(spec, folder, os.environ if spec.image == HOST else {"PATH": _PATH})
        bundle = folder / "bundle"
        try:
            self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
            root = _root(spec, bundle)
            config = configuration(
                spec, root, env, self._groups_path(str(spec.id)), self._inner_limits(spec)
            )
            config["mounts"] += _mounts(spec, hidden=self.state.parent)
            # Not synced: it is read at once, and after a power cut the container is gone.
            files.write_text(bundle / "config.json", json.dumps(config), mode=0o600, durable=False)
        except OSError as error:
            raise OutputError(
                f"cannot write the bundle of task {spec.id}: {error.strerror}"
            ) from error
        runc = ("runc", "--root", str(self.state))
        name = self._id(str(spec.id))
        argv = (*runc, "run", "--keep", "--bundle", str(bundle), name)
        own = {"PATH": os.environ.get("PATH", _PATH)}
        ending = (*runc, "kill", name, "KILL")
        self._process.run(spec, folder, Command(argv, own, "/", enter=False, ending=ending))

    def status(self, folder: Path) -> Status:
        """How the task is."""
        return self._process.status(folder)

    def resize(self, spec: TaskSpec, folder: Path) -> None:
        """The container is in the groups of the task."""
        self._process.resize(spec, folder)

    def signal(self, folder: Path, number: int) -> None:
        """In the foreground, runc passes signals on."""
        self._process.signal(folder, number)

    def kill(self, folder: Path) -> None:
        """End the container, then what is left of it."""
        call(["runc", "--root", str(self.state), "kill", self._id(folder.name), "KILL"])
        wait_for_end(folder)
        self._process.kill(folder)

    def clean(self, folder: Path) -> None:
        """Remove the container, its groups and its bundle."""
        self._process.kill(folder)
        call(["runc", "--root", str(self.state), "delete", "--force", self._id(folder.name)])
        self._process.clean(folder)

    def _id(self, task: str) -> str:
        return f"rota-{self.prefix}{task}"

    def _groups_path(self, task: str) -> str:
        """The groups of the task as runc names them.

        That is from the root in version 2, and from runc's own in version 1.
        """
        limits = self._process.limits
        group = f"{limits.folder or FOLDER}/{self.prefix}{task}"
        if limits.version != 2:
            return group
        base = next(iter(limits.bases.values()))
        return "/" + os.path.relpath(base / group, _mount_point())

    def _inner_limits(self, spec: TaskSpec) -> ResourceLimits:
        """What no group of ours will hold, so that the container must."""
        held_by_group = "memory" in self._process.limits.bases
        return ResourceLimits((), None if held_by_group else limits_of(spec).memory_bytes)


def configuration(
    spec: TaskSpec, root: Path, env: dict[str, str], groups: str, limits: ResourceLimits
) -> dict[str, Any]:
    """The OCI description of a task."""
    capabilities = _CAPABILITIES if spec.user is None else []
    rlimits: list[dict[str, Any]] = []
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= _OPEN_FILES:
        rlimits.append({"type": "RLIMIT_NOFILE", "hard": _OPEN_FILES, "soft": _OPEN_FILES})
    if limits.memory_bytes is not None:
        rlimits.append(
            {"type": "RLIMIT_DATA", "hard": limits.memory_bytes, "soft": limits.memory_bytes}
        )
    if spec.user is not None:
        rlimits.append({"type": "RLIMIT_NPROC", "hard": MOST_PROCESSES, "soft": MOST_PROCESSES})
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": _user(spec),
            "args": list(spec.argv),
            "env": [f"{name}={value}" for name, value in sorted(env.items())],
            "cwd": spec.cwd,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
            "rlimits": rlimits,
            "noNewPrivileges": True,
        },
        "root": {"path": str(root), "readonly": True},
        "mounts": [],
        "linux": {
            "cgroupsPath": groups,
            "namespaces": [{"type": namespace} for namespace in ("pid", "ipc", "mount")],
            "maskedPaths": _MASKED,
            "readonlyPaths": _READ_ONLY,
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        },
    }


def _mounts(spec: TaskSpec, hidden: Path) -> list[dict[str, Any]]:
    """What every container sees, then what this one asked for.

    The folder of the agent, with other tasks, is hidden.
    """
    tight = ["nosuid", "noexec", "nodev"]
    mounts: list[dict[str, Any]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "mode=755", "size=65536k"],
        },
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance"],
        },
        {
            "destination": "/dev/shm",
            "type": "tmpfs",
            "source": "shm",
            "options": [*tight, "mode=1777"],
        },
        {
            "destination": "/sys",
            "type": "none",
            "source": "/sys",
            "options": ["rbind", *tight, "ro"],
        },
        {
            "destination": "/tmp",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777"],
        },
    ]
    if spec.image == HOST:
        mounts = [_bind(f"/{name}", "ro") for name in _host_folders()] + mounts
        mounts.append(
            {
                "destination": str(hidden),
                "type": "tmpfs",
                "source": "tmpfs",
                "options": [*tight, "size=4k"],
            }
        )
        if spec.cwd != "/" and spec.user is None:
            mounts.append(_bind(spec.cwd, "rw"))
    for text in (*spec.mounts, *([spec.checkpoints] if spec.checkpoints else [])):
        path, _, mode = text.partition(":")
        mounts.append(_bind(path, mode or "rw"))
    return mounts


def _user(spec: TaskSpec) -> dict[str, Any]:
    """Whom the program of a container runs as: without a user of its own, the agent's."""
    if spec.user is None:
        return {"uid": 0, "gid": 0}
    return {
        "uid": spec.user.uid,
        "gid": spec.user.gid,
        "additionalGids": list(spec.user.groups),
        "umask": 0o077,
    }


def _bind(path: str, mode: str) -> dict[str, Any]:
    return {
        "destination": path,
        "type": "none",
        "source": path,
        "options": ["rbind", "nosuid", "nodev", mode],
    }


def _host_folders() -> list[str]:
    return sorted(
        p.name
        for p in Path("/").iterdir()
        if p.is_dir() and not p.is_symlink() and p.name not in _OWN
    )


def _root(spec: TaskSpec, bundle: Path) -> Path:
    """The root file system of the image, or an empty one with the links of the host's root."""
    bundle.mkdir(mode=0o700, exist_ok=True)
    if spec.image != HOST:
        root = Path(spec.image)
        if not root.is_absolute() or not root.is_dir():
            raise ConfigError(
                f"task {spec.id}: image {spec.image!r} is not a folder with a root file system"
            )
        return root
    root = bundle / "rootfs"
    root.mkdir(exist_ok=True)
    for path in Path("/").iterdir():
        if path.is_symlink() and not (root / path.name).exists():
            (root / path.name).symlink_to(path.readlink())
    return root


def _mount_point() -> Path:
    """Where version 2 is mounted."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="ascii").splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return Path(before.split()[4])
    return Path("/sys/fs/cgroup")
