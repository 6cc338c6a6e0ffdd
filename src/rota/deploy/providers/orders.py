"""What a pilot is started as: no secret is in it, only where its ticket lies."""

from __future__ import annotations

from pathlib import Path

from rota.deploy.providers.pilot import program
from rota.deploy.providers.pool_folder import PoolSettings

_UNLIMITED_S = 30 * 86_400.0
_LATE_S = 3_600.0
"""Seconds beyond its time limit for which the certificate of a pilot is good."""
_BEFORE_END_S = 5.0
"""Seconds before the place ends it at which an agent that was given notice is to be gone."""


def pilot_command(settings: PoolSettings, name: str, ticket: Path, end_s: float) -> tuple[str, ...]:
    """The program of a pilot. `end_s`: seconds that its place waits between TERM and KILL."""
    slurm = settings.slurm
    gpus = f"{'emulate:' if settings.emulate else ''}slurm{f':{slurm.gpu.type}' if slurm.gpu.type else ''}"
    valid_s = slurm.time_s + _LATE_S if slurm.time_s else _UNLIMITED_S
    work = ("--work", settings.work) if settings.work else ()
    return (
        *program("rota.deploy.providers.pilot"), "--ticket", str(ticket), "--scheduler", settings.scheduler,
        "--valid", f"{valid_s:g}", *work, "--",
        "--name", name, "--gpus", gpus, "--leave-within", f"{end_s:g}",
        "--notice", f"{slurm.notice_s - _BEFORE_END_S:g}", *settings.agent,
    )  # fmt: skip
