"""Settings of a live cluster: who may see and change them, and what a change would do."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass, replace
from typing import Any

from rota.core.errors import ConfigError
from rota.deploy.scheduler.live_settings import (
    CHANGED_MEANWHILE,
    Deciders,
    SettingsChange,
    differences,
    make_deciders,
    overlaid,
)
from rota.deploy.scheduler.node_offers import Refused
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.security.admission import current_payer
from rota.deploy.server.handlers import Caller
from rota.deploy.server.questions import QuestionDesk
from rota.deploy.tenants import Tenants, parse_tenants, read_tenants
from rota.rpc import rota_pb2 as pb

_SHOWN = ("policy", "policy_settings", "mechanism", "mechanism_settings", "rules", "fair_by", "time_scale")
"""Settings that every user may see; those of tenants are for administrators."""


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """A change that can be made."""

    deciders: Deciders
    live: dict[str, Any]
    version: int
    lines: list[str]
    """What is different, for people."""


class SettingsDesk:
    """Turns requests into settings. Lives in the event loop of the server."""

    def __init__(self, scheduler: Scheduler, questions: QuestionDesk) -> None:
        self._scheduler = scheduler
        self._questions = questions

    async def show(self, caller: Caller) -> pb.SettingsReply:
        """What is in force, what was set live, and what the command line says."""
        fields, version = await self._look(lambda registry: self._fields(registry, admin=caller.admin))
        return pb.SettingsReply(json=json.dumps(fields), version=version)

    async def preview(self, request: pb.SettingsRequest, caller: Caller) -> pb.Answer:
        """What is different, and the coming rounds with and without it."""
        wanted = await self._wanted(request)
        fields: dict[str, Any] = {"changes": wanted.lines, "version": wanted.version}
        try:
            answer = await self._questions.settings(wanted.deciders.described(), caller)
        except (ConfigError, Refused) as error:  # the settings can be used all the same
            return pb.Answer(json=json.dumps({**fields, "no_forecast": str(error)}))
        fields |= json.loads(answer.json)
        return pb.Answer(json=json.dumps(fields), event=answer.event, cpu_s=answer.cpu_s)

    async def set(self, request: pb.SettingsRequest, caller: Caller) -> pb.SettingsReply:
        """Make the change; what is in force then."""
        wanted = await self._wanted(request)
        scheduler = self._scheduler
        if wanted.lines or wanted.live != await self._look(lambda registry: registry.set_live.settings):
            work = scheduler.post(
                f"SetSettings by {caller.name}",
                lambda now: scheduler.change_settings(wanted.deciders, wanted.live, wanted.version, caller.name, now),
            )
            await asyncio.wrap_future(work)
        reply = await self.show(caller)
        fields = {**json.loads(reply.json), "changes": wanted.lines}
        return pb.SettingsReply(json=json.dumps(fields), version=reply.version)

    async def _look(self, question: Any) -> Any:
        return await asyncio.wrap_future(self._scheduler.look("settings", question, current_payer()))

    async def _wanted(self, request: pb.SettingsRequest) -> _Wanted:
        """Raises ConfigError or Refused. Imports and files are slow: in a thread of its own."""
        live, version = await self._look(lambda registry: (dict(registry.set_live.settings), registry.set_live.times))
        if request.HasField("version") and request.version != version:
            raise Refused("FAILED_PRECONDITION", CHANGED_MEANWHILE)
        return await asyncio.to_thread(self._made, request, live, version)

    def _made(self, request: pb.SettingsRequest, live: dict[str, Any], version: int) -> _Wanted:
        scheduler = self._scheduler
        change = _change(request, scheduler.deciders.command_line)
        changed = change.apply(live, scheduler.options)
        command_line = scheduler.deciders.command_line
        if change.tenants_from_file and change.tenants is not None:
            command_line = replace(command_line, tenants=change.tenants)
        options = overlaid(command_line, changed)
        deciders = make_deciders(options, late=scheduler.late_solves, command_line=command_line)
        lines = differences(scheduler.deciders.described(), deciders.described())
        return _Wanted(deciders=deciders, live=changed, version=version, lines=lines)

    def _fields(self, registry: Registry, *, admin: bool) -> tuple[dict[str, Any], int]:
        """Called by the owner."""
        config = self._scheduler.deciders.described()
        names = (*_SHOWN, "tenants") if admin else _SHOWN
        fields: dict[str, Any] = {name: config[name] for name in names}
        fields["live"] = sorted(registry.set_live.settings)
        if admin and registry.set_live.times:
            fields["changed_by"] = registry.set_live.by
            fields["changed_at_s"] = registry.set_live.at
        if admin:
            fields["command_line"] = differences(config, self._scheduler.deciders.command_line_described())
        return fields, registry.set_live.times


def _change(request: pb.SettingsRequest, command_line: Options) -> SettingsChange:
    if not math.isfinite(request.round_s) or request.round_s < 0:
        raise ConfigError(f"a round of {request.round_s} s is not possible; give a number above 0")
    tenants: Tenants | None = None
    if request.reload_tenants:
        if request.tenants:
            raise ConfigError("give tenants, or let the scheduler read its file again, not both")
        if not command_line.tenants_file:
            raise ConfigError("the scheduler was started without --tenants, so there is no file to read again")
        tenants = read_tenants(command_line.tenants_file)
    elif request.tenants:
        tenants = parse_tenants(request.tenants, "tenants")
    return SettingsChange(
        policy=request.policy,
        policy_settings=dict(request.policy_settings),
        mechanism=request.mechanism,
        mechanism_settings=dict(request.mechanism_settings),
        rules=request.rules,
        rule_settings=dict(request.rule_settings),
        round_s=request.round_s,
        fair_by=request.fair_by,
        tenants=tenants,
        tenants_from_file=request.reload_tenants,
        discard=request.discard,
    )
