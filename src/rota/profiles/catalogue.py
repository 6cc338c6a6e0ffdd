"""A table of measured speeds.

Steps/s by profile, number of GPUs, accelerator type and partner on the same GPUs.

Beside rates a catalogue may hold models (rota.profiles.models): the time of a step with the fair
share of CPUs and memory, for one or for any number of GPUs, and how the speed depends on both. A
rate goes before a model for any number.

Spread means that the GPUs of a job are on more than one server. Where the spread figure was not
measured, or is zero although the job runs on one server, the figure for one server is used: no
measurement is not a proof that it is impossible.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from rota.core.errors import ProfileMissing, UnknownName
from rota.core.sensitivity import Sensitivity
from rota.profiles.models import Model, Models

if TYPE_CHECKING:
    from rota.profiles.pipeline import Fit

AloneRates: TypeAlias = Mapping[tuple[str, int, str, bool], float]
"""(profile, GPUs, type, spread) -> steps/s."""
PairRates: TypeAlias = Mapping[tuple[str, int, str, bool, str], float]
"""(profile, GPUs, type, spread, partner) -> steps/s of the profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """What is known of one profile with one number of GPUs, for people to read."""

    profile: str
    gpus: int | None
    """None: any number."""
    rates: Mapping[str, float]
    """Steps/s by type, all GPUs on one server."""
    spread_rates: Mapping[str, float]
    """Steps/s by type, GPUs on several servers; only what was measured."""
    step_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a step by type, as the file gives them; empty for rates."""
    sensitivities: Mapping[str, Sensitivity] = field(default_factory=dict)
    """By type; empty for jobs that do not care about CPUs and memory."""


class Catalogue:
    """Measured speeds, as `Throughputs`, `Sensitivities` and `StorageDependent` of rota.core.ports.

    Pair rates are read when the first one is asked for.
    """

    def __init__(
        self,
        name: str,
        alone: AloneRates,
        pairs: Callable[[], PairRates] = dict,
        about: Mapping[str, str] | None = None,
        models: Models | None = None,
        fits: Sequence[Fit] = (),
    ) -> None:
        self.name = name
        self.alone = alone
        self.models: Models = models or {}
        self.about: Mapping[str, str] = about or {}
        """`title`, `source` and `licence` where the file gives them."""
        self.fits = tuple(fits)
        """For a catalogue that is derived from others: the formulas it was made with, and their
        errors."""
        self._read_pairs = pairs

    @cached_property
    def pairs(self) -> PairRates:
        """Speeds of two jobs on the same GPUs."""
        return self._read_pairs()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Profiles, in the order of the table."""
        measured = [name for name, *_ in self.alone]
        return tuple(dict.fromkeys([*measured, *(name for name, *_ in self.models)]))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Accelerator types, alphabetical."""
        return tuple(sorted({t for _, _, t, _ in self.alone} | {t for _, _, t in self.models}))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def known(self, profile: str) -> bool:
        """Whether the catalogue has this profile."""
        return profile in self._known

    def gpu_counts(self, profile: str) -> tuple[int, ...]:
        """With how many GPUs the profile was measured, on any type.

        A model for any number counts as 1.
        """
        counts = {gpus for name, gpus, _, _ in self.alone if name == profile}
        modelled = {gpus or 1 for name, gpus, _ in self.models if name == profile}
        return tuple(sorted(counts | modelled))

    def measured(self, profile: str, gpus: int, type_: str) -> float | None:
        """Steps/s on one server; None where it was not measured."""
        rate = self.alone.get((profile, gpus, type_, False))
        if rate is not None:
            return rate
        model = self._model(profile, gpus, type_)
        return None if model is None else 1 / model.step_s

    def rate(self, profile: str, gpus: int, type_: str, *, spread: bool = False) -> float:
        """Steps/s of the whole job; 0 if it does not fit.

        Raises ProfileMissing for a profile or a number of GPUs that was not measured on this type,
        and UnknownName for a type that the catalogue does not have.
        """
        if spread:
            rate = self.alone.get((profile, gpus, type_, True))
            if rate:
                return rate
        rate = self.measured(profile, gpus, type_)
        if rate is None:
            raise self._missing(profile, gpus, type_)
        return rate

    def step_s(self, profile: str, gpus: int, type_: str) -> float:
        """Seconds of one step on one server, as measured; infinite if the job does not fit.

        Raises as `rate` does.
        """
        model = self._model(profile, gpus, type_)
        if model is not None:
            return model.step_s
        rate = self.rate(profile, gpus, type_)
        return 1 / rate if rate else math.inf

    def sensitivity(self, profile: str, gpus: int, type_: str) -> Sensitivity | None:
        """How the rate depends on CPUs and memory; None if that was not measured.

        Raises as `rate` does.
        """
        model = self._model(profile, gpus, type_)
        if model is None:
            self.rate(profile, gpus, type_)
            return None
        return model.sensitivity

    def with_storage(self, mbps: Mapping[str, float]) -> Catalogue:
        """The same on servers with these MB/s per GPU, by type.

        Derived models follow, measured ones stay.
        """
        changed = {
            key: model.with_storage(mbps[key[2]])
            for key, model in self.models.items()
            if model.with_storage is not None and key[2] in mbps
        }
        if not changed:
            return self
        models = {**self.models, **changed}
        return Catalogue(self.name, self.alone, lambda: self.pairs, self.about, models, self.fits)

    def _model(self, profile: str, gpus: int, type_: str) -> Model | None:
        if not self.models or (profile, gpus, type_, False) in self.alone:
            return None
        model = self.models.get((profile, gpus, type_))
        return self.models.get((profile, None, type_)) if model is None and gpus >= 1 else model

    def pair_rate(
        self,
        profile: str,
        partner: str,
        gpus: int,
        type_: str,
        *,
        spread: bool = False,
    ) -> float:
        """Steps/s of `profile` while it shares its GPUs with `partner`.

        0 if they do not fit together.

        Two profiles that were measured alone but never together count as not fitting; anything else
        raises as `rate` does.
        """
        if spread:
            rate = self.pairs.get((profile, gpus, type_, True, partner))
            if rate:
                return rate
        rate = self.pairs.get((profile, gpus, type_, False, partner))
        if rate is None:
            self.rate(profile, gpus, type_)
            self.rate(partner, gpus, type_)
            return 0.0
        return rate

    def describe(self) -> list[ProfileRow]:
        """One row per profile and number of GPUs, in the order of the table."""
        rows: dict[tuple[str, int | None], tuple[dict[str, float], dict[str, float], dict[str, Model]]] = {}
        for (profile, gpus, type_, spread), rate in self.alone.items():
            together, apart, _ = rows.setdefault((profile, gpus), ({}, {}, {}))
            (apart if spread else together)[type_] = rate
        for (profile, count, type_), model in self.models.items():
            together, _, models = rows.setdefault((profile, count), ({}, {}, {}))
            together[type_] = 1 / model.step_s
            models[type_] = model
        return [
            ProfileRow(
                profile=profile,
                gpus=number,
                rates=together,
                spread_rates=apart,
                step_s={t: m.step_s for t, m in models.items()},
                sensitivities={t: m.sensitivity for t, m in models.items() if m.sensitivity is not None},
            )
            for (profile, number), (together, apart, models) in rows.items()
        ]

    def _missing(self, profile: str, gpus: int, type_: str) -> ProfileMissing | UnknownName:
        if not self.known(profile):
            near = difflib.get_close_matches(profile, self.names, n=1, cutoff=0.3)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {len(self.names)} others."
            return ProfileMissing(
                f"no profile {profile!r} in catalogue {self.name!r}{hint} Measured types are "
                f"{', '.join(self.types)}. `rota profiles` lists all profiles; measure this one "
                "and add it to a catalogue file."
            )
        if type_ not in self.types:
            return UnknownName(f"accelerator type for catalogue {self.name!r}:", type_, self.types)
        counts = self.gpu_counts(profile)
        any_number = any(name == profile and count is None for name, count, _ in self.models)
        if gpus not in counts and not any_number:
            return ProfileMissing(
                f"profile {profile!r} was not measured with {gpus} GPUs in catalogue "
                f"{self.name!r}, only with {_listed(counts)} (on "
                f"{', '.join(self._types_of(profile, None))}); ask for one of these, or add a "
                "measurement to a catalogue file."
            )
        measured = self._types_of(profile, gpus)
        return ProfileMissing(
            f"profile {profile!r} with {gpus} GPUs was not measured on {type_} in catalogue "
            f"{self.name!r}; measured types are {', '.join(measured) or 'none'}. Add a row for "
            f"{type_} to a catalogue file (rate 0 if it does not fit)."
        )

    def _types_of(self, profile: str, gpus: int | None) -> list[str]:
        rates = {t for p, g, t, spread in self.alone if p == profile and gpus in (None, g) and not spread}
        return sorted(rates | {t for p, g, t in self.models if p == profile and (None in (gpus, g) or g == gpus)})


def _listed(counts: Iterable[int]) -> str:
    return ", ".join(str(c) for c in counts)
