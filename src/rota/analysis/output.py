"""Files that appear whole or not at all: written beside their place, then renamed onto it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rota.core.errors import OutputError

_WHY = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file grew beyond the allowed size",
    errno.EACCES: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "the folder does not exist",
}


def check_writable(path: str | Path) -> Path:
    """The file that will be written, links followed; raises OutputError now rather than after a long run."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise OutputError(f"cannot write {path}: it is a folder; give a file name")
    if not target.parent.is_dir():
        raise OutputError(f"cannot write {path}: the folder {target.parent} does not exist; create it first")
    try:
        if _is_special(target):
            os.close(os.open(target, os.O_WRONLY | os.O_NONBLOCK))
        else:
            _beside(target).unlink()
    except OSError as error:
        raise output_error(path, error) from error
    return target


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder, moved to `path` when the block ends well and removed when it does not.

    An OSError inside the block becomes an OutputError. A device or pipe is written directly.
    """
    target = check_writable(path)
    if _is_special(target):
        with _as_output_error(path):
            yield target
        return
    with _as_output_error(path):
        temporary = _beside(target)
        try:
            yield temporary
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
            temporary.chmod(mode)
            temporary.replace(target)
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


def _beside(target: Path) -> Path:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=f".part-{target.name}")
    os.close(handle)
    return Path(name)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
