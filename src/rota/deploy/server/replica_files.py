"""Output of jobs and the files beside the journal of another scheduler, on the disk of its standby.

The scheduler in charge says how far it has the output of each rank; what is lacking here is asked for, that of ranks
with the newest output first. All of it is kept within the bounds of this scheduler's own options.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import grpc

from rota.core.errors import ConfigError, RotaError
from rota.deploy.scheduler.log_archive import LogArchive, Piece
from rota.deploy.scheduler.log_changes import Rank
from rota.deploy.scheduler.options import Options
from rota.deploy.security.client import ClientSettings, connect
from rota.deploy.security.sealing import Seal
from rota.deploy.server.side_files import SECRETS, SideFiles, digest_of, secrets_content
from rota.deploy.worker.frames import Segment
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

log = logging.getLogger(__name__)

T = TypeVar("T")
_CALL_S = 30.0
_AGAIN_S = 1.0
_LONGEST_AGAIN_S = 30.0
_LONGEST_PAUSE_S = 10.0
_WANTED = 64
"""Ranks of which something is asked for at once."""


@dataclass(frozen=True, slots=True)
class _Goal:
    """How far the scheduler in charge has the output of a rank."""

    segment: int
    size: int
    end: bool
    tenant: str


class ReplicaFiles:
    """Follows one scheduler. What touches the disk runs in a thread of its own."""

    def __init__(self, options: Options, certs: Path | None, seal: Seal) -> None:
        self._archive = LogArchive(
            options.logs_folder,
            options.log_limits,
            tenant_bytes=lambda tenant: options.tenants.of(tenant).max_log_gb * 1e9,
        )
        self._side = SideFiles(Path(options.state), certs)
        self._seal = seal
        self._thread = ThreadPoolExecutor(1, "replica-files")
        self._list = ""
        self._after = 0
        self._lacking: dict[Rank, _Goal] = {}
        """The newest last."""
        self._digests: dict[str, bytes] = {}
        """Of files as they came last."""
        self._said = ""
        self._behind = True

    async def follow(self, settings: ClientSettings) -> None:
        """Ask for what is new, again and again, until cancelled. Nothing that goes wrong here ends a standby."""
        await self._in_thread(self._archive.open)
        channel = connect(settings)
        stub = stubs.ControlStub(channel)
        again_s = _AGAIN_S
        try:
            while True:
                try:
                    pause_s = await self._ask(stub)
                    self._said = ""
                    again_s = _AGAIN_S
                except (grpc.aio.AioRpcError, RotaError, OSError) as error:
                    self._say(error)
                    pause_s = again_s
                    again_s = min(2 * again_s, _LONGEST_AGAIN_S if _lasts(error) else 2 * _AGAIN_S)
                await asyncio.sleep(pause_s)
        finally:
            await channel.close()

    async def close(self) -> None:
        """Let go of the files; what was begun is done."""
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _say(self, error: Exception) -> None:
        """Once, until it goes well again."""
        why = str(error.details()) if isinstance(error, grpc.aio.AioRpcError) else str(error)
        if why != self._said:
            self._said = why
            log.warning("output of jobs and tokens do not come now: %s", why)

    async def _ask(self, stub: Any) -> float:
        """One question and what follows from it; seconds to wait before the next one."""
        request, held = await self._in_thread(self._request)
        reply: pb.ReplicaFilesReply = await stub.ReplicateFiles(request, timeout=_CALL_S)
        await self._in_thread(partial(self._keep, reply, held))
        if self._lacking or reply.more or reply.files:
            self._behind = self._behind or bool(self._lacking)
            return min(reply.pause_s, _LONGEST_PAUSE_S) if reply.pieces else 0.0
        if self._behind:
            self._behind = False
            log.info("output of jobs (%d bytes), tokens and revocations are here", self._archive.size)
        return min(reply.pause_s, _LONGEST_PAUSE_S)

    def _request(self) -> tuple[pb.ReplicaFilesRequest, list[str]]:
        held = self._side.names_of_secrets()
        digests = {**self._digests, SECRETS: digest_of(secrets_content(held))}
        request = pb.ReplicaFilesRequest(
            list=self._list,
            after=self._after,
            files=[pb.SideFile(name=name, sha256=digest) for name, digest in digests.items()],
        )
        for rank in islice(reversed(self._lacking), _WANTED):
            here = self._archive.end_of(rank)
            job, epoch, number = rank
            request.wanted.add(
                job=job, epoch=epoch, rank=number, segment=0 if here is None else here.segment,
                offset=0 if here is None else here.size,
            )  # fmt: skip
        return request, held

    def _keep(self, reply: pb.ReplicaFilesReply, held: list[str]) -> None:
        for piece in reply.pieces:
            self._store(piece)
        if reply.list != self._list:
            self._lacking.clear()
        self._list = reply.list
        self._after = reply.after
        self._note(reply.places)
        for file in reply.files:
            self._keep_file(file, held)

    def _keep_file(self, file: pb.SideFile, held: list[str]) -> None:
        """One that cannot be used is not asked for again until it is another one; with a full disk it is."""
        content = self._seal.open(file.data)
        try:
            self._side.keep(file.name, content, held)
        except ConfigError as error:
            log.error("%s of the scheduler in charge is not kept: %s", file.name, error)  # noqa: TRY400 - it says all
        self._digests[file.name] = digest_of(content)

    def _note(self, places: Iterable[pb.ReplicaLogPlace]) -> None:
        for place in places:
            rank = (place.job, place.epoch, place.rank)
            goal = _Goal(place.segment, place.offset, place.end, place.tenant)
            self._lacking.pop(rank, None)
            if not self._reached(rank, goal):
                self._lacking[rank] = goal

    def _reached(self, rank: Rank, goal: _Goal) -> bool:
        here = self._archive.end_of(rank)
        if here is None:
            return False
        return (here.segment, here.size) >= (goal.segment, goal.size) and (here.end or not goal.end)

    def _store(self, message: pb.LogPiece) -> None:
        rank = (message.job, message.epoch, message.rank)
        goal = self._lacking.get(rank)
        if goal is None:
            return
        if message.data or message.end:
            segment = Segment(message.segment, message.before)
            piece = Piece(rank=rank, segment=segment, offset=message.offset, data=message.data, end=message.end)
            done = self._archive.store(piece, goal.tenant)
            stuck = message.data and (done.segment, done.size) != (segment.number, piece.offset + len(piece.data))
            if not (stuck or self._reached(rank, goal)):
                return
        del self._lacking[rank]


def _lasts(error: Exception) -> bool:
    """Whether it will hardly be better in a moment: a full disk, another key, a scheduler that cannot do it."""
    return not isinstance(error, grpc.aio.AioRpcError) or error.code() is grpc.StatusCode.UNIMPLEMENTED
