"""The jobs of Gavel's trace writer (`generate_trace.py`, OSDI 2020), number for number.

Durations are one of `num_durations` values evenly spaced between `min_hours` and `max_hours` on a
V100; steps and arrivals are truncated to whole numbers, as in the file it writes. Random numbers
come from CPython's Mersenne Twister: models and priorities from the seed, gaps from seed + 1,
durations from seed + 2, numbers of GPUs from seed + 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

import numpy as np

from rota.core.errors import ConfigError
from rota.core.jobs import Jobs
from rota.workloads.generators.gavel_kinds import Kinds, jobs_table, read_kinds
from rota.workloads.registry import workloads
from rota.workloads.settings import at_least, positive, whole
from rota.workloads.stream import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecipe:
    """The settings, checked."""

    jobs: int
    interarrival_s: float
    multi_gpu: bool
    multi_priority: bool
    hours: tuple[float, ...]
    seed: int
    profiles: str


@workloads.register("gavel-trace", from_run=("seed",))
def trace(
    *,
    jobs: int | None = None,
    interarrival_s: float = 0.0,
    multi_gpu: bool = False,
    multi_priority: bool = False,
    min_hours: float = 1.0,
    max_hours: float = 4.0,
    num_durations: int = 4,
    seed: int = 0,
    profiles: str = "gavel",
) -> Stream:
    """Gavel's file generator: few durations, whole steps and arrivals."""
    shortest = positive("min_hours", min_hours, "1")
    longest = positive("max_hours", max_hours, "4")
    if longest < shortest:
        fix = "exchange them"
        raise ConfigError(f"max_hours = {longest} is less than min_hours = {shortest}; {fix}")
    recipe = TraceRecipe(
        jobs=whole("jobs", jobs, 1, "100"),
        interarrival_s=at_least("interarrival_s", interarrival_s, 0, "600"),
        multi_gpu=multi_gpu,
        multi_priority=multi_priority,
        hours=tuple(np.linspace(shortest, longest, whole("num_durations", num_durations, 1, "4")).tolist()),
        seed=whole("seed", seed, 0, "0"),
        profiles=profiles,
    )
    return Stream(partial(_begin, recipe), endless=False, count=recipe.jobs)


def _begin(recipe: TraceRecipe) -> Callable[[int], Jobs]:
    return _Drawing(recipe, read_kinds(recipe.profiles)).draw


class _Drawing:
    """One pass through the stream: four generators and the clock."""

    def __init__(self, recipe: TraceRecipe, kinds: Kinds) -> None:
        self._recipe = recipe
        self._kinds = kinds
        self._models = Random(recipe.seed)
        self._gaps = Random(recipe.seed + 1)
        self._durations = Random(recipe.seed + 2)
        self._sizes = Random(recipe.seed + 3)
        self._at = 0.0
        self._done = 0

    def draw(self, count: int) -> Jobs:
        """The next jobs."""
        count = min(count, self._recipe.jobs - self._done)
        models = [self._model() for _ in range(count)]
        template = np.array([model for model, _ in models], dtype=np.int64)
        gpus = np.array([self._gpus(model) for model, _ in models], dtype=np.int64)
        hours = self._recipe.hours
        drawn = [self._durations.choice(hours) for _ in range(count)]
        duration = 3600 * np.array(drawn, dtype=np.float64)
        steps = np.maximum(1.0, np.floor(self._kinds.steps(template, gpus, duration)))
        return jobs_table(
            self._kinds,
            template=template,
            gpus=gpus,
            steps=steps,
            submitted=np.floor([self._arrival() for _ in range(count)]),
            duration=duration,
            weight=np.array([weight for _, weight in models], dtype=np.float64),
            slo=np.full(count, np.nan),
        )

    def _model(self) -> tuple[int, float]:
        template = self._models.choice(range(len(self._kinds.profiles)))
        if not self._recipe.multi_priority:
            return template, 1.0
        return template, 5.0 if self._models.random() <= 0.2 else 1.0

    def _gpus(self, template: int) -> int:
        if not (self._recipe.multi_gpu and self._kinds.multi_gpu[template]):
            return 1
        draw = self._sizes.random()
        return 1 if draw < 0.7 else 2 if draw <= 0.8 else 4

    def _arrival(self) -> float:
        if self._done:
            self._at += -math.log(1.0 - self._gaps.random()) * self._recipe.interarrival_s
        self._done += 1
        return self._at
