"""Tasks in containers of docker or podman.

Their command line runs in the foreground, under the usual supervisor.

Limits are given to the engine, because its containers are not our children. Environment variables
are passed in a file that only the agent's user can read: not on the command line, where everybody
sees them, and not in the environment of the engine's program, which would obey some of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from rota.core import files
from rota.core.errors import ConfigError
from rota.deploy.worker import status
from rota.deploy.worker.container_rules import check_paths, check_working_folder
from rota.deploy.worker.limits import RlimitBackend
from rota.deploy.worker.process import MOST_PROCESSES, Command, ProcessLauncher, limits_of
from rota.deploy.worker.spec import PASSED_VARIABLES, TaskSpec, environment
from rota.deploy.worker.status import Exit, ExitReason, Phase, Status

ANSWER_WITHIN_S = 20.0
_OF_THE_HOST = {*PASSED_VARIABLES} - {"LANG", "LC_ALL", "LC_CTYPE", "TZ"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_KILLED_CODE = 128 + signal.SIGKILL
_FOR_THE_CLIENT = (
    "PATH",
    "HOME",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
)
"""Of the agent's environment, what tells an engine's program where its engine is."""
_OPEN_FILES = 65536


class EngineLauncher:
    """Containers of docker or podman. `gpus` says whether devices of a task are real."""

    def __init__(self, engine: str, prefix: str = "", gpus: bool = False) -> None:
        self.name = engine
        self.prefix = prefix
        self.gpus = gpus
        self._process = ProcessLauncher(RlimitBackend("limits are the container engine's"), prefix)

    def unavailable(self) -> str:
        """Why the engine cannot be used: not installed, or nobody answers."""
        if shutil.which(self.name) is None:
            return f"{self.name} is not installed"
        completed = call([self.name, "info"])
        if completed is None:
            return f"{self.name} does not answer within {ANSWER_WITHIN_S:g} s"
        return (
            ""
            if completed.returncode == 0
            else f"{self.name} has no daemon here: {last_line(completed.stderr)}"
        )

    def start(self, spec: TaskSpec, folder: Path) -> None:
        """Start a task as a container in the foreground."""
        env = environment(
            spec, folder, {k: v for k, v in os.environ.items() if k not in _OF_THE_HOST}
        )
        variables = folder / "variables"
        files.write_text(variables, _env_file(spec, env), mode=0o600, durable=False)
        own = {name: os.environ[name] for name in _FOR_THE_CLIENT if name in os.environ}
        ending = (self.name, "kill", self._container(str(spec.id)))
        command = Command(self.arguments(spec, variables), own, "/", ending=ending)
        plain = replace(
            spec, cpu_ids=(), memory_gb=None, read_mbps=None
        )  # the client of the engine needs no limits
        self._process.run(plain, folder, command)

    def arguments(self, spec: TaskSpec, variables: Path) -> tuple[str, ...]:
        """The command line for a task whose environment is in the file `variables`."""
        check_paths(spec.cwd, spec.checkpoints)
        check_working_folder(spec)
        uid = os.getuid() if spec.user is None else spec.user.uid
        gid = os.getgid() if spec.user is None else spec.user.gid
        argv = [
            self.name,
            "run",
            f"--name={self._container(str(spec.id))}",
            "--network=host",
            "--init",
            f"--user={uid}:{gid}",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            f"--env-file={variables}",
        ]
        if self.name == "podman" and os.geteuid() != 0:
            argv.append("--userns=keep-id")  # the numbers of users inside are those outside
        argv += self._limits(spec)
        argv += self._devices(spec)
        for text in (*spec.mounts, *([spec.checkpoints] if spec.checkpoints else [])):
            path, _, mode = text.partition(":")
            argv.append(f"--volume={path}:{path}:{mode or 'rw'}")
        return (*argv, f"--workdir={spec.cwd}", spec.image, *spec.argv)

    def _limits(self, spec: TaskSpec) -> list[str]:
        limits = limits_of(spec)
        argv = [
            f"--pids-limit={MOST_PROCESSES}",
            _ulimit("nofile", resource.RLIMIT_NOFILE, _OPEN_FILES),
            _ulimit("nproc", resource.RLIMIT_NPROC, MOST_PROCESSES),
        ]
        argv += [f"--cpuset-cpus={','.join(map(str, limits.cpus))}"] if limits.cpus else []
        argv += [f"--cpus={limits.quota:g}"] if limits.quota else []
        if limits.memory_bytes:
            argv += [f"--memory={limits.memory_bytes}b", f"--memory-swap={limits.memory_bytes}b"]
        if limits.read_bytes_per_s:
            disks = (os.path.realpath(f"/dev/block/{disk}") for disk in limits.read_disks)
            argv += [f"--device-read-bps={disk}:{limits.read_bytes_per_s}" for disk in disks]
        argv += ["--cpu-shares=262144"] if limits.first else []
        return argv

    def status(self, folder: Path) -> Status:
        """How the task is; the engine knows whether memory was the reason of its end."""
        seen = self._process.status(folder)
        if seen.phase is not Phase.ENDED or seen.exit is None or seen.exit.code != _KILLED_CODE:
            return seen
        completed = call(
            [self.name, "inspect", "--format={{.State.OOMKilled}}", self._container(folder.name)]
        )
        if completed is None or completed.stdout.strip() != "true":
            return seen
        exit_ = Exit(
            _KILLED_CODE, None, ExitReason.OUT_OF_MEMORY, "the engine ended it at its limit"
        )
        return replace(seen, exit=exit_)

    def resize(self, spec: TaskSpec, folder: Path) -> None:
        """Let the engine change the limits of the container."""
        limits = limits_of(spec)
        argv = [self.name, "update"]
        argv += [f"--cpuset-cpus={','.join(map(str, limits.cpus))}"] if limits.cpus else []
        argv += [f"--cpus={limits.quota or len(limits.cpus) or spec.cpus:g}"]
        if limits.memory_bytes:
            argv += [f"--memory={limits.memory_bytes}b", f"--memory-swap={limits.memory_bytes}b"]
        completed = call([*argv, self._container(folder.name)])
        if completed is None or completed.returncode != 0:
            why = "no answer" if completed is None else last_line(completed.stderr)
            raise ConfigError(f"{self.name} cannot change the limits of task {spec.id}: {why}")

    def signal(self, folder: Path, number: int) -> None:
        """The client in the foreground passes signals on."""
        self._process.signal(folder, number)

    def kill(self, folder: Path) -> None:
        """End the container, then what is left of its client."""
        call([self.name, "kill", self._container(folder.name)])
        wait_for_end(folder)
        self._process.kill(folder)

    def clean(self, folder: Path) -> None:
        """Remove the container."""
        call([self.name, "rm", "--force", self._container(folder.name)])
        self._process.clean(folder)

    def _container(self, task: str) -> str:
        return f"rota-{self.prefix}{task}"

    def _devices(self, spec: TaskSpec) -> list[str]:
        if not self.gpus or not spec.devices:
            return []
        if self.name == "podman":
            return [f"--device=nvidia.com/gpu={device}" for device in spec.devices]
        return [f'--gpus="device={",".join(spec.devices)}"']


def _ulimit(name: str, limit: int, most: int) -> str:
    """A limit of every process; nobody here may have more than the agent has."""
    own = resource.getrlimit(limit)[1]
    value = most if own == resource.RLIM_INFINITY else min(most, own)
    return f"--ulimit={name}={value}:{value}"


def _env_file(spec: TaskSpec, env: dict[str, str]) -> str:
    """Lines of NAME=VALUE, which is all that engines read."""
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            raise ConfigError(f"task {spec.id}: a container cannot have a variable {name[:80]!r}")
        if "\n" in value or "\r" in value:
            raise ConfigError(
                f"task {spec.id}: variable {name!r} has a line break in its value, which docker "
                "and podman cannot give to a container; write it into a file"
            )
    return "".join(f"{name}={value}\n" for name, value in sorted(env.items()))


def call(argv: list[str]) -> subprocess.CompletedProcess[str] | None:
    """Run a command of an engine; None if it does not answer or is not there."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            argv,
            check=False,
            capture_output=True,
            text=True,
            timeout=ANSWER_WITHIN_S,
            stdin=subprocess.DEVNULL,
        )
    return None


def last_line(text: str) -> str:
    """The line of an error message that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def wait_for_end(folder: Path, seconds: float = 2.0) -> None:
    """Give the supervisor a moment to see the end that was just brought about."""
    end = time.monotonic() + seconds
    while status.read(folder).phase is not Phase.ENDED and time.monotonic() < end:
        time.sleep(0.01)
