"""What Slurm gave to the batch job in which this agent runs: GPUs, CPUs, memory, time. Nothing else is offered.

Devices are those in CUDA_VISIBLE_DEVICES, as they are written there: Slurm numbers them anew where it hides the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rota.core.errors import ConfigError, RotaError
from rota.core.slurm_text import MIB_GB, gpus_of, memory_mib, record
from rota.deploy.providers.slurm.commands import SlurmCommands
from rota.deploy.providers.slurm.settings import LIGHT_CPUS, LIGHT_MIB

WORD = "slurm"
NODE_WORD = "slurm-node"
"""What attempts may have of the node on which this batch job runs, each in a batch job of its own."""
Describe = Callable[[str, str], Mapping[str, str]]
"""From a kind of thing (job, node) and its name to Slurm's record of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A part of a machine."""

    gpu_type: str
    devices: tuple[str, ...]
    cpus: float
    memory_gb: float
    """GB (10^9 bytes); 0: not known."""
    host: str


def is_allocation(gpus: str) -> bool:
    """Whether `--gpus` asks for what Slurm gave: `slurm`, `slurm:TYPE`, `slurm-node:TYPE:COUNT`."""
    return gpus.partition(":")[0] in {WORD, NODE_WORD}


def allocation(gpus: str, environ: Mapping[str, str] = os.environ, describe: Describe | None = None) -> Allocation:
    """The part of the machine that is ours. Raises ConfigError outside of a job, or if there is no GPU in it."""
    if gpus.partition(":")[0] == NODE_WORD:
        return node_allocation(gpus, environ, describe or _described)
    job = environ.get("SLURM_JOB_ID", "")
    if not job:
        raise ConfigError(f"--gpus {gpus} is for batch jobs of Slurm, and SLURM_JOB_ID is not set; give TYPE=N or auto")
    devices = tuple(
        word for word in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word and word != "NoDevFiles"
    )
    if not devices:
        raise ConfigError(
            f"Slurm gave job {job} no GPU (CUDA_VISIBLE_DEVICES is empty); ask for some with --gres=gpu:TYPE:COUNT"
        )
    ask = describe or _described
    host = environ.get("SLURMD_NODENAME", "")
    gpu_type = gpus.partition(":")[2] or _type_of(job, host, ask)
    cpus = float(environ.get("SLURM_CPUS_ON_NODE") or len(os.sched_getaffinity(0)))
    return Allocation(
        gpu_type=gpu_type, devices=devices, cpus=cpus, memory_gb=_memory_gb(environ, cpus, host, ask), host=host
    )


def node_allocation(gpus: str, environ: Mapping[str, str], describe: Describe) -> Allocation:
    """What batch jobs of attempts may have of this node. Raises ConfigError.

    That is its GPUs (of a type, a number of them), and the same part of the CPUs and memory that this batch job
    and its successor, which comes while this one is here, leave.
    """
    host = environ.get("SLURMD_NODENAME", "")
    if not host:
        raise ConfigError(
            f"--gpus {gpus} is for batch jobs of Slurm, and SLURMD_NODENAME is not set; give TYPE=N or auto"
        )
    node = describe("node", host)
    _, _, asked = gpus.partition(":")
    wanted_type, _, wanted = asked.partition(":")
    there = [gpu for gpu in gpus_of(node.get("Gres", "")) if wanted_type in {"", gpu.type} and gpu.count]
    if len(there) != 1 or not there[0].type:
        raise ConfigError(
            f"--gpus {gpus}: node {host} has Gres={node.get('Gres', '')!r}; name one type of GPU that is there "
            "(--gres=gpu:TYPE:COUNT), or have the types written into gres.conf"
        )
    count = int(wanted) if wanted.isdecimal() and int(wanted) else there[0].count
    if count > there[0].count:
        raise ConfigError(
            f"--gpus {gpus}: node {host} has {there[0].count} GPUs of type {there[0].type}; ask for as many"
        )
    part = count / there[0].count
    cpus = float(node.get("CPUEfctv") or node.get("CPUTot") or 1) - 2 * LIGHT_CPUS  # its successor needs room too
    memory = (memory_mib(node.get("RealMemory", "")) or 0.0) - 2 * LIGHT_MIB
    return Allocation(
        gpu_type=there[0].type,
        devices=tuple(str(i) for i in range(count)),
        cpus=max(float(int(cpus * part)), 1.0),
        memory_gb=max(memory * part, 0.0) * MIB_GB,
        host=host,
    )


def _described(what: str, name: str) -> Mapping[str, str]:
    return record(SlurmCommands().run("scontrol", "show", what, name, "-o").strip())


def _type_of(job: str, host: str, describe: Describe) -> str:
    """The type that the job asked for, else the only one of its node."""
    asked = describe("job", job)
    for text in (asked.get("TresPerNode", ""), asked.get("TRES", ""), describe("node", host).get("Gres", "")):
        types = {gpu.type for gpu in gpus_of(text) if gpu.type}
        if len(types) == 1:
            return types.pop()
    raise ConfigError(
        f"Slurm does not say of which type the GPUs of job {job} on {host} are; ask for one (--gres=gpu:TYPE:COUNT), "
        "or have the types written into gres.conf"
    )


def _memory_gb(environ: Mapping[str, str], cpus: float, host: str, describe: Describe) -> float:
    whole = memory_mib(environ.get("SLURM_MEM_PER_NODE", ""))
    if whole:
        return whole * MIB_GB
    per_cpu = memory_mib(environ.get("SLURM_MEM_PER_CPU", ""))
    if per_cpu:
        return per_cpu * cpus * MIB_GB
    try:
        return (memory_mib(describe("node", host).get("RealMemory", "")) or 0.0) * MIB_GB
    except RotaError:
        return 0.0
