"""Why a job waits: one dominant reason, the numbers behind it, and the cheapest changes that would place it now.

A change is only named after it was made in a fork and the job was placed there by the next round.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rota.core.errors import RotaError
from rota.core.gpu_types import permits
from rota.deploy.questions.changes import Change, as_fields, made
from rota.deploy.questions.fork import Fork
from rota.deploy.scheduler.cluster_facts import cluster_as_it_is
from rota.deploy.scheduler.job_kinds import kind_of
from rota.deploy.scheduler.reasons import Explanation, ReasonCode, Reasons
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.tenant_limits import TenantLimits

_MOST_TRIED = 24
"""Changes that are tried for an answer."""
_MOST_NAMED = 3
_MOST_CANCELS = 4
_JUST_AFTER = 1e-3
"""Part of a round after its start at which a placement is looked at."""

STARTS_NEXT = "starts-next"
"""The code of a job that the next round places as things are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A change that may place the job, and who could make it."""

    kind: str
    by: str
    """`you` or `operator`."""
    change: Change
    price: str
    """What it costs, for people."""


def why(fork: Fork, number: int, *, tenant: str | None) -> dict[str, Any]:
    """The answer for one job; `tenant` is whose jobs the caller may see, None for all."""
    registry = fork.registry
    assert registry is not None  # questions are about deployments
    job = registry.live[number]
    explanation = _explained(fork, registry, job)
    answer: dict[str, Any] = {"job": number, "phase": explanation.phase.value, "code": explanation.code.value}
    answer |= {"reason": explanation.sentence, "numbers": _numbers(fork, registry, job, tenant), "changes": []}
    waits = job.attempt is None and job.final_phase is None
    if not waits:
        return answer
    if placed_by_next_round(fork, number):
        later = "it is placed in the next round, as things are"
        return {**answer, "code": STARTS_NEXT, "reason": later}
    found: list[dict[str, Any]] = []
    for tried, candidate in enumerate(_candidates(fork, registry, job, tenant)):
        if tried >= _MOST_TRIED or len(found) >= _MOST_NAMED:
            break
        if any(known["kind"] == candidate.kind for known in found) or not places(fork, number, candidate.change):
            continue
        found.append(_named(candidate))
    return {**answer, "changes": found}


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
    able = {gpu_type for gpu_type in _types(registry) if _rate(fork, job, gpu_type) > 0}
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


def _types(registry: Registry) -> set[str]:
    return {node.joined.type for node in registry.nodes.values()}


def _rate(fork: Fork, job: Job, gpu_type: str, gpus: int = 0) -> float:
    """Steps/s of a job on a type, with as many GPUs as it asks for or another number; 0 where it may not run."""
    if not permits(kind_of(job.spec).types, gpu_type):
        return 0.0
    return fork.setup.catalogue.rate(job.spec.scheduled_profile, gpus or job.spec.gpus, gpu_type)


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


# What would help


def _candidates(fork: Fork, registry: Registry, job: Job, tenant: str | None) -> Iterator[Candidate]:
    """The cheapest first: what the owner can do without loss, then with, then what an operator can."""
    if job.held_by:
        by = "operator" if job.held_by_admin else "you"
        yield Candidate(kind="release", by=by, change=Change(release=(job.id,)), price="it is not held any more")
    yield from _more_weight(fork, job)
    yield from _fewer_gpus(fork, registry, job)
    yield from _servers_back(registry, job, fork)
    yield from _without_own(registry, job, tenant)
    yield from _more_servers(fork, registry, job)


def _more_weight(fork: Fork, job: Job) -> Iterator[Candidate]:
    most = fork.setup.tenants.of(job.tenant).max_job_weight
    if most > job.spec.weight and job.saved_step == 0:
        change = Change(job=job.id, weight=most)
        yield Candidate(kind="weight", by="you", change=change, price=f"weight {job.spec.weight:g} becomes {most:g}")


def _fewer_gpus(fork: Fork, registry: Registry, job: Job) -> Iterator[Candidate]:
    if job.saved_step > 0:  # submitted again it would begin anew
        return
    asks = job.spec.gpus
    halves = [asks // 2**power for power in range(1, asks.bit_length())]
    counts = [count for count in range(asks - 1, 0, -1) if asks <= 8 or count in halves]
    for count in counts:
        rates = [_rate(fork, job, gpu_type, count) for gpu_type in _types(registry)]
        if max(rates, default=0.0) <= 0:
            continue
        slower = _slower(fork, registry, job, max(rates))
        change = Change(job=job.id, gpus=count)
        yield Candidate(kind="fewer-gpus", by="you", change=change, price=f"{asks} GPUs become {count}{slower}")


def _slower(fork: Fork, registry: Registry, job: Job, rate: float) -> str:
    whole = max((_rate(fork, job, gpu_type) for gpu_type in _types(registry)), default=0.0)
    return f", at {100 * rate / whole:.0f} % of its speed" if whole > rate else ""


def _servers_back(registry: Registry, job: Job, fork: Fork) -> Iterator[Candidate]:
    for name, node in sorted(registry.nodes.items()):
        if node.drained and not node.lost and _rate(fork, job, node.joined.type) > 0:
            yield Candidate(
                kind="undrain",
                by="operator",
                change=Change(undrain=name),
                price=f"{len(node.joined.devices)} GPUs of {node.joined.type} are not drained any more",
            )


def _without_own(registry: Registry, job: Job, tenant: str | None) -> Iterator[Candidate]:
    """Another job of the same tenant, the smallest first."""
    if tenant is not None and job.tenant != tenant:
        return
    own = [other for other in registry.running.values() if other.tenant == job.tenant and other.final_phase is None]
    own.sort(key=lambda other: (other.spec.gpus < job.spec.gpus, other.spec.gpus, -other.started, other.id))
    for other in own[:_MOST_CANCELS]:
        price = f"job {other.id} ends, which holds {other.spec.gpus} GPUs"
        yield Candidate(kind="cancel", by="you", change=Change(cancel=(other.id,)), price=price)


def _more_servers(fork: Fork, registry: Registry, job: Job) -> Iterator[Candidate]:
    """A server of a type that is here, else of any type on which the job has a speed."""
    rates = {t: _rate(fork, job, t) for t in sorted({*_types(registry), *_known_types(fork)})}
    able = sorted((t for t, rate in rates.items() if rate > 0), key=lambda t: (t not in _types(registry), -rates[t]))
    free = cluster_as_it_is(registry, fork.now).free
    for gpu_type in able[:3]:
        missing = max(1, job.spec.gpus - free.get(gpu_type, 0))
        for gpus in dict.fromkeys((missing, job.spec.gpus)):
            change = Change(add_servers=((gpu_type, gpus),))
            yield Candidate(kind="add-server", by="operator", change=change, price=f"{gpus} more GPUs of {gpu_type}")


def _known_types(fork: Fork) -> tuple[str, ...]:
    return fork.setup.catalogue.types


__all__ = ["STARTS_NEXT", "Candidate", "ReasonCode", "next_round", "placed_by_next_round", "places", "why"]
