"""Completion times of a run in few bytes.

Zlib over six columns of eight-byte little-endian numbers.

int64 count, then int64 job_id[count], float64 arrival_s[count], float64 finish_s[count] (NaN: not
finished), int64 gpus[count], float64 ftf[count] (finish-time fairness, NaN: not known), float64
deadline_s[count] (infinity: none). Stores of older versions lack the last one or two. Only jobs
that count for the metrics (`measure`) are kept.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota.core.packed import unpacked_zlib

COLUMNS = (
    ("job_id", "<i8"),
    ("arrival_s", "<f8"),
    ("finish_s", "<f8"),
    ("gpus", "<i8"),
    ("ftf", "<f8"),
    ("deadline_s", "<f8"),
)


def pack(jobs: Mapping[str, NDArray[Any]], measure: tuple[int, int] | None) -> bytes:
    """The columns of `Result.jobs` that a distribution or a comparison job by job needs."""
    counted = slice(None) if measure is None else slice(*np.searchsorted(jobs["job_id"], measure))
    there = list(itertools.takewhile(lambda column: column[0] in jobs, COLUMNS))
    columns = [np.ascontiguousarray(jobs[name][counted], dtype=dtype) for name, dtype in there]
    parts = [len(columns[0]).to_bytes(8, "little"), *(column.tobytes() for column in columns)]
    return zlib.compress(b"".join(parts), 1)


def unpack(blob: bytes) -> dict[str, NDArray[Any]]:
    """The columns again, and `jct_s`, finish minus arrival."""
    data = unpacked_zlib(blob, "the record of a run")
    count = int.from_bytes(data[:8], "little")
    columns = {
        name: np.frombuffer(data, dtype=dtype, count=count, offset=8 + 8 * count * i)
        for i, (name, dtype) in enumerate(COLUMNS)
        if 8 + 8 * count * (i + 1) <= len(data)
    }
    if "finish_s" not in columns:
        raise ValueError(f"{len(data):,} bytes do not hold the times of {count:,} jobs")
    return {**columns, "jct_s": columns["finish_s"] - columns["arrival_s"]}
