"""Where raw items come from: bytes by number, with sizes that are known before anything is read."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from rota.core.errors import ConfigError


class RawItems(Protocol):
    """Raw items as storage has them. Any indexable object of bytes will do."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> bytes: ...


class Files:
    """One item per file.

    With `cold` no read is served from the system's page cache and none stays in it, so that what is
    counted as read was read.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]], *, cold: bool = False) -> None:
        self.paths = [os.fspath(path) for path in paths]
        self.cold = cold
        found = [Path(path).stat() for path in self.paths]
        self.sizes = array("Q", (entry.st_size for entry in found))
        digest = hashlib.blake2b(digest_size=16)
        for path, entry in zip(self.paths, found, strict=True):
            digest.update(f"{path}\0{entry.st_size}\0{entry.st_mtime_ns}\0".encode(errors="surrogateescape"))
        self.fingerprint = digest.hexdigest()
        """Changes when a file of the data set does."""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> bytes:
        handle = os.open(self.paths[index], os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self.cold:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            data = _read_all(handle, self.sizes[index])
            if self.cold:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            return data
        finally:
            os.close(handle)


def sizes_of(source: RawItems, sizes: int | Sequence[int] | None) -> array[int]:
    """The size of every item in bytes: as given, or as the source says in `sizes`."""
    count = len(source)
    known = getattr(source, "sizes", None) if sizes is None else sizes
    if known is None:
        raise ConfigError(
            f"{type(source).__name__} has no attribute `sizes`, so the cached set cannot be known "
            "before the start; pass sizes=[bytes of every item], or one number if all are equal."
        )
    if isinstance(known, int):
        known = [known] * count
    if len(known) != count:
        raise ConfigError(f"sizes has {len(known)} numbers, the data set {count} items.")
    if count and min(known) < 0:
        raise ConfigError(f"sizes holds {min(known)}; a size in bytes is 0 or more.")
    return array("Q", known)


def _read_all(handle: int, size: int) -> bytes:
    """The whole file, which is `size` bytes long unless it has changed."""
    data = os.read(handle, size + 1)
    if len(data) == size:
        return data
    parts = [data]
    while part := os.read(handle, 1 << 20):
        parts.append(part)
    return b"".join(parts)
