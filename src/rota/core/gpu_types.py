"""Types of GPU in a table of jobs: where jobs may run, and where their durations were recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rota.core.arrays import IntArray

TypeSet: TypeAlias = tuple[str, ...]
"""Types on which a job may run, alphabetical; empty: any. `!k80` is one on which it may not."""
NOT = "!"
ANY: TypeSet = ()
NOWHERE: TypeSet = ("",)
"""A set with no type in it."""
NOT_SAID = ""
"""Where a duration was recorded, if nobody says it."""


def permits(allowed: TypeSet, gpu_type: str) -> bool:
    """Whether jobs with such a set may run on a type: it is not excluded, and named if any is."""
    if NOT + gpu_type in allowed:
        return False
    named = [name for name in allowed if not name.startswith(NOT)]
    return not named or gpu_type in named


def types_in_words(allowed: TypeSet) -> str:
    """A set of types that is not empty, in words."""
    named = [name for name in allowed if not name.startswith(NOT)]
    excluded = [name.removeprefix(NOT) for name in allowed if name.startswith(NOT)]
    words = [f"on {' or '.join(named)}"] if named else []
    words += [f"not on {' or '.join(excluded)}"] if excluded else []
    return ", ".join(words)


@dataclass(frozen=True, kw_only=True, eq=False)
class GpuTypes:
    """What jobs say about types. Texts are kept once and referred to by index."""

    sets: tuple[TypeSet, ...]
    allowed: IntArray
    """Points into `sets`."""
    names: tuple[str, ...]
    recorded: IntArray
    """Points into `names`."""

    def take(self, which: IntArray | slice) -> GpuTypes:
        """Those of some of the jobs."""
        return GpuTypes(
            sets=self.sets,
            allowed=self.allowed[which],
            names=self.names,
            recorded=self.recorded[which],
        )

    def allowed_sets(self) -> list[TypeSet]:
        """One set per job."""
        return [self.sets[i] for i in self.allowed.tolist()]

    def recorded_names(self) -> list[str]:
        """One type per job."""
        return [self.names[i] for i in self.recorded.tolist()]


def gpu_types(
    count: int,
    allowed: Sequence[Sequence[str]] | None = None,
    recorded: Sequence[str] | None = None,
) -> GpuTypes | None:
    """From one set and one name per job; None if they say nothing at all."""
    sets = [tuple(sorted(set(types))) for types in allowed] if allowed is not None else [ANY] * count
    names = list(recorded) if recorded is not None else [NOT_SAID] * count
    if not any(sets) and not any(names):
        return None
    known_sets: dict[TypeSet, int] = {}
    known_names: dict[str, int] = {}
    which_set = [known_sets.setdefault(types, len(known_sets)) for types in sets]
    which_name = [known_names.setdefault(name, len(known_names)) for name in names]
    return GpuTypes(
        sets=tuple(known_sets),
        allowed=np.array(which_set, dtype=np.int64),
        names=tuple(known_names),
        recorded=np.array(which_name, dtype=np.int64),
    )
