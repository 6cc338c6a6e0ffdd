"""What a tenant may have at the same time: jobs that wait, jobs that run, checkpoints.

A submission beyond a limit is refused as a whole. Jobs beyond `max_running`, and jobs of a tenant with too many
checkpoints, are held back: the engine does not know of them until their turn comes, so no policy keeps GPUs for them.
Of the jobs of a tenant those that run stay, then those with the lowest numbers come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from rota.core.job_spec import JobSpec, bytes_of
from rota.deploy.scheduler.node_offers import Refused
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.secrets import SecretStore
from rota.deploy.tenants import Tenants

_MB = 1e6
_GB = 1e9
_COUNTED_EVERY_S = 1.0
"""Wall seconds between two counts of all bytes of a tenant that is at its limit."""
_ASK = "ask whoever runs the scheduler for more (--tenants)"


class Hold(str, Enum):
    """Which limit holds a job back."""

    MAX_RUNNING = "tenant-limit"
    CHECKPOINTS = "checkpoint-limit"


@dataclass(slots=True)
class TenantLimits:
    """What the operator allows, and what tenants have beside their jobs."""

    tenants: Tenants
    """Set again by the owner when an operator changes them on a live cluster."""
    checkpoint_bytes: Callable[[], Mapping[str, int]] = dict
    """Bytes of checkpoints by tenant, as far as they were counted."""

    def too_many_checkpoints(self, tenant: str) -> bool:
        """Whether a tenant has more bytes of checkpoints than it may."""
        return self.checkpoint_bytes().get(tenant, 0) > self.tenants.of(tenant).max_checkpoint_gb * _GB

    def held_back(self, registry: Registry, ready: Callable[[Job], bool]) -> dict[int, Hold]:
        """Jobs that must not start now, and which limit says so. `ready`: whether a job could start without limits."""
        most = {tenant: self.tenants.of(tenant).max_running for tenant in registry.live_by_tenant}
        many = {tenant for tenant, count in registry.live_by_tenant.items() if count > most[tenant]}
        full = {tenant for tenant in registry.live_by_tenant if self.too_many_checkpoints(tenant)}
        if not many and not full:
            return {}
        jobs_of: dict[str, list[Job]] = {}
        for job in registry.live.values():
            jobs_of.setdefault(job.tenant, []).append(job)
        held: dict[int, Hold] = {}
        for tenant in many:
            held |= dict.fromkeys(_beyond(jobs_of[tenant], most[tenant], ready), Hold.MAX_RUNNING)
        for tenant in full:
            held |= {job.id: Hold.CHECKPOINTS for job in jobs_of[tenant] if _pending(job)}
        return held

    def sentence(self, hold: Hold, tenant: str) -> str:
        """Why jobs of a tenant are held back, for its users."""
        limits = self.tenants.of(tenant)
        if hold is Hold.MAX_RUNNING:
            most = f"tenant {tenant!r} may run {limits.max_running:,} jobs at the same time (max_running)"
            return f"{most}, and as many run or come before it"
        used = self.checkpoint_bytes().get(tenant, 0) / _GB
        return (
            f"checkpoints of tenant {tenant!r} take {used:,.4g} GB, above its {limits.max_checkpoint_gb:,.4g} GB "
            "(max_checkpoint_gb); none of its jobs starts until some are removed"
        )


def _pending(job: Job) -> bool:
    return job.attempt is None and job.final_phase is None


def _beyond(jobs: Sequence[Job], most: int, ready: Callable[[Job], bool]) -> list[int]:
    """Jobs of a tenant that do not run and would be too many, the first ones excepted."""
    running = sum(job.attempt is not None for job in jobs)
    waiting = sorted(job.id for job in jobs if _pending(job) and ready(job))
    return waiting[max(most - running, 0) :]


@dataclass(kw_only=True)
class QueueLimits:
    """Refuses submissions that are too much. Used by the thread that owns the registry."""

    registry: Registry
    limits: TenantLimits
    secrets: SecretStore
    monotonic: Callable[[], float] = time.monotonic
    _bytes: dict[str, int] = field(default_factory=dict)
    """Bytes of the jobs of a tenant that are not over, at most: of those that end meanwhile it is not taken off."""
    _counted: dict[str, float] = field(default_factory=dict)
    """When they were counted."""

    def check(self, specs: Sequence[JobSpec], sizes: Sequence[int]) -> None:
        """Refused if one of the tenants would have too much; `sizes` says how many jobs each of the entries is."""
        jobs: dict[str, list[tuple[JobSpec, int]]] = {}
        for spec, size in zip(specs, sizes, strict=True):
            jobs.setdefault(spec.tenant or "default", []).append((spec, size))
        for tenant, entries in jobs.items():
            self._check_checkpoints(tenant)
            self._check_number(tenant, sum(size for _, size in entries))
            edges = sum(size * (len(spec.after) + len(spec.after_any)) for spec, size in entries)
            self._check_dependencies(tenant, edges)
            self._check_bytes(tenant, sum(size * bytes_of(spec) for spec, size in entries))

    def _check_checkpoints(self, tenant: str) -> None:
        if self.limits.too_many_checkpoints(tenant):
            why = self.limits.sentence(Hold.CHECKPOINTS, tenant)
            raise Refused("RESOURCE_EXHAUSTED", f"no job was accepted: {why}")

    def _check_number(self, tenant: str, more: int) -> None:
        limit = self.limits.tenants.of(tenant).max_queued
        queued = self.registry.live_by_tenant[tenant]
        if queued + more > limit:
            queued -= sum(job.tenant == tenant for job in self.registry.running.values())
        if queued + more > limit:
            raise Refused(
                "RESOURCE_EXHAUSTED",
                f"no job was accepted: {queued:,} jobs of tenant {tenant!r} wait, and {more:,} more would be "
                f"above its {limit:,} (max_queued); wait until some are over, cancel some, or {_ASK}",
            )

    def _check_dependencies(self, tenant: str, more: int) -> None:
        limit = self.limits.tenants.of(tenant).max_dependencies
        there = self.registry.queue.dependencies.edges[tenant]
        if more and there + more > limit:
            raise Refused(
                "RESOURCE_EXHAUSTED",
                f"no job was accepted: jobs of tenant {tenant!r} that are not over come after {there:,} jobs and "
                f"arrays, counted for each of them, and {more:,} more would be above its {limit:,} (max_dependencies); "
                f"name an array, which counts as one, in the place of its jobs, or {_ASK}",
            )

    def _check_bytes(self, tenant: str, more: int) -> None:
        limit = self.limits.tenants.of(tenant).max_queued_mb * _MB
        if tenant not in self._bytes or (self._bytes[tenant] + more > limit and self._may_count(tenant)):
            self._bytes[tenant] = self._count(tenant)
            self._counted[tenant] = self.monotonic()
        if self._bytes[tenant] + more > limit:
            raise Refused(
                "RESOURCE_EXHAUSTED",
                f"no job was accepted: commands and variables of the jobs of tenant {tenant!r} take "
                f"{self._bytes[tenant] / _MB:,.4g} MB, and {more / _MB:,.4g} MB more would be above its "
                f"{limit / _MB:,.4g} MB (max_queued_mb); let the jobs read files instead, or {_ASK}",
            )
        self._bytes[tenant] += more

    def _may_count(self, tenant: str) -> bool:
        return self.monotonic() - self._counted.get(tenant, 0.0) >= _COUNTED_EVERY_S

    def _count(self, tenant: str) -> int:
        jobs = (job for job in self.registry.live.values() if job.tenant == tenant)
        return sum(bytes_of(self.secrets.filled(job)) for job in jobs)
