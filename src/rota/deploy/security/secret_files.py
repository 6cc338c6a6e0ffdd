"""Files with secrets.

Readable by their owner only, whole or not there, and refused when others can read them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rota.core import files
from rota.core.errors import ConfigError, OutputError

PRIVATE = 0o600
PUBLIC = 0o644
_MOST_BYTES = 64 * 1024 * 1024
"""Of a key, a certificate, or a list of tokens: 150,000 of them."""
_OTHERS = stat.S_IRWXO
Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """Something that is different when a file was written again; None if there is none."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def write_whole(
    path: Path, content: bytes, mode: int, *, for_owner_of_folder: bool = False
) -> None:
    """Replace a file in one piece, on the disk before anybody hears of it.

    A key or token that is lost cannot be made again. What root writes again stays with whom it
    belonged, so that a service which is not root goes on reading it; what root begins is root's, or
    `for_owner_of_folder`.
    """
    owner = _owner_for_root(path)
    if owner is None and for_owner_of_folder:
        owner = _owner_for_root(path.parent)
    try:
        files.write_bytes(path, content, mode=mode, durable=True, owner=owner)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}; nothing was changed there"
        ) from error


def _owner_for_root(path: Path) -> tuple[int, int] | None:
    """User and group of what is there; None for who cannot give files away, or if nothing is."""
    if os.geteuid() != 0:
        return None
    try:
        there = path.lstat()
    except FileNotFoundError:
        return None
    return there.st_uid, there.st_gid


@contextlib.contextmanager
def changing(path: Path) -> Iterator[None]:
    """For reading a file and writing it again: one process at a time."""
    make_private_folder(path.parent)
    try:
        lock = path.with_name(f".{path.name}.lock").open("w")
    except OSError as error:
        raise OutputError(f"cannot change {path}: {error.strerror}") from error
    with lock:
        owner = _owner_for_root(path.parent)
        if owner is not None:  # who has to lock it, too
            os.fchown(lock.fileno(), *owner)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_private_folder(path: Path) -> None:
    """A folder that only its owner can enter, if it is not there yet."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {path}: {error.strerror}") from error


def read(path: Path, hint: str) -> bytes:
    """The content; ConfigError with what to do if it cannot be had."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; {hint}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} cannot be the name of a file ({error})") from error
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{path} has more than {_MOST_BYTES:,} bytes; name another file")
    return content


def read_secret(path: Path, hint: str) -> bytes:
    """The same for a secret, which is refused if everybody on the machine can read it."""
    content = read(path, hint)
    if path.stat().st_mode & _OTHERS:
        raise ConfigError(
            f"{path} holds a secret that every user of this machine can read; run: chmod 600 {path}"
        )
    return content
