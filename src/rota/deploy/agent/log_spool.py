"""Output of jobs that waits on this server to be sent: what comes next, and what may go.

    FOLDER/JOB.EPOCH.RANK/   segments of one rank, which its supervisor writes (`worker/frames.py`)

A segment goes when it was stored and the next one is there, the folder when all of it was stored; `drop_sent` says how
long after that. What nobody takes goes after a day, and when there is too much of it the oldest. All of this reads
files, so it is called in a thread.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rota.core.errors import ConfigError
from rota.deploy.agent.old_logs import convert
from rota.deploy.worker.frames import Segment, read_piece, segments_in, size_of
from rota.deploy.worker.spec import TaskId

log = logging.getLogger(__name__)

_LEAST_PIECE = 16 * 1024
_LOAD = 256 * 1024
"""Bytes in one upload."""
_MOST_PIECES = 64
_REFUSED_S = 60.0
"""Seconds after which output that was refused is offered again."""
_KEEP_REFUSED_S = 86400.0
_MOST_BYTES = 1_000_000_000
"""Of tasks that have ended."""
_TIDY_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledPiece:
    """Bytes of a segment that come next."""

    task: TaskId
    segment: Segment
    offset: int
    data: bytes
    end: bool
    more: bool
    """Something behind it waits already."""


@dataclass(slots=True)
class _Rank:
    """How far the output of one rank was sent."""

    task: TaskId
    folder: Path
    number: int = 0
    offset: int = 0
    idle: bool = False
    """Nothing was there at the last look."""
    refused_at: float = 0.0
    """Monotonic seconds; 0: it was not."""
    refused_since: float = 0.0
    sent_at: float = 0.0
    """When the end of it was stored, monotonic seconds; 0: it was not."""
    left_at: dict[str, float] = field(default_factory=dict)
    """When segments were stored, by name of the file."""

    def next(self, most: int, ended: Callable[[TaskId], bool]) -> SpooledPiece | None:
        over = self.idle and ended(self.task)  # asked before reading: nothing comes after that
        if over:
            convert(self.folder)
        segments = [segment for segment in segments_in(self.folder) if segment.number >= self.number]
        for segment in segments:
            offset = self.offset if segment.number == self.number else 0
            data = read_piece(self.folder / segment.name, offset, most)
            if data or segment is segments[-1]:
                self._reach(segment, offset)
                self.idle = not data
                more = segment is not segments[-1] or len(data or b"") == most
                return self._piece(segment, data or b"", end=over and not data, more=more)
        self.idle = True
        return self._piece(Segment(self.number, 0), b"", end=over, more=False)

    def _reach(self, segment: Segment, offset: int) -> None:
        """What is before this segment was stored, or is gone."""
        if segment.number > self.number:
            for old in segments_in(self.folder):
                if old.number < segment.number:
                    self.left_at.setdefault(old.name, time.monotonic())
        self.number = segment.number
        self.offset = offset

    def drop_sent(self, before: float) -> None:
        """Take away segments that were stored before a moment."""
        for name in [name for name, at in self.left_at.items() if at <= before]:
            del self.left_at[name]
            with contextlib.suppress(OSError):  # a job may make a folder of that name
                (self.folder / name).unlink()

    def rewind(self) -> None:
        """Begin again with the oldest that is here."""
        self.number = 0
        self.offset = 0
        self.idle = False
        self.sent_at = 0.0
        self.left_at.clear()

    def _piece(self, segment: Segment, data: bytes, *, end: bool, more: bool) -> SpooledPiece | None:
        if not data and not end:
            return None
        return SpooledPiece(task=self.task, segment=segment, offset=self.offset, data=data, end=end, more=more)


@dataclass(slots=True)
class LogSpool:
    """All output that waits. `ended` says of a task whether its supervisor writes no more."""

    folder: Path
    ended: Callable[[TaskId], bool]
    _ranks: dict[TaskId, _Rank] = field(default_factory=dict)
    _turn: int = 0
    _tidied_at: float = 0.0

    def load(self) -> list[SpooledPiece]:
        """What to send next: a little of every rank in turn, so that one that floods does not keep the others."""
        self._look()
        now = time.monotonic()
        left = [rank for rank in self._ranks.values() if not rank.sent_at]
        ranks = [rank for rank in left if not rank.refused_at or now - rank.refused_at > _REFUSED_S]
        pieces: list[SpooledPiece] = []
        room = _LOAD
        share = max(_LOAD // max(len(ranks), 1), _LEAST_PIECE)
        for step in range(len(ranks)):
            piece = ranks[(self._turn + step) % len(ranks)].next(min(room, share), self.ended)
            if piece is not None:
                pieces.append(piece)
                room -= len(piece.data)
            if room <= 0 or len(pieces) == _MOST_PIECES:
                self._turn += step + 1
                break
        return pieces

    def stored(self, sent: SpooledPiece, segment: int, size: int, *, end: bool) -> None:
        """How far the scheduler has the output of a rank, after a piece of it was sent."""
        rank = self._ranks.get(sent.task)
        if rank is None:
            return
        if sent.data and (segment, size) == (sent.segment.number, sent.offset):
            self.refused(sent.task, f"segment {sent.segment.name} is no longer than {size} bytes")
            return
        rank.refused_at = 0.0
        rank.number = segment
        rank.offset = size
        if end and sent.end:
            rank.sent_at = time.monotonic()

    def drop_sent(self, keep_s: float) -> None:
        """Take away what was stored for so many seconds."""
        before = time.monotonic() - keep_s
        for rank in list(self._ranks.values()):
            rank.drop_sent(before)
            if 0 < rank.sent_at <= before:
                self._remove(rank)

    def rewind(self) -> None:
        """Begin again with the oldest that is here: whoever takes it says where to go on."""
        for rank in self._ranks.values():
            rank.rewind()

    def refused(self, task: TaskId, reason: str) -> None:
        """The scheduler does not take the output of a rank."""
        rank = self._ranks.get(task)
        if rank is None:
            return
        now = time.monotonic()
        if not rank.refused_at:
            log.warning("the output of %s is not taken: %s", task, reason)
            rank.refused_since = now
        rank.refused_at = now
        if now - rank.refused_since > _KEEP_REFUSED_S and self.ended(task):
            self._remove(rank)

    def _look(self) -> None:
        """Find what is new."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                with contextlib.suppress(ConfigError):
                    task = TaskId.parse(path.name)
                    real = task.job.isdigit() and path.is_dir() and not path.is_symlink()
                    if task not in self._ranks and real:
                        self._ranks[task] = _Rank(task, path)
        for task in [task for task, rank in self._ranks.items() if not rank.folder.is_dir()]:
            del self._ranks[task]
        if time.monotonic() - self._tidied_at > _TIDY_EVERY_S:
            self._tidied_at = time.monotonic()
            self._tidy()

    def _tidy(self) -> None:
        """Let the oldest go if tasks that have ended left more than there is room for."""
        ended = sorted((rank for rank in self._ranks.values() if self.ended(rank.task)), key=lambda r: r.task)
        sizes = [sum(size_of(rank.folder / s.name) for s in segments_in(rank.folder)) for rank in ended]
        total = sum(sizes)
        for rank, size in zip(ended, sizes, strict=True):
            if total <= _MOST_BYTES:
                return
            log.warning(
                "%d bytes of output of %s are removed: nobody took them, and there is too much", size, rank.task
            )
            self._remove(rank)
            total -= size

    def _remove(self, rank: _Rank) -> None:
        shutil.rmtree(rank.folder, ignore_errors=True)
        self._ranks.pop(rank.task, None)
