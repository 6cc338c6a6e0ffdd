"""What the job computes on: the GPUs of this machine, emulated ones, or its CPUs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from rota.core.errors import ConfigError, RotaError
from rota.deploy.worker.inventory import Machine, type_name
from rota.emulate.cards import card
from rota.emulate.device import Device, DevicePool
from rota.emulate.priority import realtime
from rota.emulate.server import ASKING_S, DeviceServer

CPU = "cpu"
AUTO = "auto"
_EMULATE = "emulate:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Devices of the job, and what it is told about them."""

    type: str
    ids: tuple[str, ...] = ()
    emulated: bool = False
    remarks: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


def choose(wanted: str, gpus: int, machine: Machine) -> Devices:
    """The devices that `--device` names. Raises ConfigError."""
    if wanted.startswith(_EMULATE):
        return _emulated(wanted.removeprefix(_EMULATE), gpus)
    if wanted not in {AUTO, CPU, "gpu"}:
        fix = "give auto, cpu, gpu or emulate:TYPE, e.g. emulate:v100"
        raise ConfigError(f"--device {wanted!r} is not known; {fix}")
    if wanted == CPU or (wanted == AUTO and not machine.gpus):
        if gpus != 1:
            fix = "give --num-gpus 1, or --device emulate:TYPE"
            raise ConfigError(f"--num-gpus {gpus}: this machine has no GPU, so the job trains on CPUs; {fix}")
        remark = "trained on CPUs: the type `cpu` is no GPU, and its device speed depends on CPUs as its data side does"
        return Devices(type=CPU, remarks=(remark,))
    if len(machine.gpus) < gpus:
        why = "; ".join(machine.remarks) or "no more were found"
        raise ConfigError(f"--num-gpus {gpus}: this machine has {len(machine.gpus)} GPUs ({why})")
    chosen = machine.gpus[:gpus]
    types = {type_name(gpu.name) for gpu in chosen}
    if len(types) > 1:
        raise ConfigError(f"--num-gpus {gpus}: GPUs of several types ({', '.join(sorted(types))}); profile one of each")
    return Devices(type=types.pop(), ids=tuple(str(gpu.index) for gpu in chosen))


def _emulated(gpu_type: str, gpus: int) -> Devices:
    if not gpu_type:
        raise ConfigError("--device emulate: names no type; give e.g. emulate:v100")
    return Devices(
        type=gpu_type,
        ids=tuple(f"gpu{number}" for number in range(gpus)),
        emulated=True,
        remarks=(f"its {gpu_type} was emulated: device times are those of a table (docs/emulation.md)",),
    )


@contextlib.asynccontextmanager
async def serving(devices: Devices, folder: Path) -> AsyncIterator[dict[str, str]]:
    """The environment by which the job reaches its devices, while they are there."""
    if not devices.emulated:
        yield {}
        return
    usable = math.inf
    with contextlib.suppress(RotaError):
        usable = card(devices.type).usable_mib
    pool = DevicePool(Device(name, devices.type, usable, asking_s=ASKING_S) for name in devices.ids)
    path = folder / "run" / "devices.sock"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = DeviceServer(pool, path)
    realtime()  # the devices must not be late because of others; where it is not allowed, it is not
    await server.start()
    try:
        yield {
            "ROTA_DEVICE_SOCKET": str(path),
            "ROTA_GPU_TYPE": devices.type,
            "ROTA_TIME_SCALE": "1.0",
            "ROTA_GPUS": str(len(devices.ids)),
            "ROTA_SERVERS": "1",
        }
    finally:
        await server.close()
