"""One line per job. Floats are written so that reading them gives the same number; no value is an empty field."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from numpy.typing import NDArray

from rota.analysis.output import whole_file

COLUMNS = (
    "job_id", "arrival_s", "finish_s", "jct_s", "profile", "gpus", "weight", "tenant", "steps", "deadline_s",
    "status", "measured",
)  # fmt: skip

BLOCK = 50_000
"""Jobs turned into text at a time, so that a million of them need little memory."""


def write_jobs_csv(path: str | Path, jobs: Mapping[str, NDArray[Any]]) -> None:
    """Write the columns of `Result.jobs`; gzip if the name ends in .gz. Raises OutputError."""
    names = [n for n in COLUMNS if n in jobs]
    count = len(jobs[names[0]])
    with whole_file(path) as temporary, _open(temporary, gz=str(path).endswith(".gz")) as file:
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
def _open(path: Path, *, gz: bool) -> Iterator[TextIO]:
    with path.open("wb") as raw:
        # No name and no time in the header, so that equal results are equal files.
        binary = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if gz else raw
        with io.TextIOWrapper(cast("BinaryIO", binary), encoding="utf-8", newline="") as text:
            yield text
