"""An agent from start to stop: what the server has, the runners of its tasks, the line to the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota._version import __version__
from rota.core import files
from rota.core.errors import ConfigError
from rota.core.lifecycle import TaskPhase
from rota.deploy.agent.emulated import EmulatedRunner, recover
from rota.deploy.agent.link import Link
from rota.deploy.agent.tasks import Runner, Tasks
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

_TICK_S = 0.25
_CHUNK = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """What an agent offers."""

    node: str
    type: str
    devices: tuple[str, ...]
    device_memory_mib: float = 0.0
    cpus: float = 1.0
    memory_gb: float = 1.0
    storage_mbps: float = 0.0
    network_gbps: float = 0.0
    rack: str = ""
    host: str = "127.0.0.1"
    emulated: bool = False
    limits: str = "none"

    def hello(self) -> pb.RegisterRequest:
        """As it registers."""
        return pb.RegisterRequest(
            node=self.node, type=self.type, cpus=self.cpus, memory_gb=self.memory_gb, storage_mbps=self.storage_mbps,
            network_gbps=self.network_gbps, rack=self.rack, emulated=self.emulated, version=__version__,
            limits=self.limits, host=self.host,
            devices=[pb.Device(id=name, memory_mib=self.device_memory_mib) for name in self.devices],
        )  # fmt: skip


@dataclass(kw_only=True)
class Agent:
    """One server's agent. `channel` is open to the scheduler; `folder` has what it needs to go on."""

    equipment: Equipment
    folder: Path
    channel: Any
    checkpoints: Path | None = None
    """Root of checkpoints; None: what the scheduler says."""
    processes: Any = None
    """Makes runners for real processes; None on an agent that only emulates."""
    devices: Any = None
    """Emulated devices; None on an agent with real ones."""
    _root: Path = field(init=False)
    _link: Link = field(init=False)
    _opening: list[asyncio.Future[None]] = field(default_factory=list)

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Work until cancelled; tasks go on by themselves after that, until their leases end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / "emulated"
        place.mkdir(exist_ok=True)
        self._root = self.checkpoints or self.folder / "checkpoints"
        hello = self.equipment.hello()
        hello.identity = identity_of(self.folder)
        self._link = Link(self.channel, hello, self._registered, self._log, self._lateness)
        tasks = Tasks(self._make, self._link.changed)
        self._tasks = tasks
        tasks.adopt(recover(place, self._link.changed, self._root, self.devices))
        if self.processes is not None:
            await self.processes.open(self._root, self._link.changed)
            tasks.adopt(self.processes.recover())
        self._link.tasks = tasks
        beside = [asyncio.create_task(self._tick(tasks)), asyncio.create_task(self._tell(ready))]
        try:
            await self._link.run()
        finally:
            await self._close(beside)

    async def _close(self, beside: list[asyncio.Task[None]]) -> None:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, *self._opening, return_exceptions=True)
        if self.devices is not None:
            await self.devices.close()
        if self.processes is not None:
            await self.processes.close()

    async def _tell(self, ready: Callable[[], None]) -> None:
        await self._link.connected.wait()
        ready()

    async def _tick(self, tasks: Tasks) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            tasks.tick(time.monotonic())

    def _registered(self, reply: pb.RegisterReply) -> None:
        if self.checkpoints is None and reply.checkpoints:
            self._root = Path(reply.checkpoints)
            if self.processes is not None:
                self.processes.root = self._root
        if self.devices is not None:
            self._opening.append(asyncio.ensure_future(self.devices.serve(reply.time_scale)))

    def _make(self, order: pb.TaskOrder, changed: Callable[[], None]) -> Runner:
        if order.spec.emulated:
            return EmulatedRunner(order, changed, self._root, self.folder / "emulated", self.devices)
        if self.processes is None:
            raise ConfigError(f"node {self.equipment.node} only emulates: it cannot run a command")
        runner: Runner = self.processes.make(order, changed)
        return runner

    def _lateness(self) -> float:
        """The worst mean lateness of the emulated jobs here."""
        means = [r.lateness.report().mean_s for r in self._tasks.running() if isinstance(r, EmulatedRunner)]
        return max(means, default=0.0)

    async def _log(self, request: pb.LogRequest) -> AsyncIterator[pb.LogChunk]:
        """The output of a job, as far as it is here."""
        paths = self.processes.log(request.job, request.rank) if self.processes is not None else []
        if not paths:
            text = f"job {request.job} has no output on node {self.equipment.node}: it is an emulated job or never ran"
            yield pb.LogChunk(id=request.id, error=text)
            return
        async for chunk in follow(paths, request, lambda: self._runs(request.job)):
            yield chunk

    def _runs(self, job: int) -> bool:
        return any(r.key[0] == job and r.state().phase != TaskPhase.ENDED.value for r in self._tasks.running())


def identity_of(folder: Path) -> str:
    """A text made with the folder and kept in it: whether a later agent in this folder can know what ran before."""
    path = folder / "identity"
    before = folder / "memory"  # its name until Rota 0.1.0
    if before.is_file() and not path.exists():
        before.replace(path)
    with contextlib.suppress(FileNotFoundError):
        if kept := path.read_text(encoding="ascii").strip():
            return kept
    made = uuid.uuid4().hex
    files.write_text(path, made)
    return made


async def follow(paths: list[Path], request: pb.LogRequest, runs: Callable[[], bool]) -> AsyncIterator[pb.LogChunk]:
    """Pieces of files, on and on as long as the job runs if that is asked for."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in paths]
        for file in files if request.offset < 0 else ():
            file.seek(max(0, os.fstat(file.fileno()).st_size + request.offset))
        while True:
            alive = runs()
            for file in files:
                while data := file.read(_CHUNK):
                    yield pb.LogChunk(id=request.id, data=data)
            if not (request.follow and alive):
                break
            await asyncio.sleep(0.2)
    yield pb.LogChunk(id=request.id, end=True)


@contextlib.asynccontextmanager
async def running(agent: Agent) -> AsyncIterator[asyncio.Task[None]]:
    """An agent in the background."""
    task = asyncio.create_task(agent.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
