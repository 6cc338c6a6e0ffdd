"""The emulated devices of an agent: memory for all its jobs, and a socket for those that are processes.

Jobs without a process are paced at the scheduler's rate (`emulated`) and only hold memory here. Jobs in processes ask
for every step over the socket, so that the device time they get is that of these devices.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import warnings
from functools import cache
from pathlib import Path

from rota.core.errors import RotaError
from rota.core.job_spec import JobSpec
from rota.deploy.agent.main import Equipment
from rota.deploy.agent.tasks import Key
from rota.deploy.structured_logs import about
from rota.emulate.cards import USABLE, card
from rota.emulate.catalogue import DeviceMemoryNeed, DeviceTimes, ExtrapolatedWarning
from rota.emulate.device import Device, DevicePool
from rota.emulate.gangs import gang_step
from rota.emulate.server import ASKING_S, DeviceServer
from rota.rpc import rota_pb2 as pb
from rota.rpc.convert import spec_of

log = logging.getLogger(__name__)

SHARING = "round-robin"
"""Two jobs are on a device only where the scheduler packed them; then they take turns by mini-batch."""
_BATCH = re.compile(r"(.+) \(batch size (\d+)\)")


class Devices:
    """What an emulated server has."""

    def __init__(self, equipment: Equipment, folder: Path) -> None:
        self.type = equipment.type
        self.time_scale = 1.0
        usable = _usable_mib(equipment)
        self.fleet = DevicePool(
            Device(name, equipment.type, usable, sharing=SHARING, asking_s=ASKING_S) for name in equipment.devices
        )
        self.path = folder / "run" / "devices.sock"
        self._server: DeviceServer | None = None
        self._doors: list[tuple[Path, tuple[int, int]]] = []

    async def serve(self, time_scale: float) -> None:
        """Let processes use the devices, `time_scale` times faster than real ones. A second call does nothing."""
        if self._server is not None:
            return
        self.time_scale = time_scale or 1.0
        for device in self.fleet.devices.values():
            device.compression = self.time_scale
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._server = DeviceServer(self.fleet, self.path)
        await self._server.start()
        for path, owner in self._doors:
            await self._server.open_door(path, owner)

    async def open_door(self, path: Path, owner: tuple[int, int]) -> None:
        """Let another user's processes use them as well, at a socket that only it can reach."""
        self._doors.append((path, owner))
        if self._server is not None:
            await self._server.open_door(path, owner)

    async def close(self) -> None:
        """Leave; jobs wait for the next agent, until their leases end."""
        if self._server is not None:
            await self._server.close()

    def environment(self, order: pb.TaskOrder) -> dict[str, str]:
        """What a process of a job has to know to use them."""
        return {
            "ROTA_DEVICE_SOCKET": str(self.path),
            "ROTA_GPU_TYPE": self.type,
            "ROTA_TIME_SCALE": f"{self.time_scale!r}",
            "ROTA_GPUS": str(spec_of(order.spec).gpus),
            "ROTA_SERVERS": str(servers_of(order)),
        }

    # Jobs without a process

    def hold(self, key: Key, order: pb.TaskOrder) -> None:
        """Take the memory that a job needs on each of its devices. Raises OutOfDeviceMemory, and then holds nothing."""
        need = need_of(spec_of(order.spec))
        if need is None:
            return
        holder = f"{key[0]}.{key[1]}"
        try:
            for name in order.devices:
                self.fleet[name].memory.hold(holder, need.persistent_mib)
                self.fleet[name].memory.hold(holder, need.peak_mib)
        except RotaError:
            self.free(key)
            raise

    def free(self, key: Key) -> None:
        """Give back what a job holds; nothing happens if that is nothing."""
        for device in self.fleet.devices.values():
            device.memory.release(f"{key[0]}.{key[1]}")

    def rate(self, order: pb.TaskOrder) -> float:
        """Steps per second of a job here: by the table for one that names a model, else what the scheduler says."""
        spec = spec_of(order.spec)
        if not spec.model:
            return float(order.rate)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtrapolatedWarning)
            step = gang_step(
                tables(), spec.model, self.type, spec.batch or 1, gpus=spec.gpus, servers=servers_of(order)
            )
        if step.kind == "fit":
            log.warning(
                "job %d: the step of %s on %s comes from a fitted line",
                order.job,
                spec.model,
                self.type,
                extra=about(job=order.job, epoch=order.epoch),
            )
        return self.time_scale / step.seconds


def need_of(spec: JobSpec) -> DeviceMemoryNeed | None:
    """Memory on each device: of the model it names, or that its profile names; None if nobody knows."""
    model, batch = spec.model, spec.batch or 1
    named = _BATCH.fullmatch(spec.profile)
    if not model and named and named[1] in tables().models:
        model, batch = named[1], int(named[2])
    return tables().memory(model, batch / spec.gpus) if model else None


def servers_of(order: pb.TaskOrder) -> int:
    """1 if all of a job is here, else 2: more make no difference to the time of an exchange."""
    return 1 if order.world_size <= order.ranks else 2


@cache
def tables() -> DeviceTimes:
    """Read when the first job asks."""
    return DeviceTimes()


def _usable_mib(equipment: Equipment) -> float:
    """What jobs may hold on a device; without bound for a card that nobody knows and nobody described."""
    if equipment.device_memory_mib > 0:
        return USABLE * equipment.device_memory_mib
    with contextlib.suppress(RotaError):
        return card(equipment.type).usable_mib
    return math.inf
