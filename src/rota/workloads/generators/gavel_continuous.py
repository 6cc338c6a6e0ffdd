"""The jobs of Gavel's simulator (Narayanan et al., OSDI 2020), number for number.

A duration is 60 * 10**u seconds on a V100, with u uniform in [1.5, 3] for four jobs of five and in
[3, 4] for the rest; steps = duration * speed on V100s, unrounded. The model is one of 26. With
multi-GPU jobs 70 % ask for one GPU, 10 % for two, 15 % for four, 5 % for eight. Gaps between
arrivals are exponential. The random numbers are those of CPython's Mersenne Twister in the order in
which the artifact draws them: attributes of jobs from seed + 2, gaps from seed + 3, deadlines from
seed + 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.jobs import Jobs
from rota.workloads.generators.gavel_kinds import Kinds, jobs_table, read_kinds
from rota.workloads.registry import workloads
from rota.workloads.settings import at_least, capacity_by_type, positive, whole
from rota.workloads.stream import Stream

Attributes = tuple[int, float, int, float]
"""GPUs, duration, template, weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousRecipe:
    """The settings, checked."""

    interarrival_s: float
    jobs: int | None
    multi_gpu: bool
    multi_priority: bool
    slos: bool
    fixed_duration_s: float | None
    opening: tuple[int, ...]
    """GPUs by type that jobs at time 0 fill before the stream begins; empty unless steady state is
    asked for."""
    seed: int
    profiles: str


@workloads.register("gavel-continuous", from_run=("seed", "capacity"))
@workloads.register(
    "gavel-static",
    from_run=("seed", "capacity"),
    summary="As gavel-continuous, all jobs at time 0.",
    interarrival_s=0.0,
)
def continuous(
    *,
    interarrival_s: float | None = None,
    jobs: int | None = None,
    multi_gpu: bool = False,
    multi_priority: bool = False,
    slos: bool = False,
    fixed_duration_s: float | None = None,
    steady_state: bool = False,
    capacity: Mapping[str, int] | str | None = None,
    seed: int = 0,
    profiles: str = "gavel",
) -> Stream:
    """Gavel's Poisson stream of jobs.

    `interarrival_s` is the mean gap, 0 for all at once; without `jobs` the stream has no end. With
    `steady_state`, jobs that fill the `capacity` (GPUs by type) come first, at time 0; they count
    among `jobs`.
    """
    gap = at_least("interarrival_s", interarrival_s, 0, "3000")
    if jobs is not None:
        whole("jobs", jobs, 1, "100")
    elif gap == 0:
        fix = "give jobs=N, e.g. jobs=100"
        raise ConfigError(f"jobs is not given, and without gaps there is no end to time 0; {fix}")
    recipe = ContinuousRecipe(
        interarrival_s=gap,
        jobs=jobs,
        multi_gpu=multi_gpu,
        multi_priority=multi_priority,
        slos=slos,
        fixed_duration_s=None if fixed_duration_s is None else positive("fixed_duration_s", fixed_duration_s, "3600"),
        opening=tuple(capacity_by_type(capacity).values()) if steady_state else (),
        seed=whole("seed", seed, 0, "0"),
        profiles=profiles,
    )
    return Stream(partial(_begin, recipe), endless=jobs is None, count=jobs)


def _begin(recipe: ContinuousRecipe) -> Callable[[int], Jobs]:
    kinds = read_kinds(recipe.profiles)
    attributes = _attributes(recipe, kinds)
    arrivals = _arrivals(recipe, _opening_jobs(recipe, kinds))
    slos = _slos(Random(recipe.seed + 6)) if recipe.slos else None
    left = math.inf if recipe.jobs is None else recipe.jobs

    def draw(count: int) -> Jobs:
        nonlocal left
        count = int(min(count, left))
        left -= count
        gpus, duration, template, weight = _columns(attributes, count)
        return jobs_table(
            kinds,
            template=template,
            gpus=gpus,
            steps=kinds.steps(template, gpus, duration),
            submitted=_floats(arrivals, count),
            duration=duration,
            weight=weight,
            slo=np.full(count, np.nan) if slos is None else _floats(slos, count),
        )

    return draw


def _attributes(recipe: ContinuousRecipe, kinds: Kinds) -> Iterator[Attributes]:
    """Endless: what each job asks for, in the artifact's order of draws."""
    source = Random(recipe.seed + 2)
    random = source.random
    bits = source.getrandbits
    count = len(kinds.profiles)
    width = len(kinds.profiles).bit_length()
    weight = 1.0
    while True:
        # Drawn even if all jobs have one GPU: the artifact throws it away.
        size = random()
        gpus = _gpus(size) if recipe.multi_gpu else 1
        if recipe.fixed_duration_s is not None:
            duration = recipe.fixed_duration_s
        elif random() >= 0.8:
            duration = 60 * 10 ** (3 + random())
        else:
            duration = 60 * 10 ** (1.5 + 1.5 * random())
        template = bits(width)
        while template >= count or (gpus > 1 and not kinds.multi_gpu[template]):
            template = bits(width)
        if recipe.multi_priority:
            weight = 5.0 if random() <= 0.2 else 1.0
        yield gpus, duration, template, weight


def _gpus(draw: float) -> int:
    if draw < 0.7:
        return 1
    if draw <= 0.8:
        return 2
    return 4 if draw <= 0.95 else 8


def _opening_jobs(recipe: ContinuousRecipe, kinds: Kinds) -> int:
    """How many of the first jobs fill the cluster, type by type."""
    asked = _attributes(recipe, kinds)
    jobs = 0
    for capacity in recipe.opening:
        held = 0
        while held < capacity:
            held += next(asked)[0]
            jobs += 1
    return jobs


def _arrivals(recipe: ContinuousRecipe, opening: int) -> Iterator[float]:
    """Endless: arrival times, those of the opening jobs first."""
    for _ in range(opening):
        yield 0.0
    at = 0.0
    yield at
    random = Random(recipe.seed + 3).random
    log = math.log
    # The artifact divides by the rate; multiplying by the gap would change the last bit.
    rate = 1.0 / recipe.interarrival_s if recipe.interarrival_s else math.inf
    while True:
        at += -log(1.0 - random()) / rate
        yield at


def _slos(source: Random) -> Iterator[float]:
    while True:
        draw = source.random()
        yield 1.2 if draw < 0.33 else 2.0 if draw < 0.67 else 10.0


def _columns(
    rows: Iterator[Attributes],
    count: int,
) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
    gpus, duration, template, weight = zip(*islice(rows, count), strict=True) if count else ((), (), (), ())
    return (
        np.array(gpus, dtype=np.int64),
        np.array(duration, dtype=np.float64),
        np.array(template, dtype=np.int64),
        np.array(weight, dtype=np.float64),
    )


def _floats(values: Iterator[float], count: int) -> FloatArray:
    return np.fromiter(values, dtype=np.float64, count=count)
