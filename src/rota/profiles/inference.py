"""What measured speeds of a job on some types say about the others.

wrong profile:  believed(type) x geometric mean over the measured types of measured / believed     (`corrected`)
no profile:     from models of the catalogue that are alike on the types that were measured        (`completed`)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import ProfileMissing, UnknownName

_ALIKE = 0.3
"""Distance of logarithms at which a model counts a third of one that is the same."""
_LEAST_WEIGHT = 1e-9


class KnownSpeeds(Protocol):
    """Models to compare with."""

    @property
    def names(self) -> Iterable[str]:
        """All profiles."""

    def rate(self, profile: str, gpus: int, type_: str, *, spread: bool = False) -> float:
        """Steps/s of the whole job."""


def usual_rate(speeds: KnownSpeeds, gpus: int, type_: str) -> float:
    """Steps/s of models on a type, as their geometric mean; one step per second and GPU where none was measured."""
    rates = [rate for rate in _column(speeds, gpus, type_) if rate > 0]
    return math.exp(sum(map(math.log, rates)) / len(rates)) if rates else float(gpus)


def corrected(
    believed: Mapping[str, float], measured: Mapping[str, float], types: Sequence[str]
) -> Mapping[str, float]:
    """Steps/s by type of a job whose profile is off by some factor; types on which it cannot run are left out."""
    ratios = [math.log(rate / believed[name]) for name, rate in measured.items() if believed.get(name, 0.0) > 0]
    off_by = math.exp(sum(ratios) / len(ratios)) if ratios else 1.0
    rates = dict(measured)
    for gpu_type in types:
        if gpu_type not in rates:
            rates[gpu_type] = believed.get(gpu_type, 0.0) * off_by
    return {gpu_type: rate for gpu_type, rate in rates.items() if rate > 0}


def completed(speeds: KnownSpeeds, gpus: int, measured: Mapping[str, float], types: Sequence[str]) -> dict[str, float]:
    """Steps/s by type of a job of which only some were measured, from models that are alike.

    With l the logarithms of speeds, relative to their mean over the measured types:

        l(job, type) = sum over models of w l(model, type) / sum of w,   w = exp(-(distance / 0.3)^2)

    where the distance of a model is the root mean square over the measured types. Not by matrix completion as pairs
    are: with one or two entries of a row of three that is worse (a factor of 1.8 off in the median instead of 1.5),
    and depends on the order of the types.
    """
    others = [gpu_type for gpu_type in types if gpu_type not in measured]
    columns = {gpu_type: _column(speeds, gpus, gpu_type) for gpu_type in (*measured, *others)}
    have = [gpu_type for gpu_type in measured if any(columns[gpu_type])]
    rates = dict(measured)
    if not have:
        return rates
    own = np.log([measured[gpu_type] for gpu_type in have])
    for gpu_type in others:
        models = np.array([columns[name] for name in (*have, gpu_type)]).T
        models = np.log(models[(models > 0).all(axis=1)])
        if len(models):
            rates[gpu_type] = math.exp(_from_alike(models, own))
    return rates


def _from_alike(models: FloatArray, own: FloatArray) -> float:
    """The last column of a row of which all others are given, from rows that have all of them."""
    level = models[:, :-1].mean(axis=1)
    distance = np.sqrt(np.mean((models[:, :-1] - level[:, None] - (own - own.mean())) ** 2, axis=1))
    weight = np.exp(-((distance / _ALIKE) ** 2)) + _LEAST_WEIGHT
    return float(own.mean() + weight @ (models[:, -1] - level) / weight.sum())


def _column(speeds: KnownSpeeds, gpus: int, type_: str) -> list[float]:
    """Steps/s of all models on a type; 0 where one was not measured."""
    return [_rate_or_0(speeds, name, gpus, type_) for name in speeds.names]


def _rate_or_0(speeds: KnownSpeeds, profile: str, gpus: int, type_: str) -> float:
    try:
        return speeds.rate(profile, gpus, type_)
    except (ProfileMissing, UnknownName):
        return 0.0
