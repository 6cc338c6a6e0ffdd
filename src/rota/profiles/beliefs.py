"""What a scheduler believes of jobs before it has seen them run, and what it makes of what it sees.

Of the jobs that arrive, a fraction has no profile, and of another fraction the profile is wrong by a factor (half of
those too fast, half too slow). Jobs progress at their true speed; what was measured on one type replaces what was
believed there, and says something about the others:

    wrong profile:  believed(type) x geometric mean over the measured types of measured / believed
    no profile:     from models of the catalogue that are alike on the types that were measured (`completed`)

Before it was seen to run, a job without a profile is taken to be as fast on each type as the catalogue's models are
there, as their geometric mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError, ProfileMissing, UnknownName
from rota.core.sensitivity import Sensitivity
from rota.profiles.catalogue import Catalogue

UNKNOWN = "no profile"
_TOO_FAST = "too fast"
_TOO_SLOW = "too slow"
_ALIKE = 0.3
"""Distance of logarithms at which a model counts a third of one that is the same."""
_LEAST_WEIGHT = 1e-9


class BelievedCatalogue:
    """A catalogue whose rates a scheduler has to find out for some jobs (implements core.ports.Beliefs).

    `rate` and all the rest are the truth. Draws follow from `seed` and the number of the draw alone.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        unprofiled_fraction: float = 0.0,
        wrong_fraction: float = 0.0,
        wrong_factor: float = 2.0,
        learn: bool = True,
        seed: int = 0,
    ) -> None:
        parts = {"unprofiled_fraction": unprofiled_fraction, "wrong_fraction": wrong_fraction}
        for name, part in parts.items():
            if not 0 <= part <= 1:
                raise ConfigError(f"{name} = {part!r} is no fraction; give a number from 0 to 1")
        if unprofiled_fraction + wrong_fraction > 1:
            raise ConfigError("unprofiled_fraction and wrong_fraction are more than 1 together; give less")
        if not (math.isfinite(wrong_factor) and wrong_factor > 1):
            raise ConfigError(f"wrong_factor = {wrong_factor!r} is not above 1; give a factor such as 2")
        self.catalogue = catalogue
        self.name = catalogue.name
        self.unprofiled_fraction = unprofiled_fraction
        self.wrong_fraction = wrong_fraction
        self.wrong_factor = wrong_factor
        self.learns = learn
        """Whether what is seen replaces what was believed; if not, to see what learning is worth."""
        self.seed = seed
        self._usual = lru_cache(maxsize=None)(self._usual_rate)

    # Beliefs

    def belief(self, draw: int) -> str:
        """What is believed of the arriving job number `draw`; empty: the truth."""
        luck, side = np.random.default_rng((self.seed % 2**64, draw)).random(2)
        if luck < self.unprofiled_fraction:
            return UNKNOWN
        if luck < self.unprofiled_fraction + self.wrong_fraction:
            return _TOO_FAST if side < 0.5 else _TOO_SLOW
        return ""

    def believed_rate(self, profile: str, belief: str, gpus: int, type_: str, *, spread: bool = False) -> float:
        """Steps/s that a job is taken to do before it was seen to run."""
        if belief == UNKNOWN:
            return self._usual(gpus, type_)
        factor = {_TOO_FAST: self.wrong_factor, _TOO_SLOW: 1 / self.wrong_factor}.get(belief, 1.0)
        return self.rate(profile, gpus, type_, spread=spread) * factor

    def after_measuring(
        self, profile: str, belief: str, gpus: int, measured: Mapping[str, float], types: Sequence[str]
    ) -> Mapping[str, float]:
        """Steps/s by type once some were measured."""
        if belief == UNKNOWN:
            return completed(self.catalogue, gpus, measured, types)
        before = {gpu_type: self.believed_rate(profile, belief, gpus, gpu_type) for gpu_type in measured}
        ratios = [math.log(rate / before[gpu_type]) for gpu_type, rate in measured.items() if before[gpu_type] > 0]
        off_by = math.exp(sum(ratios) / len(ratios)) if ratios else 1.0
        rates = dict(measured)
        for gpu_type in types:
            if gpu_type not in rates:
                rates[gpu_type] = self._measured_or_0(profile, belief, gpus, gpu_type) * off_by
        return {gpu_type: rate for gpu_type, rate in rates.items() if rate > 0}

    def _measured_or_0(self, profile: str, belief: str, gpus: int, type_: str) -> float:
        try:
            return self.believed_rate(profile, belief, gpus, type_)
        except ProfileMissing:
            return 0.0

    def _usual_rate(self, gpus: int, type_: str) -> float:
        rates = [rate for rate in _column(self.catalogue, gpus, type_) if rate > 0]
        return math.exp(sum(map(math.log, rates)) / len(rates)) if rates else float(gpus)

    # The truth

    @property
    def reference_type(self) -> str | None:
        """The type that durations are about where nobody says it."""
        return self.catalogue.reference_type

    @property
    def names(self) -> tuple[str, ...]:
        """All profiles."""
        return self.catalogue.names

    @property
    def types(self) -> tuple[str, ...]:
        """Accelerator types on which something was measured."""
        return self.catalogue.types

    @property
    def remarks(self) -> Sequence[str]:
        """What a user of the catalogue should know."""
        return self.catalogue.remarks

    def known(self, profile: str) -> bool:
        """Whether the catalogue has this profile."""
        return self.catalogue.known(profile)

    def gpu_counts(self, profile: str) -> tuple[int, ...]:
        """With how many GPUs the profile was measured."""
        return self.catalogue.gpu_counts(profile)

    def rate(self, profile: str, gpus: int, type_: str, *, spread: bool = False) -> float:
        """True steps/s of the whole job, alone."""
        return self.catalogue.rate(profile, gpus, type_, spread=spread)

    def pair_rate(self, profile: str, partner: str, gpus: int, type_: str) -> float:
        """True steps/s of `profile` while it shares its GPUs with `partner`."""
        return self.catalogue.pair_rate(profile, partner, gpus, type_)

    def origin(self, profile: str, gpus: int, type_: str) -> str:
        """How the rate alone was found."""
        return self.catalogue.origin(profile, gpus, type_)

    def step_s(self, profile: str, gpus: int, type_: str) -> float:
        """True seconds of one step, alone."""
        return self.catalogue.step_s(profile, gpus, type_)

    def sensitivity(self, profile: str, gpus: int, type_: str) -> Sensitivity | None:
        """How the true rate depends on CPUs and memory."""
        return self.catalogue.sensitivity(profile, gpus, type_)

    def with_storage(self, mbps: Mapping[str, float]) -> BelievedCatalogue:
        """The same on servers with these MB/s per GPU, by type."""
        catalogue = self.catalogue.with_storage(mbps)
        if catalogue is self.catalogue:
            return self
        return BelievedCatalogue(
            catalogue,
            unprofiled_fraction=self.unprofiled_fraction,
            wrong_fraction=self.wrong_fraction,
            wrong_factor=self.wrong_factor,
            learn=self.learns,
            seed=self.seed,
        )


def completed(catalogue: Catalogue, gpus: int, measured: Mapping[str, float], types: Sequence[str]) -> dict[str, float]:
    """Steps/s by type of a job of which only some were measured, from models that are alike.

    With l the logarithms of speeds, relative to their mean over the measured types:

        l(job, type) = sum over models of w l(model, type) / sum of w,   w = exp(-(distance / 0.3)^2)

    where the distance of a model is the root mean square over the measured types. Not by matrix completion as pairs
    are: with one or two entries of a row of three that is worse (a factor of 1.8 off in the median instead of 1.5),
    and depends on the order of the types.
    """
    others = [gpu_type for gpu_type in types if gpu_type not in measured]
    columns = {gpu_type: _column(catalogue, gpus, gpu_type) for gpu_type in (*measured, *others)}
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


def _column(catalogue: Catalogue, gpus: int, type_: str) -> list[float]:
    """Steps/s of all models on a type; 0 where one was not measured."""
    return [_rate_or_0(catalogue, name, gpus, type_) for name in catalogue.names]


def _rate_or_0(catalogue: Catalogue, profile: str, gpus: int, type_: str) -> float:
    try:
        return catalogue.rate(profile, gpus, type_)
    except (ProfileMissing, UnknownName):
        return 0.0
