"""What is asked of Slurm for every pilot: partition, GPUs, CPUs, memory, time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rota.core.errors import ConfigError
from rota.core.slurm_text import GpuGres, gpus_of, seconds_of

_SAFE = re.compile(r"[\w.,:/=+@%\[\]()*&|!-]*")
_OURS = re.compile(
    r"-[JoDa]|--(job-name|comment|output|chdir|signal|array|wrap|parsable|nodes|ntasks|clusters|test-only)\b"
)
"""Options of sbatch that are always given, or that would make something else than one batch job."""
_HOURS = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
LEAST_NOTICE_S = 10.0
LIGHT_CPUS = 1
"""CPUs of a pilot whose attempts have batch jobs of their own."""
LIGHT_MIB = 1024
"""Memory of such a pilot, MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Options of sbatch. Empty: as the site says."""

    partition: str = ""
    gres: str = ""
    """As in `--gres`, such as gpu:v100:4; empty: the whole node."""
    time_s: float = 0.0
    """Time limit; 0: that of the partition."""
    notice_s: float = 120.0
    """Seconds before the time limit at which the agent begins to leave."""
    cpus: int = 0
    mem: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    exclude: str = ""
    nodelist: str = ""
    reservation: str = ""
    exclusive: bool = False
    per_attempt: bool = False
    """Whether each attempt has a batch job of its own. Then pilots have no GPUs, and `gres`, `cpus` and `mem` say how
    much of a node attempts may have together."""
    more: tuple[str, ...] = ()
    """More options of sbatch, as they are."""

    def __post_init__(self) -> None:
        for name in ("partition", "gres", "mem", "account", "qos", "constraint", "exclude", "nodelist", "reservation"):
            value = getattr(self, name)
            if not _SAFE.fullmatch(value):
                raise ConfigError(f"--{name} {value!r} has characters that Slurm's options do not have")
        if self.gres and not gpus_of(self.gres):
            raise ConfigError(f"--gres {self.gres!r} asks for no GPU; write gpu:TYPE:COUNT, e.g. gpu:v100:4")
        if any("\n" in option or not option.startswith("-") for option in self.more):
            raise ConfigError(
                f"--sbatch {self.more!r}: every one is an option of sbatch, such as --sbatch=--hint=nomultithread"
            )
        if ours := [option for option in self.more if _OURS.match(option)]:
            raise ConfigError(f"--sbatch={ours[0]}: by this a pilot is found again or told to leave; leave it out")
        if any(option.startswith("--requeue") for option in self.more):
            raise ConfigError("--sbatch=--requeue: pilots are not requeued but replaced, by others with other names")
        if self.per_attempt and self.exclusive:
            raise ConfigError("--per-attempt shares nodes with the batch jobs of attempts; leave --exclusive out")
        if self.time_s and self.time_s < 2 * self.notice_s:
            problem = f"a time limit of {self.time_s:g} s is shorter than twice the notice of {self.notice_s:g} s"
            raise ConfigError(f"{problem}; give a longer --time or a shorter --notice")
        if self.notice_s < LEAST_NOTICE_S:
            raise ConfigError(f"--notice {self.notice_s:g} is below {LEAST_NOTICE_S:g} s; jobs need time to save")

    @property
    def gpu(self) -> GpuGres:
        """GPUs of a pilot; a count of 0 means those of the node."""
        gpus = gpus_of(self.gres)
        return gpus[0] if gpus else GpuGres("", 0)

    def has_partition(self, partitions: str) -> bool:
        """Whether a node of these partitions may have a pilot; `--partition` may name several, as in sbatch."""
        return not self.partition or not {*self.partition.split(",")}.isdisjoint(partitions.split(","))

    def options(self, host: str = "") -> list[str]:
        """As options of sbatch, one word each. `host`: the node for a pilot that has none of its GPUs."""
        named = {
            "partition": self.partition, **self._resources(), "account": self.account, "qos": self.qos,
            "constraint": self.constraint, "exclude": self.exclude, "nodelist": host or self.nodelist,
            "reservation": self.reservation, "time": slurm_time(self.time_s) if self.time_s else "",
        }  # fmt: skip
        words = [f"--{name}={value}" for name, value in named.items() if value]
        if not self.per_attempt and (self.exclusive or not self.gres):
            words.append("--exclusive")
        return [*words, *self.more]

    def _resources(self) -> dict[str, str]:
        """What a pilot has of its node."""
        if self.per_attempt:
            return {"cpus-per-task": str(LIGHT_CPUS), "mem": f"{LIGHT_MIB}M"}
        return {
            "gres": self.gres,
            "mem": self.mem or ("" if self.gres else "0"),
            "cpus-per-task": str(self.cpus) if self.cpus else "",
        }

    def values(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def settings_from(values: Mapping[str, Any]) -> SlurmSettings:
    """The settings of plain values; what is not known is left out."""
    known = {field.name for field in fields(SlurmSettings)}
    given = {name: value for name, value in values.items() if name in known}
    return SlurmSettings(**{**given, "more": tuple(given.get("more", ()))})


def slurm_time(seconds: float) -> str:
    """A time limit as Slurm writes it; it counts in minutes, so it is rounded up to one."""
    minutes = max(1, -int(-seconds // 60))
    days, rest = divmod(minutes, 1440)
    clock = f"{rest // 60:02d}:{rest % 60:02d}:00"
    return f"{days}-{clock}" if days else clock


def read_time(text: str) -> float:
    """Seconds of `4h`, `90m`, `2d`, or of a time as Slurm writes it (`4:00:00`, `1-0`; a bare number is minutes)."""
    match = _HOURS.fullmatch(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else seconds_of(text)
    if not seconds:
        raise ConfigError(f"{text!r} is not a time; write 4h, 90m, 2d, or as Slurm does: 4:00:00 or 1-12")
    return seconds
