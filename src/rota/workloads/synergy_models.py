"""The models of Synergy's workloads (Mohan et al., OSDI 2022).

Which there are, their mix, how long a step takes.

Three tasks share the jobs by percent. Each new job goes to the task that is furthest behind its
percentage, counted over the jobs so far, ties in the order vision, language, speech; the first job
of all is vision. Inside a task the models take turns. There is no chance in it, so that the mix is
the same for every seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rota.core.arrays import IntArray
from rota.core.errors import ConfigError
from rota.profiles import load

TASKS: Mapping[str, tuple[str, ...]] = {
    "vision": ("alexnet", "res18", "res50", "mobilenet", "shufflenet"),
    "language": ("gnmt", "transformer", "lstm"),
    "speech": ("m5", "deepspeech"),
}
MODELS = tuple(model for models in TASKS.values() for model in models)
SPLIT = (20.0, 70.0, 10.0)
"""Percent of vision, language and speech in the published runs."""


def step_seconds(profiles: str, model: str) -> float:
    """Seconds per step of a model on one GPU with its fair share, in the catalogue of this name."""
    return load(profiles).step_s(model, 1, "v100")


class Mix:
    """Gives each job its model, one after the other."""

    def __init__(self, split: Sequence[float] = SPLIT) -> None:
        self._wanted = [percent / 100 for percent in split]
        self._given = [0, 0, 0]
        self._jobs = 0
        starts = np.cumsum([0, *map(len, TASKS.values())]).tolist()
        self._first = starts[:-1]
        self._count = [len(models) for models in TASKS.values()]

    def take(self, count: int) -> IntArray:
        """Indices into `MODELS` for the next jobs."""
        return np.fromiter((self._next() for _ in range(count)), dtype=np.int64, count=count)

    def _next(self) -> int:
        task = 0
        if self._jobs:
            task = max(range(3), key=lambda t: self._wanted[t] - self._given[t] / self._jobs)
        model = self._first[task] + self._given[task] % self._count[task]
        self._given[task] += 1
        self._jobs += 1
        return int(model)


def checked_split(given: str | Sequence[float]) -> tuple[float, ...]:
    """Percent of vision, language, speech, from numbers or from text such as `20,70,10`.

    Any sum will do.
    """
    parts = given.split(",") if isinstance(given, str) else given
    try:
        split = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        split = ()
    if len(split) != 3 or not all(0 <= percent < math.inf for percent in split) or not any(split):
        fix = "give e.g. split=20,70,10"
        raise ConfigError(f"split = {given!r} is not percent of vision, language, speech; {fix}")
    return split
