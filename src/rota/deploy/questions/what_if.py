"""What if: the coming rounds as they are and with a change, side by side. Who gains, who loses.

Nobody else comes in either of them, or the same sampled jobs come in both. Other tenants appear as one sum.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.core.events import Event, JobsDropped, JobsFinished, JobsParked, JobsRejected, Planned
from rota.core.ports import Handler
from rota.deploy.questions.changes import Change, Changed, as_fields, made
from rota.deploy.questions.fork import Fork, Future
from rota.deploy.scheduler.reasons import Reasons, cluster_as_it_is

_SAME_S = 1e-6
"""Seconds that make no difference."""
_LONGEST_ROUNDS = 20_000
_SOON_ROUNDS = 3
"""Rounds in which it is looked at which running jobs are stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Completion times of one of the two, by job as it is called without the change."""

    ends: Mapping[int, float]
    starts: Mapping[int, float]
    places: Mapping[int, Mapping[str, int]]
    """GPUs by server, where they start."""
    complete: bool
    reached: float


def what_if(fork: Fork, change: Change, *, tenant: str | None) -> dict[str, Any]:
    """Both sides; `tenant` is whose jobs the caller may see, None for all."""
    changed = made(fork, change)
    stopped_before = Preempted(fork)
    stopped_after = Preempted(fork)
    before = _side(fork.run(until=_limit(fork), observers=[stopped_before]), {})
    future = changed.fork.run(until=_limit(fork), observers=[stopped_after])
    after = _side(future, {new: old for old, new in changed.replaced.items()})
    gone = set(change.cancel)
    there = [number for number in fork.facts if number not in gone]
    tenants = _by_tenant(fork, there, tenant)
    answer: dict[str, Any] = {
        "what": change.words(),
        "change": as_fields(change),
        "all": _compared(fork, there, before, after),
        "tenants": [{"tenant": name, **_compared(fork, jobs, before, after)} for name, jobs in tenants.items()],
        "jobs": _of_jobs(fork, there, tenant, before, after),
        "submitted": [_new_job(changed.fork, number, after) for number in changed.submitted],
        "preempted": _preempted(fork, (stopped_before, stopped_after), tenant),
        "complete": before.complete and after.complete,
        "lengths_unknown": sum(1 for fact in fork.facts.values() if fact.why_unknown),
    }
    return answer | _who(answer["tenants"], _replaced(changed))


class Preempted:
    """Running jobs that are stopped or moved in the first rounds of a future (an observer of its events)."""

    def __init__(self, fork: Fork) -> None:
        self._running = {number for number, fact in fork.facts.items() if fact.runs}
        self._until = fork.now + _SOON_ROUNDS * fork.setup.rules.round_s
        self.jobs: set[int] = set()

    def handler(self, kind: type[Event]) -> Handler | None:
        """Plans say who is stopped; who has left before is not."""
        if kind is Planned:
            return self._planned
        return self._left if kind in (JobsFinished, JobsDropped, JobsRejected, JobsParked) else None

    def _planned(self, event: Planned) -> None:
        if event.at <= self._until:
            self.jobs |= self._running & set(event.plan.stop)

    def _left(self, event: Any) -> None:
        self._running -= set(event.jobs.tolist())


def _preempted(fork: Fork, sides: tuple[Preempted, Preempted], tenant: str | None) -> dict[str, Any]:
    """How many running jobs are stopped soon, without and with the change, and which of the caller's."""
    own = [number for number in sorted(sides[1].jobs) if tenant is None or fork.facts[number].tenant == tenant]
    return {"rounds": _SOON_ROUNDS, "before": len(sides[0].jobs), "after": len(sides[1].jobs), "jobs": own}


def _limit(fork: Fork) -> float:
    return fork.now + _LONGEST_ROUNDS * fork.setup.rules.round_s


def _replaced(changed: Changed) -> dict[str, int]:
    return {str(old): new for old, new in changed.replaced.items()}


def _side(future: Future, names: Mapping[int, int]) -> Side:
    return Side(
        ends={names.get(number, number): at for number, at in future.story.ends.items()},
        starts={names.get(number, number): at for number, at in future.story.starts.items()},
        places={names.get(number, number): servers for number, servers in future.story.places.items()},
        complete=future.complete,
        reached=future.reached,
    )


def _by_tenant(fork: Fork, jobs: Sequence[int], tenant: str | None) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for number in jobs:
        name = fork.facts[number].tenant
        shown = name if tenant is None or name == tenant else "others"
        groups.setdefault(shown, []).append(number)
    return dict(sorted(groups.items(), key=lambda group: (group[0] == "others", group[0])))


def _compared(fork: Fork, jobs: Sequence[int], before: Side, after: Side) -> dict[str, Any]:
    """Mean completion time and makespan of jobs that end on both sides; seconds."""
    both = [number for number in jobs if number in before.ends and number in after.ends]
    fields: dict[str, Any] = {"jobs": len(jobs), "compared": len(both)}
    for name, side in (("before", before), ("after", after)):
        times = [side.ends[number] - fork.facts[number].submitted for number in both]
        fields[name] = {
            "mean_jct_s": statistics.fmean(times) if times else None,
            "makespan_s": max(side.ends[number] for number in both) - fork.now if both else None,
        }
    moved = [after.ends[number] - before.ends[number] for number in both]
    fields["sooner"] = sum(1 for by in moved if by < -_SAME_S)
    fields["later"] = sum(1 for by in moved if by > _SAME_S)
    fields["only_before"] = sum(1 for number in jobs if number in before.ends and number not in after.ends)
    fields["only_after"] = sum(1 for number in jobs if number not in before.ends and number in after.ends)
    return fields


def _of_jobs(fork: Fork, jobs: Sequence[int], tenant: str | None, before: Side, after: Side) -> list[dict[str, Any]]:
    own = [number for number in jobs if tenant is None or fork.facts[number].tenant == tenant]
    return [
        {
            "job": number,
            "start_in_s": [_from(fork, side.starts.get(number)) for side in (before, after)],
            "end_in_s": [_from(fork, side.ends.get(number)) for side in (before, after)],
        }
        for number in own
    ]


def _new_job(fork: Fork, number: int, after: Side) -> dict[str, Any]:
    start = _from(fork, after.starts.get(number))
    return {
        "job": number,
        "start_in_s": start,
        "end_in_s": _from(fork, after.ends.get(number)),
        "where": dict(after.places.get(number, {})),
        "reason": "" if start is not None else _why_not(fork, number),
    }


def _why_not(fork: Fork, number: int) -> str:
    """Why a new job does not start as things are."""
    registry = fork.registry
    job = None if registry is None else registry.jobs.get(number)
    if registry is None or job is None:
        return ""
    cluster = cluster_as_it_is(registry, fork.now, time_scale=fork.setup.time_scale)
    return Reasons(cluster, fork.setup.catalogue, registry=registry).explain(job).reason


def _from(fork: Fork, at: float | None) -> float | None:
    return None if at is None or math.isinf(at) else at - fork.now


def _who(tenants: Sequence[Mapping[str, Any]], replaced: Mapping[str, int]) -> dict[str, Any]:
    """Who gains and who loses, by mean completion time."""
    gains: list[str] = []
    loses: list[str] = []
    for row in tenants:
        times = [row["before"]["mean_jct_s"], row["after"]["mean_jct_s"]]
        if None in times or abs(times[1] - times[0]) <= _SAME_S:
            continue
        (gains if times[1] < times[0] else loses).append(str(row["tenant"]))
    return {"gains": gains, "loses": loses, "replaced": dict(replaced)}
