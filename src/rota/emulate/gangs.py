"""Steps of a job on several GPUs: each computes its part of the batch, then all exchange gradients.

    step(k) = step of one GPU with batch / k
              + 2 (k - 1) / k * bytes / bandwidth + 2 (k - 1) * latency

The first term is looked up, so small parts of a batch are as inefficient as they were measured. The
second is a ring all-reduce, not overlapped with the backward pass. Bandwidth depends on where the
GPUs are. These bandwidths and latencies are assumptions (the measurements hold no collectives); say
your own with `Links`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.core.errors import ConfigError
from rota.emulate.catalogue import DeviceTimes, StepTime

GB = 1e9


@dataclass(frozen=True)
class Links:
    """Bytes per second and seconds per message between neighbours of a ring."""

    within_server: float = 10.0 * GB
    """PCIe 3.0 x16, what is left of 16 GB/s in practice."""
    between_servers: float = 1.1 * GB
    """Ethernet of 10 Gbit/s."""
    latency_within_s: float = 20e-6
    latency_between_s: float = 100e-6


def all_reduce_seconds(
    gpus: int, size: float, *, servers: int = 1, links: Links | None = None
) -> float:
    """Time of one ring all-reduce of `size` bytes."""
    if gpus < 1 or not 1 <= servers <= gpus:
        raise ConfigError(f"{gpus} GPUs on {servers} servers cannot form a gang")
    if gpus == 1:
        return 0.0
    chosen = links or Links()
    spread = servers > 1
    bandwidth = chosen.between_servers if spread else chosen.within_server
    latency = chosen.latency_between_s if spread else chosen.latency_within_s
    return 2.0 * (gpus - 1) / gpus * size / bandwidth + 2.0 * (gpus - 1) * latency


def gang_step(
    times: DeviceTimes,
    model: str,
    gpu: str,
    batch: float,
    *,
    gpus: int,
    servers: int = 1,
    links: Links | None = None,
) -> StepTime:
    """A step of a whole job whose batch is divided among `gpus` devices of one kind."""
    if batch < gpus:
        raise ConfigError(
            f"{model}: a batch of {batch:g} cannot be divided among {gpus} GPUs; ask for fewer GPUs"
        )
    alone = times.step(model, gpu, batch / gpus)
    exchange = all_reduce_seconds(gpus, times.parameter_bytes(model), servers=servers, links=links)
    return StepTime(alone.compute_s + exchange, alone.transfer_s, alone.kind)
