"""Tasks as processes, each under its own supervisor (`shim.py`); other launchers use it too."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rota.core import files
from rota.core.errors import ConfigError, OutputError
from rota.deploy.worker import procs, status
from rota.deploy.worker.limits import KILL_SECONDS, Backend, Enclosure, ResourceLimits, relimit
from rota.deploy.worker.spec import MARKER, TaskSpec, environment, logs_of
from rota.deploy.worker.status import Phase, Status
from rota.deploy.worker.tenancy import make_job_folder
from rota.deploy.worker.users import JobUser

SHIM = Path(__file__).with_name("shim.py")
LAUNCH = "launch.json"
_START_SECONDS = 60.0
MOST_PROCESSES = 16384
"""Processes and threads of one user of jobs on this machine, so that no job can use up all."""


@dataclass(frozen=True, slots=True)
class Command:
    """What the supervisor is to run.

    `enter` is false for programs that put a container into the groups themselves. `user` is whom
    the supervisor becomes for it; None: nobody else, also because a container does that itself.
    `ending` is run after it: containers of an engine are not below its program, and outlive it.
    It is run as the agent's user, so it has an environment of its own where `env` is the job's.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    enter: bool = True
    user: JobUser | None = None
    ending: tuple[str, ...] = ()
    ending_env: Mapping[str, str] | None = None  # None: that of the command


def limits_of(spec: TaskSpec) -> ResourceLimits:
    """Whole CPUs by pinning, fractions by a quota; CPUs that are not there are not limited."""
    fraction = spec.cpus != int(spec.cpus) and not spec.virtual
    size = None if spec.memory_gb is None else int(spec.memory_gb * 1e9)
    return ResourceLimits(
        cpus=spec.cpu_ids,
        memory_bytes=size,
        quota=spec.cpus if fraction else None,
        read_bytes_per_s=None if spec.read_mbps is None else int(spec.read_mbps * 1e6),
        read_disks=spec.read_disks,
        first=spec.first,
    )


class ProcessLauncher:
    """Plain processes. `prefix` keeps the enclosures of several agents on one machine apart."""

    name = "process"

    def __init__(self, limits: Backend, prefix: str = "") -> None:
        self.limits = limits
        self.prefix = prefix

    def unavailable(self) -> str:
        """Processes work wherever there is a /proc."""
        return "" if sys.platform == "linux" else f"workers need Linux; this is {sys.platform}"

    def start(self, spec: TaskSpec, folder: Path) -> None:
        """Start a task as a process."""
        env = environment(spec, folder, os.environ)
        self.run(spec, folder, Command(spec.argv, env, spec.cwd, user=spec.user))

    def run(self, spec: TaskSpec, folder: Path, command: Command) -> None:
        """Put the limits of a task in force and start a command under them."""
        _make_folders(spec, folder)
        enclosure = self.limits.enclose(self.prefix + str(spec.id), limits_of(spec))
        try:
            _write_launch(folder, _plan(spec, folder, command, enclosure))
            _start_shim(folder)
        except Exception:
            enclosure.remove()
            raise

    def status(self, folder: Path) -> Status:
        """How the task is; while it runs, with what it uses."""
        seen = status.read(folder)
        if seen.phase not in (Phase.RUNNING, Phase.STOPPING):
            return seen
        used = self._usage(folder, seen.process)
        return replace(seen, cpu_seconds=used.cpu_seconds, rss_bytes=used.rss_bytes)

    def _usage(self, folder: Path, leader: procs.Process | None) -> procs.Usage:
        """What a task uses now: its groups, or else its session."""
        enclosure = self._enclosure(folder)
        if enclosure.groups:
            return enclosure.usage()
        return procs.usage(procs.in_session(leader)) if leader else procs.Usage()

    def resize(self, spec: TaskSpec, folder: Path) -> None:
        """Hold a task that runs to the CPUs and memory of a new description."""
        limits = limits_of(spec)
        enclosure = self._enclosure(folder)
        self.limits.resize(enclosure.name, limits)
        leader = status.read(folder).process
        members = {*enclosure.members(), *(procs.in_session(leader) if leader else ())}
        relimit(members, limits, enclosure.groups)

    def signal(self, folder: Path, number: int) -> None:
        """Send a signal to the process group of the task."""
        leader = status.read(folder).process
        for process in procs.in_group(leader) if leader else ():
            procs.send(process, number)

    def kill(self, folder: Path) -> None:
        """End the task and all it started: by group, by session, by the mark in the environment."""
        self._enclosure(folder).kill_all()
        leader = status.read(folder).process
        end = time.monotonic() + KILL_SECONDS
        while time.monotonic() < end:
            members = set(procs.in_session(leader)) if leader else set()
            members.update(procs.with_environment(f"{MARKER}={folder}"))
            if not members:
                return
            for process in members:
                procs.send(process, signal.SIGKILL)
            time.sleep(0.01)

    def clean(self, folder: Path) -> None:
        """Take away the groups of an ended task, and whoever is still inside."""
        self.kill(folder)
        self._enclosure(folder).remove()

    def _enclosure(self, folder: Path) -> Enclosure:
        return self.limits.attach(self.prefix + folder.name)


