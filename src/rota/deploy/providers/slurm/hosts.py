"""Which node gets the next pilot whose attempts have batch jobs of their own.

Such a pilot has no GPUs, so Slurm would put two of them on one node, and both would offer its GPUs: every pilot is
asked for with the name of its node. On the node a lock keeps a second one waiting (`providers/pilot`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from rota.core.slurm_text import gpus_of, records, seconds_of
from rota.deploy.providers.port import PlaceRefused
from rota.deploy.providers.slurm.commands import SlurmCommands
from rota.deploy.providers.slurm.script import JOB_NAME
from rota.deploy.providers.slurm.settings import SlurmSettings

_GONE = ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "MAINT", "POWERED_DOWN", "INVAL")


def free_host(commands: SlurmCommands, pool: str, settings: SlurmSettings, replace_s: float) -> str:
    """A node of the partition without a pilot of this pool. Raises PlaceRefused if there is none, PlaceSilent."""
    nodes = list(records(commands.run("scontrol", "show", "node", "-o")))
    allowed = None
    if settings.nodelist:
        allowed = commands.run("scontrol", "show", "hostnames", settings.nodelist).split()
    said = commands.run(
        "squeue", "-h", f"--user={os.getuid()}", f"--name={JOB_NAME}{pool}", "--format=%n|%N|%L",
        "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING",
    )  # fmt: skip
    fit = hosts_that_fit(nodes, settings, allowed)
    taken = hosts_taken(said.splitlines(), replace_s)
    for host in fit:
        if host not in taken:
            return host
    raise PlaceRefused(
        f"all {len(fit)} nodes that have the GPUs have a pilot already"
        if fit
        else "no node of the partition that is up has the GPUs that --gres asks for"
    )


def hosts_that_fit(
    nodes: Iterable[Mapping[str, str]], settings: SlurmSettings, allowed: Sequence[str] | None = None
) -> list[str]:
    """Names of nodes of the partition that are up and have enough GPUs."""
    found = []
    for node in nodes:
        if settings.partition and settings.partition not in node.get("Partitions", "").split(","):
            continue
        if any(word in node.get("State", "") for word in _GONE) or node.get("NodeName", "") in settings.exclude.split(
            ","
        ):
            continue
        there = sum(gpu.count for gpu in gpus_of(node.get("Gres", "")) if settings.gpu.type in {"", gpu.type})
        if there >= max(settings.gpu.count, 1) and (allowed is None or node["NodeName"] in allowed):
            found.append(node["NodeName"])
    return found


def hosts_taken(lines: Iterable[str], replace_s: float) -> set[str]:
    """Nodes of pilots that are not about to end, from lines of squeue (asked for, given, time left)."""
    taken = set()
    for line in lines:
        asked, given, left = (cell.strip() for cell in line.split("|"))
        left_s = seconds_of(left)
        if given and left_s is not None and left_s <= replace_s:
            continue
        taken.add(given or asked)
    return taken
