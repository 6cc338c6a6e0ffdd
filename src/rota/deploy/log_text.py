"""Output of jobs for people: headings between attempts, lines with times and ranks, nothing that drives a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rota.core.control_characters import NO_COLOUR, has_colours, visible
from rota.deploy.log_feed import AttemptBegins, AttemptEnds, LogItem, Missing, Output
from rota.rpc import rota_pb2 as pb


def printable(data: bytes, *, colours: bool = False) -> bytes:
    """Output that a terminal shows and does not obey: `^[` in the place of an escape, and so on."""
    return visible(data.decode("utf-8", "replace"), colours=colours).encode("utf-8", "replace")


def stamp(at: float) -> str:
    """Local time of a line, to the millisecond."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
    return f"{whole}.{int(at * 1000) % 1000:03d}"


def heading(job: int, rank: int | None, info: pb.LogAttempt) -> str:
    """Said before the output of an attempt."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.started_at))
    return f"==> job {job}, attempt {info.attempt}, {_where(rank, info)}, started {when}"


def _where(rank: int | None, info: pb.LogAttempt) -> str:
    if rank is None:
        return "; ".join(_ranks(place) for place in info.places)
    node = next((p.node for p in info.places if 0 <= rank - p.first_rank < p.ranks), None)
    return f"rank {rank} on {node}" if node is not None else f"rank {rank}: it had none"


def _ranks(place: pb.LogPlace) -> str:
    last = place.first_rank + place.ranks - 1
    return f"rank {last} on {place.node}" if place.ranks == 1 else f"ranks {place.first_rank} to {last} on {place.node}"


def ending(info: pb.LogAttempt) -> str:
    """Said after the output of an attempt."""
    why = f" ({info.stop_reason})" if info.stop_reason else ""
    code = f", exit code {info.exit_code}" if info.exit_code else ""
    detail = f": {info.detail}" if info.detail else ""
    seconds = max(0.0, info.ended_at - info.started_at)
    return f"<== attempt {info.attempt} {info.outcome}{why}{code} after {seconds:,.1f} s{detail}"


@dataclass(kw_only=True)
class LogText:
    """Writes items as text."""

    job: int
    rank: int | None
    """None: all, and every line begins with its rank."""
    write: Callable[[bytes], None]
    timestamps: bool = False
    headings: bool = True
    raw: bool = True
    """Bytes as they are; else what would drive a terminal is shown instead, all but colours."""
    _at_start: bool = True
    _shown: bool = False
    _coloured: bool = False
    """Whether output since the last line of ours may have left a colour behind."""
    _pending: pb.LogAttempt | None = field(default=None)
    """An attempt that has ended, if nobody was told yet."""

    def show(self, items: Iterable[LogItem]) -> None:
        """All of them, one after the other."""
        for item in items:
            self.show_one(item)

    def show_one(self, item: LogItem) -> None:
        """One of them."""
        if isinstance(item, Output):
            self._put(self._prefix(item) + (item.data if self.raw else self._tame(item.data)))
        elif isinstance(item, Missing):
            of = f" of rank {item.rank}" if self.rank is None else ""
            self._say(f"... {item.size:,} bytes{of} are missing here: there was more output than is kept")
        elif isinstance(item, AttemptBegins):
            self._begin(item.info)
        elif isinstance(item, AttemptEnds):
            self._end(item.info)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._coloured:
            self.write(NO_COLOUR.encode())
            self._coloured = False

    def _tame(self, data: bytes) -> bytes:
        shown = printable(data, colours=True)
        self._coloured = self._coloured or has_colours(shown.decode())
        return shown

    def _prefix(self, item: Output) -> bytes:
        at = f"{stamp(item.at)} " if self.timestamps else ""
        rank = f"{item.rank}: " if self.rank is None else ""
        return (at + rank).encode()

    def _begin(self, info: pb.LogAttempt) -> None:
        """The only attempt of a job needs no heading; when a second one begins, both do."""
        again = self._pending is not None
        if self._pending is not None:
            self._say(ending(self._pending))
            self._pending = None
        self._shown = self.headings and (again or info.last > 1)
        if self._shown:
            self._say(heading(self.job, self.rank, info))

    def _end(self, info: pb.LogAttempt) -> None:
        if self._shown:
            self._say(ending(info))
        elif self.headings:
            self._pending = info

    def _say(self, text: str) -> None:
        """A line of ours, at the start of a line."""
        self.close()
        shown = printable(text.encode())
        self._put(shown + b"\n" if self._at_start else b"\n" + shown + b"\n")

    def _put(self, data: bytes) -> None:
        if data:
            self.write(data)
            self._at_start = data.endswith(b"\n")
