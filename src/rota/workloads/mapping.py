"""What the columns of somebody else's table mean: `arrival:submit,duration:minutes*60,gpus:ngpu`.

Left of the colon stands what we need, right of it a column of the file, which may be multiplied or
divided by a number, or for durations and waits the difference of two columns of times, `end-start`. A
column whose very name has such signs in it is found first. A pair with a comma in it stands in double
quotes.
"""

from __future__ import annotations

import csv
import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError, TraceError, UnknownName
from rota.workloads.rows import LARGEST, TraceRows
from rota.workloads.times import elapsed_s, moment

MEANINGS: Mapping[str, str] = {
    "job_id": "name of the job in results",
    "arrival": "when it was submitted: seconds, or a date",
    "start": "when it began; with end instead of duration",
    "end": "when it ended",
    "duration": "how long it ran: seconds, or [days-]hours:minutes:seconds",
    "gpus": "how many GPUs it had",
    "model": "profile in a catalogue",
    "steps": "steps of the model; with assign=keep",
    "tenant": "whose it is",
    "gpu_type": "type on which it ran",
    "gpu_types": "types on which it may run, a100|h100",
    "partition": "partition, for the setting partitions",
    "cpus": "CPUs of the whole job",
    "memory_gb": "memory of the whole job, GB",
}
ALIASES = {"arrival_s": "arrival", "duration_s": "duration", "profile": "model", "recorded_on": "gpu_type"}
SCALED = re.compile(r"(.+?)\s*([*/])\s*([0-9.]+(?:[eE][+-]?\d+)?)$")
EXAMPLE = "columns=arrival:submit,duration:minutes*60,gpus:ngpu"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from."""

    column: str
    factor: float = 1.0
    minus: str | None = None
    """The column of times that is taken away from the first."""


def parsed(setting: str | Mapping[str, str]) -> dict[str, str]:
    """The setting as a table from what we need to where it is, still text."""
    if isinstance(setting, Mapping):
        pairs = [(str(name), str(where)) for name, where in setting.items()]
    else:
        parts = next(csv.reader([setting], skipinitialspace=True), [])
        cut = (part.partition(":") for part in parts if part.strip())
        pairs = [(name.strip(), where.strip()) for name, _, where in cut]
    table: dict[str, str] = {}
    for given, where in pairs:
        name = ALIASES.get(given, given)
        if name not in MEANINGS:
            raise UnknownName("name before the colon in columns:", given, MEANINGS)
        if not where:
            raise ConfigError(f"columns: {given!r} names no column; give e.g. {EXAMPLE}")
        if name in table:
            raise ConfigError(f"columns: {given!r} is given twice; keep one")
        table[name] = where
    return table


def sources(table: Mapping[str, str], header: Iterable[str], path: str, line: int) -> dict[str, Source]:
    """Where each value comes from in a file with this header. Raises TraceError for a column that it has not."""
    columns = list(header)
    return {name: _source(name, where, columns, path, line) for name, where in table.items()}


def _source(name: str, where: str, columns: list[str], path: str, line: int) -> Source:
    if where in columns:
        return Source(where)
    scaled = SCALED.match(where)
    if scaled is not None and scaled[1] in columns:
        factor = float(scaled[3]) if scaled[3].count(".") < 2 else math.nan
        if not 0 < factor < math.inf:
            raise ConfigError(f"columns: {scaled[3]!r} in {where!r} is no factor; give a number > 0")
        return Source(scaled[1], factor if scaled[2] == "*" else 1 / factor)
    for at in (place for place, sign in enumerate(where) if sign == "-"):
        left = where[:at].strip()
        right = where[at + 1 :].strip()
        if left in columns and right in columns:
            return Source(left, minus=right)
    sought = where if scaled is None else scaled[1]
    near = difflib.get_close_matches(sought.lower(), [c.lower() for c in columns], n=1, cutoff=0.5)
    meant = next((c for c in columns if near and c.lower() == near[0]), None)
    hint = f"did you mean {meant!r}?" if meant else "take one of these"
    what = f"columns: there is no column {sought!r} for {name}"
    raise TraceError(path, line, f"{what}; {hint} The header has {', '.join(columns)}")


def numbers(rows: TraceRows, source: Source, wanted: str) -> FloatArray:
    """A column of numbers >= 0 times its factor; NaN where a cell is empty."""
    if source.minus is not None:
        raise ConfigError(
            f"columns: {source.column}-{source.minus} is a difference of times; it can be a duration only"
        )
    return rows.optional(source.column, wanted, zero=True) * source.factor


def arrivals(rows: TraceRows, source: Source, form: str | None) -> FloatArray:
    """A column of times or seconds."""
    if source.minus is not None:
        raise ConfigError(f"columns: {source.column}-{source.minus} is a difference of times; an arrival is a column")
    if source.factor != 1.0:
        wanted = "a number; give one, or leave out the factor in the setting columns if these are dates"
        return rows.floats(source.column, lambda v: v >= 0, wanted) * source.factor
    return rows.times(source.column, needed=True, form=form)


def durations(rows: TraceRows, source: Source, form: str | None) -> FloatArray:
    """Seconds that jobs ran; NaN where they did not, or have not ended."""
    if source.minus is not None:
        ends = rows.times(source.column, needed=False, form=form)
        return ends - rows.times(source.minus, needed=False, form=form)
    lasted = np.full(len(rows), np.nan)
    for row, cell in enumerate(rows.cells[source.column]):
        text = cell.strip()
        seconds = elapsed_s(text) if ":" in text else _number(text) * source.factor
        if text and not 0 <= seconds <= LARGEST:
            at = moment(text)
            fix = (
                "write duration:end-start with the columns of both times"
                if at and not at.zoned
                else "give seconds >= 0"
            )
            rows.refuse(row, source.column, f"a duration; {fix}")
        else:
            lasted[row] = seconds
    return lasted


def texts(rows: TraceRows, source: Source) -> list[str]:
    """A column of texts."""
    return [cell.strip() for cell in rows.cells[source.column]]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
