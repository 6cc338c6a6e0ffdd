"""Trace files: found format, read, written."""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from pathlib import Path

from rota.core.errors import ConfigError, OutputError, TraceError
from rota.core.jobs import Jobs
from rota.workloads.registry import TraceFormat, formats

LONGEST_LOOK = 100_000
"""Characters of the first line that are shown to formats: JSON may be one line of many megabytes."""


def read_trace(path: str | Path, format: str | None = None) -> Jobs:  # noqa: A002 - the word users know
    """The jobs of a trace file, compressed (`.gz`) or not; without a format, its first line decides.

    Durations are unknown (NaN) unless the format has them: see `with_durations`.
    """
    text = _read_text(Path(path))
    found = formats.create(format) if format is not None else _recognised(text, str(path))
    return found.read(text, str(path))


def write_trace(jobs: Jobs, path: str | Path, format: str = "gavel", *, exact: bool = False) -> None:  # noqa: A002
    """Write jobs to a file, compressed if its name ends in `.gz`; the file appears complete or not at all.

    With `exact` floats are kept to the last bit; otherwise steps and weights are truncated where the format is one
    of the Gavel artifact, as it does.
    """
    data = "".join(formats.create(format).write(jobs, exact=exact)).encode("utf-8")
    target = Path(path)
    _replace(target, gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise ConfigError(f"cannot read trace {str(path)!r}: {problem}; check the path and the file") from None


def _recognised(text: str, path: str) -> TraceFormat:
    numbered = ((n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip())
    number, first = next(numbered, (1, ""))
    if not first:
        raise TraceError(path, 1, "the trace has no jobs; give at least one line")
    for name in formats.names():
        candidate = formats.create(name)
        if candidate.recognises(first[:LONGEST_LOOK].rstrip("\r")):
            return candidate
    raise TraceError(
        path,
        number,
        f"{first[:60]!r} is the first line of no known format ({', '.join(formats.names())}): it has "
        f"{first.count(chr(9)) + 1} tab-separated columns and {first.count(',') + 1} comma-separated ones; "
        f"name the format, or give one of 10 or 7 tab-separated columns, 5 comma-separated ones beginning with a job "
        f"number, or a CSV header with arrival_s and profile",
    )


def _replace(target: Path, data: bytes) -> None:
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as problem:
        raise OutputError(f"cannot write trace {str(target)!r}: {problem}; check the folder") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except OSError as problem:
        Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"cannot write trace {str(target)!r}: {problem}; check the folder") from None
