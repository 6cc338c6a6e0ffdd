"""One user's look at the output of a job: its attempts one after the other, as far as their output has come, on and on.

Everything is read from the archive, in pieces, by threads that do nothing else; no agent is asked. What is sent are
frames as they are on disk: the caller takes them apart.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from rota.core.lifecycle import AttemptOutcome, JobPhase
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.log_archive import StoredLogs
from rota.deploy.scheduler.log_changes import Rank
from rota.deploy.scheduler.records import AttemptRecord, Job
from rota.deploy.scheduler.requests import Refused
from rota.deploy.server.logs import LogService
from rota.deploy.server.messages import attempt_message
from rota.deploy.waiting import happens
from rota.deploy.worker.frames import FrameReader, Segment, first_time
from rota.rpc import rota_pb2 as pb

_PIECE = 256 * 1024
_PIECES_AT_ONCE = 16
"""Of one rank, before it is the turn of the next one."""
_MOST_LINES = 10_000_000
_MOST_POSITIONS = 10_000
_MOST_NUMBER = 2**31 - 1
_LATE_S = 10.0
"""Seconds that output of an attempt which has ended may take to come, after its end or after the last piece."""
_LOOK_S = 1.0
"""Seconds between two looks at the job, if nothing comes."""
_TURN_S = 0.1
"""Seconds between two turns at least: output is sent together."""

Position = tuple[int, int]
"""(number of a segment, bytes of it that were sent)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuestion:
    """What a user wants to read."""

    job: int
    rank: int | None
    """None: all ranks."""
    attempt: int
    """0: all."""
    follow: bool
    tail: int
    since: float
    framed: bool
    after: dict[tuple[int, int], Position]
    """What the user has, by attempt and rank."""


def question_of(request: pb.LogsRequest) -> LogQuestion:
    """A request with numbers that can be; else Refused."""
    _check("rank", request.rank, _MOST_NUMBER)
    _check("attempt", request.attempt, _MOST_NUMBER)
    _check("tail", request.tail, _MOST_LINES)
    if not (math.isfinite(request.since) and request.since >= 0):
        raise Refused("INVALID_ARGUMENT", f"since is {request.since}; give seconds since 1970")
    _check("number of positions", len(request.after), _MOST_POSITIONS)
    for position in request.after:
        for name in ("attempt", "rank", "segment", "offset"):
            _check(f"{name} of a position", getattr(position, name), 2**62)
    return LogQuestion(
        job=request.job,
        rank=None if request.all_ranks else request.rank,
        attempt=request.attempt,
        follow=request.follow,
        tail=request.tail,
        since=request.since,
        framed=request.framed,
        after={(p.attempt, p.rank): (p.segment, p.offset) for p in request.after},
    )


