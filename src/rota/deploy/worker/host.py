"""A worker machine as an agent uses it.

Start tasks, look after them, find them again after a restart.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rota.core.errors import ConfigError
from rota.deploy.worker import cgroups, limits, status
from rota.deploy.worker.container import EngineLauncher
from rota.deploy.worker.cpus import CpuAllocator, shares
from rota.deploy.worker.inventory import Machine
from rota.deploy.worker.launcher import Launcher, choose
from rota.deploy.worker.limits import Backend, Enclosure
from rota.deploy.worker.mps import Mps
from rota.deploy.worker.process import ProcessLauncher
from rota.deploy.worker.runc import RuncLauncher
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.status import Phase, Status
from rota.deploy.worker.stopping import Ending
from rota.deploy.worker.tasks import FOR_EVER, Lease, TaskTable

_CLEANED = "cleaned"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task and how it is."""

    task: TaskId
    status: Status


class Host:
    """The tasks of one agent on one machine. Everything it knows is on disk below `folder`."""

    def __init__(
        self,
        folder: str | Path,
        machine: Machine,
        backend: Backend | None = None,
        more: Iterable[Launcher] = (),
    ) -> None:
        """`more` are launchers that tasks may name beside those that are always there."""
        self.machine = machine
        self.table = TaskTable(folder)
        self.backend = backend if backend is not None else limits.pick()
        prefix = hashlib.sha256(str(self.table.folder).encode()).hexdigest()[:8] + "-"
        self.launchers = _launchers(self.backend, self.table.folder, prefix, bool(machine.gpus))
        self.launchers.update({launcher.name: launcher for launcher in more})
        self.mps = Mps(self.table.folder, len(machine.gpus))
        self.cpus = CpuAllocator(machine.numa)
        self._prefix = prefix
        limits.clear(self.backend, prefix, {prefix + str(task) for task in self.table.ids()})

    def describe(self) -> str:
        """One line that says how tasks are limited here."""
        return self.backend.describe()

    def start(self, spec: TaskSpec, lease: Lease = FOR_EVER) -> Status:
        """Start a task: CPUs are chosen, the task is written down, then it runs.

        It has its first lease before it runs: whatever becomes of the agent, its supervisor ends it
        then. Nothing is left of one that cannot start.
        """
        launcher = choose(spec, self.launchers)
        if spec.mps:
            for device in spec.devices:
                spec = replace(spec, env={**spec.env, **self.mps.start(device)})
        if str(spec.id) in {str(task) for task in self.table.ids()}:
            raise ConfigError(
                f"task {spec.id} is already here; every lease of a job needs an epoch of its own"
            )
        pinning = self.cpus.take(str(spec.id), spec.cpus, self._nodes_of(spec.devices))
        placed = replace(
            spec, cpu_ids=pinning.cpus, virtual=pinning.virtual, launcher=launcher.name
        )
        try:
            folder = self.table.add(placed, lease)
            launcher.start(placed, folder)
        except Exception:
            self.cpus.release(str(spec.id))
            if self.table.path(spec.id).exists():
                launcher.clean(self.table.path(spec.id))
                self.table.forget(spec.id)
            raise
        return launcher.status(folder)

    def resize(self, task: TaskId, cpus: float, memory_gb: float | None) -> TaskSpec:
        """Give a task that runs other CPUs and memory, without ending it; what it has now.

        Nothing happens to one that ended. Without control groups only whole CPUs are enforced, as
        at a start.
        """
        spec = self.table.spec(task)
        if self.status(task).phase is Phase.ENDED or (spec.cpus, spec.memory_gb) == (
            cpus,
            memory_gb,
        ):
            return spec
        self.cpus.release(str(task))
        pinning = self.cpus.take(str(task), cpus, self._nodes_of(spec.devices))
        wanted = replace(
            spec, cpus=cpus, memory_gb=memory_gb, cpu_ids=pinning.cpus, virtual=pinning.virtual
        )
        try:
            self._launcher(task).resize(wanted, self.table.path(task))
            self.table.replace(wanted)
        except Exception:
            self.cpus.restore(str(task), shares(spec.cpus, spec.cpu_ids))
            raise
        return wanted

    def recover(self) -> list[TaskReport]:
        """Take back CPUs of tasks that run and end what has no supervisor, after a restart.

        Reports every task.
        """
        for task in self.table.ids():
            spec = self._spec(task)
            if spec is not None and status.read(self.table.path(task)).phase is not Phase.ENDED:
                self.cpus.restore(str(task), shares(spec.cpus, spec.cpu_ids))
        return self.reports()

    def reports(self) -> list[TaskReport]:
        """Every task that was not forgotten.

        One that ended holds nothing any more, but is reported until forgotten.
        """
        return [TaskReport(task, self.status(task)) for task in self.table.ids()]

    def status(self, task: TaskId) -> Status:
        """How a task is. An end is final only after what it left behind was removed."""
        launcher = self._launcher(task)
        folder = self.table.path(task)
        seen = launcher.status(folder)
        if seen.phase is not Phase.ENDED:
            return seen
        if not (folder / _CLEANED).exists():
            launcher.clean(folder)
            with contextlib.suppress(OSError):  # a full disk: it is cleaned again next time
                (folder / _CLEANED).touch()
            self._stop_unused_mps(task)
        self.cpus.release(str(task))
        return seen

    def ended(self, task: TaskId) -> bool:
        """Whether a task writes no more: it has ended, or was forgotten. For any thread."""
        folder = self.table.path(task)
        return not folder.exists() or status.read(folder).phase is Phase.ENDED

    def lease(self, task: TaskId, lease: Lease) -> None:
        """Let a task run until then; its supervisor ends it if no agent does."""
        with contextlib.suppress(OSError):
            # Not started yet, or a full disk: the lease before holds.
            self.table.lend(task, lease)

    def ending(self, task: TaskId, term_after_s: float, kill_after_s: float, now: float) -> Ending:
        """Begin to stop a task; the caller goes on with `advance`."""
        return Ending(self._launcher(task), self.table.path(task), term_after_s, kill_after_s, now)

    def forget(self, task: TaskId) -> None:
        """The end of a task was acknowledged. A task that runs is not forgotten."""
        if not self.table.path(task).exists():
            return
        if self.status(task).phase is not Phase.ENDED:
            raise ConfigError(f"task {task} still runs; stop it before forgetting it")
        self.table.forget(task)

    def close(self) -> None:
        """Leave: tasks go on, and the next agent finds them."""
        if not self.table.ids():
            cgroups.tidy(self.backend.folder or cgroups.FOLDER)
        self.table.close()

    def enclosure(self, task: TaskId) -> Enclosure:
        """The limits of a task in force; without groups if a container engine holds it to them."""
        return self.backend.attach(self._prefix + str(task))

    def _launcher(self, task: TaskId) -> Launcher:
        spec = self._spec(task)
        return self.launchers.get(spec.launcher if spec else "", self.launchers["process"])

    def _spec(self, task: TaskId) -> TaskSpec | None:
        """What a task was asked to be.

        None if its file is damaged, which must not harm the others.
        """
        try:
            return self.table.spec(task)
        except ConfigError as error:
            _log.warning("%s", error)
            return None

    def _stop_unused_mps(self, ended: TaskId) -> None:
        """End the daemons of GPUs that no other task shares any more."""
        ended_spec = self._spec(ended)
        if ended_spec is None or not ended_spec.mps:
            return
        in_use: set[str] = set()
        for task in self.table.ids():
            other = self._spec(task)
            cleaned = (self.table.path(task) / _CLEANED).exists()
            if other is not None and other.mps and task != ended and not cleaned:
                in_use.update(other.devices)
        for device in set(ended_spec.devices) - in_use:
            self.mps.stop(device)

    def _nodes_of(self, devices: Iterable[str]) -> set[int]:
        wanted = set(devices)
        near = [gpu for gpu in self.machine.gpus if {str(gpu.index), gpu.uuid} & wanted]
        return {gpu.node for gpu in near if gpu.node is not None}


def _launchers(backend: Backend, folder: Path, prefix: str, gpus: bool) -> dict[str, Launcher]:
    launchers: tuple[Launcher, ...] = (
        ProcessLauncher(backend, prefix),
        EngineLauncher("docker", prefix, gpus),
        EngineLauncher("podman", prefix, gpus),
        RuncLauncher(backend, folder / "runc", prefix),
    )
    return {launcher.name: launcher for launcher in launchers}
