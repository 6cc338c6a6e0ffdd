"""Checkpoints on disk that are either whole or not there.

A checkpoint is a folder `step-000123`. It is filled under another name, flushed, given a manifest
and renamed. The manifest lists the files with their sizes, so that a copy that lost something is
recognised. In a gang where every rank saves, `step-000123` holds a folder `rank-0`, `rank-1` ...
each, and counts only when all are there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rota.core import files

MANIFEST = "manifest.json"
_FORMAT = 1
_LARGEST_MANIFEST = 64 * 1024 * 1024
"""Bytes: 500,000 files."""


class SavedCheckpoint(NamedTuple):
    """A checkpoint that was verified."""

    path: Path
    step: int
    epoch: int
    position: int
    world_size: int

    def part(self, rank: int) -> Path:
        """The folder that this rank wrote, or the one that rank 0 wrote for all."""
        own = self.path / f"rank-{rank}"
        return own if own.is_dir() else self.path


def latest(folder: str | os.PathLike[str], below: int | None = None) -> SavedCheckpoint | None:
    """The newest whole checkpoint in a folder (of fewer than `below` steps), or None.

    Damaged ones are passed over.
    """
    steps = sorted(_steps_in(Path(folder)), reverse=True)
    for step in steps:
        checkpoint = read(Path(folder) / name_of(step)) if below is None or step < below else None
        if checkpoint is not None:
            return checkpoint
    return None


def read(path: Path) -> SavedCheckpoint | None:
    """The checkpoint in this very folder, or None when it is damaged or none."""
    if path.is_symlink():
        return None
    if (path / MANIFEST).is_file():
        return _read_part(path, path)
    first = _read_part(path / "rank-0", path)
    if first is None:
        return None
    others = (_read_part(path / f"rank-{rank}", path) for rank in range(1, first.world_size))
    return (
        first if all(other is not None and other.step == first.step for other in others) else None
    )


def name_of(step: int) -> str:
    """The name of the folder for a step."""
    return f"step-{step:06d}"


class CheckpointStore:
    """The checkpoints that one rank writes into one folder."""

    def __init__(self, folder: Path, part: str = "", world_size: int = 1) -> None:
        self.folder = folder
        self._part = part
        self._world_size = world_size
        self._draft: Path | None = None
        self._synced = 0

    def write(self, step: int, epoch: int, position: int, save: Callable[[Path], None]) -> str:
        """Make a checkpoint by `save`, which fills the folder it is given.

        Its name once it is safe on disk.
        """
        name = name_of(step) if not self._part else f"{name_of(step)}/{self._part}"
        final = self.folder / name
        draft = self.folder / f"{name}.tmp"
        self._make_folder(draft)
        self._synced = 0
        self._draft = draft
        try:
            save(draft)
            body = {
                "step": step,
                "epoch": epoch,
                "position": position,
                "world_size": self._world_size,
            }
            text = json.dumps(_sealed({**body, "files": _files(draft)}))
            _write_new(draft / MANIFEST, text.encode())
            self._sync_all(draft)
        except BaseException:
            _remove(draft)
            raise
        finally:
            self._draft = None
        _remove(final)
        draft.rename(final)
        files.sync_folder(final.parent)
        files.sync_folder(self.folder)
        return name

    def _make_folder(self, draft: Path) -> None:
        """A new folder to fill; links that somebody put in its place, or in the way, are removed.

        Whatever they lead to is left alone.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._part:
            if draft.parent.is_symlink():
                _remove(draft.parent)
            draft.parent.mkdir(exist_ok=True)
        _remove(draft)
        draft.mkdir()  # raises if it is there again: nothing that exists is written to

    def amount_written(self) -> int:
        """Bytes, files and flushed files of the checkpoint that is being written.

        For another thread, which tells by it whether the writing goes on.
        """
        draft = self._draft
        if draft is None:
            return 0
        try:
            sizes = [int(size) for _, size in _files(draft)]
        except OSError:  # a file was renamed meanwhile
            return 0
        return sum(sizes) + len(sizes) + self._synced

    def _sync_all(self, folder: Path) -> None:
        """Put a folder and everything in it on the disk: the rename of the whole comes after."""
        for root, _, names in os.walk(folder):
            for name in names:
                path = Path(root, name)
                if path.is_file() and not path.is_symlink():
                    _sync_file(path)
                self._synced += 1
            files.sync_folder(root)

    def prune(self, step: int) -> None:
        """Keep the checkpoint of `step` and the whole one before it.

        Later ones go too: they belong to an attempt that this one did not continue.
        """
        spare = latest(self.folder, below=step)
        kept = {step, spare.step if spare else step}
        for other in _steps_in(self.folder) - kept:
            self._drop(self.folder / name_of(other))

    def tidy(self) -> None:
        """Remove drafts that a killed process left behind."""
        for draft in self.folder.glob(f"step-*/{self._part}.tmp" if self._part else "step-*.tmp"):
            _remove(draft)

    def _drop(self, path: Path) -> None:
        if not self._part:
            _remove(path)
            return
        _remove(path / self._part)
        if path.is_dir() and not any(path.iterdir()):
            _remove(path)


def _read_part(part: Path, whole: Path) -> SavedCheckpoint | None:
    try:
        if part.is_symlink() or (part / MANIFEST).stat().st_size > _LARGEST_MANIFEST:
            return None
        manifest = json.loads((part / MANIFEST).read_text(encoding="utf-8"))
        body = {key: value for key, value in manifest.items() if key not in {"format", "checksum"}}
        intact = manifest == _sealed(body) and manifest["files"] == _files(part)
        return (
            SavedCheckpoint(whole, *(int(body[key]) for key in SavedCheckpoint._fields[1:]))
            if intact
            else None
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _steps_in(folder: Path) -> set[int]:
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return set()
    steps = (name.removeprefix("step-") for name in names if name.startswith("step-"))
    return {int(step) for step in steps if step.isdecimal()}


def _sealed(body: dict[str, Any]) -> dict[str, Any]:
    import hashlib

    text = json.dumps(body, sort_keys=True)
    return {"format": _FORMAT, **body, "checksum": hashlib.sha256(text.encode()).hexdigest()}


def _files(folder: Path) -> list[list[Any]]:
    entries = []
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            entries.append([path.relative_to(folder).as_posix(), path.stat().st_size])
    return sorted(entry for entry in entries if entry[0] != MANIFEST)


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_new(path: Path, content: bytes) -> None:
    """A file that was not there before, not even as a link to another place. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        file.write(content)


def _remove(path: Path) -> None:
    """Take away a folder with all in it, or a link, but not what it leads to."""
    if path.is_symlink():
        path.unlink(missing_ok=True)
    elif path.is_dir():
        import shutil  # slow to import, and outside Rota never needed

        shutil.rmtree(path, ignore_errors=True)
