"""Changes that may place a job that waits, the cheapest first; each is tried before it is named (`why.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rota.core.gpu_types import permits
from rota.deploy.questions.changes import Change, beside_new_gpus
from rota.deploy.questions.fork import Fork
from rota.deploy.scheduler.cluster_facts import cluster_as_it_is, gpus_by_tenant
from rota.deploy.scheduler.job_kinds import kind_of
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry

_MOST_CANCELS = 4
_MOST_LEVELS = 3
"""Priorities that are tried."""
_MOST_REQUESTS = 3
"""Requests that are tried of memory, of CPUs and of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A change that may place the job, and who could make it."""

    kind: str
    by: str
    """`you` or `operator`."""
    change: Change
    price: str
    """What it costs, for people."""


def types_of(registry: Registry) -> set[str]:
    """Types of GPU of all servers, up or not."""
    return {node.joined.type for node in registry.nodes.values()}


def rate_of(fork: Fork, job: Job, gpu_type: str, gpus: int = 0) -> float:
    """Steps/s of a job on a type, with as many GPUs as it asks for or another number; 0 where it may not run."""
    if not permits(kind_of(job.spec).types, gpu_type):
        return 0.0
    return fork.setup.catalogue.rate(job.spec.scheduled_profile, gpus or job.spec.gpus, gpu_type)


def candidates(fork: Fork, registry: Registry, job: Job, tenant: str | None) -> Iterator[Candidate]:
    """The cheapest first: what the owner can do without loss, then with, then what an operator can."""
    if job.held_by:
        by = "operator" if job.held_by_admin else "you"
        yield Candidate(kind="release", by=by, change=Change(release=(job.id,)), price="it is not held any more")
    if job.saved_step == 0:  # submitted again it would begin anew
        yield from _more_weight(fork, job)
        yield from _higher_priority(fork, registry, job)
        yield from _less_beside(fork, registry, job)
        yield from _fewer_gpus(fork, registry, job)
    yield from _servers_back(registry, job, fork)
    yield from _without_own(registry, job, tenant)
    yield from _larger_limits(fork, registry, job)
    yield from _more_servers(fork, registry, job)


def _more_weight(fork: Fork, job: Job) -> Iterator[Candidate]:
    most = fork.setup.tenants.of(job.tenant).max_job_weight
    if most > job.spec.weight:
        change = Change(job=job.id, weight=most)
        yield Candidate(kind="weight", by="you", change=change, price=f"weight {job.spec.weight:g} becomes {most:g}")


def _higher_priority(fork: Fork, registry: Registry, job: Job) -> Iterator[Candidate]:
    """Just above other jobs, the least first, as far as the operator lets its tenant go."""
    own = job.spec.priority
    most = fork.setup.tenants.of(job.tenant).max_priority
    others = {other.spec.priority for other in registry.live.values() if other.final_phase is None and other is not job}
    levels = sorted({level + 1 for level in others if own <= level < most})
    for level in _spread(levels, _MOST_LEVELS):
        change = Change(job=job.id, priority=level)
        yield Candidate(kind="priority", by="you", change=change, price=f"priority {own} becomes {level}")


def _spread(values: Sequence[int], most: int) -> list[int]:
    """All of them, or so many, the last one included."""
    return [*values[: most - 1], values[-1]] if len(values) > most else list(values)


def _less_beside(fork: Fork, registry: Registry, job: Job) -> Iterator[Candidate]:
    """Less memory, fewer CPUs, or both: the largest request first that servers have free, or have at all."""
    spec = job.spec
    there = _amounts(fork, registry, job)
    memory = [most for most in dict.fromkeys(most for _, most in there) if most < spec.memory_gb]
    cpus = [most for most in dict.fromkeys(most for most, _ in there) if most < spec.cpus]
    for less in sorted(memory, reverse=True)[:_MOST_REQUESTS]:
        change = Change(job=job.id, memory_gb=less)
        price = f"{spec.memory_gb:g} GB of memory become {less:g}"
        yield Candidate(kind="less-memory", by="you", change=change, price=price)
    for fewer in sorted(cpus, reverse=True)[:_MOST_REQUESTS]:
        change = Change(job=job.id, cpus=fewer)
        yield Candidate(kind="fewer-cpus", by="you", change=change, price=f"{spec.cpus:g} CPUs become {fewer:g}")
    both = [pair for pair in there if pair[0] < spec.cpus and pair[1] < spec.memory_gb]
    for fewer, less in sorted(both, reverse=True)[:_MOST_REQUESTS]:
        change = Change(job=job.id, cpus=fewer, memory_gb=less)
        price = f"{spec.cpus:g} CPUs become {fewer:g}, {spec.memory_gb:g} GB of memory become {less:g}"
        yield Candidate(kind="fewer-cpus-and-less-memory", by="you", change=change, price=price)


def _amounts(fork: Fork, registry: Registry, job: Job) -> list[tuple[float, float]]:
    """(CPUs, memory in GB) that the job could ask for.

    What servers have free, what they have at all, and the part of it that the job has of their GPUs. A job with more
    GPUs than a server has is taken to be on several alike.
    """
    facts = cluster_as_it_is(registry, fork.now)
    asks = job.spec.gpus
    pairs: list[tuple[float, float]] = []
    for cluster in (facts.free_servers, facts.servers):
        for server in () if cluster is None else cluster.servers:
            capacity = server.capacity
            if capacity.gpus == 0 or rate_of(fork, job, server.type) <= 0:
                continue
            times = max(1.0, asks / capacity.gpus)
            pairs.append((math.floor(capacity.cpus * times), math.floor(capacity.memory_gb * times)))
            share = asks / max(1, len(registry.nodes[server.id].joined.devices))
            joined = registry.nodes[server.id].joined
            pairs.append((math.floor(joined.cpus * share), math.floor(joined.memory_gb * share)))
    return [pair for pair in dict.fromkeys(pairs) if min(pair) > 0]


def _fewer_gpus(fork: Fork, registry: Registry, job: Job) -> Iterator[Candidate]:
    asks = job.spec.gpus
    halves = [asks // 2**power for power in range(1, asks.bit_length())]
    counts = [count for count in range(asks - 1, 0, -1) if asks <= 8 or count in halves]
    for count in counts:
        rates = [rate_of(fork, job, gpu_type, count) for gpu_type in types_of(registry)]
        if max(rates, default=0.0) <= 0:
            continue
        slower = _slower(fork, registry, job, max(rates))
        change = Change(job=job.id, gpus=count)
        yield Candidate(kind="fewer-gpus", by="you", change=change, price=f"{asks} GPUs become {count}{slower}")


def _slower(fork: Fork, registry: Registry, job: Job, rate: float) -> str:
    whole = max((rate_of(fork, job, gpu_type) for gpu_type in types_of(registry)), default=0.0)
    return f", at {100 * rate / whole:.0f} % of its speed" if whole > rate else ""


def _servers_back(registry: Registry, job: Job, fork: Fork) -> Iterator[Candidate]:
    for name, node in sorted(registry.nodes.items()):
        if node.drained and not node.lost and rate_of(fork, job, node.joined.type) > 0:
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


def _larger_limits(fork: Fork, registry: Registry, job: Job) -> Iterator[Candidate]:
    """What the operator could allow the tenant: more jobs at the same time, more GPUs to borrow, a larger quota."""
    tenant = job.tenant
    settings = fork.setup.tenants.of(tenant)
    running = sum(1 for other in registry.running.values() if other.tenant == tenant)
    if settings.max_running <= running:
        yield _limit(tenant, "max_running", settings.max_running, running + 1, "jobs at the same time")
    if not fork.setup.tenants.quotas().limited:
        return
    able = sorted(gpu_type for gpu_type in types_of(registry) if rate_of(fork, job, gpu_type) > 0)
    held = gpus_by_tenant(registry).get(tenant, {})
    quota = settings.promised()
    if quota.borrow < math.inf:
        more = {gpu_type: held.get(gpu_type, 0) + job.spec.gpus for gpu_type in able}
        needed = sorted({quota.borrowed({**held, gpu_type: gpus}) for gpu_type, gpus in more.items()})
        for number in (number for number in needed if number > quota.borrow):
            yield _limit(tenant, "borrow", int(quota.borrow), number, "GPUs beyond its quota")
    if quota.by_type is None:
        number = sum(held.values()) + job.spec.gpus
        if number > quota.any_type:
            yield _limit(tenant, "quota", quota.any_type, number, "GPUs promised")
        return
    for gpu_type in able:
        number = held.get(gpu_type, 0) + job.spec.gpus
        if number > quota.of_type(gpu_type):
            yield _limit(tenant, f"quota.{gpu_type}", quota.of_type(gpu_type), number, f"GPUs of {gpu_type} promised")


def _limit(tenant: str, name: str, before: int, number: int, of: str) -> Candidate:
    change = Change(tenant_settings=((tenant, name, number),))
    price = f"tenant {tenant!r} may have {number} {of} instead of {before}"
    kind = name.partition(".")[0].replace("max_running", "max-running")
    return Candidate(kind=kind, by="operator", change=change, price=price)


def _more_servers(fork: Fork, registry: Registry, job: Job) -> Iterator[Candidate]:
    """A server of a type that is here, else of any type on which the job has a speed."""
    rates = {t: rate_of(fork, job, t) for t in sorted({*types_of(registry), *_known_types(fork)})}
    able = sorted((t for t, rate in rates.items() if rate > 0), key=lambda t: (t not in types_of(registry), -rates[t]))
    free = cluster_as_it_is(registry, fork.now).free
    for gpu_type in able[:3]:
        missing = max(1, job.spec.gpus - free.get(gpu_type, 0))
        for gpus in dict.fromkeys((missing, job.spec.gpus)):
            change = Change(add_servers=((gpu_type, gpus),))
            price = f"{gpus} more GPUs of {gpu_type}{_beside(registry, job, gpu_type, gpus)}"
            yield Candidate(kind="add-server", by="operator", change=change, price=price)


def _beside(registry: Registry, job: Job, gpu_type: str, gpus: int) -> str:
    """CPUs and memory that were taken for a new server, where the job asks for any."""
    if not (job.spec.cpus or job.spec.memory_gb):
        return ""
    cpus, memory_gb = beside_new_gpus(registry, gpu_type, gpus)
    return f" with {cpus:g} CPUs and {memory_gb:g} GB"


def _known_types(fork: Fork) -> tuple[str, ...]:
    return fork.setup.catalogue.types
