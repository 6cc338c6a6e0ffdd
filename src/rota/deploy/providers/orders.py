"""What a pilot is started as: no secret is in it, only where its ticket lies."""

from __future__ import annotations

from pathlib import Path

from rota.core.slurm_text import MIB_GB, memory_mib
from rota.deploy.providers.pilot import program
from rota.deploy.providers.pool_folder import PoolSettings
from rota.deploy.providers.slurm.allocation import NODE_WORD, WORD

_UNLIMITED_S = 30 * 86_400.0
_LATE_S = 3_600.0
"""Seconds beyond its time limit for which the certificate of a pilot is good."""
_BEFORE_END_S = 5.0
"""Seconds before the place ends it at which an agent that was given notice is to be gone."""


def pilot_command(settings: PoolSettings, name: str, ticket: Path, end_s: float) -> tuple[str, ...]:
    """The program of a pilot. `end_s`: seconds that its place waits between TERM and KILL."""
    slurm = settings.slurm
    valid_s = slurm.time_s + _LATE_S if slurm.time_s else _UNLIMITED_S
    work = ("--work", settings.work) if settings.work else ()
    whole = ("--whole-node", f"{settings.replace_s + _LATE_S:g}") if slurm.per_attempt else ()
    pool = ("--per-attempt", str(ticket.parent.parent), *_amounts(settings)) if slurm.per_attempt else ()
    return (
        *program("rota.deploy.providers.pilot"), "--ticket", str(ticket), "--scheduler", settings.scheduler,
        "--valid", f"{valid_s:g}", *work, *whole, "--",
        "--name", name, "--gpus", _gpus(settings), "--leave-within", f"{end_s:g}",
        "--notice", f"{slurm.notice_s - _BEFORE_END_S:g}", *pool, *settings.agent,
    )  # fmt: skip


def _amounts(settings: PoolSettings) -> tuple[str, ...]:
    """CPUs and memory that attempts may have together, if that was said."""
    mib = memory_mib(settings.slurm.mem)
    cpus = ("--cpus", str(settings.slurm.cpus)) if settings.slurm.cpus else ()
    memory = ("--memory-gb", f"{mib * MIB_GB:.6g}") if mib else ()
    return (*cpus, *memory)


def _gpus(settings: PoolSettings) -> str:
    """What its agent offers: the devices that Slurm gives to the pilot, or those of the node for batch jobs."""
    gpu = settings.slurm.gpu
    emulated = "emulate:" if settings.emulate else ""
    if settings.slurm.per_attempt:
        return f"{emulated}{NODE_WORD}:{gpu.type}:{gpu.count or ''}"
    return f"{emulated}{WORD}{f':{gpu.type}' if gpu.type else ''}"
