"""Output of jobs and the files beside the journal, for a standby that asks for them.

It says how far it knows the list of changes, which output it wants and what it has of the other files, so nothing is
remembered of it here. One thread of its own reads; neither the owner of the registry nor a commit ever waits for it.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from rota.deploy.scheduler.log_archive import Pacing, StoredLogs
from rota.deploy.scheduler.log_changes import LogChanges, Rank
from rota.deploy.security.sealing import Seal
from rota.deploy.server.log_reading import next_piece
from rota.deploy.server.side_files import MOST_BYTES, SideFiles
from rota.deploy.worker.frames import Segment
from rota.rpc import rota_pb2 as pb

_BYTES_PER_S = 16e6
"""As much as agents may send."""
_LOAD = 1 << 20
"""Bytes of output in one answer, at most a piece more."""
_PLACES = 2_000
"""Ranks in one answer."""
IDLE_S = 0.5
"""Between two questions if nothing is new."""


class FileReplication:
    """The side of the scheduler in charge."""

    def __init__(self, logs: StoredLogs, changes: LogChanges, side: SideFiles, seal: Seal) -> None:
        self._logs = logs
        self._changes = changes
        self._side = side
        self._seal = seal
        self._pacing = Pacing(_BYTES_PER_S)
        self._reader = ThreadPoolExecutor(1, "replication-files")

    async def reply(self, request: pb.ReplicaFilesRequest) -> pb.ReplicaFilesReply:
        """What is new, and what is wanted."""
        made: pb.ReplicaFilesReply = await asyncio.get_running_loop().run_in_executor(
            self._reader, self._reply, request
        )
        size = sum(len(piece.data) for piece in made.pieces) + sum(len(file.data) for file in made.files)
        idle = not (made.places or made.pieces or made.files)
        made.pause_s = IDLE_S if idle else self._pacing.pause_s(size, time.monotonic())
        return made

    def close(self) -> None:
        """End the thread."""
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _reply(self, request: pb.ReplicaFilesRequest) -> pb.ReplicaFilesReply:
        reply = pb.ReplicaFilesReply(list=self._changes.name)
        self._add_places(reply, request.after if request.list == self._changes.name else 0)
        self._add_pieces(reply, request)
        size = 0
        for name, content in self._side.different({file.name: file.sha256 for file in request.files}).items():
            size += len(content)
            if size <= MOST_BYTES:  # the others come with the next answer
                reply.files.add(name=name, data=self._seal.close(content))
        return reply

    def _add_places(self, reply: pb.ReplicaFilesReply, after: int) -> None:
        self._changes.begin(self._logs.ranks)
        newer = self._changes.after(after, _PLACES)
        reply.after = newer[-1][0] if newer else after
        reply.more = len(newer) == _PLACES
        for _, rank in newer:
            end = self._logs.end_of(rank)
            if end is not None:
                job, epoch, number = rank
                reply.places.add(
                    job=job, epoch=epoch, rank=number, segment=end.segment, offset=end.size, end=end.end,
                    tenant=self._logs.tenant(job),
                )  # fmt: skip

    def _add_pieces(self, reply: pb.ReplicaFilesReply, request: pb.ReplicaFilesRequest) -> None:
        room = _LOAD
        for wanted in request.wanted:
            if room <= 0:
                return
            piece = self._piece((wanted.job, wanted.epoch, wanted.rank), wanted.segment, wanted.offset)
            reply.pieces.append(piece)
            room -= len(piece.data)

    def _piece(self, rank: Rank, number: int, offset: int) -> pb.LogPiece:
        end = self._logs.end_of(rank)
        segment, at, data = next_piece(self._logs, rank, (number, offset)) or (Segment(number, 0), offset, b"")
        last = end is not None and end.end and (segment.number, at + len(data)) == (end.segment, end.size)
        if last and not data:  # all of it is there already, only that it is all is not known
            segment = self._logs.segments(rank)[-1]
        return pb.LogPiece(
            job=rank[0], epoch=rank[1], rank=rank[2], segment=segment.number, before=segment.before, offset=at,
            data=data, end=last,
        )  # fmt: skip
