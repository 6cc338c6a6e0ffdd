"""CPUs and memory of a pilot that asks for some GPUs of a node: the same part of both, unless it is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rota.core.slurm_text import gpus_of, memory_mib, records
from rota.deploy.providers.slurm.commands import SlurmCommands
from rota.deploy.providers.slurm.settings import SlurmSettings


def with_fair_share(settings: SlurmSettings, commands: SlurmCommands) -> SlurmSettings:
    """The settings with CPUs and memory filled in where they are not said. Raises PlaceSilent."""
    whole = settings.exclusive or not settings.gres
    if settings.per_attempt or whole or (settings.cpus and settings.mem):
        return settings
    nodes = [
        node
        for node in records(commands.run("scontrol", "show", "node", "-o"))
        if settings.has_partition(node.get("Partitions", ""))
    ]
    cpus, mem = fair_share(settings, nodes)
    return replace(settings, cpus=settings.cpus or cpus, mem=settings.mem or (f"{mem}M" if mem else ""))


def fair_share(settings: SlurmSettings, nodes: Iterable[Mapping[str, str]]) -> tuple[int, int]:
    """CPUs and MiB beside the GPUs of a pilot on the node that has least of them; 0 if no node has such GPUs."""
    asked = settings.gpu
    cpus: list[int] = []
    memory: list[int] = []
    for node in nodes:
        there = sum(gpu.count for gpu in gpus_of(node.get("Gres", "")) if asked.type in {"", gpu.type})
        if there < max(asked.count, 1):
            continue
        part = asked.count / there
        cpus.append(int(float(node.get("CPUEfctv") or node.get("CPUTot") or 0) * part))
        memory.append(int((memory_mib(node.get("RealMemory", "")) or 0.0) * part))
    return max(min(cpus, default=0), 0), max(min(memory, default=0), 0)
