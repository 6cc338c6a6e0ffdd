"""Between messages and plain values: the only place that knows both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.rpc import rota_pb2 as pb

_SPEC = (
    "name", "tenant", "profile", "gpus", "steps", "weight", "deadline_s", "cwd", "image", "emulated", "max_restarts",
    "checkpoint_every_s", "hung_after_s", "model", "batch", "cpus", "memory_gb", "ranks", "mps",
)  # fmt: skip


def spec_message(spec: Mapping[str, Any]) -> pb.JobSpec:
    """A job as it was asked for."""
    message = pb.JobSpec(**{name: spec[name] for name in _SPEC if spec.get(name) is not None})
    if spec.get("counted") is False:
        message.steps = 0  # nobody said how many; the scheduler's guess is its own
    message.argv.extend(spec.get("argv") or ())
    message.env.update(spec.get("env") or {})
    return message


def spec_fields(message: pb.JobSpec) -> dict[str, Any]:
    """The same as plain values; what was not said is left out."""
    found: dict[str, Any] = {name: value for name in _SPEC if (value := getattr(message, name))}
    if message.HasField("max_restarts"):
        found["max_restarts"] = message.max_restarts  # 0 is an answer
    found["argv"] = list(message.argv)
    found["env"] = dict(message.env)
    return found


def node_fields(message: pb.RegisterRequest) -> dict[str, Any]:
    """A server that registers."""
    names = ("node", "type", "cpus", "memory_gb", "storage_mbps", "network_gbps", "rack", "host", "emulated", "limits",
             "memory")  # fmt: skip
    return {
        **{name: getattr(message, name) for name in names},
        "devices": [device.id for device in message.devices],
        "device_memory_mib": min((device.memory_mib for device in message.devices), default=0.0),
    }
