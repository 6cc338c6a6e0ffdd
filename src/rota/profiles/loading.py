"""Catalogues by name or from a file, or several as one.

A file is CSV with the columns profile, gpus, type, rate and optionally spread (0/1), partner, origin
(measured, extended or derived) and watts (of one GPU); lines `# key: value` may stand before the
header. TOML (`[[rate]]` tables) and JSON (a list `rate` of objects) hold the same fields, with the
keys at the top level, and may hold `[[model]]` tables as well: step times, and how speed depends on
CPUs and memory (rota.profiles.models). The keys are name, title, source, licence; `base` (a built-in
catalogue whose rows apply where the file has none); `pairs` (a file beside this one with further
rows); `format` (1); `reference` (the type that durations in traces are about if the trace names none). Any of them
may be compressed (`.gz`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from rota.core import files
from rota.core.errors import ConfigError, UnknownName
from rota.core.jobs import RECORDED
from rota.profiles import gpemu, pipeline, recorded
from rota.profiles.catalogue import MEASURED, AloneRates, Catalogue, PairRates, RowKey
from rota.profiles.cells import DERIVED as DERIVED_ROW
from rota.profiles.merging import merged
from rota.profiles.models import Models, read_models
from rota.profiles.ratios import derived, read_ratios
from rota.profiles.rows import ProfileRows, errors, gpu_counts, origins, rates, read_rows, spreads, watts

V = TypeVar("V")

DATA = Path(__file__).parent / "data"
BUILT_IN = {
    "gavel": "gavel.csv",
    "gavel-physical": "gavel-physical.csv",
    "sia": "sia.csv",
    "arena": "arena.csv",
    "zeus": "zeus.csv",
    "lambda": "lambda.csv",
    "mlperf": "mlperf.csv",
    "synergy": "synergy.toml",
    "synergy-cpu4": "synergy-cpu4.toml",
    "synergy-cpu5": "synergy-cpu5.toml",
    "synergy-cpu6": "synergy-cpu6.toml",
    "examples": "examples.toml",
}
TRIED = ("gavel", "synergy", "lambda", "mlperf", "sia", "arena", "zeus")
"""Which of them are tried in turn when none is named."""
DERIVED: dict[str, tuple[Callable[..., Catalogue], tuple[str, ...]]] = {
    "gpemu": (gpemu.catalogue, ()),
    "pipeline": (pipeline.catalogue, ("synergy", "gavel")),
    RECORDED: (recorded.catalogue, ()),
}
"""Catalogues that are computed, and from which others."""


def names() -> list[str]:
    """Names of the built-in catalogues."""
    return sorted([*BUILT_IN, *DERIVED])


def load(wanted: str | Path | Sequence[str | Path]) -> Catalogue:
    """A built-in catalogue (read once per process), one from a file, or several (`a,b` or a list) as one.

    Of several, the first that has a speed is believed (rota.profiles.merging).
    """
    parts = parts_of(wanted)
    if len(parts) == 1:
        return _load_one(parts[0])
    repeated = next((part for part in parts if parts.count(part) > 1), None)
    if repeated is not None:
        raise ConfigError(f"catalogue {repeated!r} is named twice; name it once")
    return merged([_load_one(part) for part in parts])


def parts_of(wanted: str | Path | Sequence[str | Path]) -> list[str]:
    """The catalogues that are asked for, one by one; a file may have a comma in its name."""
    if isinstance(wanted, Path):
        return [str(wanted)]
    if not isinstance(wanted, str):
        return [str(part) for part in wanted]
    if "," not in wanted or files.is_there(wanted):
        return [wanted]
    return [part.strip() for part in wanted.split(",")]


def _load_one(text: str) -> Catalogue:
    if text in BUILT_IN or text in DERIVED:
        return _built_in(text)
    path = Path(text)
    if path.suffix not in {".csv", ".toml", ".json", ".gz"} and not files.is_there(path):
        raise UnknownName("catalogue", text, names())
    return _from_file(path)


@cache
def _built_in(name: str) -> Catalogue:
    if name in DERIVED:
        make, sources = DERIVED[name]
        return make(*map(_built_in, sources))
    return _from_file(DATA / BUILT_IN[name])


def _from_file(path: Path) -> Catalogue:
    rows = read_rows(path)
    alone, pairs = _tables(rows)
    own_rows = frozenset(alone)
    base = _base(rows)
    models: Models = read_models(rows.models, rows.axes, rows.path, base.models if base else {})
    _refuse_both(rows, alone, models)
    if base is not None:
        alone, models = _over(base, alone, models)
    if not alone and not models:
        raise ConfigError(f"{path} has no row without a partner; give the speed of each job alone")
    further, faster = derived(read_ratios(rows.ratios, rows.path), alone, models, rows.path)
    alone = {**alone, **further}
    models = {**models, **faster}
    beside = _beside(path, rows.about["pairs"]) if "pairs" in rows.about else None
    all_pairs = partial(_all_pairs, base, beside, pairs)
    beside_rates = _beside_rates(rows, base, own_rows)
    beside_rates.origins.update(dict.fromkeys(further, DERIVED_ROW))
    about = rows.about if base is None else {**_inherited(base), **rows.about}
    name = about.get("name", path.name)
    made = Catalogue(
        name,
        alone,
        all_pairs,
        about,
        models,
        origins=beside_rates.origins,
        watts=beside_rates.watts,
        errors=beside_rates.errors,
    )
    return _with_sound_reference(made, path)


def _beside(path: Path, name: str) -> Path:
    """The file with further rows, which whoever wrote the catalogue may not look for elsewhere on this machine."""
    if Path(name).name != name or name in ("", ".."):
        raise ConfigError(f"{path}: pairs is {name!r}; give the name of a file beside this one, without a folder")
    return path.parent / name


def _inherited(base: Catalogue) -> dict[str, str]:
    """What holds for a file that does not say it itself."""
    return {key: base.about[key] for key in ("reference",) if key in base.about}


def _with_sound_reference(catalogue: Catalogue, path: Path) -> Catalogue:
    stated = catalogue.about.get("reference")
    if stated is not None and stated not in catalogue.types:
        raise UnknownName(f"reference in {path}:", stated, catalogue.types)
    return catalogue


class _BesideRates(NamedTuple):
    """What a catalogue says of rows beside their rates, where it does."""

    origins: dict[RowKey, str]
    watts: dict[RowKey, float]
    errors: dict[RowKey, float]


def _beside_rates(rows: ProfileRows, base: Catalogue | None, own_rows: frozenset[RowKey]) -> _BesideRates:
    """Of the file, and of its base where that has rows of which the file says nothing."""
    origin_of = _column(rows, [None if origin == MEASURED else origin for origin in origins(rows)])
    watts_of = _column(rows, [None if math.isnan(value) else value for value in watts(rows)])
    error_of = _column(rows, [None if math.isnan(value) else value for value in errors(rows)])
    if base is None:
        return _BesideRates(origin_of, watts_of, error_of)
    return _BesideRates(
        {**{key: base.origins[key] for key in base.origins if key not in own_rows}, **origin_of},
        {**base.watts, **watts_of},
        {**{key: base.errors[key] for key in base.errors if key not in own_rows}, **error_of},
    )


def _column(rows: ProfileRows, column: Sequence[V | None]) -> dict[RowKey, V]:
    """What rows of jobs alone say in a column, where they do."""
    profile, type_, partner = (rows.cells[c] for c in ("profile", "type", "partner"))
    keys = zip(profile, gpu_counts(rows), type_, spreads(rows), strict=True)
    beside = zip(keys, column, partner, strict=True)
    return {key: value for key, value, other in beside if value is not None and not other}


def _refuse_both(rows: ProfileRows, alone: AloneRates, models: Models) -> None:
    """A job has a rate or a model: two speeds would contradict each other."""
    for profile, gpus, type_ in models:
        if gpus is not None and (profile, gpus, type_, False) in alone:
            raise ConfigError(
                f"{rows.path}: {profile!r} with {gpus} GPUs on {type_} is given as a rate and as a model; keep one"
            )


def _over(base: Catalogue, alone: AloneRates, models: Models) -> tuple[AloneRates, Models]:
    """The base with what the file says instead, in the order of the base.

    A model for any number of GPUs replaces what the base has for single numbers.
    """
    kept = {
        key: rate
        for key, rate in base.alone.items()
        if (key[0], key[1], key[2]) not in models and (key[0], None, key[2]) not in models
    }
    others = {
        key: model
        for key, model in base.models.items()
        if key in models or ((*key, False) not in alone and (key[0], None, key[2]) not in models)
    }
    return {**kept, **alone}, {**others, **models}


def _all_pairs(base: Catalogue | None, beside: Path | None, own: PairRates) -> PairRates:
    further = _tables(read_rows(beside))[1] if beside else {}
    return {**(base.pairs if base else {}), **further, **own}


def _base(rows: ProfileRows) -> Catalogue | None:
    name = rows.about.get("base")
    if name is None:
        return None
    if name not in names():
        raise UnknownName(f"base catalogue in {rows.path}:", name, names())
    return _built_in(name)


def _tables(rows: ProfileRows) -> tuple[AloneRates, PairRates]:
    profile, type_, partner = (rows.cells[c] for c in ("profile", "type", "partner"))
    keys = list(zip(profile, gpu_counts(rows), type_, spreads(rows), partner, strict=True))
    rate_of = dict(zip(keys, rates(rows), strict=True))
    if len(rate_of) < len(keys):
        _refuse_repetition(rows, keys)
    alone = {key[:4]: rate for key, rate in rate_of.items() if not key[4]}
    return alone, {key: rate for key, rate in rate_of.items() if key[4]}


def _refuse_repetition(rows: ProfileRows, keys: list[tuple[str, int, str, bool, str]]) -> None:
    seen: dict[tuple[str, int, str, bool, str], str] = {}
    for key, place in zip(keys, rows.places, strict=True):
        if key in seen:
            profile, gpus, type_, _, _ = key
            raise ConfigError(
                f"{rows.path}, {place}: {profile!r} with {gpus} GPUs on {type_} was already given "
                f"in {seen[key]}; keep one of the two"
            )
        seen[key] = place
