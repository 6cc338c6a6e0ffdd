"""The batch job of one attempt of a job: what is asked of Slurm for it, and the script that it runs. Pure.

Slurm accounts it to the Unix user of the attempt, under the number of the job in Rota: the name of a job, its command
and its variables are in nothing that Slurm shows.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rota.core.slurm_text import MIB_GB
from rota.deploy.providers.slurm.settings import SlurmSettings, slurm_time
from rota.deploy.worker.spec import TaskSpec

ATTEMPT_NAME = "rota-job-"
ATTEMPT_COMMENT = "rota-attempt="
SHORT_ROUND_S = 300.0
"""Seconds of a round below which one batch job per attempt makes little sense: each start takes Slurm some."""
_SCRIPT = """#!/bin/sh
# Rota attempt {attempt}: holds the resources of the job until its lease ends. The agent of this server starts the rest.
exec {command}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBatch:
    """The part of an attempt that runs on one server, as a batch job."""

    job: str
    """Number of the job in Rota."""
    epoch: int
    host: str
    """Slurm's name of the server."""
    gpu_type: str
    gpus: int
    cpus: int
    memory_mib: int
    """0: as the site says."""
    user: tuple[int, int] | None = None
    """Unix user and group; None: those of the agent."""

    @property
    def attempt(self) -> str:
        """Its name in Rota."""
        return f"{self.job}.{self.epoch}"

    def words(self, settings: SlurmSettings, script: Path) -> list[str]:
        """The command that submits it."""
        named = {
            "job-name": f"{ATTEMPT_NAME}{self.job}", "comment": f"{ATTEMPT_COMMENT}{self.attempt}",
            "nodelist": self.host, "gres": f"gpu:{self.gpu_type}:{self.gpus}" if self.gpus else "",
            "cpus-per-task": str(self.cpus), "mem": f"{self.memory_mib}M" if self.memory_mib else "",
            "signal": f"B:USR1@{int(settings.notice_s)}",
            "time": slurm_time(settings.time_s) if settings.time_s else "",
            "partition": settings.partition, "account": settings.account, "qos": settings.qos,
            "reservation": settings.reservation, "chdir": "/", "output": "/dev/null", "export": "PATH",
            "uid": "" if self.user is None else str(self.user[0]),
            "gid": "" if self.user is None else str(self.user[1]),
        }  # fmt: skip
        options = [f"--{name}={value}" for name, value in named.items() if value]
        return [
            "sbatch",
            "--parsable",
            "--no-requeue",
            "--nodes=1",
            "--ntasks=1",
            *options,
            *settings.more,
            str(script),
        ]


def batch_of(spec: TaskSpec, host: str, gpu_type: str) -> AttemptBatch:
    """The batch job for all ranks of an attempt on this server, from any of them: they are alike.

    CPUs and memory are rounded down, so that what fits on a server by Rota's count also fits by Slurm's.
    """
    ranks = ranks_here(spec)
    memory_gb = (spec.memory_gb or 0.0) * ranks
    return AttemptBatch(
        job=spec.id.job,
        epoch=spec.id.epoch,
        host=host,
        gpu_type=gpu_type,
        gpus=len(spec.devices) * ranks,
        cpus=max(1, math.floor(spec.cpus * ranks + 1e-6)),
        memory_mib=max(1, math.floor(memory_gb / MIB_GB + 1e-6)) if memory_gb else 0,
        user=None if spec.user is None else (spec.user.uid, spec.user.gid),
    )


def ranks_here(spec: TaskSpec) -> int:
    """How many ranks of the attempt run on this server."""
    return int(spec.env.get("LOCAL_WORLD_SIZE", "1"))


def local_rank(spec: TaskSpec) -> int:
    """Which of them it is, from 0."""
    return int(spec.env.get("LOCAL_RANK", "0"))


def attempt_script(attempt: str, command: Sequence[str]) -> str:
    """The batch script. It is stored by Slurm and holds no secret."""
    return _SCRIPT.format(attempt=attempt, command=shlex.join(command))


def step_words(srun: str, number: str, spec: TaskSpec, *, emulated: bool) -> tuple[str, ...]:
    """The command that runs a rank as a step of its batch job, with the devices that Slurm gave."""
    step = (
        srun, "--quiet", f"--jobid={number}", "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none", "--input=none",
        "--unbuffered", f"--cpus-per-task={max(1, math.floor(spec.cpus + 1e-6))}",
    )  # fmt: skip
    alone = ranks_here(spec) == 1
    if alone and emulated:
        return (*step, *spec.argv)
    which = "" if alone or len(spec.devices) != 1 else str(local_rank(spec) + 1)
    return (*step, "/bin/sh", "-c", _DEVICES, "rota-rank", which, "emulated" if emulated else "", *spec.argv)


_DEVICES = (
    'if [ -n "$1" ]; then CUDA_VISIBLE_DEVICES=$(echo "$CUDA_VISIBLE_DEVICES" | cut -d, -f"$1"); fi; '
    'if [ -z "$2" ]; then ROTA_DEVICES=$CUDA_VISIBLE_DEVICES; fi; '
    'export CUDA_VISIBLE_DEVICES ROTA_DEVICES; shift 2; exec "$@"'
)
"""Chooses the device of a rank among those of the batch job ($1 counts from 1; empty: all), then becomes the rank."""
