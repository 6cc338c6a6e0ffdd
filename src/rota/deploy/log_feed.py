"""What a user reads of a job's output: from messages of the scheduler to pieces with attempt, rank, time and stream.

Knows how far it came, so that a follower goes on after its line broke, and what is missing on the way.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from rota.deploy.worker.frames import STDERR, STDOUT, FrameReader
from rota.rpc import rota_pb2 as pb

__all__ = ["STDERR", "STDOUT"]

_LONGEST_LINE = 65536
"""Bytes after which a line is passed on in parts."""

Key = tuple[int, int]
"""(attempt, rank)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """What is to be read of a job."""

    job: int
    rank: int | None = 0
    """None: all ranks."""
    attempt: int = 0
    """0: all."""
    follow: bool = False
    tail: int = 0
    """Lines from the end; 0: all."""
    since: float = 0.0
    """Seconds since 1970."""
    streams: str = STDOUT + STDERR


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A piece of output."""

    attempt: int
    rank: int
    at: float
    """When it was read from the process, seconds since 1970, by the clock of its server."""
    stream: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Output that was dropped: there was too much of it."""

    attempt: int
    rank: int
    size: int


@dataclass(frozen=True, slots=True)
class AttemptBegins:
    """What follows is of this attempt."""

    info: pb.LogAttempt


@dataclass(frozen=True, slots=True)
class AttemptEnds:
    """That was all of this attempt."""

    info: pb.LogAttempt


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that was there was passed on."""


@dataclass(frozen=True, slots=True)
class JobOver:
    """How the job ended; only for followers."""

    outcome: pb.LogOutcome


LogItem: TypeAlias = Output | Missing | AttemptBegins | AttemptEnds | CaughtUp | JobOver


@dataclass(slots=True)
class _RankState:
    """How far the output of a rank was read."""

    segment: int = -1
    offset: int = 0
    output: int = 0
    """Bytes of output up to here, dropped ones included."""
    reader: FrameReader = field(default_factory=FrameReader)


class LogFeed:
    """Turns messages into items, over as many calls as it takes."""

    def __init__(self, query: LogQuery) -> None:
        self._query = query
        self._ranks: dict[Key, _RankState] = {}
        self._begun = 0
        self._ended = 0
        self.over = False
        """Whether the scheduler said that nothing follows."""

    def request(self) -> pb.LogsRequest:
        """What to ask for next: all that was not read yet."""
        query = self._query
        # Lines of one stream, or from a time on, are counted here.
        tail = query.tail if query.streams == STDOUT + STDERR and not query.since else 0
        last = max((attempt for attempt, _ in self._ranks), default=0)
        return pb.LogsRequest(
            job=query.job,
            rank=query.rank or 0,
            all_ranks=query.rank is None,
            attempt=query.attempt,
            follow=query.follow,
            tail=0 if self._ranks else tail,
            since=query.since,
            framed=True,
            after=[
                pb.LogPosition(attempt=attempt, rank=rank, segment=max(state.segment, 0), offset=state.offset)
                for (attempt, rank), state in self._ranks.items()
                if attempt == last
            ],
        )

    def items(self, chunks: Iterable[pb.LogChunk]) -> Iterator[LogItem]:
        """What the messages of one call say."""
        for chunk in chunks:
            self.over = chunk.end
            if chunk.HasField("begins") and chunk.begins.attempt > self._begun:
                self._begun = chunk.begins.attempt
                yield AttemptBegins(chunk.begins)
            elif chunk.HasField("ends") and chunk.ends.attempt > self._ended:
                self._ended = chunk.ends.attempt
                yield AttemptEnds(chunk.ends)
            elif chunk.HasField("outcome"):
                yield JobOver(chunk.outcome)
            elif chunk.caught_up:
                yield CaughtUp()
            elif chunk.attempt:
                yield from self._output(chunk)

    def _output(self, chunk: pb.LogChunk) -> Iterator[LogItem]:
        key = (chunk.attempt, chunk.rank)
        known = self._ranks.get(key)
        state = known or self._ranks.setdefault(key, _RankState())
        if chunk.segment != state.segment:
            state.segment = chunk.segment
            state.reader = FrameReader()
            skipped = known is None and bool(self._query.tail or self._query.since)  # not asked for, so not missing
            missing = 0 if skipped else chunk.before - state.output
            state.output = chunk.before
            if missing > 0:
                yield Missing(attempt=chunk.attempt, rank=chunk.rank, size=missing)
        state.offset = chunk.offset + len(chunk.data)
        for frame in state.reader.feed(chunk.data):
            state.output += len(frame.data)
            if frame.stream in self._query.streams and frame.at >= self._query.since:
                yield Output(attempt=chunk.attempt, rank=chunk.rank, at=frame.at, stream=frame.stream, data=frame.data)


def merged(items: Iterable[LogItem]) -> Iterator[LogItem]:
    """Output of several ranks in the order of its times, as far as it came together."""
    waiting: dict[int, list[Output]] = {}
    for item in items:
        if isinstance(item, Output):
            waiting.setdefault(item.rank, []).append(item)
            continue
        yield from heapq.merge(*waiting.values(), key=lambda output: output.at)
        waiting.clear()
        yield item
    yield from heapq.merge(*waiting.values(), key=lambda output: output.at)


def lines_of(items: Iterable[LogItem]) -> Iterator[LogItem]:
    """Output line by line; a line has the time of its first part. Parts of lines wait for their ends."""
    parts: dict[tuple[int, str], Output] = {}
    for item in items:
        if isinstance(item, Output):
            yield from _lines(item, parts)
            continue
        if isinstance(item, AttemptEnds | AttemptBegins | JobOver):
            yield from _all(parts)
        yield item
    yield from _all(parts)


def _lines(item: Output, parts: dict[tuple[int, str], Output]) -> Iterator[Output]:
    key = (item.rank, item.stream)
    before = parts.pop(key, None)
    whole = item if before is None else replace(before, data=before.data + item.data)
    for number, line in enumerate(_split(whole.data)):
        at = whole.at if number == 0 else item.at
        if line.endswith(b"\n") or len(line) >= _LONGEST_LINE:
            yield replace(whole, at=at, data=line)
        else:
            parts[key] = replace(whole, at=at, data=line)


def _split(data: bytes) -> list[bytes]:
    """At line feeds alone: progress bars return to the start of a line without ending it."""
    pieces = data.split(b"\n")
    return [piece + b"\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _all(parts: dict[tuple[int, str], Output]) -> Iterator[Output]:
    yield from parts.values()
    parts.clear()


def last_lines(items: Iterable[LogItem], number: int, *, follow: bool) -> Iterator[LogItem]:
    """The last lines of what is there, with the heading of their attempt; to a follower then all that comes."""
    source = iter(items)
    kept: deque[LogItem] = deque()
    heading: LogItem | None = None
    lines = 0
    for item in source:
        if follow and isinstance(item, CaughtUp):
            break
        kept.append(item)
        lines += isinstance(item, Output)
        while lines > number:
            gone = kept.popleft()
            lines -= isinstance(gone, Output)
            heading = gone if isinstance(gone, AttemptBegins) else heading
    if heading is not None and not (kept and isinstance(kept[0], AttemptEnds)):
        yield heading
    yield from kept
    yield from source
