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

from rota.core.errors import ConfigError, ProfileMissing
from rota.profiles.catalogue import Catalogue
from rota.profiles.inference import completed, corrected, usual_rate
from rota.profiles.true_speeds import TrueSpeeds

UNKNOWN = "no profile"
_TOO_FAST = "too fast"
_TOO_SLOW = "too slow"


class BelievedCatalogue(TrueSpeeds):
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
        super().__init__(catalogue)
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
        believed = {name: self._measured_or_0(profile, belief, gpus, name) for name in {*types, *measured}}
        return corrected(believed, measured, types)

    def _measured_or_0(self, profile: str, belief: str, gpus: int, type_: str) -> float:
        try:
            return self.believed_rate(profile, belief, gpus, type_)
        except ProfileMissing:
            return 0.0

    def _usual_rate(self, gpus: int, type_: str) -> float:
        return usual_rate(self.catalogue, gpus, type_)

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
