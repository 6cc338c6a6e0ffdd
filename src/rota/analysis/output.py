"""Output that appears whole or not at all (`core/files.py`), with failures in plain words."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rota.core import files
from rota.core.errors import OutputError

STANDARD_OUTPUT = "-"
"""In the place of a file name; a file that is really called so is `./-`."""
_WHY = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file grew beyond the allowed size",
    errno.EACCES: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "the folder does not exist",
}


def check_writable(path: str | Path) -> Path:
    """The file that will be written, links followed.

    Raises OutputError now rather than after a long run.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise OutputError(f"cannot write {path}: it is a folder; give a file name")
    if not target.parent.is_dir():
        fix = "create it first"
        raise OutputError(f"cannot write {path}: the folder {target.parent} does not exist; {fix}")
    try:
        if _is_special(target):
            os.close(os.open(target, os.O_WRONLY | os.O_NONBLOCK))
        else:
            tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise output_error(path, error) from error
    return target


@contextlib.contextmanager
def writing(path: str | Path, *, text: bool = False) -> Iterator[IO[Any]]:
    """A file to write to, that takes the place of `path` if the block ends well, else vanishes.

    An OSError inside the block becomes an OutputError. A device or pipe is written directly, and so
    is standard output (`-`).
    """
    if path == STANDARD_OUTPUT:
        try:
            yield sys.stdout if text else sys.stdout.buffer
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            why = _WHY.get(error.errno or 0, error.strerror or str(error))
            raise OutputError(f"cannot write to standard output: {why}; what is there is not whole") from error
        return
    target = check_writable(path)
    with _as_output_error(path):
        if _is_special(target):
            with _opened(target, text=text) as file:
                yield file
        else:
            with files.replacing(target, text=text, mode=_mode_of(target)) as file:
                yield file


def write_file(path: str | Path, content: bytes | str) -> None:
    """Put bytes or text (as UTF-8) in the place of a file; raises OutputError."""
    with writing(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """As `writing`, for those that open the file by its name.

    The path of an empty file in the same folder.
    """
    target = check_writable(path)
    with _as_output_error(path):
        if _is_special(target):
            yield target
            return
        temporary = _beside(target)
        try:
            yield temporary
            _move(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def output_error(path: str | Path, error: OSError) -> OutputError:
    """The same failure in words a user can act on."""
    why = _WHY.get(error.errno or 0, error.strerror or str(error))
    return OutputError(f"cannot write {path}: {why}; nothing was written there")


@contextlib.contextmanager
def _as_output_error(path: str | Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(path, error) from error


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _opened(target: Path, *, text: bool) -> IO[Any]:
    return target.open("w", encoding="utf-8", newline="") if text else target.open("wb")


def _mode_of(target: Path) -> int | None:
    """The permission bits of a file that is there, so that it keeps them."""
    return stat.S_IMODE(target.stat().st_mode) if target.exists() else None


def _beside(target: Path) -> Path:
    """An empty file with the same ending, which may say how it is to be compressed."""
    temporary = target.with_name(f".rota-{uuid.uuid4().hex}.part-{target.name[-100:]}")
    temporary.touch(exist_ok=False)
    return temporary


def _move(temporary: Path, target: Path) -> None:
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    mode = _mode_of(target)
    if mode is not None:
        temporary.chmod(mode)
    temporary.replace(target)
    files.sync_folder(target.parent)
