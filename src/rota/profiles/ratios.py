"""A GPU type that nobody measured, given by a ratio: how many times as fast its device is for one model.

    [[ratio]]
    profile = "resnet18"
    type = "a100"            # what is wanted
    of = "v100"              # what was measured
    ratio = 1.9              # of the device alone, not of the whole job
    source = "vendor's figure for fp16"

A model with pipeline parameters keeps its CPUs and storage, which do not care which GPU they feed:
only its device is faster. A rate, or a model without parameters, is multiplied. On servers with other
storage it is what was measured, with that storage, that gets the faster device. All of it is marked
`derived`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rota.core.errors import ConfigError, UnknownName
from rota.profiles.catalogue import AloneRates, RowKey
from rota.profiles.cells import DERIVED
from rota.profiles.models import Model, ModelKey, Models, restaged

KEYS = ("profile", "type", "of", "ratio", "source")
MOST = 1e6
"""Between the speeds of two types."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """One entry."""

    profile: str
    type: str
    of: str
    ratio: float
    source: str


def read_ratios(entries: Sequence[Any], path: str) -> list[Ratio]:
    """The ratios of a file, one for each profile and type that is wanted."""
    ratios: dict[tuple[str, str], Ratio] = {}
    for number, entry in enumerate(entries, 1):
        place = f"{path}, ratio {number}"
        ratio = _read(entry, place)
        if (ratio.profile, ratio.type) in ratios:
            raise ConfigError(
                f"{place}: {ratio.profile!r} on {ratio.type} was already given by a ratio; keep one of them"
            )
        if ratio.type == ratio.of:
            raise ConfigError(
                f"{place}: {ratio.type} is given by itself; `type` is what nobody measured, `of` what was"
            )
        ratios[ratio.profile, ratio.type] = ratio
    return list(ratios.values())


def _read(entry: Any, place: str) -> Ratio:
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{place}: {entry!r} is not a table with {', '.join(KEYS[:-1])}")
    for name in entry:
        if name not in KEYS:
            raise UnknownName(f"key in {place}:", name, KEYS)
    for name in ("profile", "type", "of"):
        if not isinstance(entry.get(name), str) or not entry[name].strip():
            raise ConfigError(f'{place}: {name} is missing; give e.g. {name} = "v100"')
    value = entry.get("ratio")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 / MOST <= value <= MOST:
        raise ConfigError(f"{place}: ratio = {value!r} cannot be used; give a number from {1 / MOST:g} to {MOST:g}")
    return Ratio(entry["profile"], entry["type"], entry["of"], float(value), str(entry.get("source", "")))


def derived(
    ratios: Sequence[Ratio], alone: AloneRates, models: Models, path: str
) -> tuple[dict[RowKey, float], dict[ModelKey, Model]]:
    """The rows and models that the ratios add; what was measured is never replaced."""
    rows: dict[RowKey, float] = {}
    more: dict[ModelKey, Model] = {}
    for ratio in ratios:
        own_rows = {
            (profile, gpus, ratio.type, spread): rate * ratio.ratio
            for (profile, gpus, type_, spread), rate in alone.items()
            if (profile, type_) == (ratio.profile, ratio.of)
        }
        own_models = {
            (profile, gpus, ratio.type): _faster(model, ratio.ratio)
            for (profile, gpus, type_), model in models.items()
            if (profile, type_) == (ratio.profile, ratio.of)
        }
        if not own_rows and not own_models:
            raise ConfigError(
                f"{path}: a ratio of {ratio.profile!r} to {ratio.of}, which has no speed there; measure it"
            )
        new = {key: rate for key, rate in own_rows.items() if key not in alone}
        rows.update({key: rate for key, rate in new.items() if not _measured(key[:3], alone, models)})
        more.update({key: model for key, model in own_models.items() if not _measured(key, alone, models)})
    return rows, more


def _measured(key: ModelKey, alone: AloneRates, models: Models) -> bool:
    """Whether there is a speed on one server, which goes for several servers too where none was measured there."""
    profile, gpus, type_ = key
    if key in models or (profile, None, type_) in models:
        return True
    return gpus is not None and (profile, gpus, type_, False) in alone


def _faster(model: Model, ratio: float) -> Model:
    """A model with a device this many times as fast, also on servers with other storage."""
    return replace(
        _on_device(model, ratio),
        with_storage=None if model.with_storage is None else partial(_faster_with_storage, model.with_storage, ratio),
    )


def _faster_with_storage(with_storage: Callable[[float], Model], ratio: float, mbps: float) -> Model:
    return _faster(with_storage(mbps), ratio)


def _on_device(model: Model, ratio: float) -> Model:
    if model.stages is None or model.stages.device_rate is None:
        return replace(
            model,
            step_s=model.step_s / ratio,
            cells=model.cells.all_as(DERIVED) if model.cells else None,
            origin=DERIVED,
        )
    return restaged(model, model.stages.on_device(ratio), DERIVED)
