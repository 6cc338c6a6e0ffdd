"""What callers may submit: for which tenant, and how much of what the operator bounds (`--tenants`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rota.core.errors import ConfigError
from rota.core.job_arrays import array_size
from rota.core.job_spec import JobSpec
from rota.deploy.scheduler.requests import Refused
from rota.deploy.security.subjects import check_name
from rota.deploy.server.handlers import Caller
from rota.deploy.tenants import Tenants
from rota.rpc import rota_pb2 as pb


def bytes_of_arrays(request: Any) -> int:
    """Bytes that the jobs of arrays take beyond what was sent: each of them is written down with its whole command."""
    if not isinstance(request, pb.SubmitRequest) or request.dry_run:
        return 0
    return sum(message.ByteSize() * (_jobs_of(message) - 1) for message in request.jobs if message.array)


def _jobs_of(message: pb.JobSpec) -> int:
    """How many jobs an entry is; one, if its array cannot be: it will be refused."""
    try:
        return array_size(message.array)
    except ConfigError:
        return 1


def check_allowed(spec: JobSpec, caller: Caller, tenants: Tenants) -> None:
    """Refused if a job has more weight, priority or least turn than its tenant may give."""
    _check_weight(spec, caller, tenants)
    _check_priority(spec, caller, tenants)
    _check_least_turn(spec, caller, tenants)


def check_dependencies(request: pb.SubmitRequest, caller: Caller, tenants: Tenants) -> None:
    """Refused if jobs come after more than any of their tenants may have in all, before each of these is looked at."""
    more = sum(len(message.after) + len(message.after_any) for message in request.jobs)
    if more:
        names = {message.tenant or caller.tenant for message in request.jobs}
        limit = sum(tenants.of(name).max_dependencies for name in names)
        if more > limit:
            reason = (
                f"no job was accepted: these {len(request.jobs):,} jobs come after {more:,} jobs and arrays, counted "
                f"for each of them, which is above the {limit:,} of their tenant (max_dependencies); name an array, "
                "which counts as one, in the place of its jobs, or ask whoever runs the scheduler for more (--tenants)"
            )
            raise Refused("RESOURCE_EXHAUSTED", reason)


def _check_weight(spec: JobSpec, caller: Caller, tenants: Tenants) -> None:
    """Refused if a job has more weight than the operator allows its tenant; an administrator may give any."""
    limit = tenants.of(spec.tenant or "default").max_job_weight
    if spec.weight > limit and not caller.admin:
        reason = (
            f"{spec.label}: weight {spec.weight:g} is above {limit:g}, the most for jobs of tenant {spec.tenant!r}; "
            f"give at most {limit:g}, or ask whoever runs the scheduler for a larger max_job_weight (--tenants)"
        )
        raise Refused("PERMISSION_DENIED", reason)


def _check_priority(spec: JobSpec, caller: Caller, tenants: Tenants) -> None:
    """Refused if a job has a higher priority than the operator allows its tenant; an administrator may give any."""
    limit = tenants.of(spec.tenant or "default").max_priority
    if spec.priority > limit and not caller.admin:
        reason = (
            f"{spec.label}: priority {spec.priority} is above {limit}, the highest for jobs of tenant {spec.tenant!r}; "
            f"give at most {limit}, or ask whoever runs the scheduler for a larger max_priority (--tenants)"
        )
        raise Refused("PERMISSION_DENIED", reason)


def _check_least_turn(spec: JobSpec, caller: Caller, tenants: Tenants) -> None:
    """Refused if a job may keep its place for longer than the operator allows; an administrator may give any."""
    limit_s = tenants.of(spec.tenant or "default").max_least_turn_s
    if spec.least_turn_s > limit_s and not caller.admin:
        reason = (
            f"{spec.label}: a least turn of {spec.least_turn_s:g} s is above {limit_s:g} s, the most for jobs of "
            f"tenant {spec.tenant!r}; give at most {limit_s:g}, or ask whoever runs the scheduler for a larger "
            "max_least_turn_s (--tenants)"
        )
        raise Refused("PERMISSION_DENIED", reason)


def for_tenant(spec: JobSpec, caller: Caller) -> JobSpec:
    """The job for the tenant of the caller, or for another one if the caller may say so."""
    if spec.tenant:
        check_name("a tenant", spec.tenant)
    if spec.tenant and not caller.admin and spec.tenant != caller.tenant:
        reason = f"this token submits for tenant {caller.tenant!r}, not for {spec.tenant!r}"
        raise Refused("PERMISSION_DENIED", reason)
    return replace(spec, tenant=spec.tenant or caller.tenant)
