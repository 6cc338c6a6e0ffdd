"""`rota serve` from the inside: the scheduler behind a guarded port, until somebody says stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from rota.core.errors import RotaError
from rota.deploy.clocks import wall_date
from rota.deploy.observation.running import Observation
from rota.deploy.observation.settings import ObservationSettings
from rota.deploy.questions.asking import Questions
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.own_stalls import NETWORK, OwnStalls
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.security.admission import Admission
from rota.deploy.security.audit import Audit, Refusal, RefusalReason, to_the_log
from rota.deploy.security.guard import ADMIN, AGENT, HEALTH, JOIN, USER, AuthInterceptor
from rota.deploy.security.handshakes import HandshakeWatch
from rota.deploy.security.identity import current_identity
from rota.deploy.security.joining import JoinAuthority
from rota.deploy.security.places import revoked_file, tokens_file
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.sealing import seal_of
from rota.deploy.security.tokens import TokenFile
from rota.deploy.security.transport import SERVER_OPTIONS, listen
from rota.deploy.server.control import Control
from rota.deploy.server.fleet import Fleet
from rota.deploy.server.logs import LogService, log_service
from rota.deploy.server.replication import Replication
from rota.deploy.server.replication_files import FileReplication
from rota.deploy.server.side_files import SideFiles
from rota.deploy.server.submission_limits import bytes_of_arrays
from rota.deploy.stopping import stop_on_eof, stop_on_signals
from rota.deploy.tenants import TenantsInForce
from rota.deploy.waiting import happens
from rota.rpc import bounds
from rota.rpc import rota_pb2_grpc as stubs

__all__ = ["Port", "serve", "served", "stop_on_eof", "stop_on_signals"]

log = logging.getLogger(__name__)

_OF_AGENTS = ("Register", "Watch", "Report", "PushLog", "UploadLogs", "Vote")
_OF_USERS = (
    "Submit", "ListJobs", "GetJob", "Cancel", "Hold", "ListNodes", "Events", "Logs", "Status", "Why", "Eta", "WhatIf",
    "Ledger", "Usage", "Occupancy", "GetSettings", "LearnedSpeeds",
)  # fmt: skip
_OF_ADMINS = ("Drain", "RemoveNode", "PreviewSettings", "SetSettings", "ReplicaBase", "Replicate", "ReplicateFiles")
RULES = {
    **HEALTH,
    **{f"/rota.v1.Fleet/{name}": frozenset({AGENT}) for name in _OF_AGENTS},
    "/rota.v1.Fleet/Join": frozenset({JOIN}),
    **{f"/rota.v1.Control/{name}": frozenset({USER, ADMIN}) for name in _OF_USERS},
    **{f"/rota.v1.Control/{name}": frozenset({ADMIN}) for name in _OF_ADMINS},
}
"""Every call by name: a new one is refused until it is said here who may make it."""


NOT_OBSERVED = ObservationSettings()
_NO_REFUSALS = {reason.value: 0 for reason in RefusalReason}
UNCOUNTED = frozenset({"/rota.v1.Control/Replicate", "/rota.v1.Control/ReplicateFiles"})
"""A standby asks after every commit, and for the next piece of output as soon as it has one."""
_LISTENS_EVERY_S = 0.25


@dataclass(frozen=True, kw_only=True)
class Port:
    """Where to listen, and what protects it."""

    address: str = "127.0.0.1:7070"
    certs: Path | None = None
    insecure: bool = False
    sign_joins: bool = False
    """Whether servers with a join ticket get certificates here, signed with the key of the authority in `certs`."""


class _Caller:
    """What handlers need to know about who calls."""

    def __init__(self) -> None:
        who = current_identity()
        self.name = str(who)
        self.tenant = who.tenant or "default"
        self.admin = who.admin
        self.node = None if who.insecure else who.name


@contextlib.asynccontextmanager
async def served(
    options: Options, port: Port, observed: ObservationSettings = NOT_OBSERVED
) -> AsyncIterator[tuple[Scheduler, int]]:
    """A running scheduler and the number of its port; everything is closed afterwards."""
    scheduler = Scheduler(options)
    try:
        async with contextlib.AsyncExitStack() as stack:
            logs = await stack.enter_async_context(log_service(scheduler))
            asked = Questions(scheduler.journal.path, options.questions)
            replication = _replication(scheduler, port, logs)
            stack.callback(replication.close)
            server, number, audit = _server(scheduler, port, logs, asked, replication)
            stack.enter_context(contextlib.nullcontext() if port.insecure else HandshakeWatch(audit))
            stack.push_async_callback(asked.close)  # before that watch, whose line its process holds
            observation = Observation(scheduler, observed, lambda: {**_NO_REFUSALS, **audit.counts()})
            stack.push_async_callback(asyncio.to_thread, observation.stop)
            observation.before_start()
            scheduler.start()
            observation.after_start()
            await server.start()
            watch = asyncio.create_task(replication.watch())
            stack.callback(watch.cancel)
            listening = asyncio.create_task(_listen(scheduler.heartbeats.stalls))
            stack.callback(listening.cancel)
            try:
                yield scheduler, number
            finally:
                await server.stop(0.5)
                audit.flush()
    finally:
        scheduler.stop()


def _replication(scheduler: Scheduler, port: Port, logs: LogService) -> Replication:
    seal = seal_of(port.certs)
    side = SideFiles(scheduler.journal.path, port.certs)
    files = FileReplication(logs.archive, logs.archive.changes, side, seal)
    return Replication(scheduler, seal, files, sync=scheduler.options.standby_sync)


async def _listen(stalls: OwnStalls) -> None:
    """Say again and again that reports of agents can come in; whenever this cannot run, they cannot either."""
    while True:
        stalls.listening(NETWORK, _LISTENS_EVERY_S)
        await asyncio.sleep(_LISTENS_EVERY_S)


def _server(
    scheduler: Scheduler, port: Port, logs: LogService, asked: Questions, replication: Replication
) -> tuple[Any, int, Audit]:
    audit = Audit(_trail(scheduler))
    tokens = TokenFile(tokens_file(port.certs)) if port.certs is not None else None
    revoked = Revocations(revoked_file(port.certs)) if port.certs is not None else None
    guard = AuthInterceptor(
        RULES,
        tokens,
        audit,
        revoked=revoked,
        insecure=port.insecure,
        check=bounds.check,
        admission=Admission(TenantsInForce(lambda: scheduler.options.tenants), owner_time=scheduler.owner_time),
        uncounted=UNCOUNTED,
        more_bytes=bytes_of_arrays,
    )
    server = grpc.aio.server(interceptors=[guard], options=list(SERVER_OPTIONS))

    def who(_: Any) -> _Caller:
        return _Caller()

    stubs.add_FleetServicer_to_server(Fleet(scheduler, who, logs, audit, _join_authority(port), replication), server)
    stubs.add_ControlServicer_to_server(Control(scheduler, who, logs, asked, replication), server)
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    asyncio.get_running_loop().create_task(_set_healthy(checks))
    number = listen(server, port.address, certs=port.certs, insecure=port.insecure)
    return server, number, audit


def _join_authority(port: Port) -> JoinAuthority | None:
    return JoinAuthority(port.certs, wall_date()) if port.sign_joins and port.certs is not None else None


async def _set_healthy(checks: Any) -> None:
    for name in ("", "rota.v1.Fleet", "rota.v1.Control"):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)


def _trail(scheduler: Scheduler) -> Callable[[Refusal], None]:
    """Refusals go to the log and into the journal."""

    def write(refused: Refusal) -> None:
        to_the_log(refused)
        if scheduler.alive():
            what = f"{refused.method}: {refused.reason.value}: {refused.why}"
            times = 1 + refused.suppressed
            scheduler.post("audit", lambda now: scheduler.requests.audit(refused.peer, what, times, now))

    return write


async def serve(
    options: Options,
    port: Port,
    ready: Callable[[str], None],
    *,
    stop: asyncio.Event,
    observed: ObservationSettings = NOT_OBSERVED,
) -> None:
    """Serve until `stop` is set or the scheduler fails; `ready` gets the address once it listens."""
    async with served(options, port, observed) as (scheduler, number):
        host = port.address.rpartition(":")[0]
        ready(f"{host}:{number}")
        while not stop.is_set() and scheduler.alive():
            await happens(stop, 0.5)
    if scheduler.failure is not None:
        if isinstance(scheduler.failure, RotaError):
            raise scheduler.failure
        raise RotaError(f"the scheduler failed: {scheduler.failure!r}") from scheduler.failure
