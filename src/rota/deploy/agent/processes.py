"""Real jobs on this server: processes that outlive the agent, and the line to the training code inside them.

A task of the scheduler is one or several ranks here, each a process under its own supervisor (`deploy.worker`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from rota.core import files
from rota.core.errors import ConfigError
from rota.deploy.agent.data_folders import KEEP_S, DataFolders
from rota.deploy.agent.descriptions import Place, check_resume, describe
from rota.deploy.agent.log_spool import LogSpool
from rota.deploy.agent.process_runner import ProcessRunner
from rota.deploy.agent.saving import LONGEST_SAVE_S
from rota.deploy.agent.tasks import Runner
from rota.deploy.clocks import boot_id
from rota.deploy.structured_logs import about
from rota.deploy.worker.container_rules import ContainerRules
from rota.deploy.worker.endpoint import Endpoint
from rota.deploy.worker.host import Host
from rota.deploy.worker.inventory import Machine, inspect
from rota.deploy.worker.launcher import Launcher
from rota.deploy.worker.ranks import AttemptId, Rank, RankId
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.status import Phase
from rota.deploy.worker.task_keys import VARIABLE as KEY_VARIABLE
from rota.deploy.worker.task_keys import TaskKeys
from rota.deploy.worker.tenancy import Tenancy, TrustedTenants, check_reachable, make_folder
from rota.deploy.worker.users import JobUser
from rota.rpc import rota_pb2 as pb

AGENT_SOCKET = "agent.sock"
DEVICE_SOCKET = "devices.sock"


log = logging.getLogger(__name__)

_POLL_S = 0.1
"""Seconds between two looks at the processes."""


class Offered(Protocol):
    """Emulated devices for processes."""

    def environment(self, order: pb.TaskOrder) -> dict[str, str]:
        """What a process of a job has to know to use them."""

    async def open_door(self, path: Path, owner: tuple[int, int]) -> None:
        """Let another user's processes use them as well, at a socket that only it can reach."""