def _check(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise Refused("INVALID_ARGUMENT", f"{name} is {value}; give a whole number from 0 to {most:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What is known of a job, at one moment."""

    job: int
    attempts: tuple[AttemptRecord, ...]
    phase: JobPhase
    over: bool
    reason: str
    exit_code: int
    emulated: bool
    now: float
    """Engine seconds."""


def facts_of(job: Job, now: float) -> JobFacts:
    """Called by the owner."""
    return JobFacts(
        job=job.id,
        attempts=job.attempts,
        phase=job.phase,
        over=job.over and job.attempt is None,
        reason=job.reason,
        exit_code=job.exit_code,
        emulated=job.spec.emulated,
        now=now,
    )


def check_facts(question: LogQuestion, facts: JobFacts) -> None:
    """Refused if there is nothing such to read, now or ever."""
    if facts.emulated:
        raise Refused("NOT_FOUND", f"job {facts.job} has no output: it is an emulated job")
    if not facts.attempts:
        if question.follow and not facts.over and not question.attempt:
            return
        raise Refused("FAILED_PRECONDITION", f"job {facts.job} has not run yet ({facts.phase.value})")
    numbers = [record.epoch for record in facts.attempts]
    if question.attempt and question.attempt not in numbers:
        known = f"attempt {numbers[0]}" if len(numbers) == 1 else f"attempts {numbers[0]} to {numbers[-1]}"
        raise Refused("NOT_FOUND", f"job {facts.job} has no attempt {question.attempt}; there is output of {known}")
    ranks = max(record.ranks for record in _chosen(question, facts.attempts))
    if question.rank is not None and question.rank >= ranks:
        known = "one process, rank 0" if ranks == 1 else f"ranks 0 to {ranks - 1}"
        raise Refused("NOT_FOUND", f"job {facts.job} has no rank {question.rank}; it has {known}")


def _chosen(question: LogQuestion, attempts: Iterable[AttemptRecord]) -> list[AttemptRecord]:
    return [record for record in attempts if question.attempt in (0, record.epoch)]


def _ranks(question: LogQuestion, record: AttemptRecord) -> list[int]:
    if question.rank is None:
        return list(range(record.ranks))
    return [question.rank] if question.rank < record.ranks else []


@dataclass(kw_only=True)
class LogReading:
    """Sends the output of a job to one user."""

    question: LogQuestion
    logs: LogService
    clock: WallClock
    ask: Callable[[], Awaitable[JobFacts]]
    """How the job is now."""
    _positions: dict[tuple[int, int], Position] = field(default_factory=dict)
    _plain: dict[tuple[int, int], FrameReader] = field(default_factory=dict)
    _first: int = 0
    """Attempts before this one were sent, or are not asked for."""
    _begun: int = 0
    """The last attempt that was announced."""
    _more: bool = False
    _progress_at: float = -math.inf
    """Monotonic seconds when something was sent last."""

    async def chunks(self) -> AsyncGenerator[pb.LogChunk, None]:
        """The output, until its end or that of the caller's patience."""
        facts = await self.ask()
        check_facts(self.question, facts)
        await self._find_start(facts)
        while True:
            news = self.logs.news(self.question.job)
            began = time.monotonic()
            self._more = False
            async for chunk in self._turn(facts):
                yield chunk
            if not self._more:
                yield pb.LogChunk(caught_up=True)
                if self._finished(facts):
                    break
                await self._wait(news, began)
            facts = await self.ask()
        if self.question.follow:
            outcome = pb.LogOutcome(phase=facts.phase.value, reason=facts.reason, exit_code=facts.exit_code)
            yield pb.LogChunk(outcome=outcome)
        yield pb.LogChunk(end=True)

    async def _wait(self, news: asyncio.Event, began: float) -> None:
        await asyncio.sleep(max(0.0, began + _TURN_S - time.monotonic()))
        await happens(news, _LOOK_S)

    def _left(self, facts: JobFacts) -> list[AttemptRecord]:
        """Attempts that were not sent to their end."""
        return [record for record in _chosen(self.question, facts.attempts) if record.epoch >= self._first]

    def _finished(self, facts: JobFacts) -> bool:
        left = self._left(facts)
        if self.question.follow:
            return not left and (facts.over or bool(self.question.attempt))
        return not any(record.outcome for record in left)

    # One turn

    async def _turn(self, facts: JobFacts) -> AsyncGenerator[pb.LogChunk, None]:
        """What is there now: of attempts that have ended all, of the one that runs as far as it is."""
        for record in self._left(facts):
            if record.epoch > self._begun:
                self._begun = record.epoch
                yield pb.LogChunk(begins=self._attempt(record, facts))
            complete = await self.logs.read(partial(self._complete, record))
            for rank in _ranks(self.question, record):
                async for chunk in self._pieces((self.question.job, record.epoch, rank)):
                    yield chunk
            if self._more or not record.outcome or not (complete or self._too_late(record, facts)):
                return
            self._first = record.epoch + 1
            yield pb.LogChunk(ends=self._attempt(record, facts))

    def _complete(self, record: AttemptRecord) -> bool:
        """Asked before reading: what comes later belongs to the next turn."""
        ranks = _ranks(self.question, record)
        return all(self.logs.archive.complete((self.question.job, record.epoch, rank)) for rank in ranks)

    def _too_late(self, record: AttemptRecord, facts: JobFacts) -> bool:
        """Whether what is missing of an attempt that has ended is not waited for."""
        if record.outcome == AttemptOutcome.LOST.value:
            return True
        ended_for = self.clock.wall_seconds(facts.now - record.ended)
        return ended_for > _LATE_S and time.monotonic() - self._progress_at > _LATE_S

    async def _pieces(self, rank: Rank) -> AsyncGenerator[pb.LogChunk, None]:
        key = rank[1:]
        for _ in range(_PIECES_AT_ONCE):
            position = self._positions.get(key, (0, 0))
            found = await self.logs.read(partial(next_piece, self.logs.archive, rank, position))
            if found is None:
                return
            segment, offset, data = found
            self._positions[key] = (segment.number, offset + len(data))
            self._progress_at = time.monotonic()
            yield self._chunk(rank, segment, offset, data)
        self._more = True

    def _chunk(self, rank: Rank, segment: Segment, offset: int, data: bytes) -> pb.LogChunk:
        if not self.question.framed:
            if offset == 0:
                self._plain[rank[1:]] = FrameReader()
            frames = self._plain.setdefault(rank[1:], FrameReader()).feed(data)
            return pb.LogChunk(data=b"".join(frame.data for frame in frames))
        return pb.LogChunk(
            attempt=rank[1], rank=rank[2], segment=segment.number, before=segment.before, offset=offset, data=data
        )

    def _attempt(self, record: AttemptRecord, facts: JobFacts) -> pb.LogAttempt:
        return attempt_message(record, self.clock, facts.attempts[-1].epoch)

    # Where to begin

    async def _find_start(self, facts: JobFacts) -> None:
        question = self.question
        if question.after:
            self._positions = dict(question.after)
            self._first = max(attempt for attempt, _ in question.after)
            self._begun = self._first
        elif question.tail or question.since:
            attempts = _chosen(question, facts.attempts)
            search = partial(find_start, self.logs.archive, question, attempts)
            self._positions, self._first = await self.logs.read(search)


def next_piece(stored: StoredLogs, rank: Rank, position: Position) -> tuple[Segment, int, bytes] | None:
    """Segment, offset and bytes behind a position; None if there is nothing yet."""
    number, offset = position
    for segment in stored.segments(rank):
        if segment.number < number:
            continue
        at = offset if segment.number == number else 0
        data = stored.read(rank, segment, at, _PIECE)
        if data or segment.number > number:  # an empty one says by its name how much is missing
            return segment, at, data
    return None


def find_start(
    stored: StoredLogs, question: LogQuestion, attempts: list[AttemptRecord]
) -> tuple[dict[tuple[int, int], Position], int]:
    """Positions by attempt and rank, and the first attempt: from there on is all that a tail or a time asks for."""
    positions: dict[tuple[int, int], Position] = {}
    first = 0
    lines = 0
    for record in reversed(attempts):
        for rank in _ranks(question, record):
            place = (question.job, record.epoch, rank)
            start, found = _start_of(stored, place, question)
            positions[record.epoch, rank] = (start, 0)
            lines += found
        if question.tail and lines > question.tail:
            first = record.epoch
            break
    return positions, first


def _start_of(stored: StoredLogs, rank: Rank, question: LogQuestion) -> tuple[int, int]:
    """Number of the segment of a rank to begin with, and the lines from there on, as far as they are counted."""
    start = 0
    lines = 0
    for segment in reversed(stored.segments(rank)):
        start = segment.number
        if question.tail:
            lines += stored.read(rank, segment, 0, 1 << 26).count(b"\n")
            if lines > question.tail:
                break
        if question.since and 0 < first_time(stored.place(rank) / segment.name) < question.since:
            break
    return start, lines
