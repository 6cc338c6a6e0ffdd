"""Pilots as batch jobs: submit, list with one squeue, cancel, describe.

A pilot is known by its job's comment, which has its name; the name of the job is that of the pool. So it is found again
whoever submitted it, and whatever was forgotten meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rota.core import files
from rota.core.errors import ConfigError
from rota.core.slurm_text import seconds_of
from rota.deploy.providers.port import PilotOrder, PilotPhase, PilotStatus, PlaceDescription, PlaceRefused, PlaceSilent
from rota.deploy.providers.slurm.commands import SlurmCommands, rows_of
from rota.deploy.providers.slurm.hosts import free_host
from rota.deploy.providers.slurm.script import COMMENT, JOB_NAME, batch_script
from rota.deploy.providers.slurm.settings import SlurmSettings

_FORMAT = "%i|%T|%r|%L|%N|%k|%Z"
_PHASES = {
    "PENDING": PilotPhase.PENDING, "CONFIGURING": PilotPhase.PENDING, "REQUEUED": PilotPhase.PENDING,
    "REQUEUE_HOLD": PilotPhase.PENDING, "REQUEUE_FED": PilotPhase.PENDING, "SPECIAL_EXIT": PilotPhase.PENDING,
    "RESV_DEL_HOLD": PilotPhase.PENDING, "RUNNING": PilotPhase.RUNNING, "SUSPENDED": PilotPhase.RUNNING,
    "RESIZING": PilotPhase.RUNNING, "SIGNALING": PilotPhase.RUNNING, "STAGE_OUT": PilotPhase.ENDING,
    "STOPPED": PilotPhase.RUNNING, "COMPLETING": PilotPhase.ENDING,
    **dict.fromkeys((
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
        "REVOKED", "TIMEOUT",
    ), PilotPhase.OVER),
}  # fmt: skip
"""States of Slurm. In one that is not known here, something of a job may run."""
_DRAINS_S = 30.0
"""Seconds between two questions which nodes are drained."""
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
    logs: Path | None = None
    """Where batch jobs of this pool work. Others with its name are pilots of somebody else's pool; None: do not ask."""
    _draining: set[str] = field(default_factory=set, repr=False)
    _drains_at: float = 0.0
    """When it is asked again which nodes are drained."""

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
            f"--output={_as_it_is(order.log)}", *self.settings.options(host), str(script),
        )  # fmt: skip
        number = said.strip().partition(";")[0]
        if not number.isdigit():
            raise PlaceSilent(f"sbatch printed {said.strip()!r} instead of the number of a job")
        return number

    def list(self) -> Sequence[PilotStatus]:
        """All pilots of the pool, by one squeue. Raises ConfigError if some belong to another folder."""
        found = _jobs_of(self.commands, [self.pool])
        for status, work in found:
            if self.logs is not None and status.phase is not PilotPhase.OVER and not _same(work, self.logs):
                pool = Path(work).parent
                raise ConfigError(
                    f"job {status.id} of Slurm is pilot {status.name} of the pool in {pool}; "
                    f"give this one another --pool, or that --folder ({pool.parent})"
                )
        hosts = {status.host for status, _ in found if status.phase is PilotPhase.RUNNING}
        drained = self._drained() if hosts else set()
        return [replace(status, wanted_back=status.host in drained) for status, _ in found]

    def _drained(self) -> set[str]:
        """Nodes that an operator drains (`scontrol update state=drain`). Slurm itself lets jobs run on there."""
        now = time.monotonic()
        if now >= self._drains_at:
            self._drains_at = now + _DRAINS_S
            with contextlib.suppress(PlaceRefused, PlaceSilent):
                said = self.commands.run("sinfo", "-h", "--Node", "--states=drain", "--format=%N")
                self._draining = {*said.split()}
        return self._draining

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
    return [status for status, _ in _jobs_of(commands, pools)]


def _jobs_of(commands: SlurmCommands, pools: Sequence[str]) -> list[tuple[PilotStatus, str]]:
    """Pilots and the folders in which their batch jobs work."""
    names = ",".join(f"{JOB_NAME}{pool}" for pool in pools)
    rows = rows_of(commands, 6, "--states=all", f"--user={os.getuid()}", f"--name={names}", f"--format={_FORMAT}")
    return [(_status(row), row[-1].partition("|")[2]) for row in rows if row[-1].startswith(COMMENT)]


def _same(work: str, logs: Path) -> bool:
    return Path(os.path.realpath(work)) == Path(os.path.realpath(logs))


def _as_it_is(path: Path) -> str:
    """A file name in which sbatch replaces nothing."""
    return str(path).replace("%", "%%")


def _status(row: Sequence[str]) -> PilotStatus:
    """A line of squeue, which is of a pilot."""
    number, state, reason, left, hosts, rest = (cell.strip() for cell in row)
    phase = _PHASES.get(state, PilotPhase.RUNNING)
    said = state if phase is PilotPhase.OVER else reason
    return PilotStatus(
        name=rest.partition("|")[0].removeprefix(COMMENT),
        id=number,
        phase=phase,
        host=hosts,
        left_s=seconds_of(left) if phase is PilotPhase.RUNNING else None,
        reason="" if said in {"None", "(null)"} else said,
    )
