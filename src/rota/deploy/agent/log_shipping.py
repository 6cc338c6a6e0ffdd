"""Sends the output of jobs to the scheduler, a little at a time. Nothing else of the agent waits for it."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import grpc

from rota.deploy.agent.log_spool import LogSpool, SpooledPiece
from rota.deploy.agent.schedulers import Schedulers
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

_LOOK_S = 0.2
"""Seconds between two looks, if nothing is there."""
_AGAIN_S = 1.0
_LONGEST_AGAIN_S = 10.0
_CALL_S = 30.0
_KEEP_SENT_S = 20.0
"""Seconds that output which was stored stays here if there is a standby, to be sent to that one if it takes over."""
_FINISH_S = 2.0
"""Seconds that an agent which stops may take to send what is left."""


class LogShipper:
    """Brings what is in the spool to the archive."""

    def __init__(self, schedulers: Schedulers, node: str, spool: LogSpool) -> None:
        self._schedulers = schedulers
        self._node = node
        self._spool = spool
        self._thread = ThreadPoolExecutor(1, "log-shipper")
        self._current = schedulers.current

    async def run(self) -> None:
        """Send until cancelled."""
        again = _AGAIN_S
        while True:
            try:
                pause = await self._send()
                again = _AGAIN_S
                await asyncio.sleep(_LOOK_S if pause is None else pause)
                continue
            except grpc.aio.AioRpcError as error:
                log.debug("output of jobs is not sent now: %s", error.details())
            except Exception:
                log.exception("output of jobs is not sent now")
            await asyncio.sleep(again)
            again = min(again * 2, _LONGEST_AGAIN_S)

    async def finish(self) -> None:
        """Send what is left of output, if that goes quickly; the next agent in this folder sends the rest."""
        try:
            await asyncio.wait_for(self._send_all(), _FINISH_S)
        except (grpc.aio.AioRpcError, asyncio.TimeoutError, OSError) as error:
            log.debug("some output of jobs stays here: %s", error)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _send_all(self) -> None:
        idle = 0
        while idle < 2:  # an end is seen at the second look
            pause = await self._send()
            idle = idle + 1 if pause is None else 0

    async def _send(self) -> float | None:
        """Send what is there; seconds to wait before the next load, None if there was nothing."""
        loop = asyncio.get_running_loop()
        pieces = await loop.run_in_executor(self._thread, self._load)
        if not pieces:
            return None
        upload = pb.LogUpload(node=self._node, pieces=[_message(piece) for piece in pieces])
        reply: pb.LogUploadReply = await self._schedulers.stub.UploadLogs(upload, timeout=_CALL_S)
        await loop.run_in_executor(self._thread, self._take, pieces, reply)
        least = 0.0 if any(piece.more for piece in pieces) else _LOOK_S
        return min(max(reply.pause_s, least), _LONGEST_AGAIN_S)

    def _load(self) -> list[SpooledPiece]:
        """What comes next. A standby that took over may lack what the one before had stored in the last moments."""
        schedulers = self._schedulers
        if schedulers.current != self._current:
            self._current = schedulers.current
            self._spool.rewind()
        if not schedulers.several:
            self._spool.drop_sent(0.0)
        elif schedulers.well:
            self._spool.drop_sent(_KEEP_SENT_S)
        return self._spool.load()

    def _take(self, pieces: list[SpooledPiece], reply: pb.LogUploadReply) -> None:
        for piece, stored in zip(pieces, reply.stored, strict=True):
            if stored.refused:
                self._spool.refused(piece.task, stored.refused)
            else:
                self._spool.stored(piece, stored.segment, stored.size, end=stored.end)


def _message(piece: SpooledPiece) -> pb.LogPiece:
    return pb.LogPiece(
        job=int(piece.task.job),
        epoch=piece.task.epoch,
        rank=piece.task.rank,
        segment=piece.segment.number,
        before=piece.segment.before,
        offset=piece.offset,
        data=piece.data,
        end=piece.end,
    )
