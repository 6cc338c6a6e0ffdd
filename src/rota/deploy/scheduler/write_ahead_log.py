"""Whether the write-ahead log of a state file is damaged in the middle.

SQLite reads the log up to the first frame whose checksum is wrong, and takes that for its end, as it is after a power
cut in the middle of a commit. If commits stand behind such a frame, it was no power cut: every commit is synced before
the next one is written. So what SQLite would forget without a word is found here. The format is that of
https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = 32
_FRAME = 24
_MAGIC = 0x377F0682
_WORD = 0xFFFFFFFF


def damage(state: Path) -> str:
    """What is wrong with the log beside a state file, for people; empty: nothing that can be known."""
    try:
        data = Path(f"{state}-wal").read_bytes()
    except OSError:
        return ""
    if len(data) <= _HEADER:
        return ""
    magic, _, page_bytes, _ = struct.unpack(">4I", data[:16])
    if magic & ~1 != _MAGIC or _checksum(data[:24], (0, 0), magic) != struct.unpack(">2I", data[24:32]):
        return f"{state}-wal: its header is damaged, so nothing that it holds can be read"
    return _damaged_frame(state, data, page_bytes, magic)


def _damaged_frame(state: Path, data: bytes, page_bytes: int, magic: int) -> str:
    """The first frame that is wrong although commits of the same log stand behind it."""
    salt = data[16:24]
    sums = struct.unpack(">2I", data[24:32])
    size = _FRAME + page_bytes
    starts = range(_HEADER, len(data) - size + 1, size)
    for number, start in enumerate(starts):
        frame = data[start : start + size]
        sums = _checksum(frame[:8], sums, magic)
        sums = _checksum(frame[_FRAME:], sums, magic)
        if frame[8:16] == salt and sums == struct.unpack(">2I", frame[16:24]):
            continue
        behind = sum(data[s + 8 : s + 16] == salt and data[s + 4 : s + 8] != bytes(4) for s in starts[number:])
        if behind < 2:  # the last commit alone may have been cut off by a power cut
            return ""
        return f"{state}-wal: frame {number + 1} is damaged, so {behind} commits from there on cannot be read"
    return ""


def _checksum(data: bytes, sums: tuple[int, int], magic: int) -> tuple[int, int]:
    words = struct.unpack(f"{'>' if magic & 1 else '<'}{len(data) // 4}I", data)
    first, second = sums
    for i in range(0, len(words), 2):
        first = (first + words[i] + second) & _WORD
        second = (second + words[i + 1] + first) & _WORD
    return first, second
