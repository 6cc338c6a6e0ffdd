"""Profiles for jobs that have none.

A job that nobody measured and that says how many steps it has is first taken to be as fast on each type as the models
of the catalogue, in the geometric mean; then its speed is learned (`learned_speeds`). One that does not say its steps
(`unprofiled`) is scheduled as if every GPU did one step per second.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rota.core.errors import ConfigError, ProfileMissing, UnknownName
from rota.core.job_spec import UNPROFILED
from rota.core.parsing import is_count
from rota.core.ports import Listed, Sensitivities, StorageDependent, Throughputs
from rota.core.sensitivity import Sensitivity
from rota.profiles.inference import usual_rate

_LONGEST_NAME = 200
"""Characters of a profile that is not in the catalogue."""


class OpenCatalogue:
    """A catalogue that also knows the profile `unprofiled`."""

    def __init__(self, known: Throughputs) -> None:
        self._known = known
        self.name = known.name
        self._usual: dict[tuple[int, str], float] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Profiles that were measured."""
        return tuple(self._known.names) if isinstance(self._known, Listed) else ()

    @property
    def types(self) -> tuple[str, ...]:
        """Accelerator types on which something was measured."""
        return tuple(self._known.types) if isinstance(self._known, Listed) else ()

    def named_or_new(self, wish: str) -> str:
        """The profile a person means, or a new name under which a speed is to be learned. Raises ConfigError."""
        if self.means(wish):
            return self.named(wish)
        if len(wish) > _LONGEST_NAME or not wish.isprintable():
            raise ConfigError(
                f"profile {wish[:_LONGEST_NAME]!r} is not in catalogue {self.name!r}, and its speed cannot be learned "
                f"under that name; give up to {_LONGEST_NAME} printable characters"
            )
        return wish

    def measured(self, profile: str) -> bool:
        """Whether the catalogue itself has a profile."""
        return self._known.known(profile)

    @functools.cached_property
    def _plain_names(self) -> frozenset[str]:
        """Full names and names without batch size, as people may write them."""
        return frozenset(_plain(part) for name in self.names for part in (name, name.partition(" (batch size")[0]))

    def means(self, wish: str) -> bool:
        """Whether a name means something that there is."""
        return self.known(wish) or _plain(wish) in self._plain_names

    def named(self, wish: str) -> str:
        """The profile a person means: its name, or the one that is the same but for case, signs and `batch size`.

        `resnet18-32` is `ResNet-18 (batch size 32)`; without a batch size it is the largest one that was measured.
        Raises ConfigError with what there is.
        """
        if self.known(wish):
            return wish
        names = self.names
        exact = [name for name in names if _plain(wish) == _plain(name)]
        family = [name for name in names if _plain(wish) == _plain(name.partition(" (batch size")[0])]
        if len(exact) == 1:
            return exact[0]
        if family and not exact:
            return max(family, key=_batch)
        if exact:
            raise ConfigError(f"profile {wish!r} may be {_listed(exact)}; say which one")
        meant = self._near(wish, 0.4)
        hint = f"did you mean {_listed(meant)}? " if meant else ""
        raise ConfigError(
            f"profile {wish!r} is not in catalogue {self.name!r}; {hint}`rota profiles` lists what there is; without a "
            "profile a job is scheduled as an unknown one"
        )

    def hint(self, wish: str) -> str:
        """The profiles that a person may have meant, for the end of a sentence; empty: none looks like it."""
        meant = self._near(wish, 0.7)
        return f" (if {_listed(meant)} was meant, cancel it and submit it with that)" if meant else ""

    def _near(self, wish: str, likeness: float) -> list[str]:
        near = difflib.get_close_matches(_plain(wish), {_plain(name) for name in self.names}, n=4, cutoff=likeness)
        return [name for name in self.names if _plain(name) in near]

    def rate(self, profile: str, gpus: int, type_: str, *, spread: bool = False) -> float:
        """Steps/s of the whole job; 0 if it does not fit, or was not measured there.

        A server of a type that no catalogue knows may join at any time, so that is no error here.
        """
        if profile == UNPROFILED:
            return float(gpus)
        if not self._known.known(profile):
            return self.usual_rate(gpus, type_)
        with contextlib.suppress(ProfileMissing, UnknownName):
            return self._known.rate(profile, gpus, type_, spread=spread)
        return 0.0

    def usual_rate(self, gpus: int, type_: str) -> float:
        """Steps/s that a job nobody measured is taken to do."""
        key = (gpus, type_)
        if key not in self._usual:
            listed = isinstance(self._known, Listed)
            self._usual[key] = usual_rate(self, gpus, type_) if listed else float(gpus)
        return self._usual[key]

    def check(self, profile: str, gpus: int) -> None:
        """Raise ConfigError if no server of any type could ever run such a job."""
        types = self.types
        if not self.measured(profile) or not types:
            return
        if any(self.rate(profile, gpus, gpu_type) > 0 for gpu_type in types):
            return
        self._known.rate(profile, gpus, types[0])  # says what was measured, unless it was measured as nothing
        raise ConfigError(f"profile {profile!r} does not run on {gpus} GPUs of any type in catalogue {self.name!r}")

    def pair_rate(self, profile: str, partner: str, gpus: int, type_: str) -> float:
        """Steps/s while sharing; nobody knows how an unprofiled job shares."""
        if UNPROFILED not in (profile, partner):
            with contextlib.suppress(ProfileMissing, UnknownName):
                return self._known.pair_rate(profile, partner, gpus, type_)
        return 0.0

    def known(self, profile: str) -> bool:
        """Whether there is such a profile."""
        return profile == UNPROFILED or self._known.known(profile)

    def with_storage(self, mbps: Mapping[str, float]) -> OpenCatalogue:
        """The same on servers with this storage bandwidth by type, MB/s per GPU, as far as the catalogue cares."""
        return opened(self._known.with_storage(mbps)) if isinstance(self._known, StorageDependent) else self


class OpenSensitiveCatalogue(OpenCatalogue):
    """The same for a catalogue that knows about CPUs and memory."""

    _known: Any

    def step_s(self, profile: str, gpus: int, type_: str) -> float:
        """Seconds of one step."""
        if not self.measured(profile):
            return 1.0 / self.rate(profile, gpus, type_)
        with contextlib.suppress(ProfileMissing, UnknownName):
            return float(self._known.step_s(profile, gpus, type_))
        return math.inf

    def sensitivity(self, profile: str, gpus: int, type_: str) -> Sensitivity | None:
        """None for a job that does not care about CPUs and memory."""
        sensitivity: Sensitivity | None = None
        if profile != UNPROFILED:
            with contextlib.suppress(ProfileMissing, UnknownName):
                sensitivity = self._known.sensitivity(profile, gpus, type_)
        return sensitivity


def opened(known: Throughputs) -> OpenCatalogue:
    """The catalogue with `unprofiled` in it."""
    return OpenSensitiveCatalogue(known) if isinstance(known, Sensitivities) else OpenCatalogue(known)


@functools.lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    return "".join(c for c in name.lower().replace("batch size", "") if c.isalnum())


def _batch(name: str) -> int:
    size = name.partition(" (batch size")[2].strip(" )")
    return int(size) if is_count(size) else 0


def _listed(names: Sequence[str]) -> str:
    return " or ".join(repr(name) for name in names)
