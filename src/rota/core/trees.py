"""Removal of folders that somebody else filled: however deep, through no link, with two file handles."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from itertools import count
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def remove_tree(top: Path) -> None:
    """Remove a folder and everything in it. What cannot be removed stays.

    Folders inside are brought up before they are emptied, so depth does not matter: `shutil.rmtree` needs a call and a
    file handle for each level, and ends with RecursionError.
    """
    mark = secrets.token_hex(8)
    names = (f".{mark}-{number}" for number in count())
    with contextlib.suppress(OSError):
        with _opened(top) as root:
            while _remove_some(root, names):
                pass
        top.rmdir()


def _remove_some(root: int, names: Iterator[str]) -> bool:
    """Go once over what is directly in a folder; whether anything went."""
    changed = False
    with os.scandir(root) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    changed |= _bring_up(entry.name, root, names)
                    os.rmdir(entry.name, dir_fd=root)
                else:
                    os.unlink(entry.name, dir_fd=root)
                changed = True
    return changed


def _bring_up(name: str, root: int, names: Iterator[str]) -> bool:
    """Empty a folder, of which folders go up into `root`; whether anything went."""
    changed = False
    with _opened(name, root) as folder, os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    os.rename(entry.name, next(names), src_dir_fd=folder, dst_dir_fd=root)
                else:
                    os.unlink(entry.name, dir_fd=folder)
                changed = True
    return changed


@contextlib.contextmanager
def _opened(name: str | Path, above: int | None = None) -> Iterator[int]:
    """A folder, which is no link, by its handle."""
    handle = os.open(name, _FOLDER, dir_fd=above)
    try:
        yield handle
    finally:
        os.close(handle)
