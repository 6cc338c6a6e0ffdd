"""A scheduler that stands by: it has the journal of another one, and takes over when most servers hear of that no more.

It takes over only if it has not heard of the scheduler in charge itself, and more than half of the servers that were up
have promised to obey nobody of an earlier term. Then it waits for the lease of the other one to be over: that one ends
when it hears neither of its standby nor of half of the servers. So there is one writer at any time, and a standby that
is cut off from the servers stays what it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from rota.core.errors import ConfigError
from rota.deploy.scheduler import lost_events
from rota.deploy.scheduler.options import Options
from rota.deploy.security.audit import Audit, to_the_log
from rota.deploy.security.client import ClientSettings, connect
from rota.deploy.security.guard import AuthInterceptor
from rota.deploy.security.identity import current_identity
from rota.deploy.security.places import revoked_file, tokens_file
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.sealing import Seal, seal_of
from rota.deploy.security.tokens import TokenFile
from rota.deploy.security.transport import SERVER_OPTIONS, listen
from rota.deploy.server.election import Election
from rota.deploy.server.replica import Replica
from rota.deploy.server.replica_files import ReplicaFiles
from rota.deploy.stopping import NOT_IN_CHARGE
from rota.rpc import bounds
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

log = logging.getLogger(__name__)

_AGENT_SILENCE_S = 1.0
"""Seconds for which a server must not have heard of it either."""
_CALL_S = 3.0
_AGAIN_S = 0.2
_BASE_S = 3600.0
_LOOK_S = 0.1


def _refusing(base: Any, service: str, why: str) -> Any:
    """A service that refuses all calls, so that callers look for the scheduler in charge."""

    async def refuse(_self: Any, _request: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, why)

    methods = {method.name: refuse for method in pb.DESCRIPTOR.services_by_name[service].methods}
    return type(f"Waiting{service}", (base,), methods)


_WHY = f"{NOT_IN_CHARGE}: it stands by for another one"
_RefusingFleet = _refusing(stubs.FleetServicer, "Fleet", _WHY)
_RefusingControl = _refusing(stubs.ControlServicer, "Control", _WHY)


class _WaitingFleet(_RefusingFleet):  # type: ignore[misc,valid-type]
    """Answers agents while somebody else is in charge."""

    def __init__(self, election: Election) -> None:
        self._election = election

    async def Vote(self, request: pb.VoteRequest, context: Any) -> pb.VoteReply:
        """Who is in charge, and whether a vote is asked for. An agent votes for the node of its certificate only."""
        who = current_identity()
        if not who.insecure and who.name != request.node:
            why = f"this certificate is for {who.name}, not for {request.node}"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
        election = self._election
        election.vote(request.node, request.term, time.monotonic())
        return pb.VoteReply(term=election.term, asks_for=election.asks_for, silent_s=_AGENT_SILENCE_S)


@dataclass(frozen=True, kw_only=True)
class StandbyOf:
    """What a standby has to know."""

    settings: ClientSettings
    """How it reaches the scheduler in charge, with an administrator's token."""
    address: str
    """Where it listens, as agents and users reach it."""


async def stand_by(
    options: Options, other: StandbyOf, port: Any, rules: Any, ready: Callable[[str], None], stop: asyncio.Event
) -> int | None:
    """Follow the scheduler in charge until it is to be replaced; the term that begins then. None: asked to stop."""
    seal = seal_of(port.certs)
    replica = Replica(Path(options.state), seal)
    election = Election()
    try:
        async with _waiting_port(port, rules, election) as number, _files_of(options, other, port.certs, seal):
            host = port.address.rpartition(":")[0]
            ready(f"{host}:{number}")
            return await _Following(replica, election, other).run(stop)
    finally:
        replica.close()


@contextlib.asynccontextmanager
async def _files_of(options: Options, other: StandbyOf, certs: Path | None, seal: Seal) -> AsyncIterator[None]:
    """Keep output of jobs and the files beside the journal until the block ends."""
    files = ReplicaFiles(options, certs, seal)
    following = asyncio.create_task(files.follow(other.settings))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await files.close()


@contextlib.asynccontextmanager
async def _waiting_port(port: Any, rules: Any, election: Election) -> AsyncIterator[int]:
    tokens = TokenFile(tokens_file(port.certs)) if port.certs is not None else None
    revoked = Revocations(revoked_file(port.certs)) if port.certs is not None else None
    audit = Audit(to_the_log)
    guard = AuthInterceptor(rules, tokens, audit, revoked=revoked, insecure=port.insecure, check=bounds.check)
    server = grpc.aio.server(interceptors=[guard], options=list(SERVER_OPTIONS))
    stubs.add_FleetServicer_to_server(_WaitingFleet(election), server)
    stubs.add_ControlServicer_to_server(_RefusingControl(), server)
    number = listen(server, port.address, certs=port.certs, insecure=port.insecure)
    await server.start()
    try:
        yield number
    finally:
        await server.stop(0.2)


class _Following:
    """One stand-by, from the first question to the takeover."""

    def __init__(self, replica: Replica, election: Election, other: StandbyOf) -> None:
        self._replica = replica
        self._election = election
        self._other = other
        self._seen = 0

    async def run(self, stop: asyncio.Event) -> int | None:
        """Until it is to take over, or asked to stop."""
        election = self._election
        asking = asyncio.create_task(self._follow())
        elected = False
        try:
            while not stop.is_set():
                await asyncio.sleep(_LOOK_S)
                if asking.done() and not elected:
                    asking.result()
                now = time.monotonic()
                election.look(now)
                if election.elected and not elected:
                    elected = True  # from here on the other one is not asked any more: its lease must not grow
                    asking.cancel()
                    log.warning("most servers voted for term %d; the other scheduler has its lease", election.asks_for)
                if election.takes_over(now):
                    why = f"taken over from {self._other.settings.address} in term {election.asks_for}"
                    self._replica.close()
                    lost_events.mark(self._replica.path, why)
                    log.warning("%s", why)
                    return election.asks_for
            return None
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _follow(self) -> None:
        """Ask for what was committed, again and again. Ends with ConfigError if that will never work."""
        channel = connect(self._other.settings)
        stub = stubs.ControlStub(channel)
        last_said = ""
        try:
            while True:
                try:
                    await self._ask(stub)
                    last_said = ""
                except grpc.aio.AioRpcError as error:  # noqa: PERF203 - it is about trying again
                    if error.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
                        raise ConfigError(
                            f"the scheduler refuses: {error.details()}; a standby needs an administrator's token"
                        ) from error
                    if str(error.details()) != last_said:
                        last_said = str(error.details())
                        log.warning("scheduler %s does not answer: %s", self._other.settings.address, last_said)
                    await asyncio.sleep(_AGAIN_S)
        finally:
            await channel.close()

    async def _ask(self, stub: Any) -> None:
        request = await asyncio.to_thread(self._replica.request)
        request.address = self._other.address
        request.seen = self._seen
        request.term = self._election.promised
        batch: pb.ReplicaBatch = await stub.Replicate(request, timeout=_CALL_S)
        self._seen = batch.number
        if batch.base_needed:
            await self._replica.begin(stub.ReplicaBase(pb.ReplicaBaseRequest(address=request.address), timeout=_BASE_S))
            return
        await asyncio.to_thread(self._replica.apply, batch)
        self._election.hear(batch, time.monotonic())
