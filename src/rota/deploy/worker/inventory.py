"""What this machine has: GPUs, CPUs by NUMA node, memory, the speed of its storage."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError
from rota.deploy.worker.storage import Storage, measure

_SYS = Path("/sys")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as its driver describes it; `node` is the NUMA node it hangs on, if known."""

    index: int
    name: str
    uuid: str
    memory_bytes: int
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A worker machine.

    `numa` maps nodes to the CPUs this process may use; `remarks` say what could not be found.
    """

    hostname: str
    gpus: tuple[Gpu, ...]
    cpus: tuple[int, ...]
    numa: Mapping[int, tuple[int, ...]]
    memory_bytes: int
    storage: Storage | None
    remarks: tuple[str, ...] = ()


def inspect(folder: str | Path | None = None) -> Machine:
    """Look at this machine. Storage is measured in `folder`, and not at all without one."""
    remarks: list[str] = []
    gpus, why_none = find_gpus()
    if why_none:
        remarks.append(why_none)
    storage = None if folder is None else measure(Path(folder))
    if storage is not None and storage.problem is not None:
        remarks.append(storage.problem)
    cpus = allowed_cpus()
    return Machine(
        hostname=socket.gethostname(),
        gpus=gpus,
        cpus=cpus,
        numa=numa_map(cpus),
        memory_bytes=usable_memory_bytes(),
        storage=storage,
        remarks=tuple(remarks),
    )


def allowed_cpus() -> tuple[int, ...]:
    """CPUs this process may run on: those of its affinity, not all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def numa_map(cpus: tuple[int, ...], root: Path = _SYS) -> dict[int, tuple[int, ...]]:
    """CPUs by NUMA node, from /sys; one node 0 where the kernel does not say.

    Nodes without our CPUs are left out.
    """
    cpus_of: dict[int, tuple[int, ...]] = {}
    for path in sorted((root / "devices/system/node").glob("node[0-9]*/cpulist")):
        here = set(parse_cpu_list(path.read_text(encoding="ascii"))) & set(cpus)
        if here:
            node = int(path.parent.name.removeprefix("node"))
            cpus_of[node] = tuple(sorted(here))
    unknown = set(cpus).difference(*cpus_of.values())
    if unknown:
        cpus_of[0] = tuple(sorted({*cpus_of.get(0, ()), *unknown}))
    return dict(sorted(cpus_of.items()))


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's way to write sets of CPUs: `0-3,8,10-11`."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)


def usable_memory_bytes(proc: Path = Path("/proc"), groups: Path | None = None) -> int:
    """Bytes of RAM that may be used.

    Those of the machine, or less if a control group around this process says so.
    """
    total = 0
    for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * 1024
    return min([total, *_group_limits(groups)])


def _group_limits(groups: Path | None) -> list[int]:
    """Limits of the control groups from this process's own one up to the root."""
    from rota.deploy.worker.cgroups import own_groups

    starts = own_groups("memory") if groups is None else [groups]
    folders = [folder for start in starts for folder in (start, *start.parents)]
    limits: list[int] = []
    for folder in folders:
        for name in ("memory.max", "memory.limit_in_bytes"):
            with contextlib.suppress(OSError, ValueError):  # not there, or "max"
                limits.append(int((folder / name).read_text(encoding="ascii")))
    return limits


def find_gpus() -> tuple[tuple[Gpu, ...], str]:
    """GPUs by NVML; none, and why, where there is no driver or no nvidia-ml-py."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return (), "no GPUs looked for: nvidia-ml-py is not installed"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return (), f"no GPUs: {error}"
    try:
        return tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())), ""
    except nvml.NVMLError as error:
        return (), f"no GPUs: the driver answered {error}"
    finally:
        nvml.nvmlShutdown()


def type_name(driver: str) -> str:
    """The short name of a GPU, as catalogues use it: `Tesla V100-SXM2-16GB` is v100."""
    words = re.split(r"[^a-z0-9]+", driver.lower())
    known = [word for word in words if re.fullmatch(r"[a-z]{1,3}\d{1,4}[a-z]?", word)]
    return known[0] if known else "-".join(words)


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    bus = _text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower()
    return Gpu(
        index,
        _text(nvml.nvmlDeviceGetName(handle)),
        _text(nvml.nvmlDeviceGetUUID(handle)),
        int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        node_of_pci(bus),
    )


def node_of_pci(bus: str, root: Path = _SYS) -> int | None:
    """The NUMA node of a device; None if the kernel does not know it."""
    domain, _, rest = bus.partition(":")
    try:
        node = int(
            (root / "bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node").read_text(
                encoding="ascii"
            )
        )
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class Connection:
    """A line of Synergy's connection file: where an agent is, and its part of the machine."""

    host: str
    port: int
    first_gpu: int
    first_cpu: int
    numa: bool


