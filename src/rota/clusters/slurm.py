"""A cluster of Slurm as Slurm describes it: `scontrol show nodes`, asked now or kept in a file.

`slurm:` asks, `slurm:nodes.txt` reads what was printed before (with or without `-o`), and `,partition=NAME` behind it
takes the nodes of one partition. Nodes without GPUs are left out, so are those that are not there yet (FUTURE) or are
broken (DOWN); those that are drained, reserved or asleep are there. A node
with GPUs of several types becomes a server for each type, with its part of CPUs and memory. Memory is in GB as
`sacct` traces have it (MiB / 1024).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from rota.core.cluster import Resources, Server
from rota.core.errors import ConfigError
from rota.core.slurm_text import gpus_of, memory_mib, record

PREFIX = "slurm:"
_NODE = re.compile(r"^(?=NodeName=)", re.MULTILINE)
_ASK_S = 60.0
_MARKS = "*~#!%$@^-"
"""Behind the state of a node: it does not answer, is asleep, wakes up, ..."""


def is_slurm(text: str) -> bool:
    """Whether a cluster is described by Slurm."""
    return text.startswith(PREFIX)


def read_slurm(text: str) -> tuple[Server, ...]:
    """The servers of `slurm:[FILE][,partition=NAME]`. Raises ConfigError."""
    source, partition = _parsed(text)
    printed = _asked() if not source else _kept(Path(source))
    nodes = [record(" ".join(part.split())) for part in _NODE.split(printed) if part.startswith("NodeName=")]
    if not nodes:
        where = source or "`scontrol show nodes`"
        raise ConfigError(f"cluster {text!r}: {where} has no node; write what `scontrol show nodes` prints into a file")
    mine = [node for node in nodes if not partition or partition in node.get("Partitions", "").split(",")]
    if not mine:
        known = sorted({name for node in nodes for name in node.get("Partitions", "").split(",") if name})
        raise ConfigError(
            f"cluster {text!r}: no node is in partition {partition!r}; there are {', '.join(known) or 'none'}"
        )
    servers = tuple(server for node in mine for server in _servers(node))
    if not servers:
        up = sum(_is_there(node) for node in mine)
        away = f" and is there; {len(mine) - up} are DOWN or FUTURE" if up < len(mine) else ""
        raise ConfigError(f"cluster {text!r}: none of its {len(mine)} nodes has a GPU (Gres=gpu:...){away}")
    return servers


def _parsed(text: str) -> tuple[str, str]:
    """(file, partition); empty where nothing is said."""
    source = ""
    partition = ""
    for part in text.removeprefix(PREFIX).split(","):
        key, equals, value = part.strip().partition("=")
        if equals and key == "partition" and value:
            partition = value
        elif equals or (part.strip() and source):
            raise ConfigError(f"cluster {text!r}: {part!r} is not understood; write slurm:[FILE][,partition=NAME]")
        elif part.strip():
            source = part.strip()
    return source, partition


def _servers(node: Mapping[str, str]) -> Iterator[Server]:
    if not _is_there(node):
        return
    gpus = [gpu for gpu in gpus_of(node.get("Gres", "")) if gpu.count]
    total = sum(gpu.count for gpu in gpus)
    cpus = memory_mib(node.get("CPUEfctv") or node.get("CPUTot") or "0") or 0.0
    memory = (memory_mib(node.get("RealMemory", "0")) or 0.0) / 1024
    for gpu in gpus:
        part = gpu.count / total
        name = node["NodeName"] if len(gpus) == 1 else f"{node['NodeName']}-{gpu.type or 'gpu'}"
        yield Server(id=name, type=gpu.type or "gpu", capacity=Resources(gpu.count, cpus * part, memory * part))


def _is_there(node: Mapping[str, str]) -> bool:
    """Whether Slurm has the node; its state is a word, a mark (`DOWN*`), and more words behind `+`."""
    words = node.get("State", "").split("+")
    return words[0].rstrip(_MARKS) != "DOWN" and not any(word.rstrip(_MARKS) == "FUTURE" for word in words)


def _asked() -> str:
    if shutil.which("scontrol") is None:
        fix = "run this on a machine of the cluster, or give a file: slurm:nodes.txt"
        raise ConfigError(f"cluster 'slurm:': scontrol is not installed here; {fix}")
    words = ["scontrol", "show", "nodes", "-o"]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=_ASK_S)  # noqa: S603 - no shell
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"cluster 'slurm:': scontrol did not answer within {_ASK_S:g} s") from error
    if done.returncode:
        raise ConfigError(f"cluster 'slurm:': scontrol says: {' '.join(done.stderr.split())[:300]}")
    return done.stdout


def _kept(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(
            f"cannot read {str(path)!r}, which `scontrol show nodes` should have written: {error.strerror}"
        ) from None
