"""Pilots as batch jobs: submit, list with one squeue, cancel, describe.

A pilot is known by its job's comment, which has its name; the name of the job is that of the pool. So it is found again
whoever submitted it, and whatever was forgotten meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from rota.core import files
from rota.core.slurm_text import seconds_of
from rota.deploy.providers.port import PilotOrder, PilotPhase, PilotStatus, PlaceDescription, PlaceRefused, PlaceSilent
from rota.deploy.providers.slurm.commands import SlurmCommands
from rota.deploy.providers.slurm.hosts import free_host
from rota.deploy.providers.slurm.script import COMMENT, JOB_NAME, batch_script
from rota.deploy.providers.slurm.settings import SlurmSettings

_FORMAT = "%i|%T|%r|%L|%N|%k"
_PHASES = {
    "PENDING": PilotPhase.PENDING, "CONFIGURING": PilotPhase.PENDING, "REQUEUED": PilotPhase.PENDING,
    "REQUEUE_HOLD": PilotPhase.PENDING, "REQUEUE_FED": PilotPhase.PENDING, "SPECIAL_EXIT": PilotPhase.PENDING,
    "RESV_DEL_HOLD": PilotPhase.PENDING, "RUNNING": PilotPhase.RUNNING, "SUSPENDED": PilotPhase.RUNNING,
    "RESIZING": PilotPhase.RUNNING, "SIGNALING": PilotPhase.RUNNING, "STAGE_OUT": PilotPhase.ENDING,
    "STOPPED": PilotPhase.RUNNING, "COMPLETING": PilotPhase.ENDING,
}  # fmt: skip
"""States of Slurm in which something of a job may be there; all others are final."""
_MARGIN_S = 3.0
"""Seconds before Slurm kills a job at which its agent is to be done."""


@dataclass
class SlurmProvider:
    """Pilots of one pool."""

    pool: str
    settings: SlurmSettings
    commands: SlurmCommands = field(default_factory=SlurmCommands)
    replace_s: float = 0.0
    """Seconds before its end from which a pilot does not keep another one from its node."""

    def describe(self) -> PlaceDescription:
        """What the partition has, in Slurm's words; how long Slurm waits between TERM and KILL."""
        lines = self.commands.run("scontrol", "show", "config").splitlines()
        pairs = [line.partition("=") for line in lines if "=" in line]
        config = {name.strip(): value.strip() for name, _, value in pairs}
        named = ("-p", self.settings.partition) if self.settings.partition else ()
        shown = self.commands.run("sinfo", "-h", *named, "-o", "%P %D x %G, %c CPUs, %m MiB, time limit %l")
        wait = config.get("KillWait", "").split()  # such as `30 sec`
        kill_wait_s = float(wait[0]) if wait and wait[0].isdigit() else 30.0
        return PlaceDescription(
            words=f"Slurm {config.get('SLURM_VERSION', '')} ({config.get('ClusterName', '')}): "
            + "; ".join(" ".join(line.split()) for line in shown.splitlines()[:4]),
            gpus=self.settings.gpu.count,
            gpu_type=self.settings.gpu.type,
            end_s=max(kill_wait_s - _MARGIN_S, 2.0),
        )

    def submit(self, order: PilotOrder) -> str:
        """One batch job. The script is kept beside its log."""
        host = free_host(self.commands, self.pool, self.settings, self.replace_s) if self.settings.per_attempt else ""
        script = order.log.with_suffix(".sh")
        files.write_text(script, batch_script(order), mode=0o600)
        said = self.commands.run(
            "sbatch", "--parsable", "--no-requeue", "--nodes=1", "--ntasks=1", "--open-mode=append",
            f"--job-name={JOB_NAME}{self.pool}", f"--comment={COMMENT}{order.name}",
            f"--signal=B:USR1@{int(self.settings.notice_s)}", f"--chdir={order.log.parent}",
            f"--output={order.log}", *self.settings.options(host), str(script),
        )  # fmt: skip
        number = said.strip().partition(";")[0]
        if not number.isdigit():
            raise PlaceSilent(f"sbatch printed {said.strip()!r} instead of the number of a job")
        return number

    def list(self) -> Sequence[PilotStatus]:
        """All pilots of the pool, by one squeue."""
        return pilots_of(self.commands, [self.pool])

    def cancel(self, ids: Sequence[str], *, gently: bool) -> None:
        """TERM to all of a pilot, or gently: USR1 to the batch script, which its agent takes as a notice."""
        if not ids:
            return
        ways = (("--state=PENDING",), ("--batch", "--signal=USR1")) if gently else ((),)
        for options in ways:
            with contextlib.suppress(PlaceRefused):  # some are over already
                self.commands.run("scancel", "--quiet", *options, *ids)


def pilots_of(commands: SlurmCommands, pools: Sequence[str]) -> list[PilotStatus]:
    """All pilots of some pools of this user, by one squeue."""
    names = ",".join(f"{JOB_NAME}{pool}" for pool in pools)
    said = commands.run(
        "squeue", "-h", "--states=all", f"--user={os.getuid()}", f"--name={names}", f"--format={_FORMAT}"
    )
    return [status for line in said.splitlines() if (status := _status(line)) is not None]


def _status(line: str) -> PilotStatus | None:
    """A line of squeue; None if it is not of a pilot."""
    cells = line.rstrip("\n").split("|", 5)
    if len(cells) < 6 or not cells[5].startswith(COMMENT):
        return None
    number, state, reason, left, hosts, comment = (cell.strip() for cell in cells)
    phase = _PHASES.get(state, PilotPhase.OVER)
    said = state if phase is PilotPhase.OVER else reason
    return PilotStatus(
        name=comment.removeprefix(COMMENT),
        id=number,
        phase=phase,
        host=hosts,
        left_s=seconds_of(left) if phase is PilotPhase.RUNNING else None,
        reason="" if said in {"None", "(null)"} else said,
    )
