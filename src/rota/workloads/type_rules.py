"""What a log says about types of GPU, and what follows for its jobs.

A job that asked for a type, or for one of several, may only run there; the type on which it ran is the
one that its duration is about. Both may come from a partition instead, by a table of the user's. Jobs
that are replayed as recorded (rota.workloads.assign) run only on the type where they ran, because
nobody knows how fast they are elsewhere; `elsewhere=same` says that they are as fast there.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from rota.core.gpu_types import ANY, NOT, NOT_SAID, TypeSet
from rota.workloads.problems import Problems
from rota.workloads.settings import chosen, pairs

AS_TYPES = "as-types"
"""The value of `partitions` with which the name of a partition is taken for a type."""
SEPARATOR = "|"
"""Between types of which any will do."""


class TypeRules:
    """The settings `types`, `elsewhere`, `rename` and `partitions` of a log."""

    def __init__(
        self, *, types: str = "keep", elsewhere: str = "never", rename: str = "", partitions: str = ""
    ) -> None:
        self._keep = chosen("types", types, ("keep", "ignore")) == "keep"
        self._rename = pairs("rename", rename, "nvidia_a100:a100")
        self._as_types = partitions == AS_TYPES
        given = {} if self._as_types else pairs("partitions", partitions, "gpu-a100:a100,old:p100|v100")
        self._partitions = {name: type_set(value) for name, value in given.items()}
        self.only_where_recorded = chosen("elsewhere", elsewhere, ("never", "same")) == "never"

    def asked(self, cells: Sequence[TypeSet]) -> list[TypeSet]:
        """The types that jobs asked for, under the names of the user."""
        if not self._keep:
            return [ANY] * len(cells)
        known = {types: tuple(sorted({self._rename.get(t, t) for t in types})) for types in set(cells)}
        return [known[types] for types in cells]

    def ran_on(self, cells: Sequence[str]) -> list[str]:
        """The type on which jobs ran, under the names of the user."""
        return [self._rename.get(name, name) if self._keep else NOT_SAID for name in cells]

    def by_partition(
        self, asked: list[TypeSet], ran_on: list[str], partitions: Sequence[str], problems: Problems
    ) -> tuple[list[TypeSet], list[str]]:
        """The same with the types of the partition where the log names none for the job."""
        if not self._keep or not (self._as_types or self._partitions):
            return asked, ran_on
        names = set(partitions)
        for name in self._partitions:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(names)[:8])}"
                problems.remark(0, f"no job of the log is in the partition {name!r} of the setting partitions", hint)
        held = {name: self._types_of(name) for name in names}
        rows = zip(asked, ran_on, partitions, strict=True)
        found = [types or (ANY if ran else held[name]) for types, ran, name in rows]
        return found, [ran or _only(types) for ran, types in zip(ran_on, found, strict=True)]

    def _types_of(self, partition: str) -> TypeSet:
        if self._as_types:
            return (partition,) if partition else ANY
        return self._partitions.get(partition, ANY)


def where_recorded(asked: Sequence[TypeSet], ran_on: Sequence[str]) -> list[str]:
    """The type that each duration is about: where the job ran, or the only one that it asked for."""
    return [ran or _only(types) for ran, types in zip(ran_on, asked, strict=True)]


def type_set(text: str) -> TypeSet:
    """Types as they are written in one cell, `a100|h100`."""
    return tuple(sorted({name.strip() for name in text.split(SEPARATOR) if name.strip()}))


def _only(types: TypeSet) -> str:
    named = [name for name in types if not name.startswith(NOT)]
    return named[0] if len(named) == 1 else NOT_SAID
