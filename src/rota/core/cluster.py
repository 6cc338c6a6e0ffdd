"""Machines: accelerator types, servers and the fleet, as values and as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rota.core.arrays import FloatArray, IntArray, frozen
from rota.core.errors import ConfigError

MOST_SERVERS = 250_000
"""Of a cluster: more is a slip of the keyboard, and takes long to build."""


def too_many_servers() -> str:
    """The end of a message."""
    return f"more than {MOST_SERVERS:,} servers; give fewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorType:
    """A model of GPU: its memory in GB (0: unknown) and the price of an hour (None: unknown)."""

    name: str
    memory_gb: float = 0.0
    hourly_price: float | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """What a server has or a slot holds. The only place where resource vectors are added."""

    gpus: int = 0
    cpus: float = 0.0
    memory_gb: float = 0.0
    storage_mbps: float = 0.0
    network_gbps: float = 0.0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.gpus + other.gpus,
            self.cpus + other.cpus,
            self.memory_gb + other.memory_gb,
            self.storage_mbps + other.storage_mbps,
            self.network_gbps + other.network_gbps,
        )

    def __sub__(self, other: Resources) -> Resources:
        return self + other.scaled(-1)

    def __le__(self, other: Resources) -> bool:
        return (
            self.gpus <= other.gpus
            and self.cpus <= other.cpus
            and self.memory_gb <= other.memory_gb
            and self.storage_mbps <= other.storage_mbps
            and self.network_gbps <= other.network_gbps
        )

    def scaled(self, factor: int) -> Resources:
        """Every component times `factor`."""
        return Resources(
            self.gpus * factor,
            self.cpus * factor,
            self.memory_gb * factor,
            self.storage_mbps * factor,
            self.network_gbps * factor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One machine with GPUs of one type."""

    id: str
    type: str
    capacity: Resources
    rack: str = "rack0"
    labels: tuple[str, ...] = ()
    """Like `zone=a`, alphabetical: jobs may ask for servers that have them."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The fleet. Everywhere types are in the order of `types`; servers are grouped by type in that order."""

    name: str
    servers: tuple[Server, ...]
    accelerators: tuple[AcceleratorType, ...] = field(default=())
    type_order: tuple[str, ...] = field(default=())
    """Types that come first, in this order; others follow by name. A run puts them from slow to fast
    (`rota.clusters.ordering`), so that what types are called decides nothing."""

    def __post_init__(self) -> None:
        if not any(s.capacity.gpus for s in self.servers):
            raise ConfigError(f"cluster {self.name!r} has no GPU; give at least one, e.g. v100=4")

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Names of the accelerator types that are present."""
        present = {s.type for s in self.servers if s.capacity.gpus}
        first = [t for t in self.type_order if t in present]
        return (*first, *sorted(present.difference(first)))

    @cached_property
    def ordered(self) -> tuple[Server, ...]:
        """Servers grouped by type, in the order of `types`, otherwise as given."""
        rank = {t: i for i, t in enumerate(self.types)}
        return tuple(sorted((s for s in self.servers if s.type in rank), key=lambda s: rank[s.type]))

    @cached_property
    def server_type(self) -> IntArray:
        """Index into `types` of each server of `ordered`."""
        rank = {t: i for i, t in enumerate(self.types)}
        return frozen(np.array([rank[s.type] for s in self.ordered], dtype=np.int64))

    @cached_property
    def server_gpus(self) -> IntArray:
        """GPUs of each server of `ordered`."""
        return frozen(np.array([s.capacity.gpus for s in self.ordered], dtype=np.int64))

    @cached_property
    def server_cpus(self) -> FloatArray:
        """CPUs of each server of `ordered`; 0 where it is unknown."""
        return frozen(np.array([s.capacity.cpus for s in self.ordered], dtype=np.float64))

    @cached_property
    def server_memory_gb(self) -> FloatArray:
        """Main memory of each server of `ordered`; 0 where it is unknown."""
        return frozen(np.array([s.capacity.memory_gb for s in self.ordered], dtype=np.float64))

    @cached_property
    def server_storage_mbps(self) -> FloatArray:
        """Storage bandwidth (MB/s) of each server of `ordered`; 0 where it is unknown."""
        return frozen(np.array([s.capacity.storage_mbps for s in self.ordered], dtype=np.float64))

    @cached_property
    def fair_cpus(self) -> FloatArray:
        """CPUs that every GPU of a type can have at once, in the order of `types`; 0 where a server's are unknown."""
        return self._least_per_gpu(self.server_cpus)

    @cached_property
    def fair_memory_gb(self) -> FloatArray:
        """Memory that every GPU of a type can have at once, in the order of `types`; 0 where a server's is unknown."""
        return self._least_per_gpu(self.server_memory_gb)

    @cached_property
    def fair_storage_mbps(self) -> FloatArray:
        """MB/s that every GPU of a type can have at once, in the order of `types`; 0 where a server's are unknown."""
        return self._least_per_gpu(self.server_storage_mbps)

    def _least_per_gpu(self, amount: FloatArray) -> FloatArray:
        """By type, the amount per GPU of the server that has least; a server without GPUs owes nobody anything."""
        per_gpu = np.full(len(amount), np.inf)
        np.divide(amount, self.server_gpus, out=per_gpu, where=self.server_gpus > 0)
        return frozen(np.minimum.reduceat(per_gpu, self.server_bounds[:-1]))

    @cached_property
    def server_bounds(self) -> list[int]:
        """Servers of type t are `server_bounds[t]:server_bounds[t + 1]` of `ordered`."""
        bounds: list[int] = np.searchsorted(self.server_type, np.arange(len(self.types) + 1)).tolist()
        return bounds

    @cached_property
    def capacity(self) -> IntArray:
        """GPUs by type, in the order of `types`."""
        gpus = np.bincount(self.server_type, weights=self.server_gpus, minlength=len(self.types))
        return frozen(gpus.astype(np.int64))

    @cached_property
    def prices(self) -> FloatArray:
        """Hourly price of one GPU by type; NaN where none is known."""
        price = {a.name: a.hourly_price for a in self.accelerators}
        return frozen(np.array([price.get(t) for t in self.types], dtype=np.float64))

    @cached_property
    def unpriced(self) -> tuple[str, ...]:
        """Types whose price nobody has said."""
        return tuple(t for t, unknown in zip(self.types, np.isnan(self.prices).tolist(), strict=True) if unknown)

    @cached_property
    def gpus(self) -> int:
        """All GPUs."""
        return int(self.capacity.sum())


