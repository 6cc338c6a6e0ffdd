"""Catalogues by name or from a file.

A file is CSV with the columns profile, gpus, type, rate and optionally spread (0/1) and partner;
lines `# key: value` may stand before the header. TOML (`[[rate]]` tables) and JSON (a list `rate`
of objects) hold the same fields, with the keys at the top level, and may hold `[[model]]` tables as
well: step times, and how speed depends on CPUs and memory (rota.profiles.models). The keys are
name, title, source, licence; `base` (a built-in catalogue whose rows apply where the file has
none); `pairs` (a file beside this one with further rows). Any of them may be compressed (`.gz`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from rota.core.errors import ConfigError, UnknownName
from rota.profiles import gpemu, pipeline
from rota.profiles.catalogue import AloneRates, Catalogue, PairRates
from rota.profiles.models import Models, read_models
from rota.profiles.rows import ProfileRows, gpu_counts, rates, read_rows, spreads

DATA = Path(__file__).parent / "data"
BUILT_IN = {
    "gavel": "gavel.csv",
    "gavel-physical": "gavel-physical.csv",
    "synergy": "synergy.toml",
    "synergy-cpu4": "synergy-cpu4.toml",
    "synergy-cpu5": "synergy-cpu5.toml",
    "synergy-cpu6": "synergy-cpu6.toml",
}
DERIVED: dict[str, tuple[Callable[..., Catalogue], tuple[str, ...]]] = {
    "gpemu": (gpemu.catalogue, ()),
    "pipeline": (pipeline.catalogue, ("synergy", "gavel")),
}
"""Catalogues that are computed, and from which others."""


def names() -> list[str]:
    """Names of the built-in catalogues."""
    return sorted([*BUILT_IN, *DERIVED])


def load(name_or_path: str | Path) -> Catalogue:
    """A built-in catalogue (read once per process), or one from a file."""
    text = str(name_or_path)
    if text in BUILT_IN or text in DERIVED:
        return _built_in(text)
    path = Path(text)
    if path.suffix not in {".csv", ".toml", ".json", ".gz"} and not path.exists():
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
    base = _base(rows)
    models: Models = read_models(rows.models, rows.axes, rows.path, base.models if base else {})
    _refuse_both(rows, alone, models)
    if base is not None:
        alone, models = _over(base, alone, models)
    if not alone and not models:
        raise ConfigError(f"{path} has no row without a partner; give the speed of each job alone")
    beside = path.parent / rows.about["pairs"] if "pairs" in rows.about else None
    all_pairs = partial(_all_pairs, base, beside, pairs)
    return Catalogue(rows.about.get("name", path.name), alone, all_pairs, rows.about, models)


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
