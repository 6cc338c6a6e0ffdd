"""What happens in a deployment beside the events of the engine: jobs with commands, nodes, attempts, leases.

They are values, written as JSON into the same journal. Times are engine seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, get_args

from rota.core.job_spec import JobSpec, spec_from, spec_values
from rota.core.lifecycle import AttemptOutcome, StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What an attempt holds of one server."""

    node: str
    devices: tuple[str, ...]
    cpus: float
    memory_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStarted:
    """The scheduler came up, for the first time or again; the configuration decides how the rest is read."""

    at: float
    begun: float
    """Wall time of engine second 0."""
    config: Mapping[str, Any]
    generation: int = 0
    """How often a scheduler was started on this journal; 0: written by a version that did not count."""
    boot: str = ""
    """Name of the boot of its machine; empty: not known."""
    machine_s: float = 0.0
    """Seconds since that boot at `at`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSet:
    """Somebody set the wall clock of the scheduler's machine. Engine time goes on as if nothing had happened."""

    at: float
    by_s: float
    """Seconds; negative: back."""
    running: bool
    """Whether the scheduler ran meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccepted:
    """A job was submitted and will not be forgotten."""

    at: float
    job: int
    spec: JobSpec
    by: str
    request: str = ""
    """Name that the submitter gave the request; the same one again is the same submission."""
    secrets: str = ""
    """Name under which the values of its environment are kept, of which `spec` has the names only; empty: there are
    none, or an older version wrote them into `spec`."""
    array: int = -1
    """Number of the first job of its array; -1: it is in none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsked:
    """Somebody wants a job to end."""

    at: float
    job: int
    by: str
    reason: str = ""
    """For people, where it is not enough to say who wants it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHeld:
    """Somebody wants a job not to start, and to stop in order if it runs, until it is released."""

    at: float
    job: int
    by: str
    admin: bool = False
    """Whether an administrator holds it, who alone can release it then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReleased:
    """A job that was held may start again."""

    at: float
    job: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJoined:
    """A server registered: a new one, or one that came back."""

    at: float
    node: str
    type: str
    devices: tuple[str, ...]
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
    identity: str = ""
    """Of the agent; another one than before means that it knows nothing of what runs there."""
    instance: str = ""
    """Of the agent's process."""
    place: str = ""
    """Machine, folder and process, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost:
    """A server was not heard of for too long."""

    at: float
    node: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRemoved:
    """An operator wants a lost server to be forgotten; it may join again."""

    at: float
    node: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrained:
    """An operator wants no job on a server, or takes that back."""

    at: float
    node: str
    drained: bool
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTroubled:
    """A server says why nothing new can start there, or that it can again."""

    at: float
    node: str
    trouble: str
    """For people; empty: it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """A job is to run on these parts of servers; `epoch` counts the attempts of the job."""

    at: float
    job: int
    epoch: int
    parts: tuple[Part, ...]
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
    parts: tuple[Part, ...]
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStopping:
    """The attempt was asked to end."""

    at: float
    job: int
    epoch: int
    reason: StopReason
    detail: str = ""
    """For people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsSaved:
    """Steps are in a checkpoint: credited, for good."""

    at: float
    job: int
    epoch: int
    step: int
    path: str
    took_s: float = 0.0
    """Wall seconds that the longest checkpoint of the attempt took so far; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCanSave:
    """It is known now that a job can save: it may be preempted without losing its work."""

    at: float
    job: int
    how: str
    """For people: by which sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSaving:
    """A checkpoint is being written, or is not any more."""

    at: float
    job: int
    epoch: int
    saving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """All ranks of an attempt are gone, or fenced off."""

    at: float
    job: int
    epoch: int
    outcome: AttemptOutcome
    exit_code: int = 0
    detail: str = ""
    """For people."""
    lost_steps: int = 0
    """Steps behind the last checkpoint, which have to be done again."""
    lost_s: float = 0.0
    """Engine seconds of work that are lost with it."""
    times_to_zero: int = 0
    """How often the job was thrown back to its start by now, if it was so by this end; else 0."""
    start_s: float = 0.0
    """Engine seconds from the order to the first step; 0: not known."""
    compute_s: float = 0.0
    """Wall seconds of its training loop, in the mean over ranks; all 0: not measured."""
    prepare_s: float = 0.0
    """Wall seconds in which the loop waited for data that was being decoded."""
    storage_s: float = 0.0
    """Wall seconds in which the loop waited for data that was being read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesExtended:
    """Attempts may run until `until`."""

    at: float
    until: float
    attempts: tuple[tuple[int, int], ...] = ()
    """(job, epoch)"""


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
class TimeLimitNear:
    """A job that runs will soon have run for as long as it may."""

    at: float
    job: int
    left_s: float
    """Engine seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsArchived:
    """Jobs that were over for long enough are in the table of finished jobs, and in memory no more."""

    at: float
    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """Something an operator may want to know later: who was refused what."""

    at: float
    who: str
    what: str
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsForgotten:
    """Jobs that were over for very long are in the table of finished jobs no more."""

    at: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsClaimed:
    """The folder of checkpoints is that of this state file from now on."""

    at: float
    folder: str
    own_from: int
    """Folders of jobs with lower numbers that the scheduler does not know may be somebody else's."""
    next_job: int
    """Job numbers go on from here: lower ones are in the folder already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged:
    """An administrator set policy, mechanism, rules or tenants on the live cluster, or took that back."""

    at: float
    by: str
    live: Mapping[str, Any]
    """All that is set live from now on (`live_settings`), and counts more than the command line; empty: nothing."""
    config: Mapping[str, Any]
    """All settings in force from now on, as in `ServiceStarted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsLost:
    """The journal may lack its newest events: it comes from a backup, or from a standby that was behind.

    What was numbered in those events must not be numbered again: agents may still run it.
    """

    at: float
    why: str
    next_job: int
    """Job numbers go on from here."""
    first_epoch: int
    """Numbers of attempts that are started from now on are not below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessionChanged:
    """A scheduler took over from another one, or a standby came to this one."""

    at: float
    term: int
    """How often a scheduler took over; agents obey none of an earlier term."""
    standby: str
    """Address of the scheduler that stands by; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedMeasured:
    """A job was seen to run at these speeds, in blocks of time without start-up, saving and stops."""

    at: float
    job: int
    epoch: int
    name: str
    """Under which it is learned: a profile, or the fingerprint of its command."""
    type: str
    cpus: float
    """Of the whole job."""
    memory_gb: float
    """Of the whole job."""
    servers: int
    share: float
    """Speed with these CPUs and memory on these servers, relative to the proportional share on one server."""
    rates: tuple[float, ...]
    """Steps per engine second of the whole job, one for each block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileWrong:
    """A job turned out to be faster or slower than its profile says; what was measured is used from now on."""

    at: float
    job: int
    profile: str
    type: str
    expected: float
    """Steps per engine second, as the profile says."""
    measured: float
    """Steps per engine second, in the mean."""
    error: float
    """Half of the 95 % interval of `measured`, relative."""
    blocks: int


DeployEvent: TypeAlias = (
    ServiceStarted
    | JobAccepted
    | CancelAsked
    | JobHeld
    | JobReleased
    | TimeLimitNear
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
    | JobsArchived
    | Audited
    | JobsForgotten
    | CheckpointsClaimed
    | JobCanSave
    | AttemptSaving
    | ClockSet
    | NodeRemoved
    | NodeTroubled
    | SettingsChanged
    | EventsLost
    | SuccessionChanged
    | SpeedMeasured
    | ProfileWrong
)

EventRow: TypeAlias = tuple[float, str, str]
"""An event as it is committed: time in engine seconds, name, JSON."""

KINDS: Mapping[str, type[Any]] = {event.__name__: event for event in get_args(DeployEvent)}


def to_fields(event: DeployEvent) -> dict[str, Any]:
    """The event as plain values, ready for JSON."""
    fields = {known.name: _plain(getattr(event, known.name)) for known in dataclasses.fields(event)}
    return {"event": type(event).__name__, **fields}


def from_fields(fields: Mapping[str, Any]) -> DeployEvent:
    """The event of plain values; raises KeyError, TypeError or ValueError if it is none."""
    event_type = KINDS[fields["event"]]
    types = {known.name: str(known.type) for known in dataclasses.fields(event_type)}
    values = {name: value for name, value in fields.items() if name != "event"}
    read = {name: _READERS.get(types[name], _as_it_is)(value) for name, value in values.items()}
    event: DeployEvent = event_type(**read)
    return event


def part_values(part: Part) -> dict[str, Any]:
    """What an attempt holds of a server, as plain values."""
    return {"node": part.node, "devices": list(part.devices), "cpus": part.cpus, "memory_gb": part.memory_gb}


def part_from(values: Mapping[str, Any]) -> Part:
    """The same from plain values."""
    return Part(
        node=str(values["node"]),
        devices=tuple(values["devices"]),
        cpus=float(values["cpus"]),
        memory_gb=float(values["memory_gb"]),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, JobSpec):
        return spec_values(value)
    if isinstance(value, Part):
        return part_values(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _as_it_is(value: Any) -> Any:
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "JobSpec": spec_from,
    "StopReason": StopReason,
    "AttemptOutcome": AttemptOutcome,
    "tuple[str, ...]": tuple,
    "tuple[int, ...]": tuple,
    "tuple[float, ...]": tuple,
    "tuple[Part, ...]": lambda parts: tuple(part_from(part) for part in parts),
    "tuple[tuple[int, int], ...]": lambda pairs: tuple((int(job), int(epoch)) for job, epoch in pairs),
}
"""From plain values to values, by the type of the field."""
