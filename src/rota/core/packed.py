"""Compressed files, with a limit on what comes out of them: a megabyte may hold ten gigabytes.

The limit is for one file, in MB (10^6 bytes); `ROTA_MAX_UNPACKED_MB` in the environment, or `rota --max-unpacked-mb`,
sets another one. Files that are read line by line have it for each line.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from rota.core.errors import ConfigError

VARIABLE = "ROTA_MAX_UNPACKED_MB"
USUAL_MB = 256.0
MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip file."""
DAMAGED = (OSError, EOFError, zlib.error)
"""What reading a compressed file may raise."""
_GZIP = 16
"""Added to the window: the header is that of gzip."""


def most_bytes() -> int:
    """How much may come out of one file. Raises ConfigError if the environment says nonsense."""
    text = os.environ.get(VARIABLE) or str(USUAL_MB)
    try:
        megabytes = float(text)
    except ValueError:
        megabytes = 0.0
    if not 0 < megabytes < 1e9:
        raise ConfigError(f"{VARIABLE} is {text!r}; give a number of MB above 0")
    return int(megabytes * 1e6)


def read_bytes(path: str | Path) -> bytes:
    """A file, unpacked if it was compressed with gzip. Raises one of DAMAGED, and ConfigError if it holds too much."""
    data = Path(path).read_bytes()
    return _unpacked(data, str(path)) if data.startswith(MAGIC) else data


def read_small(path: str | Path) -> bytes:
    """The same for a file that is read whole and then parsed: the limit also holds for one that is not compressed."""
    most = most_bytes()
    with Path(path).open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise _too_much(str(path), most, "")
    return _unpacked(data, str(path)) if data.startswith(MAGIC) else data


def unpacked_zlib(data: bytes, what: str) -> bytes:
    """What was compressed with zlib. Raises zlib.error, and ConfigError if it holds too much."""
    most = most_bytes()
    reader = zlib.decompressobj()
    content = reader.decompress(data, most)
    if reader.unconsumed_tail:
        raise _too_much(what, most)
    if not reader.eof:
        raise zlib.error("incomplete or truncated stream")
    return content


def open_text(path: str | Path, encoding: str = "utf-8", newline: str | None = None) -> io.TextIOWrapper:
    """A file to be read line by line, unpacked on the way if it was compressed with gzip. Raises OSError."""
    file = Path(path).open("rb")  # noqa: SIM115 - closed with what is returned
    try:
        start = file.read(2)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    if start != MAGIC:
        return io.TextIOWrapper(file, encoding=encoding, newline=newline)
    return io.TextIOWrapper(_Unpacked(file), encoding=encoding, newline=newline)


def lines(file: io.TextIOWrapper, what: str) -> Iterator[str]:
    """The lines of a text; ConfigError if one of them is longer than a file may be."""
    most = most_bytes()
    while line := file.readline(most):
        if len(line) == most and not line.endswith("\n"):
            raise _too_much(f"a line of {what}", most)
        yield line


class _Unpacked(gzip.GzipFile):
    """Closes the file that it reads as well."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file)
        self._file = file

    def close(self) -> None:
        """Close both."""
        super().close()
        self._file.close()


def _unpacked(data: bytes, what: str) -> bytes:
    """All members of a gzip file, one after another; zeros at the end are padding."""
    most = most_bytes()
    pieces: list[bytes] = []
    room = most
    while data.startswith(MAGIC):
        reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | _GZIP)
        pieces.append(reader.decompress(data, room + 1))
        room -= len(pieces[-1])
        if room < 0:
            raise _too_much(what, most)
        if not reader.eof:
            raise EOFError("the compressed file ends too early")
        data = reader.unused_data
    if data.strip(b"\0"):
        raise gzip.BadGzipFile("something that is not compressed follows")
    return b"".join(pieces)


def _too_much(what: str, most: int, when: str = " when it is unpacked") -> ConfigError:
    return ConfigError(
        f"{what} holds more than {most / 1e6:,.0f} MB{when}; if that is meant, allow more with "
        f"`rota --max-unpacked-mb MB ...` or {VARIABLE}"
    )
