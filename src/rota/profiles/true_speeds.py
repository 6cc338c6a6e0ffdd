"""A catalogue of which a scheduler does not know everything: what both kinds of it have in common is the truth."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.sensitivity import Sensitivity
from rota.profiles.catalogue import Catalogue


class TrueSpeeds:
    """Asks the catalogue behind it. Jobs always progress at these speeds."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.name = catalogue.name

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
