"""Files with secrets: readable by their owner only, whole or not there, and refused when others can read them."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from rota.core.errors import ConfigError, OutputError

PRIVATE, PUBLIC = 0o600, 0o644
_OTHERS = stat.S_IRWXO
Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """Something that is different when a file was written again; None if there is none."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def write_whole(path: Path, content: bytes, mode: int) -> None:
    """Write beside the place and rename. The file has its mode before it has its content."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise OutputError(f"cannot write {path}: {error.strerror}; nothing was changed there") from error


def make_private_folder(path: Path) -> None:
    """A folder that only its owner can enter, if it is not there yet."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {path}: {error.strerror}") from error


def read(path: Path, hint: str) -> bytes:
    """The content; ConfigError with what to do if it cannot be had."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; {hint}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def read_secret(path: Path, hint: str) -> bytes:
    """The same for a secret, which is refused if everybody on the machine can read it."""
    content = read(path, hint)
    if path.stat().st_mode & _OTHERS:
        raise ConfigError(f"{path} holds a secret that every user of this machine can read; run: chmod 600 {path}")
    return content
