"""An agent from start to stop: what the server has, the runners of its tasks, the line to the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota._version import __version__
from rota.core import files
from rota.core.errors import ConfigError
from rota.deploy.agent.complaints import Complaints, Diagnosis
from rota.deploy.agent.disk import DiskWatch
from rota.deploy.agent.emulated import EmulatedRunner, recover
from rota.deploy.agent.instances import AgentInstance
from rota.deploy.agent.job_mapping import JobMapping
from rota.deploy.agent.leaving import Departure
from rota.deploy.agent.link import Link
from rota.deploy.agent.log_shipping import LogShipper
from rota.deploy.agent.own_address import LOOPBACK
from rota.deploy.agent.schedulers import Schedulers
from rota.deploy.agent.tasks import Runner, Tasks
from rota.deploy.worker.tenancy import make_folder
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

_TICK_S = 0.25
_CERTIFICATE_S = 5.0
"""Seconds between two looks at the files of the certificate."""


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
    host: str = ""
    """Where ranks of a gang find this machine; empty: the address by which it reaches the scheduler."""
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
    standbys: tuple[Any, ...] = ()
    """Channels to other schedulers that may be in charge."""
    renewed: Callable[[], Sequence[Any] | None] = lambda: None
    """Channels with a renewed certificate, when there is one."""
    checkpoints: Path | None = None
    """Root of checkpoints; None: what the scheduler says."""
    processes: Any = None
    """Makes runners for real processes; None on an agent that only emulates."""
    devices: Any = None
    """Emulated devices; None on an agent with real ones."""
    address: Callable[[], str] = lambda: LOOPBACK
    """Where ranks of a gang find this machine, if `equipment` does not say it."""
    diagnosis: Diagnosis | None = None
    """Says what fails on the way to the scheduler."""
    departure: Departure = field(default_factory=Departure)
    """When it is asked to go for good."""
    job_mapping: JobMapping | None = None
    """Where others on this server find which jobs hold which GPUs; None: nobody wants to know."""
    _root: Path = field(init=False)
    _link: Link = field(init=False)
    _instance: AgentInstance = field(init=False)
    _opening: list[asyncio.Future[None]] = field(default_factory=list)

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Work until cancelled; tasks go on by themselves after that, until their leases end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / "emulated"
        make_folder(place, 0o700)
        self._root = self.checkpoints or self.folder / "checkpoints"
        self._instance = AgentInstance(self.folder)
        self._disk = DiskWatch(self.folder)
        schedulers = Schedulers([self.channel, *self.standbys], self.equipment.hello().node, self.folder)
        self._link = self._make_link(schedulers)
        tasks = Tasks(self._make, self._link.changed, self.job_mapping)
        self._tasks = tasks
        tasks.adopt(recover(place, self._link.changed, self._root, self.devices))
        if self.processes is not None:
            await self.processes.open(self._root, self._link.changed)
            tasks.adopt(self.processes.recover())
        self._link.tasks = tasks
        beside = [asyncio.create_task(part) for part in (self._tick(tasks), self._tell(ready), self._renew(schedulers))]
        shipper = (
            None
            if self.processes is None
            else LogShipper(schedulers, self.equipment.hello().node, self.processes.spool)
        )
        if shipper is not None:
            beside.append(asyncio.create_task(shipper.run()))
        try:
            await self._work()
        finally:
            await self._close(beside)
            if shipper is not None:
                await shipper.finish()

    def _make_link(self, schedulers: Schedulers) -> Link:
        return Link(
            self.channel,
            self._hello,
            self._registered,
            self._lateness,
            self._disk.trouble_now,
            Complaints(self.diagnosis),
            schedulers,
        )

    async def _work(self) -> None:
        """Serve until cancelled, or until it has left."""
        link = asyncio.ensure_future(self._link.run())
        left = asyncio.ensure_future(self.departure.carry_out(self._link, self._tasks, self.processes))
        try:
            done, _ = await asyncio.wait({link, left}, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            link.cancel()
            left.cancel()
            await asyncio.gather(link, left, return_exceptions=True)

    def _hello(self) -> pb.RegisterRequest:
        """As it registers now. It may block: names are looked up."""
        hello = self.equipment.hello()
        hello.identity = identity_of(self.folder)
        hello.host = self.equipment.host or self.address()
        hello.instance = self._instance.id
        hello.replaces.extend(self._instance.replaces)
        hello.place = self._instance.place
        return hello

    async def _close(self, beside: list[asyncio.Task[None]]) -> None:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, *self._opening, return_exceptions=True)
        if self.devices is not None:
            await self.devices.close()
        if self.processes is not None:
            await self.processes.close()
        self._tasks.map_jobs()

    async def _tell(self, ready: Callable[[], None]) -> None:
        await self._link.connected.wait()
        ready()

    async def _tick(self, tasks: Tasks) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            if self._disk.look():
                self._link.changed()
            tasks.tick(time.monotonic())

    async def _renew(self, schedulers: Schedulers) -> None:
        """Look for a renewed certificate from time to time."""
        while True:
            await asyncio.sleep(_CERTIFICATE_S)
            channels = self.renewed()
            if channels is not None:
                schedulers.reconnect(channels)

    def _registered(self, reply: pb.RegisterReply) -> None:
        self._instance.registered()
        if self.checkpoints is None and reply.checkpoints:
            self._root = Path(reply.checkpoints)
            if self.processes is not None:
                self.processes.use_checkpoints(self._root)
        if self.processes is not None and reply.job_log_bytes and reply.log_segment_bytes:
            self.processes.log_bytes = (reply.job_log_bytes, reply.log_segment_bytes)
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


@contextlib.asynccontextmanager
async def running(agent: Agent) -> AsyncIterator[asyncio.Task[None]]:
    """An agent in the background."""
    task = asyncio.create_task(agent.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
