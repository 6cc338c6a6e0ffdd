"""Trace files: found format, read, written."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

from rota.core import files
from rota.core.errors import OutputError, TraceError
from rota.core.jobs import Jobs
from rota.workloads.files import TraceFile, opened
from rota.workloads.problems import Problems
from rota.workloads.registry import TraceFormat, formats

SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".swf": "swf", ".trace": "gavel"}
"""The format that the name of an output file stands for."""
MAPPED = "columns"
"""The setting that says what the columns of a file mean, and the format that reads such a file."""


def read_trace(
    path: str | Path,
    format: str | None = None,  # noqa: A002 - the word users know
    settings: Mapping[str, object] | None = None,
    problems: Problems | None = None,
    catalogue: object = None,
) -> Jobs:
    """The jobs of a trace file, compressed (`.gz`) or not, in order of arrival.

    Without a format, its first line decides, or the setting `columns` if there is one.

    `settings` are those of the format, e.g. `assign` for logs that do not say what was trained.
    Durations are unknown (NaN) unless the format has them: see `with_durations`. `problems` hears
    remarks; it may also collect errors. `catalogue` (a name, file or object) has the speeds with which
    logs become steps unless the setting `profiles` names another.
    """
    file = opened(path, problems or Problems(str(path)))
    return reader(file, format, settings or {}, catalogue)[1].read(file).by_arrival()


def reader(
    file: TraceFile,
    format: str | None,  # noqa: A002 - the word users know
    settings: Mapping[str, object],
    catalogue: object = None,
) -> tuple[str, TraceFormat]:
    """The name of the format of a file, and what reads it."""
    name = format if format is not None else MAPPED if MAPPED in settings else recognised(file)
    known = catalogue is not None and "profiles" in formats.entry(name).parameters() and "profiles" not in settings
    return name, formats.create(name, **settings, **({"profiles": catalogue} if known else {}))


def write_trace(
    jobs: Jobs,
    path: str | Path,
    format: str | None = None,  # noqa: A002 - the word users know
    *,
    exact: bool = False,
) -> None:
    """Write jobs to a file, compressed if its name ends in `.gz`.

    The file appears complete or not at all.

    Without a format, the name decides (`format_of`). With `exact` floats are kept to the last bit;
    otherwise steps and weights are truncated where the format is one of the Gavel artifact, as it
    does.
    """
    pieces = formats.create(format or format_of(path)).write(jobs, exact=exact)
    data = b"".join(piece.encode("utf-8") if isinstance(piece, str) else piece for piece in pieces)
    target = Path(path)
    _replace(target, gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)


def format_of(path: str | Path) -> str:
    """The format that a file name stands for: by its ending, `gavel` if that says nothing."""
    name = Path(path)
    unpacked = name.with_suffix("") if name.suffix == ".gz" else name
    return SUFFIXES.get(unpacked.suffix.lower(), "gavel")


def recognised(file: TraceFile) -> str:
    """The format of a file by its first line."""
    number, first = file.first_line
    if not first:
        raise TraceError(file.path, 1, "the trace has no jobs; give at least one line")
    for name in formats.names():
        if formats.create(name).recognises(first):
            return name
    if "JobID" in first and "Submit" in first:
        fix = "run sacct with -P, so that cells are cut at |"
        raise TraceError(file.path, number, f"this looks like a listing of sacct in a form that is not read; {fix}")
    raise TraceError(
        file.path,
        number,
        f"{first[:60]!r} is the first line of no known format ({', '.join(formats.names())}): it "
        f"has {first.count(chr(9)) + 1} tab-separated columns and {first.count(',') + 1} "
        "comma-separated ones; name the format, or give 10 or 7 tab-separated columns, 5 "
        "comma-separated ones beginning with a job number, a CSV header with arrival_s and "
        "profile, or any other first line that docs/workloads.md lists; for any other table say what its "
        "columns mean, e.g. --set-trace columns=arrival:submit,duration:minutes*60,gpus:ngpu",
    )


def _replace(target: Path, data: bytes) -> None:
    try:
        files.write_bytes(target, data)
    except OSError as problem:
        fix = "check the folder"
        raise OutputError(f"cannot write trace {str(target)!r}: {problem}; {fix}") from None
