"""Tasks as steps of a batch job of their own, for sites that account for every job of every user.

The agent is a pilot without GPUs. For each attempt it submits a batch job to its own server with exactly the attempt's
GPUs, CPUs and memory, as the attempt's Unix user, and runs the ranks as steps of it. Everything else is as for plain
processes: each rank has a supervisor that outlives the agent, and a lease. The batch job itself ends when the lease
does (`attempt_holder`), so that nothing runs on when pilot, agent and supervisors are gone. A batch job that Slurm
starts too late finds its lease over, and does nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from rota.core import files
from rota.core.errors import ConfigError, RotaError
from rota.deploy.clocks import machine_s
from rota.deploy.providers.pool_folder import PoolFolder
from rota.deploy.providers.port import PlaceRefused, PlaceSilent
from rota.deploy.providers.slurm import attempt_ending
from rota.deploy.providers.slurm.attempt_batch import attempt_script, batch_of, local_rank, ranks_here, step_words
from rota.deploy.providers.slurm.commands import SlurmCommands
from rota.deploy.providers.slurm.settings import SlurmSettings
from rota.deploy.worker import procs, status
from rota.deploy.worker.launcher import LaunchPostponed
from rota.deploy.worker.limits import RlimitBackend
from rota.deploy.worker.process import Command, ProcessLauncher
from rota.deploy.worker.spec import MARKER, TaskId, TaskSpec, environment
from rota.deploy.worker.status import Phase, Status
from rota.deploy.worker.tenancy import make_folder

log = logging.getLogger(__name__)

HOLDER = Path(__file__).with_name("attempt_holder.py")
ENDING = Path(attempt_ending.__file__)
START_WITHIN_S = 60.0
"""Seconds after which a batch job that Slurm has not started is taken back."""
NUMBER = "slurm-job"
_NOTICE = "notice"
_LOOK_S = 0.05
_ASK_S = 5.0
"""Seconds between two questions to Slurm about a batch job that has not started."""
_END_S = 15.0
_SIGNALS = {
    "SIGTERM": "Slurm ends its batch job (scancel, preemption or time limit)",
    "SIGUSR1": "the time limit of its batch job is near",
}


class AttemptLauncher(ProcessLauncher):
    """A batch job of Slurm for each attempt. `host` is Slurm's name of this server."""

    name = "slurm"

    def __init__(self, settings: SlurmSettings, host: str, gpu_type: str, *, emulated: bool) -> None:
        super().__init__(RlimitBackend("limits are those of Slurm's batch jobs"))
        self.settings = settings
        self.host = host
        self.gpu_type = gpu_type
        self.emulated = emulated
        self.commands = SlurmCommands()
        self.start_within_s = START_WITHIN_S

    def unavailable(self) -> str:
        """It needs Slurm's commands on this server."""
        absent = [program for program in ("sbatch", "srun", "scancel", "squeue") if shutil.which(program) is None]
        return f"{', '.join(absent)} not found on this server" if absent else ""

    # Starting

    def start(self, spec: TaskSpec, folder: Path) -> None:
        """Submit the batch job with the first rank, wait until it runs, and start the rank as a step of it."""
        if spec.image or spec.mps:
            what = "containers" if spec.image else "GPUs shared by MPS"
            raise ConfigError(f"{what} are not possible where each attempt is a batch job of Slurm (--per-attempt)")
        _check_user(spec)
        make_folder(folder, 0o700 if spec.user is None else 0o711)  # its holder reads the lease there, and little else
        if spec.user is not None:
            folder.parent.chmod(0o711)
        if local_rank(spec) == 0:
            number = self._submit(spec, folder)
            self._wait_until_it_runs(number, folder)
        else:
            number = self._number(_first(spec, folder))
        _write_number(folder, number)
        self.run(replace(spec, cpu_ids=(), memory_gb=None, read_mbps=None), folder, self._command(spec, folder, number))

    def _command(self, spec: TaskSpec, folder: Path, number: str) -> Command:
        own = {name: os.environ[name] for name in ("PATH", "SLURM_CONF", "LD_LIBRARY_PATH") if name in os.environ}
        found = {**own, **environment(spec, folder, os.environ)}
        if "SLURM_CONF" in own:
            found["SLURM_CONF"] = own["SLURM_CONF"]
        found["ROTA_TERM_IS_NOTICE"] = "1"
        others = [str(path) for path in _folders(spec, folder)]
        ending = (
            sys.executable, "-S", "-E", str(ENDING), _program("scancel"), number, str(folder), *others
        )  # fmt: skip
        argv = step_words(_program("srun"), number, spec, emulated=self.emulated)
        cluster = {name: os.environ[name] for name in ("SLURM_CLUSTER_NAME",) if name in os.environ}
        return Command(argv, found, spec.cwd, user=spec.user, ending=ending, ending_env={**own, **cluster})

    def _submit(self, spec: TaskSpec, folder: Path) -> str:
        """One batch job for all ranks here; its number."""
        batch = batch_of(spec, self.host, self.gpu_type)
        owner = None if spec.user is None else (spec.user.uid, spec.user.gid)
        make_folder(folder / _NOTICE, 0o700, owner)
        holder = [sys.executable, "-S", "-E", str(HOLDER), *map(str, _folders(spec, folder))]
        script = folder / "attempt.sh"
        files.write_text(script, attempt_script(batch.attempt, holder), mode=0o600, durable=False)
        try:
            said = self.commands.run(*batch.words(self.settings, script))
        except (PlaceRefused, PlaceSilent) as error:
            raise LaunchPostponed(f"Slurm takes no batch job for it: {error}") from error
        number = said.strip().partition(";")[0]
        if not number.isdigit():
            raise LaunchPostponed(f"sbatch printed {said.strip()!r} instead of the number of a job")
        _write_number(folder, number)
        log.info("attempt %s is batch job %s of Slurm", batch.attempt, number)
        return number

    def _wait_until_it_runs(self, number: str, folder: Path) -> None:
        """Raises LaunchPostponed if it does not within its time, if it may not any more, or if Slurm ended it."""
        until = time.monotonic() + self.start_within_s
        ask_at = time.monotonic() + _ASK_S
        while not (folder / _NOTICE / "started").exists():
            now = time.monotonic()
            if (folder / status.STOPPING).exists():
                raise LaunchPostponed("it was told to stop before Slurm had started its batch job")
            if now >= until or not _lease_holds(folder):
                why = self._state(number)
                raise LaunchPostponed(f"Slurm has not started its batch job {number} in time ({why})")
            if now >= ask_at:
                ask_at = now + _ASK_S
                state = self._state(number)
                if state.split()[0] not in {"PENDING", "CONFIGURING", "RUNNING", "unknown"}:
                    raise LaunchPostponed(f"Slurm ended its batch job {number} before it began ({state})")
            time.sleep(_LOOK_S)

    def _state(self, number: str) -> str:
        try:
            said = self.commands.run("squeue", "-h", "--states=all", f"--jobs={number}", "--format=%T %r")
        except RotaError as error:
            return f"unknown: {error}"
        return " ".join(said.split()) or "unknown"

    # Looking

    def status(self, folder: Path) -> Status:
        """How the task is, and whether Slurm wants its resources back."""
        seen = status.read(folder)
        if seen.phase is not Phase.RUNNING:
            return seen
        first = folder.with_name(_first_name(folder))
        notice = next((text for name, text in _SIGNALS.items() if os.path.lexists(first / _NOTICE / name)), "")
        return replace(seen, notice=notice) if notice else seen

    # Ending

    def resize(self, spec: TaskSpec, folder: Path) -> None:
        """Slurm does not change what a batch job has."""
        del spec, folder
        raise ConfigError("its batch job of Slurm keeps the CPUs and memory with which it was submitted")

    def signal(self, folder: Path, number: int) -> None:
        """To the process group of the rank. Not to its `srun`, which takes TERM as an order to kill."""
        marked = {one.pid: one for one in procs.with_environment(f"{MARKER}={folder}")}
        for process in marked.values():
            if procs.parent(process) not in marked and procs.name_of(process) != "srun":
                for member in procs.in_group(process):
                    procs.send(member, number)

    def clean(self, folder: Path) -> None:
        """End the batch job if this was its last rank and it is still there."""
        super().clean(folder)
        number = self._number(folder)
        siblings = [path for path in folder.parent.glob(f"{_attempt_of(folder)}.*") if path != folder]
        if not number or any(status.read(path).phase is not Phase.ENDED for path in siblings):
            return
        first = folder.with_name(_first_name(folder))
        user = attempt_ending.user_of(first)
        if (first / _NOTICE / "started").exists() and not attempt_ending.processes_of(number, user):
            return
        with contextlib.suppress(RotaError):  # its holder ends by itself when the folder is gone
            self.commands.run("scancel", "--quiet", number)
        if not attempt_ending.wait_for_end(number, _END_S, user):
            log.warning("processes of batch job %s are still there", number)

    def _number(self, folder: Path) -> str:
        with contextlib.suppress(OSError):
            return (folder / NUMBER).read_text(encoding="ascii").strip()
        return ""


