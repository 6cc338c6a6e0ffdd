"""The output of a process on disk: frames, each with a time and a stream, in segments.

The supervisor (`shim.py`) writes a frame for each piece of output that it reads: 13 hexadecimal
digits of microseconds since 1970, `o` or `e` for standard output or error, 5 hexadecimal digits of
length, then so many bytes as they came. A segment is a file of frames named NUMBER-BEFORE; BEFORE
is the output in all segments before it in bytes, so what is missing between two segments can be
counted without reading them. Headers hold no line feed: lines can be counted without reading
frames.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEADER_BYTES = 19
STDOUT = "o"
STDERR = "e"
_HEADER = re.compile(rb"([0-9a-f]{13})([oe])([0-9a-f]{5})")
_NAME = re.compile(r"([0-9]{6,9})-([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of output: when its supervisor read it (seconds since 1970), and from where."""

    at: float
    stream: str
    data: bytes


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One file of the output of a process."""

    number: int
    before: int
    """Bytes of output in all segments before it."""

    @property
    def name(self) -> str:
        """As a file."""
        return f"{self.number:06d}-{self.before}"


def segment_named(name: str) -> Segment | None:
    """The segment of a file name; None if it is none."""
    found = _NAME.fullmatch(name)
    return None if found is None else Segment(int(found[1]), int(found[2]))


def segments_in(folder: Path) -> list[Segment]:
    """Segments of a folder, the oldest first; none if the folder is not there."""
    try:
        found = [segment_named(name) for name in os.listdir(folder)]  # noqa: PTH208 - often called
    except OSError:
        return []
    return sorted(segment for segment in found if segment is not None)


def read_piece(path: Path, offset: int, most: int) -> bytes | None:
    """Bytes of a segment; None if it is gone or no plain file: a job may write to its folder."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return os.pread(handle, most, offset)
    except OSError:
        return None
    finally:
        os.close(handle)


def size_of(path: Path) -> int:
    """Bytes of a file; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


class FrameReader:
    """Makes frames of the bytes of one segment, which may come in any pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self.broken = False
        """The bytes are no frames: what follows in this segment cannot be read."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Frames that are whole with these bytes."""
        data = self._rest + data
        at = 0
        while not self.broken and len(data) - at >= HEADER_BYTES:
            header = _HEADER.fullmatch(data, at, at + HEADER_BYTES)
            if header is None:
                self.broken = True
                break
            end = at + HEADER_BYTES + int(header[3], 16)
            if end > len(data):
                break
            yield Frame(int(header[1], 16) / 1e6, header[2].decode(), data[at + HEADER_BYTES : end])
            at = end
        self._rest = b"" if self.broken else data[at:]


def output_bytes(data: bytes) -> int:
    """Bytes of output in the whole frames of a segment."""
    return sum(len(frame.data) for frame in FrameReader().feed(data))


def first_time(path: Path) -> float:
    """When the first frame of a segment was written, seconds since 1970; 0 if there is none."""
    header = _HEADER.fullmatch(read_piece(path, 0, HEADER_BYTES) or b"")
    return 0.0 if header is None else int(header[1], 16) / 1e6
