"""What a machine offers, from what its operator wrote: `auto`, `v100=4`, `emulate:v100=8`, or `slurm`."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass

from rota.core.errors import ConfigError, UnknownName
from rota.core.labels import checked_labels
from rota.deploy.agent.main import Equipment
from rota.deploy.providers.slurm.allocation import allocation, is_allocation
from rota.deploy.worker.inventory import inspect, type_name
from rota.emulate.cards import card

EMULATE = "emulate:"
CPUS_PER_GPU = 3.0
"""Of an emulated server for which nothing is said: as in the servers of Synergy's experiments."""
MEMORY_GB_PER_GPU = 62.5
"""Main memory of such a server, GB (10^9 bytes)."""
_MOST = 1024
_HOW = "write emulate:TYPE=N to emulate them, e.g. --gpus emulate:v100=8, or TYPE=N for those that are there"


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """What the command line says beside the GPUs; 0 or empty: nothing."""

    name: str
    cpus: float = 0.0
    memory_gb: float = 0.0
    storage_mbps: float = 0.0
    network_gbps: float = 0.0
    rack: str = ""
    labels: tuple[str, ...] = ()
    host: str = ""
    first_gpu: int = 0
    first_cpu: int = 0
    """Where its part of the machine begins, if others have theirs."""


def equipment(gpus: str, options: MachineOptions) -> Equipment:
    """From `--gpus` and the rest to what the agent registers with. Raises ConfigError."""
    text = gpus.strip()
    if text == "auto":
        return _found(options)
    emulated = text.startswith(EMULATE)
    if is_allocation(text.removeprefix(EMULATE)):
        return _given(text.removeprefix(EMULATE), options, emulated=emulated)
    gpu_type, count = _parsed(text.removeprefix(EMULATE), gpus)
    numbers = range(options.first_gpu, options.first_gpu + count)
    devices = tuple(f"emulated-{i}" if emulated else str(i) for i in numbers)
    return Equipment(
        node=options.name, type=gpu_type, devices=devices, emulated=emulated,
        device_memory_mib=_card_mib(gpu_type) if emulated else 0.0,
        cpus=options.cpus or (CPUS_PER_GPU * count if emulated else _cpus_from(options.first_cpu, os.cpu_count() or 1)),
        memory_gb=options.memory_gb or (MEMORY_GB_PER_GPU * count if emulated else memory_gb()),
        storage_mbps=options.storage_mbps, network_gbps=options.network_gbps, rack=options.rack, host=options.host,
        labels=checked_labels(options.labels, f"agent {options.name}"),
    )  # fmt: skip


def _given(text: str, options: MachineOptions, *, emulated: bool) -> Equipment:
    """What Slurm gave to this batch job."""
    part = allocation(text)
    return Equipment(
        node=options.name, type=part.gpu_type, emulated=emulated, cpus=options.cpus or part.cpus,
        devices=tuple(f"emulated-{device}" for device in part.devices) if emulated else part.devices,
        device_memory_mib=_card_mib(part.gpu_type) if emulated else 0.0,
        memory_gb=options.memory_gb or part.memory_gb or memory_gb(), storage_mbps=options.storage_mbps,
        network_gbps=options.network_gbps, rack=options.rack or part.host, host=options.host,
        labels=checked_labels(options.labels, f"agent {options.name}"),
    )  # fmt: skip


def _cpus_from(first: int, count: int) -> float:
    return float(max(1, count - first))


def memory_gb() -> float:
    """Main memory of this machine."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 1e9


def _card_mib(gpu_type: str) -> float:
    """Memory of a card that was measured; 0 for others."""
    with contextlib.suppress(UnknownName):
        return card(gpu_type).memory_mib
    return 0.0


def _parsed(text: str, given: str) -> tuple[str, int]:
    gpu_type, equals, number = (part.strip() for part in text.partition("="))
    good = number.isascii() and number.isdecimal() and 1 <= int(number) <= _MOST
    if not (gpu_type and equals and good):
        raise ConfigError(f"--gpus {given!r} is not TYPE=N with N from 1 to {_MOST}; {_HOW}")
    return gpu_type, int(number)


def _found(options: MachineOptions) -> Equipment:
    """The GPUs of this machine, of the type that most of them are."""
    machine = inspect(tempfile.gettempdir())
    if not machine.gpus:
        raise ConfigError(f"no GPU was found on this machine ({'; '.join(machine.remarks)}); {_HOW}")
    offered = [gpu for gpu in machine.gpus if gpu.index >= options.first_gpu]
    if not offered:
        raise ConfigError(
            f"GPUs begin at {options.first_gpu} by the connection file, and there are {len(machine.gpus)}"
        )
    names = [type_name(gpu.name) for gpu in offered]
    gpu_type = max(sorted(set(names)), key=names.count)
    mine = [gpu for gpu, name in zip(offered, names, strict=True) if name == gpu_type]
    measured = 0.0 if machine.storage is None else machine.storage.read_mbps or 0.0
    cpus = options.cpus or _cpus_from(options.first_cpu, len(machine.cpus))
    return Equipment(
        node=options.name, type=gpu_type, devices=tuple(str(gpu.index) for gpu in mine),
        device_memory_mib=min(gpu.memory_bytes for gpu in mine) / 2**20, cpus=cpus,
        memory_gb=options.memory_gb or machine.memory_bytes / 1e9, storage_mbps=options.storage_mbps or measured,
        network_gbps=options.network_gbps, rack=options.rack, host=options.host,
        labels=checked_labels(options.labels, f"agent {options.name}"),
    )  # fmt: skip
