"""Why a job waits: one dominant reason, the numbers behind it, and the cheapest changes that would place it now.

A change is only named after it was made in a fork and the job was placed there by the next round.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rota.core.errors import RotaError
from rota.deploy.questions.candidates import Candidate, candidates, rate_of, types_of
from rota.deploy.questions.changes import Change, as_fields, made
from rota.deploy.questions.fork import Fork
from rota.deploy.scheduler.cluster_facts import cluster_as_it_is
from rota.deploy.scheduler.reasons import Explanation, ReasonCode, Reasons
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.tenant_limits import TenantLimits

_MOST_TRIED = 32
"""Changes that are tried for an answer."""
_MOST_NAMED = 3
_JUST_AFTER = 1e-3
"""Part of a round after its start at which a placement is looked at."""

STARTS_NEXT = "starts-next"
"""The code of a job that the next round places as things are."""


def why(fork: Fork, number: int, *, tenant: str | None) -> dict[str, Any]:
    """The answer for one job; `tenant` is whose jobs the caller may see, None for all."""
    registry = fork.registry
    assert registry is not None  # questions are about deployments
    job = registry.live[number]
    explanation = _explained(fork, registry, job)
    answer: dict[str, Any] = {"job": number, "phase": explanation.phase.value, "code": explanation.code.value}
    answer |= {"reason": explanation.sentence, "numbers": _numbers(fork, registry, job, tenant)}
    answer |= {"changes": [], "tried": 0}
    waits = job.attempt is None and job.final_phase is None
    if not waits:
        return answer
    if placed_by_next_round(fork, number):
        later = "it is placed in the next round, as things are"
        return {**answer, "code": STARTS_NEXT, "reason": later}
    found: list[dict[str, Any]] = []
    tried = 0
    for candidate in candidates(fork, registry, job, tenant):
        if tried >= _MOST_TRIED or len(found) >= _MOST_NAMED:
            break
        if any(known["kind"] == candidate.kind for known in found):
            continue
        tried += 1
        if places(fork, number, candidate.change):
            found.append(_named(candidate))
    return {**answer, "changes": found, "tried": tried}


def _named(candidate: Candidate) -> dict[str, Any]:
    return {
        "kind": candidate.kind,
        "by": candidate.by,
        "what": candidate.change.words(),
        "price": candidate.price,
        "change": as_fields(candidate.change),
    }


def next_round(fork: Fork) -> float:
    """Engine second at which the next round begins."""
    round_s = fork.setup.rules.round_s
    return (math.floor(fork.now / round_s) + 1) * round_s


def placed_by_next_round(fork: Fork, number: int) -> bool:
    """Whether a job has a place once the next round is decided, whether jobs that run save until then or not.

    When they save is not ours to know, and a policy that looks at steps may decide otherwise for it.
    """
    until = next_round(fork) + _JUST_AFTER * fork.setup.rules.round_s
    return all(number in one.run(until=until).placed for one in (fork, fork.without_saves()))


def places(fork: Fork, number: int, change: Change) -> bool:
    """Whether a job, or the one that was submitted in its place, has a place by the next round after a change."""
    try:
        changed = made(fork, change)
    except RotaError:
        return False
    return placed_by_next_round(changed.fork, changed.replaced.get(number, number))


# The reason and the numbers


def _explained(fork: Fork, registry: Registry, job: Job) -> Explanation:
    cluster = cluster_as_it_is(registry, fork.now, time_scale=fork.setup.time_scale)
    limits = TenantLimits(fork.setup.tenants)
    return Reasons(cluster, fork.setup.catalogue, limits=limits, registry=registry).explain(job)


def _numbers(fork: Fork, registry: Registry, job: Job, tenant: str | None) -> dict[str, Any]:
    """GPUs by type that the job could use, who holds them, and who waits as well; other tenants as sums."""
    able = {gpu_type for gpu_type in types_of(registry) if rate_of(fork, job, gpu_type) > 0}
    cluster = cluster_as_it_is(registry, fork.now)
    held = _held(registry)
    types = [
        {
            "type": gpu_type,
            "up": cluster.up.get(gpu_type, 0),
            "free": cluster.free.get(gpu_type, 0),
            "held_by_tenant": held[gpu_type, True, job.tenant],
            "held_by_others": held[gpu_type, False, job.tenant],
            "away": cluster.away.get(gpu_type, 0),
        }
        for gpu_type in sorted(able)
    ]
    return {
        "asks": job.spec.gpus,
        "weight": job.spec.weight,
        "waited_s": fork.now - job.submitted,
        "types": types,
        "ahead": _ahead(fork, registry, job, tenant),
    }


class _Held(dict[tuple[str, bool, str], int]):
    def __missing__(self, key: tuple[str, bool, str]) -> int:
        gpu_type, own, tenant = key
        return sum(
            count for (of_type, owner), count in self.counts.items() if of_type == gpu_type and (owner == tenant) is own
        )

    counts: Mapping[tuple[str, str], int]


def _held(registry: Registry) -> _Held:
    counts: Counter[tuple[str, str]] = Counter()
    for job in registry.running.values():
        for part in job.attempt.parts if job.attempt is not None else ():
            node = registry.nodes.get(part.node)
            if node is not None:
                counts[node.joined.type, job.tenant] += len(part.devices)
    held = _Held()
    held.counts = counts
    return held


def _ahead(fork: Fork, registry: Registry, job: Job, tenant: str | None) -> dict[str, Any]:
    """Jobs that start before this one if nobody else comes and that want types it could use."""
    future = fork.run(finished=lambda story: job.id in story.starts, until=fork.now + 2000 * fork.setup.rules.round_s)
    mine = future.story.starts.get(job.id, math.inf)
    before = [
        registry.live[number]
        for number, at in future.story.starts.items()
        if number in registry.live and number != job.id and at <= mine and registry.live[number].attempt is None
    ]
    seen = [other for other in before if tenant is None or other.tenant == tenant]
    others = [other for other in before if other not in seen]
    return {
        "jobs": [other.id for other in seen],
        "gpus": sum(other.spec.gpus for other in seen),
        "others": {"jobs": len(others), "gpus": sum(other.spec.gpus for other in others)},
    }


__all__ = ["STARTS_NEXT", "ReasonCode", "next_round", "placed_by_next_round", "places", "why"]
