"""A table of measured speeds: steps/s by profile, number of GPUs, accelerator type and partner on the same GPUs.

Spread means that the GPUs of a job are on more than one server. Where the spread figure was not measured, or is zero
although the job runs on one server, the figure for one server is used: no measurement is not a proof that it is
impossible.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from rota.core.errors import ProfileMissing, UnknownName

AloneRates: TypeAlias = Mapping[tuple[str, int, str, bool], float]
"""(profile, GPUs, type, spread) -> steps/s."""
PairRates: TypeAlias = Mapping[tuple[str, int, str, bool, str], float]
"""(profile, GPUs, type, spread, partner) -> steps/s of the profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """What is known of one profile with one number of GPUs, for people to read."""

    profile: str
    gpus: int
    rates: Mapping[str, float]
    """Steps/s by type, all GPUs on one server."""
    spread_rates: Mapping[str, float]
    """Steps/s by type, GPUs on several servers; only what was measured."""


class Catalogue:
    """Measured speeds, as `rota.core.ports.Throughputs`. Pair rates are read when the first one is asked for."""

    def __init__(
        self,
        name: str,
        alone: AloneRates,
        pairs: Callable[[], PairRates] = dict,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.alone = alone
        self.about: Mapping[str, str] = about or {}
        """`title`, `source` and `licence` where the file gives them."""
        self._read_pairs = pairs

    @cached_property
    def pairs(self) -> PairRates:
        """Speeds of two jobs on the same GPUs."""
        return self._read_pairs()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Profiles, in the order of the table."""
        return tuple(dict.fromkeys(profile for profile, _, _, _ in self.alone))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Accelerator types, alphabetical."""
        return tuple(sorted({type_ for _, _, type_, _ in self.alone}))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def known(self, profile: str) -> bool:
        """Whether the catalogue has this profile."""
        return profile in self._known

    def gpu_counts(self, profile: str) -> tuple[int, ...]:
        """With how many GPUs the profile was measured, on any type."""
        return tuple(sorted({gpus for name, gpus, _, _ in self.alone if name == profile}))

    def rate(self, profile: str, gpus: int, type_: str, *, spread: bool = False) -> float:
        """Steps/s of the whole job; 0 if it does not fit.

        Raises ProfileMissing for a profile or a number of GPUs that was not measured on this type, and UnknownName
        for a type that the catalogue does not have.
        """
        if spread:
            found = self.alone.get((profile, gpus, type_, True))
            if found:
                return found
        found = self.alone.get((profile, gpus, type_, False))
        if found is None:
            raise self._missing(profile, gpus, type_)
        return found

    def pair_rate(self, profile: str, partner: str, gpus: int, type_: str, *, spread: bool = False) -> float:
        """Steps/s of `profile` while it shares its GPUs with `partner`; 0 if they do not fit together.

        Two profiles that were measured alone but never together count as not fitting; anything else raises as
        `rate` does.
        """
        if spread:
            found = self.pairs.get((profile, gpus, type_, True, partner))
            if found:
                return found
        found = self.pairs.get((profile, gpus, type_, False, partner))
        if found is None:
            self.rate(profile, gpus, type_)
            self.rate(partner, gpus, type_)
            return 0.0
        return found

    def describe(self) -> list[ProfileRow]:
        """One row per profile and number of GPUs, in the order of the table."""
        rows: dict[tuple[str, int], tuple[dict[str, float], dict[str, float]]] = {}
        for (profile, gpus, type_, spread), rate in self.alone.items():
            rows.setdefault((profile, gpus), ({}, {}))[spread][type_] = rate
        return [
            ProfileRow(profile=profile, gpus=gpus, rates=together, spread_rates=apart)
            for (profile, gpus), (together, apart) in rows.items()
        ]

    def _missing(self, profile: str, gpus: int, type_: str) -> ProfileMissing | UnknownName:
        if not self.known(profile):
            near = difflib.get_close_matches(profile, self.names, n=1, cutoff=0.3)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {len(self.names)} others."
            return ProfileMissing(
                f"no profile {profile!r} in catalogue {self.name!r}{hint} Measured types are {', '.join(self.types)}. "
                f"`rota profiles` lists all profiles; measure this one and add it to a catalogue file."
            )
        if type_ not in self.types:
            return UnknownName(f"accelerator type for catalogue {self.name!r}:", type_, self.types)
        counts = self.gpu_counts(profile)
        if gpus not in counts:
            return ProfileMissing(
                f"profile {profile!r} was not measured with {gpus} GPUs in catalogue {self.name!r}, only with "
                f"{_listed(counts)} (on {', '.join(self._types_of(profile, None))}); ask for one of these, "
                f"or add a measurement to a catalogue file."
            )
        measured = self._types_of(profile, gpus)
        return ProfileMissing(
            f"profile {profile!r} with {gpus} GPUs was not measured on {type_} in catalogue {self.name!r}; measured "
            f"types are {', '.join(measured) or 'none'}. Add a row for {type_} to a catalogue file (rate 0 if it "
            f"does not fit)."
        )

    def _types_of(self, profile: str, gpus: int | None) -> list[str]:
        return sorted({t for p, g, t, spread in self.alone if p == profile and gpus in (None, g) and not spread})


def _listed(counts: Iterable[int]) -> str:
    return ", ".join(str(c) for c in counts)
