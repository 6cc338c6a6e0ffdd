"""Rows of a catalogue file, from text to numbers, with the place of whatever is wrong."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rota.core import packed
from rota.core.errors import ConfigError, UnknownName
from rota.core.parsing import parse_json, parse_toml
from rota.profiles.catalogue import ORIGINS
from rota.profiles.models import AXES

COLUMNS = ("profile", "gpus", "type", "spread", "partner", "rate", "origin", "watts", "error")
SLOWEST = 1e-9
FASTEST = 1e18
"""Steps/s. Beyond these, times and sums of steps are too large or too small for a float."""
REQUIRED = ("profile", "gpus", "type", "rate")
ABOUT = ("name", "title", "source", "licence", "base", "pairs", "reference", "command", "machine", "remarks")
FORMAT = 1
"""Version of what `rota profile` writes. A file that does not say it is of this one."""

V = TypeVar("V", int, float, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRows:
    """The cells of a catalogue file, still text."""

    path: str
    about: Mapping[str, str]
    cells: Mapping[str, Sequence[str]]
    """One list per column of COLUMNS; empty text where a file leaves a column out."""
    places: Sequence[str]
    """Where each row stands, as people say it: a line or an entry."""
    models: Sequence[Any] = ()
    """The entries of `model`, not looked at yet (rota.profiles.models)."""
    ratios: Sequence[Any] = ()
    """The entries of `ratio`, not looked at yet (rota.profiles.ratios)."""
    axes: Mapping[str, Any] = field(default_factory=dict)
    """The axes that hold for all models of the file."""


def read_rows(path: Path) -> ProfileRows:
    """The rows of a CSV, TOML or JSON file, `.gz` or not."""
    readers: dict[str, Callable[[str, str], ProfileRows]] = {
        ".csv": _from_csv,
        ".toml": _from_toml,
        ".json": _from_json,
    }
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() not in readers:
        endings = ".csv, .toml or .json (and .gz if compressed)"
        raise ConfigError(f"catalogue file {str(path)!r} must end in {endings}")
    return readers[suffix.lower()](read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a file, decompressed if it was compressed with gzip."""
    try:
        return packed.read_small(path).decode("utf-8-sig")
    except (*packed.DAMAGED, UnicodeDecodeError) as problem:
        fix = "check the path and the file"
        raise ConfigError(f"cannot read catalogue file {str(path)!r}: {problem}; {fix}") from None


def numbers(
    rows: ProfileRows,
    column: str,
    read: Callable[[str], V],
    accept: Callable[[V], bool],
    wanted: str,
) -> list[V]:
    """A column as numbers; the first that cannot be read or accepted is named with its place."""
    cells = rows.cells[column]
    try:
        values = [read(c) for c in cells]
    except ValueError:
        values = []
    if len(values) == len(cells) and all(map(accept, values)):
        return values
    bad = next(i for i, c in enumerate(cells) if not _acceptable(c, read, accept))
    raise ConfigError(f"{rows.path}, {rows.places[bad]}: {column} {cells[bad]!r} is not {wanted}")


def rates(rows: ProfileRows) -> list[float]:
    """The rates: none, or what can be counted with."""
    wanted = f"a speed; give steps/s from {SLOWEST:g} to {FASTEST:g}, or 0 (does not fit)"
    return numbers(rows, "rate", float, lambda rate: rate == 0 or SLOWEST <= rate <= FASTEST, wanted)


def gpu_counts(rows: ProfileRows) -> list[int]:
    """The numbers of GPUs."""
    wanted = "a number of GPUs; give a whole number >= 1"
    return numbers(rows, "gpus", int, lambda gpus: gpus >= 1, wanted)


def spreads(rows: ProfileRows) -> list[bool]:
    """Whether each row is about GPUs on several servers."""
    wanted = "0 or 1; give 1 if the GPUs are on several servers"
    return numbers(rows, "spread", _flag, lambda _: True, wanted)


def origins(rows: ProfileRows) -> list[str]:
    """How each rate was found; measured where the file does not say."""
    for place, cell in zip(rows.places, rows.cells["origin"], strict=True):
        if cell and cell not in ORIGINS:
            raise UnknownName(f"origin in {rows.path}, {place}:", cell, ORIGINS)
    return [cell or ORIGINS[0] for cell in rows.cells["origin"]]


def watts(rows: ProfileRows) -> list[float]:
    """Average power of a GPU; NaN where the file does not say."""
    wanted = "a power; give the watts of one GPU > 0, or leave it empty"
    return numbers(rows, "watts", _optional, lambda value: math.isnan(value) or 0 < value < math.inf, wanted)


def errors(rows: ProfileRows) -> list[float]:
    """How sure each rate is: half of its 95 % interval, relative; NaN where the file does not say."""
    wanted = "a relative error; give half of the 95 % interval >= 0, e.g. 0.03, or leave it empty"
    return numbers(rows, "error", _optional, lambda value: math.isnan(value) or 0 <= value < math.inf, wanted)


