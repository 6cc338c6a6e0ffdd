"""What a task is asked to be: a frozen description, and the environment it gets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError
from rota.deploy.worker.users import JobUser

PASSED_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
)
"""All that a task gets of its agent's environment: an agent may hold credentials, and tasks belong
to others."""
OF_THE_MACHINE = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ")
"""Those of them that are the same for all users of a machine."""
MARKER = "ROTA_TASK_FOLDER"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One rank of a job in one of its leases."""

    job: str
    epoch: int = 0
    rank: int = 0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.job):
            raise ConfigError(
                f"job {self.job!r}: use 1 to 80 letters, digits, '_' and '-'; it names a folder"
            )
        if self.epoch < 0 or self.rank < 0:
            raise ConfigError(
                f"task of job {self.job}: epoch {self.epoch} and rank {self.rank} must not be "
                "negative"
            )

    def __str__(self) -> str:
        return f"{self.job}.{self.epoch}.{self.rank}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """The opposite of `str`."""
        job, _, rest = text.partition(".")
        epoch, _, rank = rest.partition(".")
        if not (epoch.isdigit() and rank.isdigit()):
            raise ConfigError(f"task {text!r} is not JOB.EPOCH.RANK")
        return cls(job, int(epoch), int(rank))


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """All that is needed to start a task.

    Folders are absolute; `cpu_ids` is filled in by the machine.
    """

    id: TaskId
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    cpus: float = 1.0
    memory_gb: float | None = None
    devices: tuple[str, ...] = ()
    checkpoints: str = ""
    logs: str = ""  # a folder per task is made in it; empty: inside the folder of the task
    log_mb: float = 16.0  # of output that waits to be sent, both streams together
    image: str = ""  # empty: a plain process
    launcher: str = ""  # empty: chosen by the image
    mounts: tuple[str, ...] = ()  # for containers: PATH or PATH:ro
    mps: bool = False
    cpu_ids: tuple[int, ...] = ()
    virtual: bool = False  # the machine has fewer CPUs than were asked for
    log_segment_mb: float = 1.0  # size of a file of output
    user: JobUser | None = None  # None: the agent's own
    read_mbps: float | None = None  # MB/s of reads from storage, for measuring; None: no limit
    read_disks: tuple[str, ...] = ()  # which disks that is about, `254:0`
    first: bool = False  # before other programs of the machine, for measuring

    def __post_init__(self) -> None:
        where = f"task {self.id}"
        if not self.argv or not self.argv[0]:
            raise ConfigError(f"{where}: argv is empty; name the program to run")
        if not (math.isfinite(self.cpus) and self.cpus > 0):
            raise ConfigError(f"{where}: cpus is {self.cpus}; a task needs more than 0")
        if self.memory_gb is not None and not (
            math.isfinite(self.memory_gb) and self.memory_gb > 0
        ):
            raise ConfigError(
                f"{where}: memory_gb is {self.memory_gb}; give more than 0, or nothing for no limit"
            )
        for name in ("log_mb", "log_segment_mb", "read_mbps"):
            size = getattr(self, name)
            if size is not None and not (math.isfinite(size) and size > 0):
                raise ConfigError(f"{where}: {name} is {size}; give more than 0")
        for name in ("cwd", "checkpoints", "logs"):
            value = getattr(self, name)
            if value and not Path(value).is_absolute():
                raise ConfigError(f"{where}: {name} {value!r} is not an absolute folder")
        _check_texts(where, self.argv, self.env)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file or a message."""
        return {**asdict(self), "id": str(self.id), "env": dict(self.env)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TaskSpec:
        """The opposite of `to_json`; unknown names are refused."""
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ConfigError(f"task description has unknown fields: {', '.join(unknown)}")
        if missing := sorted({"id", "argv"} - set(values)):
            raise ConfigError(f"task description lacks {', '.join(missing)}")
        read: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        read["id"] = TaskId.parse(str(values["id"]))
        if values.get("user") is not None:
            user = values["user"]
            read["user"] = JobUser(**{**user, "groups": tuple(user["groups"])})
        return cls(**read)


def _check_texts(where: str, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Refuse what the kernel would refuse only when the task starts."""
    for text in argv:
        if "\0" in text:
            raise ConfigError(f"{where}: {text!r} holds a NUL character")
    for key, value in env.items():
        if "\0" in value:
            raise ConfigError(f"{where}: the value of {key!r} holds a NUL character")
        if not key or "=" in key or "\0" in key:
            raise ConfigError(f"{where}: {key!r} cannot be the name of an environment variable")


def logs_of(spec: TaskSpec, folder: Path) -> Path:
    """Where the output of a task goes.

    A folder of its own, inside that of the task unless another was asked for.
    """
    return Path(spec.logs) / str(spec.id) if spec.logs else folder / "logs"


def environment(spec: TaskSpec, folder: Path, own: Mapping[str, str]) -> dict[str, str]:
    """What the task sees: a few harmless variables of the agent, its own ones, and where it is.

    Nothing else.
    """
    passed = {name: own[name] for name in PASSED_VARIABLES if name in own}
    if spec.user is not None:
        passed = {name: passed[name] for name in OF_THE_MACHINE if name in passed}
        passed.update(spec.user.environment())
    devices = ",".join(spec.devices)
    return {
        **passed,
        **spec.env,
        "CUDA_VISIBLE_DEVICES": devices,
        "ROTA_DEVICES": devices,
        "ROTA_TASK": str(spec.id),
        "ROTA_JOB": spec.id.job,
        "ROTA_EPOCH": str(spec.id.epoch),
        "ROTA_RANK": str(spec.id.rank),
        "ROTA_CPUS": f"{spec.cpus:g}",
        "ROTA_MEMORY_GB": "" if spec.memory_gb is None else f"{spec.memory_gb:g}",
        "ROTA_CHECKPOINTS": spec.checkpoints,
        "ROTA_LOGS": str(logs_of(spec, folder)),
        MARKER: str(folder),
    }