def uniform(
    name: str,
    groups: Iterable[tuple[str, int, int]],
    accelerators: tuple[AcceleratorType, ...] = (),
    beside: Mapping[str, Resources] | None = None,
) -> Cluster:
    """A cluster from (type, GPUs, GPUs per server); a last server takes the remainder.

    `beside` says by type what each server has beside its GPUs; the last server has it in full, too.
    """
    servers: list[Server] = []
    for gpu_type, count, per_server in groups:
        if len(servers) + count // per_server >= MOST_SERVERS:
            raise ConfigError(f"cluster {name!r}: {gpu_type}={count}/{per_server} makes {too_many_servers()}")
        remainder = count % per_server
        sizes = [per_server] * (count // per_server)
        if remainder:
            sizes.append(remainder)
        other = (beside or {}).get(gpu_type, Resources())
        for number, size in enumerate(sizes):
            capacity = replace(other, gpus=size)
            servers.append(Server(id=f"{gpu_type}-{number}", type=gpu_type, capacity=capacity))
    return Cluster(name=name, servers=tuple(servers), accelerators=accelerators)


MOST_GPUS = 2**31 - 1
"""Of a server that is read from a description."""
LARGEST_AMOUNT = 1e15
"""Of CPUs, GB, MB/s and prices there."""


def cluster_from(fields: Mapping[str, Any]) -> Cluster:
    """The cluster of a description. Raises KeyError, TypeError or ValueError (or ConfigError) if it is none."""
    described = fields["servers"]
    labels = fields.get("labels", {})
    servers = tuple(_with_labels(_server(*server), labels) for server in described)
    known = tuple(_accelerator(n, m, p) for n, m, p in fields["accelerators"])
    order = tuple(_text(name) for name in fields.get("types", ()))
    return Cluster(name=_text(fields["name"]), servers=servers, accelerators=known, type_order=order)


def _server(name: Any, gpu_type: Any, gpus: Any, *rest: Any) -> Server:
    *beside, rack = rest
    if isinstance(gpus, bool) or not isinstance(gpus, int) or not 0 <= gpus <= MOST_GPUS:
        raise ValueError(f"server {name!r:.40} has no number of GPUs from 0 to {MOST_GPUS}")
    capacity = Resources(gpus, *(_amount(value) for value in beside))
    return Server(id=_text(name), type=_text(gpu_type), capacity=capacity, rack=_text(rack))


def _with_labels(server: Server, labels: Mapping[str, Any]) -> Server:
    texts = labels.get(server.id, ())
    return replace(server, labels=tuple(sorted(_text(label) for label in texts))) if texts else server


def _accelerator(name: Any, memory_gb: Any, hourly_price: Any) -> AcceleratorType:
    price = None if hourly_price is None else _amount(hourly_price)
    return AcceleratorType(name=_text(name), memory_gb=_amount(memory_gb), hourly_price=price)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} in the description of a cluster is not a text")
    return value


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_AMOUNT:
        raise ValueError(f"{value!r:.40} in the description of a cluster is not a number from 0 to {LARGEST_AMOUNT:g}")
    return value


def _amounts(capacity: Resources) -> tuple[float, ...]:
    """The same as astuple, which copies every number."""
    return capacity.gpus, capacity.cpus, capacity.memory_gb, capacity.storage_mbps, capacity.network_gbps


def cluster_fields(cluster: Cluster) -> dict[str, Any]:
    """A cluster as plain values; the order of types only where it is not that of their names, labels where some are."""
    alphabetical = list(cluster.types) == sorted(cluster.types)
    labels = {server.id: list(server.labels) for server in cluster.servers if server.labels}
    return {
        "name": cluster.name,
        "servers": [[s.id, s.type, *_amounts(s.capacity), s.rack] for s in cluster.servers],
        "accelerators": [list(astuple(a)) for a in cluster.accelerators],
        **({} if alphabetical else {"types": list(cluster.types)}),
        **({"labels": labels} if labels else {}),
    }
