"""The schedulers that an agent may work for, of which one is in charge.

Each scheduler has a term, which grows when another one takes over. An agent keeps the highest term that it has heard
of or promised to on its disk, and obeys no scheduler of an earlier one. When it hears of its scheduler no more, it asks
the others: one that is in charge is followed; a standby that asks for its vote gets it, once for each term.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from rota.core import files
from rota.core.parsing import is_count
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

log = logging.getLogger(__name__)

_SILENT_S = 1.0
"""Seconds without the scheduler after which the others are asked, if the line is broken."""
_LOOK_S = 0.25
_LONGEST_USUAL_S = 3.0
"""Of the time between two signs of life that is waited for before a vote."""
_CALL_S = 1.5
_FILE = "term"


class Schedulers:
    """Lives in the event loop of the agent."""

    def __init__(self, channels: Sequence[Any], node: str = "", folder: Path | None = None) -> None:
        self._stubs = [stubs.FleetStub(channel) for channel in channels]
        self._current = 0
        self._node = node
        self._file = None if folder is None else folder / _FILE
        self._heard = time.monotonic()
        self.usual_s = 0.0
        """Seconds between two signs of life when all is well: silence is longer than that."""
        self._there = asyncio.Event()
        """Whether there may be a scheduler to obey; not while the one that was promised to is not there yet."""
        self._there.set()
        self.term = self._read()
        """The highest that was heard of or promised to."""
        self.changed = asyncio.Event()
        """Another scheduler is in charge, or will be: what is under way with the one before has to end."""

    def reconnect(self, channels: Sequence[Any]) -> None:
        """Go on over other channels to the same schedulers, with the same session."""
        self._stubs = [stubs.FleetStub(channel) for channel in channels]
        self.changed.set()

    def _read(self) -> int:
        if self._file is None:
            return 0
        with contextlib.suppress(FileNotFoundError):
            text = self._file.read_text(encoding="ascii", errors="replace").strip()
            if is_count(text):
                return int(text)
        return 0

    def _keep(self, term: int) -> None:
        """On the disk first: an agent that is started again must not break its promise. Raises OSError."""
        if self._file is not None:
            files.write_text(self._file, f"{term}\n")
        self.term = term

    @property
    def stub(self) -> Any:
        """Of the scheduler to work with now."""
        return self._stubs[self._current]

    @property
    def current(self) -> int:
        """Which of them it is."""
        return self._current

    @property
    def several(self) -> bool:
        """Whether another one may take over."""
        return len(self._stubs) > 1

    @property
    def well(self) -> bool:
        """Whether the scheduler was heard as lately as it usually is."""
        return self._there.is_set() and time.monotonic() - self._heard < _SILENT_S + 1.5 * self.usual_s

    def obeys(self, term: int) -> bool:
        """Whether a scheduler of a term may be obeyed; the scheduler was heard then."""
        if term < self.term:
            log.warning("the scheduler is of term %d, and another one is in charge in term %d", term, self.term)
            return False
        if term > self.term:
            self._keep(term)
        self.heard()
        return True

    def heard(self) -> None:
        """The scheduler was heard."""
        self._heard = time.monotonic()

    async def usable(self) -> None:
        """Wait until there is a scheduler that may be obeyed."""
        await self._there.wait()

    async def watch(self) -> None:
        """Look for the scheduler in charge while the one before is silent; until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if len(self._stubs) > 1 and time.monotonic() - self._heard >= _SILENT_S:
                for at in range(len(self._stubs)):
                    if at != self._current or not self._there.is_set():
                        await self._ask(at)

    async def _ask(self, at: int) -> None:
        silent_s = time.monotonic() - self._heard
        request = pb.VoteRequest(node=self._node, silent_s=silent_s, term=self.term)
        try:
            reply: pb.VoteReply = await self._stubs[at].Vote(request, timeout=_CALL_S)
            wanted = reply.asks_for > self.term and silent_s >= max(reply.silent_s, min(self.usual_s, _LONGEST_USUAL_S))
            if wanted and time.monotonic() - self._heard >= silent_s:
                self._promise(reply.asks_for)
                request = pb.VoteRequest(node=self._node, silent_s=silent_s, term=self.term)
                reply = await self._stubs[at].Vote(request, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            log.debug("scheduler %d: %s", at, error.details())
            return
        except OSError as error:
            log.warning("no vote, as it cannot be kept on the disk: %s", error)
            return
        if reply.active and reply.term >= self.term:
            self._follow(at, reply.term)

    def _promise(self, term: int) -> None:
        self._keep(term)
        self._there.clear()
        self.changed.set()
        log.warning("voted for the standby: no scheduler before term %d is obeyed from here on", term)

    def _follow(self, at: int, term: int) -> None:
        if at == self._current and self._there.is_set():
            return
        if term > self.term:
            self._keep(term)
        self._current = at
        self._there.set()
        self._heard = time.monotonic()
        self.changed.set()
        log.warning("the scheduler in charge is number %d of --scheduler, in term %d", at + 1, term)