class Processes:
    """Makes and looks after runners of processes."""

    def __init__(
        self,
        folder: Path,
        machine: Machine | None = None,
        devices: Offered | None = None,
        longest_save_s: float = LONGEST_SAVE_S,
        tenancy: Tenancy | None = None,
        containers: ContainerRules | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        """Without `tenancy` and `containers` jobs are trusted. `launcher` starts all tasks, if it is given."""
        self.longest_save_s = longest_save_s
        self._tenancy = tenancy or TrustedTenants()
        self._containers = containers or ContainerRules(everything=True)
        make_folder(folder, 0o711 if self._tenancy.separate else 0o700)
        self._launcher = launcher
        self.host = Host(folder / "work", machine or inspect(), more=() if launcher is None else (launcher,))
        self.data = DataFolders(folder, self.host.machine.memory_bytes, separate=self._tenancy.separate)
        self.devices = devices
        self.root = folder / "checkpoints"
        self._logs = folder / "logs"
        self._doors = folder / "doors"
        self.spool = LogSpool(self._logs, self.host.ended)
        self.log_bytes = (64_000_000, 1_000_000)
        """Bytes of output of a rank that may wait here to be sent, and of a file of it; the scheduler says."""
        self._orders = folder / "orders"
        make_folder(self._orders, 0o700)
        make_folder(self._logs, 0o700)
        self._keys = TaskKeys(folder / "task-key")
        self.endpoint = Endpoint(
            folder / "run" / AGENT_SOCKET, on_change=self._heard, on_answer=self._answered, on_broken=self._broken,
            keys=self._keys,
        )  # fmt: skip
        self._runners: dict[AttemptId, ProcessRunner] = {}
        self._problems: dict[AttemptId, str] = {}
        """What went wrong with a task at the last look, so that it is told once."""
        self._some = asyncio.Event()
        self._changed: Callable[[], None] = lambda: None
        self._polling: asyncio.Task[None] | None = None

    def describe(self) -> str:
        """How limits are enforced here, and tenants kept apart."""
        limits = self.host.describe() if self._launcher is None else "a batch job for each attempt limits it"
        return f"{limits}; {self._tenancy.describe()}"

    def use_checkpoints(self, root: Path) -> None:
        """Where jobs save from now on. ConfigError if their users could not get there."""
        if self._tenancy.separate:
            root.mkdir(mode=0o711, parents=True, exist_ok=True)
            check_reachable(root / "JOB", "the folder of checkpoints")
        self.root = root

    async def open(self, root: Path, changed: Callable[[], None]) -> None:
        """Begin to listen to jobs."""
        self.use_checkpoints(root)
        self._changed = changed
        await self.endpoint.start()
        self.data.open(int(task.job) for task in self.host.table.ids() if task.job.isdecimal())
        for task in self.host.table.ids():  # they come back to their sockets
            with contextlib.suppress(ConfigError):
                await self._open_door(self.host.table.spec(task).user)
        self._polling = asyncio.create_task(self._poll())

    async def close(self) -> None:
        """Leave; jobs go on until their leases end."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self.endpoint.close()
        await asyncio.to_thread(self.data.close, self._jobs_with_processes())
        self.host.close()

    def _jobs_with_processes(self) -> set[int]:
        """Jobs of which something still runs; others may have ended without the scheduler having heard of it."""
        tasks = (task for task in self.host.table.ids() if task.job.isdecimal())
        return {int(task.job) for task in tasks if not self.host.ended(task)}

    def kill_all(self) -> None:
        """End every process of every task without asking (reads files; called in a thread)."""
        for task in self.host.table.ids():
            if not self.host.ended(task):
                now = time.monotonic()
                self.host.ending(task, 0.0, 0.0, now).advance(now)

    def make(self, order: pb.TaskOrder, changed: Callable[[], None]) -> Runner:
        """A runner for an order. ConfigError if what it has to go on from is not here."""
        check_resume(self.root, order)
        runner = ProcessRunner(self, order, changed)
        self._add(runner)
        self._sweep_data()
        return runner

    def _sweep_data(self) -> None:
        """Bound what is kept of jobs that do not run here."""
        self.data.sweep({runner.key[0]: runner.memory_gb for runner in self._runners.values()})

    def _add(self, runner: ProcessRunner) -> None:
        self._runners[runner.task] = runner
        self._some.set()

    def recover(self) -> Iterator[Runner]:
        """Runners of tasks that were here before the agent was started again."""
        self.host.recover()
        for path in sorted(self._orders.glob("*.order")):
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                order = pb.TaskOrder.FromString(bytes.fromhex(kept["order"]))
            except (OSError, ValueError, KeyError) as error:
                log.warning("%s cannot be read (%s); its task is given up", path, error)
                path.unlink(missing_ok=True)
                continue
            runner = ProcessRunner(self, order, self._changed)
            same_boot = kept.get("boot", boot_id()) == boot_id()
            runner.resume(kept["lease_end"] if same_boot else 0.0)
            self._add(runner)
            yield runner

    def keep(self, order: pb.TaskOrder, lease_end: float) -> None:
        """Remember an order, so that its task can be adopted."""
        path = self._orders / f"{order.job}.{order.epoch}.order"
        text = json.dumps({"order": order.SerializeToString().hex(), "lease_end": lease_end, "boot": boot_id()})
        # Only the owner may read it: it has the environment. Not synced: after a power cut nothing runs any more.
        files.write_text(path, text, mode=0o600, durable=False)

    def drop(self, runner: ProcessRunner) -> None:
        """Its end was acknowledged."""
        job_over = runner.job_over  # before its last words are forgotten
        (self._orders / f"{runner.key[0]}.{runner.key[1]}.order").unlink(missing_ok=True)
        self.endpoint.forget(runner.task)
        self._runners.pop(runner.task, None)
        self._problems.pop(runner.task, None)
        if runner.key[0] not in {other.key[0] for other in self._runners.values()}:
            self.data.left(runner.key[0], over=job_over)
            asyncio.get_running_loop().call_later(KEEP_S + 1.0, self._sweep_data)
        if not self._runners:
            self._some.clear()

    async def admit(self, order: pb.TaskOrder) -> None:
        """Let the ranks of an order reach the agent. ConfigError if their tenant may not run here."""
        await self._open_door(self._user(order))

    def _user(self, order: pb.TaskOrder) -> JobUser | None:
        return self._tenancy.user_of(order.spec.tenant or "default")

    async def _open_door(self, user: JobUser | None) -> None:
        if user is None:
            return
        run = self._sockets(user)
        await self.endpoint.open_door(run / AGENT_SOCKET, user)
        if self.devices is not None:
            await self.devices.open_door(run / DEVICE_SOCKET, (user.uid, user.gid))

    def _sockets(self, user: JobUser | None) -> Path:
        """The folder with the sockets that a user can reach."""
        return self.endpoint.path.parent if user is None else self._doors / str(user.uid)

    def spec(self, order: pb.TaskOrder, task: TaskId) -> TaskSpec:
        """What a rank is started as. Its output stays here until it was sent."""
        user = self._user(order)
        run = self._sockets(user)
        own = {} if self.devices is None else self.devices.environment(order)
        own["ROTA_SOCKET"] = str(run / AGENT_SOCKET)
        if self.devices is not None:
            own["ROTA_DEVICE_SOCKET"] = str(run / DEVICE_SOCKET)
        own[KEY_VARIABLE] = self._keys.of(RankId(AttemptId(task.job, task.epoch), task.rank))
        data = self.data.prepare(order.job, order.spec.tenant or "default", user)
        own.update(data.environment)
        place = Place(
            root=self.root, logs=self._logs, run=run, user=user, containers=self._containers, data=data.mounts
        )
        spec = describe(order, task, place, own)
        most, segment = self.log_bytes
        launcher = "" if self._launcher is None else self._launcher.name
        return replace(spec, log_mb=most / 1e6, log_segment_mb=segment / 1e6, launcher=launcher)

    # Events of the endpoint and the machine

    def _heard(self, rank: Rank) -> None:
        runner = self._runners.get(rank.attempt)
        if runner is not None:
            runner.heard(rank)

    def _answered(self, attempt: AttemptId, rank: int, message: dict[str, Any]) -> None:
        runner = self._runners.get(attempt)
        if runner is not None:
            runner.answered(rank, message)

    def _broken(self, attempt: AttemptId, reason: str) -> None:
        runner = self._runners.get(attempt)
        if runner is not None:
            runner.kill(reason)

    async def _poll(self) -> None:
        """Look at the processes; files are read in a thread, so that nobody waits for a disk. Without any it sleeps."""
        while True:
            await self._some.wait()
            await asyncio.sleep(_POLL_S)
            for runner in list(self._runners.values()):
                if runner.alive:
                    await self._look_at(runner)

    async def _look_at(self, runner: ProcessRunner) -> None:
        """Whatever goes wrong with one task, the others are looked at."""
        try:
            statuses = await asyncio.to_thread(runner.look)
            if all(status.phase is Phase.ENDED for status in statuses.values()):
                await self.endpoint.take_in()
            runner.take(statuses)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if self._problems.get(runner.task) != problem:
                self._problems[runner.task] = problem
                log.exception(
                    "job %d cannot be looked at; it is tried again", runner.key[0], extra=about(job=runner.key[0])
                )
