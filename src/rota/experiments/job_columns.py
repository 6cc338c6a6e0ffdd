"""One column of a file written by --jobs-csv."""

from __future__ import annotations

import csv
import math

import numpy as np

from rota.core import packed
from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError


def column_of(path: str, column: str) -> FloatArray:
    """The values of measured jobs; NaN where there is none. Raises ConfigError if there is nothing to draw."""
    try:
        with packed.open_text(path, newline="") as file:
            reader = csv.DictReader(packed.lines(file, path))
            if column not in (reader.fieldnames or ()):
                fix = "give a file written with --jobs-csv"
                raise ConfigError(f"{path}:1: there is no column {column}; {fix}")
            column_values = [
                _number(line[column], column, path, reader.line_num)
                for line in reader
                if line.get("measured") in {None, "", "1"}
            ]
    except (*packed.DAMAGED, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if not np.isfinite(column_values).any():
        raise ConfigError(f"{path}: no measured job has finished with a known {column}, so there is nothing to draw")
    return np.array(column_values, dtype=np.float64)


def _number(text: str | None, column: str, path: str, line: int) -> float:
    try:
        return float(text) if text else math.nan
    except ValueError as error:
        raise ConfigError(f"{path}:{line}, column {column}: {text!r} is not a number") from error
