"""One line per job. Floats are written so that reading them gives the same number.

No value is an empty field.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from rota.analysis.output import writing
from rota.core import packed
from rota.core.errors import ConfigError

COLUMNS = (
    "job_id", "name", "arrival_s", "finish_s", "jct_s", "profile", "gpus", "weight", "tenant", "steps", "deadline_s",
    "status", "measured", "ftf", "gpu_s", "cost",
)  # fmt: skip

BLOCK = 50_000
"""Jobs turned into text at a time, so that a million of them need little memory."""


def write_jobs_csv(path: str | Path, jobs: Mapping[str, NDArray[Any]]) -> None:
    """Write the columns of `Result.jobs`; gzip if the name ends in .gz. Raises OutputError."""
    names = [n for n in COLUMNS if n in jobs]
    count = len(jobs[names[0]])
    with writing(path) as raw, _as_text(raw, packed=str(path).endswith(".gz")) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for start in range(0, count, BLOCK):
            columns = [map(_text, jobs[n][start : start + BLOCK].tolist()) for n in names]
            writer.writerows(zip(*columns, strict=True))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    return str(value)


@contextlib.contextmanager
def _as_text(raw: IO[Any], *, packed: bool) -> Iterator[TextIO]:
    # No name and no time in the header, so that equal results are equal files.
    zipped = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if packed else None
    text = io.TextIOWrapper(cast("BinaryIO", zipped or raw), encoding="utf-8", newline="")
    try:
        yield text
    finally:
        text.detach()  # what is left of the text is written, the file below stays open
    if zipped is not None:
        zipped.close()


NEEDED = ("job_id", "arrival_s", "jct_s")
_TEXTS = ("name", "profile", "tenant", "status")
_WHOLE = ("job_id", "gpus", "measured")


def read_jobs_csv(path: str | Path) -> dict[str, NDArray[Any]]:
    """The columns of a file that `write_jobs_csv` wrote.

    Others are left out, an empty field is NaN.

    Raises ConfigError with the line and column that cannot be used.
    """
    try:
        # A byte order mark, which spreadsheets write, is no part of the first name.
        text = packed.read_bytes(path).decode("utf-8-sig")
        return _columns(csv.reader(io.StringIO(text, newline="")), str(path))
    except (*packed.DAMAGED, UnicodeDecodeError, csv.Error) as error:
        fix = "give a file written with --jobs-csv"
        raise ConfigError(f"cannot read {path}: {error}; {fix}") from error


def _columns(lines: Iterator[list[str]], path: str) -> dict[str, NDArray[Any]]:
    header = next(lines, [])
    missing = [name for name in NEEDED if name not in header]
    if missing:
        fix = "give a file written with --jobs-csv"
        raise ConfigError(f"{path}:1: no column {', '.join(missing)}; {fix}")
    places = {name: header.index(name) for name in COLUMNS if name in header}
    values: dict[str, list[Any]] = {name: [] for name in places}
    for number, fields in enumerate(lines, start=2):
        if not fields:
            continue
        if len(fields) != len(header):
            problem = f"{path}:{number}: {len(fields)} fields, but the header has {len(header)}"
            raise ConfigError(problem)
        for name, place in places.items():
            values[name].append(_value(name, fields[place], path, number))
    if not values["job_id"]:
        raise ConfigError(f"{path}: there is no job in it; give a file written with --jobs-csv")
    return {name: _array(name, column) for name, column in values.items()}


def _value(name: str, text: str, path: str, line: int) -> Any:
    if name in _TEXTS:
        return text
    try:
        if name in _WHOLE:
            return _whole(text)
        value = float(text) if text or name == "arrival_s" else math.nan
    except ValueError:
        wanted = "a whole number" if name in _WHOLE else "a number"
        raise ConfigError(f"{path}:{line}, column {name}: {text!r} is not {wanted}") from None
    if text and not (math.isfinite(value) and (value >= 0 or name != "jct_s")):
        fix = "leave it empty if there is none"
        raise ConfigError(f"{path}:{line}, column {name}: {text!r} is not a possible value; {fix}")
    return value


def _whole(text: str) -> int:
    """Raises ValueError if it is none, or one that no column holds."""
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(text)
    return value


def _array(name: str, values: Sequence[Any]) -> NDArray[Any]:
    dtype: Any = object if name in _TEXTS else np.int64 if name in _WHOLE else np.float64
    return np.array(values, dtype=dtype)
