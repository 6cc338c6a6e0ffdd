"""Job arrays: many jobs alike that differ by an index. `FIRST-LAST[:STEP][%LIMIT]`, e.g. `0-99:2%8`.

The jobs of an array have consecutive numbers, so the number of the first one and the text above say which index each
of them has. Standard library only: agents use it, too.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from rota.core.errors import ConfigError

MOST_JOBS_OF_AN_ARRAY = 10_000
LARGEST_INDEX = 2**31 - 1
_FORM = re.compile(r"(\d{1,10})-(\d{1,10})(?::(\d{1,10}))?(?:%(\d{1,10}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ArrayIndices:
    """The indices of an array, and how many of its jobs may run at the same time."""

    indices: range
    limit: int
    """0: as many as there are GPUs for."""

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def last(self) -> int:
        """The largest index."""
        return self.indices[-1]

    def index(self, position: int) -> int:
        """The index of a job by its position in the array."""
        return self.indices[position]


@functools.lru_cache(maxsize=1024)
def array_indices(text: str) -> ArrayIndices:
    """The indices that a text stands for. Raises ConfigError."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError(f"array is {text!r}; give FIRST-LAST[:STEP][%LIMIT], such as 0-99, 0-98:2 or 0-99%8")
    first, last, step, limit = (None if part is None else int(part) for part in found.groups())
    if first is None or last is None or last < first or last > LARGEST_INDEX:
        raise ConfigError(f"array is {text!r}; give indices from 0 to {LARGEST_INDEX:,}, the lower one first")
    if step == 0 or limit == 0:
        raise ConfigError(f"array is {text!r}; give a step and a limit above 0, or leave them out")
    indices = range(first, last + 1, step or 1)
    if len(indices) > MOST_JOBS_OF_AN_ARRAY:
        raise ConfigError(
            f"array is {text!r}, which is {len(indices):,} jobs; an array has at most {MOST_JOBS_OF_AN_ARRAY:,}"
        )
    return ArrayIndices(indices, limit or 0)


def array_size(text: str) -> int:
    """How many jobs a submission with this text is: 1 without an array."""
    return len(array_indices(text)) if text else 1


def array_environment(text: str, array: int, job: int) -> dict[str, str]:
    """What a job of an array finds in its environment; `array` is the number of the first of them."""
    of_array = array_indices(text)
    return {
        "ROTA_ARRAY_JOB": str(array),
        "ROTA_ARRAY_INDEX": str(of_array.index(job - array)),
        "ROTA_ARRAY_SIZE": str(len(of_array)),
        "ROTA_ARRAY_FIRST": str(of_array.index(0)),
        "ROTA_ARRAY_LAST": str(of_array.last),
        "ROTA_ARRAY_STEP": str(of_array.indices.step),
    }
