"""Questions of users: who may ask what, and the way to the process that answers."""

from __future__ import annotations

import json
from typing import Any

from rota.core.errors import ConfigError
from rota.core.job_spec import JobSpec, spec_values
from rota.deploy.questions.asking import Questions
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.server.handlers import Caller
from rota.rpc import rota_pb2 as pb
from rota.rpc.convert import spec_of

_MOST_FUTURES = 100
_MOST_GPUS = 100_000
_MOST_POINTS = 500
_USUAL_POINTS = 120
_ASKS = ("cpus", "memory_gb", "priority")
"""What a job may ask for, beside GPUs and weight, that may also be 0."""
_ASK_OPTIONS = "--gpus, --weight, --cpus, --memory-gb and --priority"


class QuestionDesk:
    """Turns requests into questions about the jobs that a caller may see."""

    def __init__(self, scheduler: Scheduler, questions: Questions) -> None:
        self._scheduler = scheduler
        self._questions = questions

    async def why(self, request: pb.JobRequest, caller: Caller) -> pb.Answer:
        """Why a job waits."""
        return await self._ask(caller, kind="why", job=request.job)

    async def eta(self, request: pb.EtaRequest, caller: Caller) -> pb.Answer:
        """When jobs start, or how good such estimates were."""
        if request.accuracy:
            return await self._ask(caller, kind="accuracy")
        asked: dict[str, Any] = {"jobs": list(request.jobs), "starts_only": request.starts_only}
        if request.HasField("futures"):
            if not 0 <= request.futures <= _MOST_FUTURES:
                raise ConfigError(f"futures is {request.futures}; give 0 to {_MOST_FUTURES}")
            asked["futures"] = request.futures
        if request.cpu_s < 0:
            raise ConfigError(f"cpu_s is {request.cpu_s:g}; give CPU seconds above 0, or 0 for as many as there may be")
        return await self._ask(caller, request.cpu_s, kind="eta", **asked)

    async def what_if(self, request: pb.WhatIfRequest, caller: Caller) -> pb.Answer:
        """Who gains and who loses by a change."""
        return await self._ask(caller, kind="what-if", change=_change(request, caller))

    async def settings(self, config: dict[str, Any], caller: Caller) -> pb.Answer:
        """Who gains and who loses by other settings of the scheduler."""
        return await self._ask(caller, kind="what-if", change={"settings": config})

    async def ledger(self, request: pb.LedgerRequest, caller: Caller) -> pb.Answer:
        """Who had how much."""
        _check_last(request.last_s)
        return await self._ask(caller, kind="ledger", last_s=request.last_s)

    async def usage(self, request: pb.UsageRequest, caller: Caller) -> pb.Answer:
        """GPUs, CPUs and memory over time."""
        if not 0 <= request.points <= _MOST_POINTS:
            raise ConfigError(f"points is {request.points}; give 1 to {_MOST_POINTS}, or 0 for {_USUAL_POINTS}")
        _check_last(request.last_s)
        return await self._ask(caller, kind="usage", last_s=request.last_s, points=request.points or _USUAL_POINTS)

    async def occupancy(self, request: pb.OccupancyRequest, caller: Caller) -> pb.Answer:
        """Who held which GPUs when."""
        if request.after < 0:
            raise ConfigError(
                f"after is {request.after}; give the number of an event, or 0 for the first that was kept"
            )
        return await self._ask(caller, kind="occupancy", after=request.after)

    async def _ask(self, caller: Caller, most_cpu_s: float = 0.0, **question: Any) -> pb.Answer:
        scheduler = self._scheduler
        question |= {
            "now": scheduler.clock.now(),
            "live_steps": scheduler.heartbeats.live_steps(),
            "tenant": None if caller.admin else caller.tenant,
        }
        answer = await self._questions.ask(question, caller.tenant, most_cpu_s)
        event = int(answer.pop("event", 0))
        cpu_s = float(answer.pop("cpu_s", 0.0))
        return pb.Answer(json=json.dumps(answer), event=event, cpu_s=cpu_s)


def _check_last(last_s: float) -> None:
    """ConfigError for a span that ends before it begins."""
    if last_s < 0:
        raise ConfigError(f"last_s is {last_s:g}; give engine seconds above 0, or 0 for all that is known")


def _change(request: pb.WhatIfRequest, caller: Caller) -> dict[str, Any]:
    """The change as plain values, for the tenant of the caller."""
    if request.gpus < 0 or request.weight < 0:
        raise ConfigError("GPUs and weight of a what-if are above 0, or not given")
    if min(request.cpus, request.memory_gb) < 0:
        raise ConfigError("CPUs and memory of a what-if are 0 (no request) or above, or not given")
    for server in request.add_servers:
        if not 0 < server.gpus <= _MOST_GPUS:
            raise ConfigError(f"a server with {server.gpus} GPUs cannot be added; give 1 to {_MOST_GPUS:,}")
    asks: dict[str, Any] = {name: getattr(request, name) for name in _ASKS if request.HasField(name)}
    about_job = bool(request.gpus or request.weight or asks)
    if about_job and not request.HasField("job"):
        raise ConfigError(f"{_ASK_OPTIONS} are about a job: give --job NUMBER")
    if request.HasField("job") and not about_job:
        raise ConfigError(f"--job says which job, but not what about it: give one of {_ASK_OPTIONS}, too")
    change: dict[str, Any] = {
        "job": request.job if request.HasField("job") else -1,
        "gpus": request.gpus,
        "weight": request.weight,
        **asks,
        "tenant_settings": [_tenant_setting(setting, caller) for setting in request.tenant_settings],
        "cancel": list(request.cancel),
        "release": list(request.release),
        "add_servers": [(server.type, server.gpus) for server in request.add_servers],
        "drain": request.drain,
        "undrain": request.undrain,
        "policy": request.policy,
        "mechanism": request.mechanism,
        "submit": [_without_secrets(spec_of(message), caller) for message in request.submit],
    }
    if all(value in ("", 0, 0.0, -1, []) for value in change.values()):
        raise ConfigError("a what-if needs a change: --gpus and --job, --add-server, --drain, --policy, --submit, ...")
    return change


def _tenant_setting(setting: pb.TenantSetting, caller: Caller) -> tuple[str, str, int]:
    """A setting of a tenant; others than administrators may ask about their own."""
    tenant = setting.tenant or caller.tenant
    if tenant != caller.tenant and not caller.admin:
        raise ConfigError(f"settings of tenant {tenant!r} are the business of others; ask about {caller.tenant!r}")
    return tenant, setting.name, setting.number


def _without_secrets(spec: JobSpec, caller: Caller) -> dict[str, Any]:
    """A job that is only thought of: neither its command nor its variables matter."""
    tenant = spec.tenant if caller.admin and spec.tenant else caller.tenant
    return {**spec_values(spec), "env": {}, "tenant": tenant}
