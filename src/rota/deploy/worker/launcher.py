"""One interface to start tasks as processes or containers, and the choice between them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from rota.core.errors import ConfigError, RotaError, UnknownName
from rota.deploy.worker.spec import TaskSpec
from rota.deploy.worker.status import Status

HOST = "host"  # as an image: the files of this machine, read-only


class LaunchPostponed(RotaError):
    """A task cannot start here now, through no fault of its own; another time it may."""


class Launcher(Protocol):
    """Starts a task described by a spec in a folder, and finds it again by the folder alone."""

    name: str

    def unavailable(self) -> str:
        """Why it cannot be used on this machine; empty if it can."""

    def start(self, spec: TaskSpec, folder: Path) -> None:
        """Start a task.

        A command that cannot be run is a task that ended, not an error of the launcher.
        """

    def status(self, folder: Path) -> Status:
        """How the task is, from its files."""

    def resize(self, spec: TaskSpec, folder: Path) -> None:
        """Hold a task that runs to the CPUs and memory of a new description. Raises ConfigError."""

    def signal(self, folder: Path, number: int) -> None:
        """Send a signal to the process group of the task."""

    def kill(self, folder: Path) -> None:
        """End the task and everything it started."""

    def clean(self, folder: Path) -> None:
        """Take away what an ended task leaves outside its folder."""


def choose(spec: TaskSpec, launchers: Mapping[str, Launcher]) -> Launcher:
    """The launcher that a task names, else a process, or for an image the first that works here."""
    if spec.launcher:
        if spec.launcher not in launchers:
            raise UnknownName("launcher", spec.launcher, launchers)
        return _usable(spec, launchers[spec.launcher])
    if not spec.image:
        return launchers["process"]
    is_folder = spec.image == HOST or spec.image.startswith("/")
    reasons = []
    for name in ("runc",) if is_folder else ("docker", "podman"):
        why = launchers[name].unavailable() if name in launchers else f"{name} is not set up"
        if not why:
            return launchers[name]
        reasons.append(why)
    raise ConfigError(f"task {spec.id}: no launcher for image {spec.image!r}: {'; '.join(reasons)}")


def _usable(spec: TaskSpec, launcher: Launcher) -> Launcher:
    if why := launcher.unavailable():
        raise ConfigError(f"task {spec.id}: cannot use launcher {launcher.name!r}: {why}")
    return launcher