def launcher_of_pool(pool: str, gpu_type: str, *, emulated: bool) -> AttemptLauncher:
    """The launcher of a pilot of a pool, on its node. Raises ConfigError."""
    host = os.environ.get("SLURMD_NODENAME", "")
    if not host:
        raise ConfigError("--per-attempt is for pilots of Slurm, and SLURMD_NODENAME is not set; leave it out")
    made = AttemptLauncher(PoolFolder(path=Path(pool)).settings().slurm, host, gpu_type, emulated=emulated)
    if why := made.unavailable():
        raise ConfigError(f"--per-attempt: {why}; compute nodes must be able to submit batch jobs")
    return made


def _check_user(spec: TaskSpec) -> None:
    """Slurm accounts to users that machines know. Raises ConfigError."""
    if spec.user is None:
        return
    try:
        pwd.getpwuid(spec.user.uid)
    except KeyError:
        raise ConfigError(
            f"tenant {spec.user.name!r} has no Unix user to whom Slurm could account its attempts; name one in "
            "[tenants] of the agents' file (rota pilots start --agent-config FILE)"
        ) from None


def _program(name: str) -> str:
    """Where a command of Slurm is: not looked up with a PATH that a job could choose."""
    return shutil.which(name) or f"/usr/bin/{name}"


def _write_number(folder: Path, number: str) -> None:
    files.write_text(folder / NUMBER, number, mode=0o600, durable=False)


def _attempt_of(folder: Path) -> str:
    task = TaskId.parse(folder.name)
    return f"{task.job}.{task.epoch}"


def _first_name(folder: Path) -> str:
    """The folder of the first rank on this server: it has the notices."""
    ranks = [TaskId.parse(path.name).rank for path in folder.parent.glob(f"{_attempt_of(folder)}.*")]
    return f"{_attempt_of(folder)}.{min(ranks, default=0)}"


def _first(spec: TaskSpec, folder: Path) -> Path:
    return folder.with_name(str(replace(spec.id, rank=spec.id.rank - local_rank(spec))))


def _folders(spec: TaskSpec, folder: Path) -> list[Path]:
    """The folders of all ranks of the attempt on this server, the first one first."""
    first = spec.id.rank - local_rank(spec)
    return [folder.with_name(str(replace(spec.id, rank=first + i))) for i in range(ranks_here(spec))]


def _lease_holds(folder: Path) -> bool:
    try:
        end, patience_s = map(float, (folder / "lease").read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return False
    return machine_s() < end + patience_s
