"""Output of jobs, beside the state file: agents upload it, users read it from here, whether their servers still live.

    FOLDER/JOB/tenant            whose it is
    FOLDER/JOB/EPOCH.RANK/       segments of one rank of an attempt, as its supervisor wrote them (`worker/frames.py`)
    FOLDER/JOB/EPOCH.RANK/done   there once all of it is here

What is too much goes: the oldest segments of a job beyond its bound, from the rank and attempt that has most; whole
jobs of a tenant beyond its bound, of the same tenant; those beyond the bound of all, from the tenant that has most;
what is too old, as the scheduler says (`expire`). One thread writes; any thread reads. The wall clock decides nothing:
it may be wrong.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rota.core.errors import OutputError
from rota.deploy.clocks import machine_s
from rota.deploy.scheduler.log_changes import LogChanges, Rank
from rota.deploy.scheduler.options import LogLimits
from rota.deploy.structured_logs import about
from rota.deploy.worker.frames import Segment, output_bytes, read_piece, segments_in, size_of

log = logging.getLogger(__name__)

_DONE = "done"
_TENANT = "tenant"
_LARGEST_SEGMENT = 64_000_000
_MOST_SEGMENTS = 10**9
_MOST_BYTES = 10**18
_ACTIVE_S = 60.0
"""A job whose output came within so many seconds is not removed as a whole."""
_ROOM = 0.9
"""What is too much is brought down to this part of its bound, so that it is not done for each piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes of a segment that an agent sends."""

    rank: Rank
    segment: Segment
    offset: int
    data: bytes
    end: bool = False
    """The process has ended, and this is the end of its output."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How far the output of a rank is here: number of its newest segment, size of that, whether it is complete."""

    segment: int
    size: int
    end: bool = False


@dataclass(slots=True)
class _JobLogs:
    tenant: str
    size: int = 0
    written_at: float = 0.0
    """By the clock of the archive; as it was found by that of the files."""


