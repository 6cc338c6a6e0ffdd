"""What happens in a deployment beside the events of the engine: jobs with commands, nodes, attempts, leases.

They are plain values, written as JSON into the same journal. Times are engine seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStarted:
    """The scheduler came up, for the first time or again; the configuration decides how the rest is read."""

    at: float
    begun: float
    """Wall time of engine second 0."""
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccepted:
    """A job was submitted and will not be forgotten."""

    at: float
    job: int
    spec: Mapping[str, Any]
    by: str
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsked:
    """Somebody wants a job to end."""

    at: float
    job: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJoined:
    """A server registered: a new one, or one that came back."""

    at: float
    node: str
    type: str
    devices: list[str]
    cpus: float
    memory_gb: float
    storage_mbps: float
    network_gbps: float
    rack: str
    host: str
    session: str
    emulated: bool
    limits: str
    device_memory_mib: float = 0.0
    memory: str = ""
    """Of the agent; another one than before means that it knows nothing of what runs there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost:
    """A server was not heard of for too long."""

    at: float
    node: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrained:
    """An operator wants no job on a server, or takes that back."""

    at: float
    node: str
    drained: bool
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """A job is to run on these parts of servers; `epoch` counts the attempts of the job."""

    at: float
    job: int
    epoch: int
    parts: list[dict[str, Any]]
    """One per server: node, devices, cpus, memory_gb."""
    resume: str
    resume_step: int
    lease_until: float
    rate: float
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResized:
    """The same GPUs, other CPUs and memory beside them."""

    at: float
    job: int
    epoch: int
    parts: list[dict[str, Any]]
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStopping:
    """The attempt was asked to save and end."""

    at: float
    job: int
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsSaved:
    """Steps are in a checkpoint: credited, for good."""

    at: float
    job: int
    epoch: int
    step: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """All ranks of an attempt are gone, or fenced off."""

    at: float
    job: int
    epoch: int
    outcome: str
    exit_code: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesExtended:
    """Attempts may run until `until`."""

    at: float
    until: float
    attempts: list[list[int]] = field(default_factory=list)
    """[job, epoch]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWaits:
    """A job is kept from the engine until `until` (infinity is written as -1: until something changes)."""

    at: float
    job: int
    until: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGivenUp:
    """A job failed too often, or in a way that will not get better."""

    at: float
    job: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """Something an operator may want to know later: who was refused what."""

    at: float
    who: str
    what: str
    times: int = 1


DeployEvent: TypeAlias = (
    ServiceStarted
    | JobAccepted
    | CancelAsked
    | NodeJoined
    | NodeLost
    | NodeDrained
    | AttemptStarted
    | AttemptResized
    | AttemptStopping
    | StepsSaved
    | AttemptEnded
    | LeasesExtended
    | JobWaits
    | JobGivenUp
    | Audited
)

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        ServiceStarted,
        JobAccepted,
        CancelAsked,
        NodeJoined,
        NodeLost,
        NodeDrained,
        AttemptStarted,
        AttemptResized,
        AttemptStopping,
        StepsSaved,
        AttemptEnded,
        LeasesExtended,
        JobWaits,
        JobGivenUp,
        Audited,
    )
}


def to_fields(event: DeployEvent) -> dict[str, Any]:
    """The event as plain values, ready for JSON."""
    fields = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
    return {"event": type(event).__name__, **fields}


def from_fields(fields: dict[str, Any]) -> DeployEvent:
    """The event of plain values; raises KeyError or TypeError if it is none."""
    kind = KINDS[fields.pop("event")]
    event: DeployEvent = kind(**fields)
    return event
