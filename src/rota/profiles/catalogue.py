"""A table of measured speeds.

Steps/s by profile, number of GPUs, accelerator type and partner on the same GPUs.

Beside rates a catalogue may hold models (rota.profiles.models): the time of a step with the fair
share of CPUs and memory, for one or for any number of GPUs, and how the speed depends on both. A
rate goes before a model for any number.

Every catalogue knows the profile `recorded` of jobs whose duration is all that is known: on any type
and with any number of GPUs they do one step per second, and steps are seconds.

Spread means that the GPUs of a job are on more than one server. Where the spread figure was not
measured, or is zero although the job runs on one server, the figure for one server is used: no
measurement is not a proof that it is impossible.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rota.core.errors import ProfileMissing, UnknownName
from rota.core.jobs import RECORDED, RECORDED_RATE
from rota.core.sensitivity import Sensitivity
from rota.profiles.models import Model, Models
from rota.profiles.scaling import ESTIMATED, known_rule, scaled

if TYPE_CHECKING:
    from rota.profiles.pipeline import Fit

V = TypeVar("V")
MEASURED = "measured"
ORIGINS = (MEASURED, "extended", "derived", "predicted", "learned")
"""Of a row: measured point by point, extended by a model of those who measured, derived by a stated ratio, predicted by
the pipeline model of a profiler, learned from jobs while they ran."""

RowKey: TypeAlias = tuple[str, int, str, bool]
"""(profile, GPUs, type, spread)."""
AloneRates: TypeAlias = Mapping[RowKey, float]
"""Steps/s."""
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
    origins: Mapping[str, str] = field(default_factory=dict)
    """How a rate on one server was found, by type, where it was not measured: extended, derived, estimated."""
    models: Mapping[str, Model] = field(default_factory=dict)
    """By type, what a profiler found beside the speeds: how each cell was found, and the pipeline."""
    watts: Mapping[str, float] = field(default_factory=dict)
    """Average power of a GPU while the job runs, by type; only where a file says it."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Half of the 95 % interval of a rate on one server, relative, by type; only where a file says it."""


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
        *,
        origins: Mapping[RowKey, str] | None = None,
        watts: Mapping[RowKey, float] | None = None,
        errors: Mapping[RowKey, float] | None = None,
        remarks: Sequence[str] = (),
        scaling: str = "none",
    ) -> None:
        self.name = name
        self.alone = alone
        self.models: Models = models or {}
        self.about: Mapping[str, str] = about or {}
        """`title`, `source`, `licence` and `reference` where the file gives them."""
        self.fits = tuple(fits)
        """For a catalogue that is derived from others: the formulas it was made with, and their
        errors."""
        self.origins: Mapping[RowKey, str] = origins or {}
        """Of rows that were not measured: extended by their authors' model, or derived."""
        self.watts: Mapping[RowKey, float] = watts or {}
        """Average power of one GPU; nothing is computed from it."""
        self.errors: Mapping[RowKey, float] = errors or {}
        """Half of the 95 % interval of a rate, relative, where the file says it; nothing is computed from it."""
        self.remarks = tuple(remarks)
        """What a user of the catalogue should know, e.g. what its parts say differently."""
        self.scaling = scaling
        """Rule for numbers of GPUs that were not measured (rota.profiles.scaling)."""
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

    @property
    def reference_type(self) -> str | None:
        """The type that durations are about where nobody says it: the one stated, else the only one; else None."""
        only = self.types[0] if len(self.types) == 1 else None
        return self.about.get("reference", only)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset((*self.names, RECORDED))

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
        if profile == RECORDED:
            return RECORDED_RATE
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
            rate = self.alone.get((profile, gpus, type_, True)) or self._estimate(profile, gpus, type_, spread=True)
            if rate:
                return rate
        rate = self.measured(profile, gpus, type_)
        if rate is None:
            rate = self._estimate(profile, gpus, type_, spread=False)
        if rate is None:
            raise self._missing(profile, gpus, type_)
        return rate

    def origin(self, profile: str, gpus: int, type_: str) -> str:
        """How a rate on one server was found: one of ORIGINS, or estimated.

        Raises as `rate` does.
        """
        model = self._model(profile, gpus, type_)
        if model is not None:
            return model.origin
        if self.measured(profile, gpus, type_) is not None:
            return self.origins.get((profile, gpus, type_, False), MEASURED)
        self.rate(profile, gpus, type_)
        return ESTIMATED

    def scaled(self, rule: str) -> Catalogue:
        """The same with numbers of GPUs that were not measured estimated by a rule."""
        return self._with(scaling=known_rule(rule))

    def _estimate(self, profile: str, gpus: int, type_: str, *, spread: bool) -> float | None:
        """By the rule of the catalogue, for what was not measured on one server."""
        if self.scaling == "none" or self.measured(profile, gpus, type_) is not None:
            return None
        return scaled(self._by_count.get((profile, type_, spread), {}), gpus, self.scaling)

    @cached_property
    def _by_count(self) -> Mapping[tuple[str, str, bool], Mapping[int, float]]:
        """Rates by number of GPUs for each profile and type, on one server and on several."""
        rates: dict[tuple[str, str, bool], dict[int, float]] = {}
        for (profile, gpus, type_, spread), rate in self.alone.items():
            rates.setdefault((profile, type_, spread), {})[gpus] = rate
        for (profile, count, type_), model in self.models.items():
            if count is not None:
                rates.setdefault((profile, type_, False), {})[count] = 1 / model.step_s
        return rates

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
        return self._with(models={**self.models, **changed})

    def _with(self, *, models: Models | None = None, scaling: str | None = None) -> Catalogue:
        return Catalogue(
            self.name,
            self.alone,
            lambda: self.pairs,
            self.about,
            self.models if models is None else models,
            self.fits,
            origins=self.origins,
            watts=self.watts,
            errors=self.errors,
            remarks=self.remarks,
            scaling=self.scaling if scaling is None else scaling,
        )

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

    def describe(self, counts: Iterable[int] = ()) -> list[ProfileRow]:
        """One row per profile and number of GPUs, in the order of the table.

        With a scaling rule, estimates fill the gaps, and there are rows for these further numbers of GPUs.
        """
        rows: dict[tuple[str, int | None], tuple[dict[str, float], dict[str, float], dict[str, Model]]] = {}
        for (profile, gpus, type_, spread), rate in self.alone.items():
            together, apart, _ = rows.setdefault((profile, gpus), ({}, {}, {}))
            (apart if spread else together)[type_] = rate
        for (profile, count, type_), model in self.models.items():
            together, _, models = rows.setdefault((profile, count), ({}, {}, {}))
            together[type_] = 1 / model.step_s
            models[type_] = model
        known = [
            ProfileRow(
                profile=profile,
                gpus=number,
                rates=together,
                spread_rates=apart,
                step_s={t: m.step_s for t, m in models.items()},
                sensitivities={t: m.sensitivity for t, m in models.items() if m.sensitivity is not None},
                origins={**_of_row(self.origins, profile, number), **_not_measured(models)},
                models=models,
                watts=_of_row(self.watts, profile, number),
                errors=_of_row(self.errors, profile, number),
            )
            for (profile, number), (together, apart, models) in rows.items()
        ]
        return known if self.scaling == "none" else self._with_estimates(known, tuple(counts))

    def _with_estimates(self, rows: list[ProfileRow], counts: tuple[int, ...]) -> list[ProfileRow]:
        """The rows with estimates where something can be said, and rows of further numbers of GPUs."""
        row_of = {(row.profile, row.gpus): row for row in rows}
        filled = []
        for profile in dict.fromkeys(row.profile for row in rows):
            own = [row.gpus for row in rows if row.profile == profile]
            more = [] if None in own else [count for count in counts if count not in own]
            for gpus in sorted([*own, *more], key=lambda count: count or 0):
                row = row_of.get((profile, gpus), ProfileRow(profile=profile, gpus=gpus, rates={}, spread_rates={}))
                filled.append(self._filled(row))
        return [row for row in filled if row.rates]

    def _filled(self, row: ProfileRow) -> ProfileRow:
        if row.gpus is None:
            return row
        guesses = {t: self._estimate(row.profile, row.gpus, t, spread=False) for t in self.types}
        known = {t: rate for t, rate in guesses.items() if rate is not None}
        return replace(row, rates={**known, **row.rates}, origins={**dict.fromkeys(known, ESTIMATED), **row.origins})

    def _missing(self, profile: str, gpus: int, type_: str) -> ProfileMissing | UnknownName:
        if not self.known(profile):
            near = difflib.get_close_matches(profile, self.names, n=1, cutoff=0.3)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {len(self.names)} others."
            return ProfileMissing(
                f"no profile {profile!r} in catalogue {self.name!r}{hint} Measured types are "
                f"{', '.join(self.types)}. Name one that has it with --profiles (`rota profiles` lists them), "
                "or measure it and add it to a catalogue file."
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


def _not_measured(models: Mapping[str, Model]) -> dict[str, str]:
    return {t: model.origin for t, model in models.items() if model.origin != MEASURED}


def _of_row(values: Mapping[RowKey, V], profile: str, gpus: int | None) -> dict[str, V]:
    """What is said by type about one profile and number of GPUs, on one server."""
    return {t: value for (p, g, t, spread), value in values.items() if (p, g, spread) == (profile, gpus, False)}


def _listed(counts: Iterable[int]) -> str:
    return ", ".join(str(c) for c in counts)
