"""Files that are whole or not there: written beside their place, synced, renamed.

A crash, a full disk or a Ctrl-C in the middle leaves what was there before. Standard library only, so that agents and
training code may use it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_PREFIX = ".rota-"
_SUFFIX = ".part"


def is_there(path: str | Path) -> bool:
    """Whether there is something under a name that somebody gave; a name that no file can have is not there."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def replacing(
    path: str | Path,
    *,
    text: bool = False,
    mode: int | None = None,
    durable: bool = True,
    owner: tuple[int, int] | None = None,
) -> Iterator[IO[Any]]:
    """A file to write to, that takes the place of `path` when the block ends well and vanishes when it does not.

    `mode` is the permission bits of the file (default: those of an ordinary new file). `durable` says whether the
    bytes are to be on the disk before the name is: without it a power cut may leave an empty file, which is all right
    for what is written again in a moment. `owner` is the user and the group that it is for. Raises OSError.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f"{_PREFIX}{target.name[:100]}.", suffix=_SUFFIX)
    try:
        if owner is not None:
            os.fchown(handle, *owner)
        os.fchmod(handle, _ordinary_mode() if mode is None else mode)
        with _opened(handle, text=text) as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(name, target)  # noqa: PTH105 - the name is text already
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - the name is text already
        raise
    if durable:
        sync_folder(target.parent)


def _opened(handle: int, *, text: bool) -> IO[Any]:
    if text:
        return os.fdopen(handle, "w", encoding="utf-8", newline="")
    return os.fdopen(handle, "wb")


def write_bytes(
    path: str | Path,
    content: bytes,
    *,
    mode: int | None = None,
    durable: bool = True,
    owner: tuple[int, int] | None = None,
) -> None:
    """Put these bytes in the place of a file."""
    with replacing(path, mode=mode, durable=durable, owner=owner) as file:
        file.write(content)


def write_text(path: str | Path, content: str, *, mode: int | None = None, durable: bool = True) -> None:
    """Put this text in the place of a file, as UTF-8 with line ends as they are."""
    write_bytes(path, content.encode("utf-8"), mode=mode, durable=durable)


def sync_folder(folder: str | Path) -> None:
    """Let a rename in this folder outlast a power cut; where a folder cannot be synced, nothing happens."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _ordinary_mode() -> int:
    """Permission bits of a new file of this process. The mask can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
