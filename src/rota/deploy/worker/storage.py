"""How fast a folder's storage is, by a short measurement past the page cache where possible."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 64 << 20
MOST_SECONDS = 0.5
_BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class Storage:
    """Megabytes per second in a folder.

    `direct` is false where the page cache could not be avoided entirely.
    """

    folder: str
    read_mbps: float = 0.0
    write_mbps: float = 0.0
    direct: bool = False
    problem: str | None = None


def measure(
    folder: Path, most_bytes: int = MOST_BYTES, most_seconds: float = MOST_SECONDS
) -> Storage:
    """Write and read at most so much for at most so long.

    A problem is part of the answer, not an error.
    """
    try:
        fd, name = tempfile.mkstemp(prefix=".rota-speed-", dir=folder)
        os.close(fd)
    except OSError as error:
        return Storage(str(folder), problem=f"storage of {folder} not measured: {error.strerror}")
    try:
        direct = _allows_direct(name)
        flags = os.O_DIRECT if direct else 0
        written, seconds = _timed_write(name, flags, most_bytes, most_seconds / 2)
        write = written / seconds / 1e6
        got, seconds = _timed_read(name, flags, most_seconds / 2)
        return Storage(str(folder), round(got / seconds / 1e6, 1), round(write, 1), direct)
    except OSError as error:
        return Storage(str(folder), problem=f"storage of {folder} not measured: {error.strerror}")
    finally:
        Path(name).unlink(missing_ok=True)


def disk_of(path: str | Path) -> str:
    """The disk that holds a path, as the kernel numbers it (`254:0`); empty if it is on none.

    A partition has no limits of its own: its disk has.
    """
    device = Path(path).stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    entry = Path("/sys/dev/block") / number
    if not entry.exists():
        return ""
    if (entry / "partition").exists():
        return (entry.resolve().parent / "dev").read_text(encoding="ascii").strip()
    return number


def _allows_direct(name: str) -> bool:
    if not hasattr(os, "O_DIRECT"):
        return False
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_DIRECT))
    except OSError:
        return False
    return True


def _timed_write(name: str, flags: int, most: int, seconds: float) -> tuple[int, float]:
    fd = os.open(name, os.O_WRONLY | flags)
    try:
        with mmap.mmap(-1, _BLOCK) as block:  # aligned to a page, as direct access needs it
            block.write(os.urandom(_BLOCK))

            def write() -> int:
                return os.write(fd, block) if flags else _write_through(fd, block)

            return _repeat(write, most, seconds)
    finally:
        os.close(fd)


def _write_through(fd: int, block: mmap.mmap) -> int:
    transferred = os.write(fd, block)
    os.fdatasync(fd)
    return transferred


def _timed_read(name: str, flags: int, seconds: float) -> tuple[int, float]:
    fd = os.open(name, os.O_RDONLY | flags)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(-1, _BLOCK) as block:
            return _repeat(lambda: os.readv(fd, [block]), MOST_BYTES, seconds)
    finally:
        os.close(fd)


def _repeat(action: Callable[[], int], most: int, seconds: float) -> tuple[int, float]:
    """Repeat until enough bytes, enough time, or the end; bytes and seconds of it."""
    start = time.perf_counter()
    total = 0
    while True:
        transferred = action()
        total += transferred
        spent = time.perf_counter() - start
        if transferred == 0 or total >= most or spent >= seconds:
            return total, max(spent, 1e-9)