def read_connections(path: str | Path) -> tuple[Connection, ...]:
    """Agents from a Synergy connection file.

    Each line is `ip,port,first gpu,first cpu,numa`; there is no header.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read connection file {path}: {error}") from error
    line_of: dict[tuple[str, int], int] = {}
    connections = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        connection = _connection(line, f"{path}:{number}")
        address = (connection.host, connection.port)
        if address in line_of:
            raise ConfigError(
                f"{path}:{number}: {connection.host}:{connection.port} is already on line "
                f"{line_of[address]}; give each agent once"
            )
        line_of[address] = number
        connections.append(connection)
    if not connections:
        raise ConfigError(
            f"{path}: no agents in it; write `ip,port,first gpu,first cpu,numa` lines"
        )
    return tuple(connections)


def _connection(line: str, where: str) -> Connection:
    fields = [part.strip() for part in line.split(",")]
    if len(fields) != 5:
        raise ConfigError(
            f"{where}: {len(fields)} fields in {line.strip()!r}; expected ip,port,first gpu,first "
            "cpu,numa"
        )
    connection = Connection(
        host=fields[0],
        port=_number(fields[1], f"{where}: port", least=1, most=65535),
        first_gpu=_number(fields[2], f"{where}: first gpu", most=10**6),
        first_cpu=_number(fields[3], f"{where}: first cpu", most=10**6),
        numa=bool(_number(fields[4], f"{where}: numa", most=1)),
    )
    if not connection.host:
        raise ConfigError(f"{where}: the address is empty")
    return connection


def _number(text: str, name: str, *, most: int, least: int = 0) -> int:
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise ConfigError(f"{name} is {text!r}; expected a whole number up to {most}")
    return int(text)


def own_connection(path: str | Path, address: str = "") -> Connection:
    """The line of a connection file for this agent.

    It is found by `ip` or `ip:port`, or without one by the addresses of this machine.
    """
    lines = read_connections(path)
    match = re.fullmatch(r"(.+):(\d+)", address)
    host = match[1] if match else address
    candidates = [line for line in lines if (line.host == host if host else _is_here(line.host))]
    if match:
        candidates = [line for line in candidates if line.port == int(match[2])]
    if len(candidates) == 1:
        return candidates[0]
    known = ", ".join(f"{line.host}:{line.port}" for line in (candidates or lines)[:8])
    if candidates:
        raise ConfigError(
            f"{path}: several lines are for this machine ({known}); say which with --host IP:PORT"
        )
    wanted = address or "this machine"
    raise ConfigError(
        f"{path}: no line for {wanted}; it has {known}. Say which is meant with --host IP:PORT"
    )


def part_of(machine: Machine, connection: Connection, cpus: float, *, emulated: bool) -> Machine:
    """The part of a machine that a line gives to an agent.

    That is the CPUs from its first one on, as one node unless it says numa.

    An emulated server may be believed to have CPUs that are not there; then it gets all of those
    that are.
    """
    last = connection.first_cpu + math.ceil(cpus)
    own_cpus = tuple(cpu for cpu in machine.cpus if connection.first_cpu <= cpu < last)
    if not own_cpus and not emulated:
        raise ConfigError(
            f"{connection.host}:{connection.port} begins at CPU {connection.first_cpu}, and this "
            f"machine has {machine.cpus[0]} to {machine.cpus[-1]}; correct the connection file"
        )
    own_cpus = own_cpus or machine.cpus
    if not connection.numa:
        return replace(machine, cpus=own_cpus, numa={0: own_cpus})
    nodes = {
        node: tuple(cpu for cpu in here if cpu in own_cpus) for node, here in machine.numa.items()
    }
    return replace(
        machine, cpus=own_cpus, numa={node: here for node, here in nodes.items() if here}
    )


def _is_here(host: str) -> bool:
    """Whether an address belongs to this machine: only then may it be bound."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, socket_type, protocol, _, address in addresses:
        with contextlib.suppress(OSError), socket.socket(family, socket_type, protocol) as probe:
            probe.bind(address)
            return True
    return False
