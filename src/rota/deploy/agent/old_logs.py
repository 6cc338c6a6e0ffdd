"""Output that an agent of Rota 0.1.0 left: a file per stream and a predecessor of each, made into a segment."""

from __future__ import annotations

from pathlib import Path

from rota.core import files
from rota.deploy.worker.frames import STDERR, STDOUT, Segment, read_piece, segments_in

_FILES = (("stdout.log.1", STDOUT), ("stdout.log", STDOUT), ("stderr.log.1", STDERR), ("stderr.log", STDERR))
_FRAME = 65536
_MOST = 8_000_000
"""Bytes of one of the files: half of what was kept of a stream then."""


def convert(folder: Path) -> None:
    """Put a segment beside the files of a task that has ended, if there is none; their times are not known closer."""
    if segments_in(folder) or not (folder / "stdout.log").is_file():
        return
    frames = [frame for name, stream in _FILES for frame in _frames(folder / name, stream)]
    files.write_bytes(folder / Segment(0, 0).name, b"".join(frames), mode=0o640)


def _frames(path: Path, stream: str) -> list[bytes]:
    data = read_piece(path, 0, _MOST)
    if not data:
        return []
    at = int(path.stat().st_mtime * 1e6)
    pieces = [data[start : start + _FRAME] for start in range(0, len(data), _FRAME)]
    return [b"%013x%b%05x%b" % (at, stream.encode(), len(piece), piece) for piece in pieces]
