"""A trace file that was read but not understood yet."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rota.core import packed
from rota.core.errors import ConfigError
from rota.workloads.problems import Problems

LONGEST_LOOK = 100_000
"""Characters of the first line that are shown to formats: JSON may be one line of many
megabytes."""

UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How files begin that some shells and spreadsheets write."""


@dataclass(frozen=True)
class TraceFile:
    """What a reader gets: the bytes, already decompressed, and where to say what is wrong."""

    path: str
    data: bytes
    problems: Problems

    @cached_property
    def text(self) -> str:
        """The file as text."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            raise _unreadable(self.path, problem) from None

    @cached_property
    def first_line(self) -> tuple[int, str]:
        """The first line that is not blank, cut short if it is very long, and its number.

        Empty if there is none.
        """
        start = self.data[: 4 * LONGEST_LOOK].decode("utf-8-sig", errors="replace")
        if not start.strip():
            start = self.text
        numbered = ((n, line) for n, line in enumerate(start.split("\n"), 1) if line.strip())
        number, first = next(numbered, (1, ""))
        return number, first[:LONGEST_LOOK].rstrip("\r")


def opened(path: str | Path, problems: Problems) -> TraceFile:
    """A file, compressed with gzip or not. Raises ConfigError if it cannot be read."""
    try:
        unpacked = packed.read_bytes(path)
        if unpacked[:2] in UTF_16_MARKS:
            unpacked = unpacked.decode("utf-16").encode()
        return TraceFile(str(path), unpacked, problems)
    except (*packed.DAMAGED, UnicodeDecodeError) as problem:
        raise _unreadable(str(path), problem) from None


def _unreadable(path: str, problem: Exception) -> ConfigError:
    fix = "save it as UTF-8" if isinstance(problem, UnicodeDecodeError) else "check the path and the file"
    return ConfigError(f"cannot read trace {path!r}: {problem}; {fix}")