def _optional(text: str) -> float:
    return float(text) if text else math.nan


def _flag(text: str) -> bool:
    values = {"": False, "0": False, "1": True, "false": False, "true": True}
    if text.lower() not in values:
        raise ValueError(text)
    return values[text.lower()]


def _acceptable(cell: str, read: Callable[[str], V], accept: Callable[[V], bool]) -> bool:
    try:
        return accept(read(cell))
    except ValueError:
        return False


def _from_csv(text: str, path: str) -> ProfileRows:
    about: dict[str, str] = {}
    lines = io.StringIO(text, newline="")
    skipped = 0
    first = lines.readline()
    while first.startswith("#") or (first and not first.strip()):
        key, _, value = first.lstrip("#").partition(":")
        if key.strip() in ABOUT:
            about[key.strip()] = value.strip()
        skipped += 1
        first = lines.readline()
    try:
        header = [name.strip() for name in next(csv.reader([first]), [])]
        reader = csv.reader(lines)
        rows = [(row, reader.line_num) for row in reader if row]
    except csv.Error as problem:
        raise ConfigError(f"{path} is not valid CSV: {problem}") from None
    _check_columns(header, path, f"line {skipped + 1}")
    for row, line in rows:
        if len(row) != len(header):
            raise ConfigError(
                f"{path}, line {skipped + 1 + line}: {len(row)} cells in {','.join(row)!r}, but "
                f"the header names {len(header)} columns; give each row {','.join(header)}"
            )
    by_column = zip(*(row for row, _ in rows), strict=True)
    columns = dict(zip(header, by_column, strict=False)) if rows else {}
    return _rows(path, about, columns, [f"line {skipped + 1 + line}" for _, line in rows])


def _from_toml(text: str, path: str) -> ProfileRows:
    try:
        document = parse_toml(text)
    except ValueError as problem:
        raise ConfigError(f"{path} is not valid TOML: {problem}") from None
    return _from_entries(document, path)


def _from_json(text: str, path: str) -> ProfileRows:
    try:
        document = parse_json(text)
    except ValueError as problem:
        raise ConfigError(f"{path} is not valid JSON: {problem}") from None
    return _from_entries(document, path)


def _from_entries(document: Any, path: str) -> ProfileRows:
    lists = ("rate", "model")
    if not isinstance(document, dict) or not any(isinstance(document.get(name), list) for name in (*lists, "ratio")):
        raise ConfigError(
            f"{path} has no list `rate` of entries with {', '.join(REQUIRED)} and no list `model`; "
            f"see the documented format"
        )
    _check_format(document, path)
    known = ("format", *ABOUT, *AXES, *lists, "ratio")
    for key, value in document.items():
        if key not in known:
            raise UnknownName(f"key in {path}:", key, known)
        if key in (*lists, "ratio") and not isinstance(value, list):
            fix = f"write its entries as [[{key}]] tables"
            raise ConfigError(f"{path}: {key} = {value!r} is not a list; {fix}")
    entries, models = (document.get(name, []) for name in lists)
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            problem = f"{path}, entry {number}: {entry!r} is not a table with {', '.join(REQUIRED)}"
            raise ConfigError(problem)
        _check_columns(list(entry), path, f"entry {number}")
    about = {key: str(document[key]) for key in ABOUT if key in document}
    columns = {name: [str(e.get(name, "")) for e in entries] for name in COLUMNS}
    places = [f"entry {n}" for n in range(1, len(entries) + 1)]
    ratios = document.get("ratio", [])
    if not models and not ratios:
        return _rows(path, about, columns, places)
    axes = {key: document[key] for key in AXES if key in document}
    return ProfileRows(
        path=path,
        about=about,
        cells=columns,
        places=places,
        models=models,
        ratios=ratios,
        axes=axes,
    )


def _check_format(document: Mapping[str, Any], path: str) -> None:
    version = document.get("format", FORMAT)
    if version != FORMAT:
        fix = "update Rota, or profile the job again with this one"
        raise ConfigError(f"{path} has format = {version!r}, and this version of Rota reads format {FORMAT}; {fix}")


def _check_columns(given: Iterable[str], path: str, place: str) -> None:
    names = list(given)
    for name in names:
        if name not in COLUMNS:
            raise UnknownName(f"column in {path}, {place}:", name, COLUMNS)
    for name in REQUIRED:
        if name not in names:
            fix = f"needed are {', '.join(REQUIRED)}"
            raise ConfigError(f"{path}, {place}: column {name!r} is missing; {fix}")


def _rows(
    path: str, about: Mapping[str, str], columns: Mapping[str, Sequence[str]], places: Sequence[str]
) -> ProfileRows:
    if not places:
        raise ConfigError(f"{path} has no rows; give at least one with {', '.join(REQUIRED)}")
    empty = [""] * len(places)
    return ProfileRows(
        path=path,
        about=about,
        cells={c: columns.get(c, empty) for c in COLUMNS},
        places=places,
    )
