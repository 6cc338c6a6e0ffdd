"""How many pilots there should be, and which ones: pure, values in and a decision out.

A pool has a least and a largest number of pilots. Between them it follows the queue of the scheduler. A pilot whose
time is nearly over does not count any more, so its successor is asked for while it still runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from rota.deploy.providers.port import PilotPhase, PilotStatus

SILENT_S = 60.0
"""Seconds after which a pilot that its place does not know any more, and that the scheduler does not hear, is over."""
_NO_FAILURE = frozenset({"CANCELLED", "PREEMPTED"})
"""How pilots end that might as well have gone on."""


class PilotState(str, Enum):
    """How a pilot is, from what its place and the scheduler say together."""

    SUBMITTING = "submitting"
    """It was written down that it is asked for, and its place has not said yet that it knows it."""
    PENDING = "pending"
    STARTING = "starting"
    """It runs in its place, and its agent has not registered yet."""
    UP = "up"
    LEAVING = "leaving"
    """It was told to go, or its agent says that it goes."""
    UNKNOWN = "unknown"
    """Its place does not know it any more. Its agent or its leases decide what became of it."""
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotRecord:
    """What is remembered of a pilot, on disk."""

    name: str
    asked_at: float
    """When it was asked for, wall seconds."""
    id: str = ""
    """Empty: its place has not answered yet."""
    ticket_until: float = 0.0
    """When its join ticket ends, wall seconds."""
    stop_asked: bool = False
    joined: bool = False
    """Whether the scheduler knew its node once."""
    end: str = ""
    """How it ended, for people; empty: it has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A node as the scheduler sees it."""

    state: str
    busy: int
    gpus: int
    jobs: tuple[int, ...] = ()
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotView:
    """One pilot with everything that is known of it now."""

    record: PilotRecord
    state: PilotState
    status: PilotStatus | None = None
    """As its place sees it; None: its place does not know it."""
    node: NodeFacts | None = None
    """As the scheduler sees it; None: it does not know it."""
    idle_s: float = 0.0
    """Seconds since it had something to do."""

    @property
    def left_s(self) -> float | None:
        """Seconds until its place ends it; None: without end, or not known."""
        return None if self.status is None else self.status.left_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """How many pilots there may be, and when that changes."""

    least: int
    most: int
    replace_s: float
    """Seconds before the end of a pilot at which its successor is asked for."""
    idle_s: float
    """Seconds without a job after which a pilot goes that is above the least number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the scheduler has to do."""

    waiting_gpus: int
    """Of jobs that wait for GPUs."""
    largest: int = 0
    """GPUs of the largest of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now."""

    submit: int = 0
    stop: tuple[str, ...] = ()
    """Names of pilots that go."""
    remove: tuple[str, ...] = ()
    """Names of lost nodes of pilots that are over: the scheduler may forget them."""
    wanted: int = 0
    """The number of pilots that there should be."""


_STATES = {
    PilotPhase.OVER: PilotState.OVER,
    PilotPhase.PENDING: PilotState.PENDING,
    PilotPhase.ENDING: PilotState.LEAVING,
}


def state_of(
    record: PilotRecord, status: PilotStatus | None, node: NodeFacts | None, *, heard: bool, missing_s: float = 0.0
) -> PilotState:
    """How a pilot is.

    `heard`: the scheduler has answered, so a node that it did not name is not there. `missing_s`: seconds for which the
    place has not named the pilot. One answer without it proves nothing: the controller may have been started just now.
    """
    gone = heard and (node is None or node.state == "lost")
    if record.end and (status is None or status.phase is PilotPhase.OVER):
        return PilotState.OVER
    if status is None:
        if not record.id:
            return PilotState.SUBMITTING
        return PilotState.OVER if gone and missing_s >= SILENT_S else PilotState.UNKNOWN
    leaves = record.stop_asked or (node is not None and node.state in {"draining", "drained"})
    if leaves and status.phase is not PilotPhase.OVER:
        return PilotState.LEAVING
    running = PilotState.STARTING if gone else PilotState.UP
    return _STATES.get(status.phase, running)


def pilots_wanted(limits: PoolLimits, pilots: Sequence[PilotView], demand: Demand, gpus_per_pilot: int) -> int:
    """How many pilots the queue asks for, within the limits."""
    busy = sum(pilot.node.busy for pilot in pilots if pilot.node is not None and pilot.state is not PilotState.LEAVING)
    needed = math.ceil((busy + demand.waiting_gpus) / max(gpus_per_pilot, 1))
    return min(max(needed, limits.least), limits.most)


def decide(
    limits: PoolLimits,
    pilots: Sequence[PilotView],
    demand: Demand | None,
    gpus_per_pilot: int,
    *,
    before: int | None = None,
) -> Decision:
    """What to do now.

    Without `demand` the scheduler is silent, and the number wanted stays as it was `before`; None: not known, then
    those that last are enough. All that are here would be too many: one that ends soon has a successor already.
    """
    here = [pilot for pilot in pilots if pilot.state in _COUNTED and not _wanted_back(pilot)]
    lasting = [pilot for pilot in here if _lasts(pilot, limits.replace_s)]
    if demand is None:
        wanted = len(lasting) if before is None else before
    else:
        wanted = pilots_wanted(limits, pilots, demand, gpus_per_pilot)
    wanted = min(max(wanted, limits.least), limits.most)
    room = 2 * limits.most - sum(pilot.state is not PilotState.OVER for pilot in pilots)
    surplus = len(lasting) - wanted
    stop = () if surplus <= 0 or demand is None else _to_stop(lasting, surplus, limits.idle_s)
    remove = tuple(
        pilot.record.name
        for pilot in pilots
        if pilot.state is PilotState.OVER and pilot.node is not None and pilot.node.state == "lost"
    )
    back = tuple(pilot.record.name for pilot in pilots if _wanted_back(pilot))
    return Decision(submit=max(0, min(-surplus, room)), stop=(*back, *stop), remove=remove, wanted=wanted)


_COUNTED = frozenset(
    {PilotState.SUBMITTING, PilotState.PENDING, PilotState.STARTING, PilotState.UP, PilotState.UNKNOWN}
)


def _wanted_back(pilot: PilotView) -> bool:
    """Whether a pilot has to be told to leave because its place wants the machine for something else."""
    here = pilot.state in {PilotState.STARTING, PilotState.UP}
    return here and pilot.status is not None and pilot.status.wanted_back


def _lasts(pilot: PilotView, replace_s: float) -> bool:
    """Whether a pilot goes on for longer than its successor takes to come."""
    return pilot.left_s is None or pilot.left_s > replace_s


def _to_stop(pilots: Sequence[PilotView], surplus: int, idle_s: float) -> tuple[str, ...]:
    """Those that wait for a machine first, then those that had nothing to do for longest."""
    idle = [
        pilot
        for pilot in pilots
        if pilot.idle_s >= idle_s
        and pilot.state in {PilotState.PENDING, PilotState.UP}
        and not (pilot.node is not None and pilot.node.jobs)
    ]
    ranked = sorted(idle, key=lambda pilot: (pilot.state is not PilotState.PENDING, -pilot.idle_s))
    return tuple(pilot.record.name for pilot in ranked[:surplus])


def views(
    records: Sequence[PilotRecord],
    statuses: Sequence[PilotStatus] | None,
    nodes: Mapping[str, NodeFacts] | None,
    idle_s: Mapping[str, float],
    missing_s: Mapping[str, float] | None = None,
) -> list[PilotView]:
    """Everything that is known, pilot by pilot. None for `statuses` or `nodes`: place or scheduler are silent."""
    by_name: dict[str, PilotStatus] = {}
    for status in statuses or ():  # of several jobs with one name the one that is not over counts
        before = by_name.get(status.name)
        if before is None or before.phase is PilotPhase.OVER:
            by_name[status.name] = status
    found = []
    for record in records:
        status_now = by_name.get(record.name)
        node = None if nodes is None else nodes.get(record.name)
        missing = (missing_s or {}).get(record.name, 0.0)
        state = state_of(record, status_now, node, heard=nodes is not None, missing_s=missing)
        if statuses is None and not record.end:
            state = PilotState.UNKNOWN
        idle = idle_s.get(record.name, 0.0)
        found.append(PilotView(record=record, state=state, status=status_now, node=node, idle_s=idle))
    return found


def has_not_heard(pilot: PilotView) -> bool:
    """Whether a pilot that was told to leave goes on: a word to its place may be lost. It may be told twice."""
    phase = PilotPhase.OVER if pilot.status is None else pilot.status.phase
    runs_on = phase is PilotPhase.RUNNING and pilot.node is not None and pilot.node.state == "up"
    return pilot.record.stop_asked and (runs_on or phase is PilotPhase.PENDING)


def has_nothing_to_do(pilot: PilotView) -> bool:
    """Whether a pilot can go at once; one that runs and of which the scheduler says nothing cannot."""
    if pilot.state in {PilotState.PENDING, PilotState.STARTING}:
        return True
    return pilot.state is PilotState.UP and pilot.node is not None and not (pilot.node.jobs or pilot.node.busy)


def is_failure(record: PilotRecord) -> bool:
    """Whether a pilot that is over came to nothing, and nobody wanted it."""
    return not (record.joined or record.stop_asked or record.end in _NO_FAILURE)
