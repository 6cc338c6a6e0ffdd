"""Output of jobs on its way from agents to the archive: who may send what, how fast, and who waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from rota.core.errors import OutputError
from rota.deploy.scheduler.checkpoint_folder import removable
from rota.deploy.scheduler.log_archive import LogArchive, Pacing, Piece
from rota.deploy.scheduler.log_changes import Rank
from rota.deploy.scheduler.records import Place
from rota.deploy.scheduler.requests import Answer, Refused
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.worker.frames import Segment
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

T = TypeVar("T")
_BYTES_PER_S = 16e6
"""Output that is taken in, from all agents together: the scheduler has other things to do."""
_MOST_PIECES = 256
"""In one upload."""
_PERMISSIONS_KEPT = 10_000
_REFUSAL_S = 10.0
"""A refusal is looked at again after so many seconds."""
_EXPIRE_EVERY_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Permission:
    """Whether a server may send the output of an attempt: of which ranks, for which tenant; or why not."""

    tenant: str = ""
    place: Place | None = None
    refusal: str = ""
    until: float = float("inf")
    """Monotonic seconds."""


class LogService:
    """The archive behind two small pools of threads. Lives in the event loop of the server.

    One thread writes, two read, and they are nobody else's: whoever reads or floods output keeps nobody from the
    journal.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        options = scheduler.options
        self.archive = LogArchive(
            options.logs_folder,
            options.log_limits,
            tenant_bytes=lambda tenant: scheduler.options.tenants.of(tenant).max_log_gb * 1e9,
        )
        self._scheduler = scheduler
        self._writer = ThreadPoolExecutor(1, "log-writer")
        self._readers = ThreadPoolExecutor(2, "log-reader")
        self._pacing = Pacing(_BYTES_PER_S)
        self._news: dict[int, asyncio.Event] = {}
        self._permissions: dict[tuple[int, int, str], _Permission] = {}

    async def run(self) -> None:
        """Look at what is there, then remove what is too old from time to time; until cancelled."""
        await self._written(self.archive.open)
        while True:
            await self._written(self._expire)
            await asyncio.sleep(_EXPIRE_EVERY_S)

    def _expire(self) -> None:
        try:
            self.archive.expire(self._over_for_long)
        except Exception:
            log.exception("output that is too old could not be removed; tried again later")

    def _over_for_long(self, numbers: Sequence[int]) -> list[int]:
        """Those of some jobs that are over for so long by engine seconds, or were deleted since."""
        jobs = self._scheduler.jobs_of_folder()
        if jobs is None:
            return []
        clock = self._scheduler.clock
        before = clock.now() - self._scheduler.options.log_limits.keep_s * clock.scale
        return removable(numbers, replace(jobs, own_from=0), before)

    def close(self) -> None:
        """End the threads."""
        self._writer.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(wait=False, cancel_futures=True)

    # Agents

    async def upload(self, node: str, request: pb.LogUpload) -> pb.LogUploadReply:
        """Take pieces in; what cannot be taken is answered one by one."""
        if len(request.pieces) > _MOST_PIECES:
            raise Refused(
                "INVALID_ARGUMENT", f"{len(request.pieces)} pieces in one upload; send at most {_MOST_PIECES}"
            )
        stored = [await self._store(node, message) for message in request.pieces]
        size = sum(len(message.data) for message in request.pieces)
        return pb.LogUploadReply(stored=stored, pause_s=self._pacing.pause_s(size, time.monotonic()))

    async def _store(self, node: str, message: pb.LogPiece) -> pb.LogStored:
        permission = await self._permission(message.job, message.epoch, node)
        place = permission.place
        if place is None:
            return pb.LogStored(refused=permission.refusal)
        if not 0 <= message.rank - place.first_rank < place.ranks:
            return pb.LogStored(refused=f"rank {message.rank} of job {message.job} does not run on {node}")
        piece = _piece(message)
        try:
            done = await self._written(lambda: self.archive.store(piece, permission.tenant))
        except OutputError as error:
            log.warning("%s", error)
            raise Refused("UNAVAILABLE", str(error)) from error
        if message.data or message.end:
            self._tell(message.job)
        return pb.LogStored(segment=done.segment, size=done.size, end=done.end)

    async def _permission(self, job: int, epoch: int, node: str) -> _Permission:
        key = (job, epoch, node)
        known = self._permissions.get(key)
        if known is None or known.until < time.monotonic():
            if len(self._permissions) >= _PERMISSIONS_KEPT:
                self._permissions.clear()
            question: Callable[[float], Answer] = lambda _: ([], lambda: self._look(*key))  # noqa: E731
            answer: _Permission = await asyncio.wrap_future(self._scheduler.post(f"output of job {job}", question))
            self._permissions[key] = answer
            return answer
        return known

    def _look(self, job: int, epoch: int, node: str) -> _Permission:
        """Called by the owner."""
        try:
            record = next((a for a in self._scheduler.requests.job(job, None).attempts if a.epoch == epoch), None)
            place = None if record is None else next((p for p in record.places if p.node == node), None)
        except Refused:
            place = None
        if place is None:
            until = time.monotonic() + _REFUSAL_S
            return _Permission(refusal=f"attempt {epoch} of job {job} did not run on {node}", until=until)
        return _Permission(tenant=self._scheduler.requests.job(job, None).tenant, place=place)

    # Users

    async def read(self, work: Callable[[], T]) -> T:
        """Let a thread read files."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _written(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    def news(self, job: int) -> asyncio.Event:
        """Set when output of a job comes next; ask before looking."""
        return self._news.setdefault(job, asyncio.Event())

    def _tell(self, job: int) -> None:
        event = self._news.pop(job, None)
        if event is not None:
            event.set()


def _piece(message: pb.LogPiece) -> Piece:
    rank: Rank = (message.job, message.epoch, message.rank)
    segment = Segment(message.segment, message.before)
    return Piece(rank=rank, segment=segment, offset=message.offset, data=message.data, end=message.end)


@contextlib.asynccontextmanager
async def log_service(scheduler: Scheduler) -> AsyncIterator[LogService]:
    """A service that looks after its archive until the block ends."""
    service = LogService(scheduler)
    caring = asyncio.create_task(service.run())
    try:
        yield service
    finally:
        caring.cancel()
        await asyncio.gather(caring, return_exceptions=True)
        service.close()
