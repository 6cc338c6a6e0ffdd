"""Which node gets the next pilot whose attempts have batch jobs of their own.

Such a pilot has no GPUs, so Slurm would put two of them on one node, and both would offer its GPUs: every pilot is
asked for with the name of its node. On the node a lock keeps a second one waiting (`providers/pilot`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from rota.core.slurm_text import gpus_of, records, seconds_of
from rota.deploy.providers.port import PlaceRefused
from rota.deploy.providers.slurm.commands import SlurmCommands, rows_of
from rota.deploy.providers.slurm.script import JOB_NAME
from rota.deploy.providers.slurm.settings import SlurmSettings

_GONE = frozenset({
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FUTURE", "INVAL", "INVALID_REG", "MAINT", "MAINTENANCE",
    "NOT_RESPONDING", "POWERING_DOWN", "UNKNOWN",
})  # fmt: skip
_ASLEEP = "POWERED_DOWN"
"""To save energy; Slurm wakes a node that a job asks for by name."""


def free_host(commands: SlurmCommands, pool: str, settings: SlurmSettings, replace_s: float) -> str:
    """A node of the partition without a pilot of this pool. Raises PlaceRefused if there is none, PlaceSilent."""
    nodes = list(records(commands.run("scontrol", "show", "node", "-o")))
    allowed = _names(commands, settings.nodelist) if settings.nodelist else None
    excluded = _names(commands, settings.exclude) if settings.exclude else ()
    rows = rows_of(
        commands, 3, f"--user={os.getuid()}", f"--name={JOB_NAME}{pool}", "--format=%n|%N|%L",
        "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING",
    )  # fmt: skip
    fit = [host for host in hosts_that_fit(nodes, settings, allowed) if host not in excluded]
    taken = hosts_taken(rows, replace_s)
    for host in fit:
        if host not in taken:
            return host
    raise PlaceRefused(
        f"all {len(fit)} nodes that have the GPUs have a pilot already"
        if fit
        else "no node of the partition that is up has the GPUs that --gres asks for"
    )


def _names(commands: SlurmCommands, listed: str) -> list[str]:
    """The nodes of a list such as `n[1-3],m7`."""
    return commands.run("scontrol", "show", "hostnames", listed).split()


def hosts_that_fit(
    nodes: Iterable[Mapping[str, str]], settings: SlurmSettings, allowed: Sequence[str] | None = None
) -> list[str]:
    """Names of nodes of the partition that are up or asleep and have enough GPUs, those that are awake first."""
    found: dict[bool, list[str]] = {False: [], True: []}
    for node in nodes:
        name = node.get("NodeName", "")
        if not name or not settings.has_partition(node.get("Partitions", "")):
            continue
        state = node.get("State", "")
        words = state.split("+")
        if "*" in state or not _GONE.isdisjoint(words):  # the mark of a node that does not answer
            continue
        there = sum(gpu.count for gpu in gpus_of(node.get("Gres", "")) if settings.gpu.type in {"", gpu.type})
        if there >= max(settings.gpu.count, 1) and (allowed is None or name in allowed):
            found[_ASLEEP in words].append(name)
    return [*found[False], *found[True]]


def hosts_taken(rows: Iterable[Sequence[str]], replace_s: float) -> set[str]:
    """Nodes of pilots that are not about to end, from rows of squeue (asked for, given, time left)."""
    taken = set()
    for row in rows:
        asked, given, left = (cell.strip() for cell in row)
        left_s = seconds_of(left)
        if given and left_s is not None and left_s <= replace_s:
            continue
        taken.add(given or asked)
    return taken