def _plan(
    spec: TaskSpec, folder: Path, command: Command, enclosure: Enclosure
) -> dict[str, object]:
    """What the supervisor reads."""
    events = enclosure.oom_events
    groups = [str(folder) for folder in enclosure.folders]
    return {
        "argv": list(command.argv),
        "env": dict(command.env),
        "cwd": command.cwd,
        "logs": str(logs_of(spec, folder)),
        "log_bytes": int(spec.log_mb * 1e6),
        "log_segment_bytes": int(spec.log_segment_mb * 1e6),
        "groups": groups,
        "enter": groups if command.enter else [],
        "oom_events": None if events is None else str(events),
        "affinity": list(enclosure.affinity),
        "data_limit": enclosure.data_limit,
        "ending": list(command.ending),
        "ending_env": dict(command.env if command.ending_env is None else command.ending_env),
        "user": None if command.user is None else _become(command.user),
    }


def _become(user: JobUser) -> dict[str, object]:
    """Whom the command runs as."""
    groups = list(user.groups or (user.gid,))
    return {"uid": user.uid, "gid": user.gid, "groups": groups, "processes": MOST_PROCESSES}


def _make_folders(spec: TaskSpec, folder: Path) -> None:
    """Folders for logs and checkpoints. What is in them stays."""
    try:
        logs_of(spec, folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        if spec.checkpoints and spec.user is not None:
            make_job_folder(Path(spec.checkpoints), owner=(spec.user.uid, spec.user.gid))
        elif spec.checkpoints:
            Path(spec.checkpoints).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"task {spec.id}: cannot make folder {error.filename}: {error.strerror}"
        ) from error


def _write_launch(folder: Path, plan: dict[str, object]) -> None:
    """Only the owner may read it: it holds the environment of the task."""
    path = folder / LAUNCH
    try:
        # Not synced: it is read at once, and after a power cut the task is gone.
        files.write_text(path, json.dumps(plan), mode=0o600, durable=False)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}; make room and start the task again"
        ) from error


def _take_lock(folder: Path) -> int:
    """The lock that the supervisor will hold.

    Somebody who asks for the status has it for a moment.
    """
    try:
        lock = os.open(folder / status.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OutputError(f"cannot write {folder / status.LOCK}: {error.strerror}") from error
    for _ in range(20):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        time.sleep(0.01)
    os.close(lock)
    raise ConfigError(f"the task in {folder} already runs")


def _start_shim(folder: Path) -> None:
    """Start the supervisor and come back when the command runs, or has failed to."""
    lock = _take_lock(folder)
    try:
        completed = subprocess.run(
            [sys.executable, "-S", "-E", str(SHIM), str(folder), str(lock)],
            pass_fds=(lock,),
            stdin=subprocess.DEVNULL,
            capture_output=True,  # the part that stays closes it: no need to poll
            text=True,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            timeout=_START_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"cannot start the supervisor of {folder.name}: {error}") from error
    finally:
        os.close(lock)
    if completed.returncode != 0 and not (folder / status.STATUS).exists():
        log = folder / "shim.log"
        complaint = completed.stderr + (
            log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        )
        why = complaint.strip()[-500:] or f"exit code {completed.returncode}"
        raise ConfigError(f"the supervisor of {folder.name} failed: {why}")