class StoredLogs:
    """What is there, for any thread. What is removed meanwhile reads as if it had not been there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, rank: Rank) -> Path:
        """The folder of one rank of an attempt."""
        job, epoch, number = rank
        return self.folder / str(job) / f"{epoch}.{number}"

    def known(self, rank: Rank) -> bool:
        """Whether anything was heard of its output, and not removed since."""
        return self.place(rank).is_dir()

    def complete(self, rank: Rank) -> bool:
        """Whether all of its output is here."""
        return (self.place(rank) / _DONE).exists()

    def segments(self, rank: Rank) -> list[Segment]:
        """The oldest first."""
        return segments_in(self.place(rank))

    def end_of(self, rank: Rank) -> Stored | None:
        """How far the output of a rank is here; None if there is nothing of it."""
        end = self.complete(rank)  # asked first: what comes meanwhile belongs to the next look
        segments = self.segments(rank)
        if not segments:
            return None
        newest = segments[-1]
        return Stored(newest.number, size_of(self.place(rank) / newest.name), end)

    def ranks(self) -> Iterator[Rank]:
        """All of which there is output, those of the oldest jobs first."""
        try:
            jobs = sorted(int(place.name) for place in self.folder.iterdir() if place.name.isdigit())
        except OSError:
            return
        for job in jobs:
            for place in _rank_folders(self.folder / str(job)):
                epoch, _, rank = place.name.partition(".")
                if epoch.isdigit() and rank.isdigit():
                    yield job, int(epoch), int(rank)

    def tenant(self, job: int) -> str:
        """Whose job it is, of which there is output."""
        with contextlib.suppress(OSError):
            return (self.folder / str(job) / _TENANT).read_text(encoding="utf-8")
        return "default"

    def read(self, rank: Rank, segment: Segment, offset: int, most: int) -> bytes:
        """Bytes of a segment; none at its end, or if it is gone."""
        return read_piece(self.place(rank) / segment.name, offset, most) or b""


class LogArchive(StoredLogs):
    """Takes pieces in and keeps the bounds. Used by one thread."""

    def __init__(
        self,
        folder: Path,
        limits: LogLimits,
        clock: Callable[[], float] = machine_s,
        tenant_bytes: Callable[[str], float] = lambda _: math.inf,
    ) -> None:
        """`tenant_bytes` says how much a tenant may have."""
        super().__init__(folder)
        self._limits = limits
        self._tenant_bytes = tenant_bytes
        self._held: Counter[str] = Counter()
        """Bytes by tenant."""
        self._clock = clock
        self._jobs: dict[int, _JobLogs] = {}
        self._newest: dict[Rank, tuple[Segment, int]] = {}
        """Newest segment and its size, of ranks that send."""
        self.size = 0
        """Bytes of all jobs."""
        self.changes = LogChanges()

    def open(self) -> None:
        """Look at what is there."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for place in self.folder.iterdir():
            if place.name.isdigit() and place.is_dir():
                self._jobs[int(place.name)] = _found(place)
        newest = max((logs.written_at for logs in self._jobs.values()), default=0.0)
        now = self._clock()
        for logs in self._jobs.values():
            self._held[logs.tenant] += logs.size
            logs.written_at = now - (newest - logs.written_at)  # who was silent longest, not by which clock
        self.size = sum(logs.size for logs in self._jobs.values())

    def store(self, piece: Piece, tenant: str) -> Stored:
        """Take a piece if it is the next one; where to go on from. Raises OutputError without room."""
        number = piece.segment.number
        newest, size = self._newest_of(piece.rank)
        if newest is not None and (number < newest.number or (number == newest.number and piece.segment != newest)):
            if piece.end and not piece.data:  # sent again, after what was stored was dropped
                (self.place(piece.rank) / _DONE).touch()
                self.changes.note(piece.rank)
            return Stored(newest.number, size, self.complete(piece.rank))
        size = size if piece.segment == newest else 0
        if piece.offset != size or not _possible(piece):
            return Stored(number, size)
        try:
            self._append(piece, size, tenant)
        except OSError as error:
            self._newest.pop(piece.rank, None)
            message = f"cannot keep the output of job {piece.rank[0]} in {self.folder}: {error.strerror or error}"
            raise OutputError(message) from error
        self.changes.note(piece.rank)
        self._keep_bounds(piece.rank[0])
        return Stored(number, size + len(piece.data), piece.end)

    def expire(self, over_for_long: Callable[[Sequence[int]], Iterable[int]]) -> None:
        """Remove the output of those of its jobs of which this says that they are over for long enough."""
        for job in over_for_long(list(self._jobs)):
            self._remove(job)

    # Inside

    def _newest_of(self, rank: Rank) -> tuple[Segment | None, int]:
        if rank not in self._newest:
            segments = self.segments(rank)
            if not segments:
                return None, 0
            self._newest[rank] = (segments[-1], size_of(self.place(rank) / segments[-1].name))
        return self._newest[rank]

    def _append(self, piece: Piece, size: int, tenant: str) -> None:
        place = self.place(piece.rank)
        logs = self._jobs.get(piece.rank[0])
        if logs is None or not place.is_dir():
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            (place.parent / _TENANT).write_text(tenant, encoding="utf-8")
            logs = self._jobs.setdefault(piece.rank[0], _JobLogs(tenant))
        self._check_room(len(piece.data))
        _append(place / piece.segment.name, piece.data, size)
        self._count(logs, len(piece.data))
        logs.written_at = self._clock()
        self._newest[piece.rank] = (piece.segment, size + len(piece.data))
        if piece.end:
            (place / _DONE).touch()
            del self._newest[piece.rank]

    def _check_room(self, more: int) -> None:
        """Old output makes room for new one; if that is not enough, somebody else fills the disk."""
        wanted = self._limits.least_free_bytes + more
        lacking = wanted - shutil.disk_usage(self.folder).free
        if 0 < lacking <= self.size:
            self._shrink_all(self.size - lacking)
            lacking = wanted - shutil.disk_usage(self.folder).free
        if lacking > 0:
            raise OSError(0, f"less than {self._limits.least_free_bytes:,} bytes are free on its disk")

    def _keep_bounds(self, job: int) -> None:
        if self._jobs[job].size > self._limits.job_bytes:
            self._shrink(job, int(self._limits.job_bytes * _ROOM))
        tenant = self._jobs[job].tenant
        limit = self._tenant_bytes(tenant)
        if self._held[tenant] > limit:
            while self._held[tenant] > limit * _ROOM and self._take_from(tenant):
                pass
        if self.size > self._limits.total_bytes:
            self._shrink_all(int(self._limits.total_bytes * _ROOM))

    def _shrink_all(self, goal: int) -> None:
        """Take from the tenant that has most."""
        while self._jobs and self.size > goal:
            if not self._take_from(max(self._held, key=lambda name: self._held[name])):
                return

    def _take_from(self, tenant: str) -> bool:
        """Drop the job of a tenant that was silent longest, else part of its largest one; whether there was any."""
        theirs = {number: logs for number, logs in self._jobs.items() if logs.tenant == tenant}
        oldest = min(theirs, key=lambda number: theirs[number].written_at)
        if theirs[oldest].written_at < self._clock() - _ACTIVE_S:
            self._remove(oldest)
            return True
        largest = max(theirs, key=lambda number: theirs[number].size)
        before = theirs[largest].size
        return self._shrink(largest, before // 2) < before

    def _count(self, logs: _JobLogs, more: int) -> None:
        logs.size += more
        self.size += more
        self._held[logs.tenant] += more

    def _shrink(self, job: int, goal: int) -> int:
        """Drop the oldest segments of whatever rank has most, but the one that is written; what is left, in bytes."""
        logs = self._jobs[job]
        ranks = {place: _sizes(place) for place in _rank_folders(self.folder / str(job))}
        while logs.size > goal:
            ready = [place for place, sizes in ranks.items() if len(sizes) > 1 or (sizes and (place / _DONE).exists())]
            if not ready:
                break
            place = max(ready, key=lambda one: sum(ranks[one].values()))
            oldest = min(ranks[place])
            dropped = ranks[place].pop(oldest)
            self._count(logs, -dropped)
            if not ranks[place]:
                _leave_count(place, oldest)
            (place / oldest.name).unlink(missing_ok=True)
        return logs.size

    def _remove(self, job: int) -> None:
        logs = self._jobs.pop(job)
        log.info("the output of job %d (%d bytes) is not kept any more", job, logs.size, extra=about(job=job))
        self._count(logs, -logs.size)
        for rank in [rank for rank in self._newest if rank[0] == job]:
            del self._newest[rank]
        self.changes.forget(job)
        shutil.rmtree(self.folder / str(job), ignore_errors=True)


def _possible(piece: Piece) -> bool:
    """Whether a segment can be so: nobody makes larger ones."""
    fits = 0 <= piece.segment.number < _MOST_SEGMENTS and 0 <= piece.segment.before < _MOST_BYTES
    return fits and piece.offset + len(piece.data) <= _LARGEST_SEGMENT


def _append(path: Path, data: bytes, size: int) -> None:
    """Add bytes to a file, all or none."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if os.write(handle, data) != len(data):
            os.ftruncate(handle, size)
            raise OSError(0, "its disk is full")
    finally:
        os.close(handle)


def _rank_folders(place: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from sorted(path for path in place.iterdir() if path.is_dir())


def _sizes(place: Path) -> dict[Segment, int]:
    """Segments with something in them."""
    sizes = {segment: size_of(place / segment.name) for segment in segments_in(place)}
    return {segment: size for segment, size in sizes.items() if size}


def _leave_count(place: Path, last: Segment) -> None:
    """An empty segment in the place of the last one: its name says how much there was."""
    data = read_piece(place / last.name, 0, _LARGEST_SEGMENT) or b""
    (place / Segment(last.number + 1, last.before + output_bytes(data)).name).touch()


def _found(place: Path) -> _JobLogs:
    """What is there of a job."""
    logs = _JobLogs(StoredLogs(place.parent).tenant(int(place.name)))
    for folder in _rank_folders(place):
        for segment in segments_in(folder):
            with contextlib.suppress(OSError):
                state = (folder / segment.name).stat()
                logs.size += state.st_size
                logs.written_at = max(logs.written_at, state.st_mtime)
    with contextlib.suppress(OSError):
        logs.written_at = max(logs.written_at, place.stat().st_mtime)
    return logs


@dataclass(slots=True)
class Pacing:
    """Lets so many bytes per second in, from all agents together."""

    bytes_per_s: float
    _free_at: float = field(default=0.0)

    def pause_s(self, size: int, now: float) -> float:
        """Seconds to wait after so many bytes before the next ones."""
        self._free_at = max(self._free_at, now) + size / self.bytes_per_s
        return self._free_at - now
