"""Several catalogues as one: for each profile, number of GPUs and type, the first that has it speaks.

Rows are joined, not profiles, so that a file of one's own can add a GPU type to the models of a built-in catalogue. The
speed on several servers always comes from the catalogue that has the speed on one. What two catalogues say differently,
and profiles that are put together from several, are said in `Catalogue.remarks`: a step must mean the same in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rota.profiles.catalogue import AloneRates, Catalogue, PairRates
from rota.profiles.models import Model, ModelKey

SHOWN = 3
"""Profiles that a remark names."""


def merged(catalogues: Sequence[Catalogue]) -> Catalogue:
    """All of them, the first before the second and so on."""
    result = catalogues[0]
    for other in catalogues[1:]:
        result = _joined(result, other)
    return result


def _joined(first: Catalogue, second: Catalogue) -> Catalogue:
    alone = {key: rate for key, rate in second.alone.items() if not _speaks(first, key[0], key[1], key[2])}
    models = {key: model for key, model in second.models.items() if not _has_model(first, key)}
    return Catalogue(
        f"{first.name},{second.name}",
        {**first.alone, **alone},
        partial(_all_pairs, first, second),
        _about(first, second),
        {**first.models, **models},
        (*first.fits, *second.fits),
        origins={**{key: second.origins[key] for key in alone if key in second.origins}, **first.origins},
        watts={**second.watts, **first.watts},
        errors={**{key: second.errors[key] for key in alone if key in second.errors}, **first.errors},
        remarks=(*first.remarks, *second.remarks, *_conflicts(first, second), *_mixed(first, second, alone, models)),
    )


def _speaks(catalogue: Catalogue, profile: str, gpus: int, type_: str) -> bool:
    return catalogue.measured(profile, gpus, type_) is not None


def _has_model(first: Catalogue, key: ModelKey) -> bool:
    profile, gpus, type_ = key
    return key in first.models if gpus is None else _speaks(first, profile, gpus, type_)


def _all_pairs(first: Catalogue, second: Catalogue) -> PairRates:
    return {**second.pairs, **first.pairs}


def _about(first: Catalogue, second: Catalogue) -> dict[str, str]:
    both = {}
    for key in ("title", "source", "licence"):
        texts = [about[key] for about in (first.about, second.about) if key in about]
        both[key] = "; ".join(dict.fromkeys(texts))
    both["reference"] = first.about.get("reference") or second.about.get("reference", "")
    return {key: text for key, text in both.items() if text}


def _conflicts(first: Catalogue, second: Catalogue) -> list[str]:
    """One remark about speeds that both have and that differ."""
    differing = []
    for profile, gpus, type_, spread in second.alone:
        ours = first.measured(profile, gpus, type_)
        theirs = second.alone[profile, gpus, type_, spread]
        if not spread and ours is not None and ours != theirs:
            differing.append((profile, gpus, type_, ours, theirs))
    if not differing:
        return []
    profile, gpus, type_, ours, theirs = differing[0]
    what = f"{len(differing)} speeds are in catalogue {first.name!r} and, different, in {second.name!r}"
    which = f"those of {first.name!r}, which is named first, are used"
    example = f"{profile!r} with {gpus} GPUs on {type_}: {ours:.6g} and not {theirs:.6g} steps/s"
    return [f"{what}; {which}, e.g. {example}"]


def _mixed(first: Catalogue, second: Catalogue, alone: AloneRates, models: dict[ModelKey, Model]) -> list[str]:
    """One remark about profiles whose rows are now from both."""
    added = {key[0] for key in (*alone, *models)}
    mixed = [name for name in first.names if name in added]
    if not mixed:
        return []
    shown = ", ".join(repr(name) for name in mixed[:SHOWN]) + (", ..." if len(mixed) > SHOWN else "")
    what = f"{len(mixed)} profiles have rows of catalogue {first.name!r} and of {second.name!r} ({shown})"
    return [f"{what}: a step must mean the same in both"]
