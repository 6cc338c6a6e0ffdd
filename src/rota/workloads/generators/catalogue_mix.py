"""Jobs of any catalogue: a Poisson stream over its models.

Every model (the text of a profile before its bracket) is equally likely, then each of its profiles. The
number of GPUs is 1, 2, 4 or 8 for 70, 10, 15 and 5 % of the jobs and a length 60 * 10**u seconds, with u
uniform in [1.5, 3] for four jobs of five and in [3, 4] for the rest, both as in Gavel's workload
(Narayanan et al., OSDI 2020). A profile that was not measured with so many GPUs gets the next smaller
number that was, else its smallest. The length is that on the reference type, or where the job was not
measured there on its fastest type: steps = length x speed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError, UnknownName
from rota.core.jobs import Jobs
from rota.profiles import Catalogue, load
from rota.workloads.registry import workloads
from rota.workloads.settings import positive, whole
from rota.workloads.stream import Draw, Stream

SIZES = (1, 2, 4, 8)
CHANCES = (0.7, 0.8, 0.95, 1.0)
"""Up to which draw a job has that number of GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CatalogueRecipe:
    """The settings, checked."""

    jobs_per_hour: float
    jobs: int | None
    multi_gpu: bool
    seed: int
    profiles: tuple[str, ...]
    models: tuple[tuple[int, ...], ...]
    """Numbers of the profiles of each model."""
    gpus: IntArray
    """[profile, size] the number of GPUs instead of each of SIZES."""
    speed: FloatArray
    """[profile, size] steps/s of that on the reference type."""


@workloads.register("catalogue", from_run=("seed",))
def catalogue_mix(
    *,
    jobs_per_hour: float | None = None,
    jobs: int | None = None,
    profiles: str = "lambda",
    models: str = "",
    multi_gpu: bool = True,
    reference: str = "",
    seed: int = 0,
) -> Stream:
    """A Poisson stream of jobs over the models of a catalogue.

    `profiles` is the catalogue, a name or a file (several: a,b); `models` names some of its models (a,b), all without
    it. Lengths are those on the `reference` type; without one, on that of the catalogue. Without `jobs` the stream
    has no end. `multi_gpu=false`: the smallest number of GPUs with which each was measured.
    """
    if jobs is not None:
        whole("jobs", jobs, 1, "100")
    catalogue = load(profiles)
    rate = positive("jobs_per_hour", jobs_per_hour, "20")
    names, groups = _models(catalogue, [name.strip() for name in models.split(",") if name.strip()])
    gpus, speed = _kinds(catalogue, names, reference or catalogue.reference_type)
    recipe = CatalogueRecipe(
        jobs_per_hour=rate,
        jobs=jobs,
        multi_gpu=multi_gpu,
        seed=whole("seed", seed, 0, "0"),
        profiles=names,
        models=groups,
        gpus=gpus,
        speed=speed,
    )
    return Stream(partial(_begin, recipe), endless=jobs is None)


def _models(catalogue: Catalogue, wanted: list[str]) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Profiles that run anywhere, and their numbers by model."""
    names = tuple(name for name in catalogue.names if _counts(catalogue, name))
    groups: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        groups.setdefault(name.partition(" (")[0], []).append(number)
    for model in wanted:
        if model not in groups:
            raise UnknownName(f"model of catalogue {catalogue.name!r}:", model, groups)
    return names, tuple(tuple(groups[model]) for model in (wanted or groups))


def _counts(catalogue: Catalogue, profile: str) -> list[int]:
    """Numbers of GPUs with which the profile runs on some type."""
    return [g for g in catalogue.gpu_counts(profile) if any(catalogue.measured(profile, g, t) for t in catalogue.types)]


def _kinds(catalogue: Catalogue, names: tuple[str, ...], reference: str | None) -> tuple[IntArray, FloatArray]:
    if reference is None:
        fix = f"give reference=TYPE, one of {', '.join(catalogue.types)}"
        raise ConfigError(f"catalogue {catalogue.name!r} does not say to which type lengths of jobs refer; {fix}")
    if reference not in catalogue.types:
        raise UnknownName(f"reference type for catalogue {catalogue.name!r}:", reference, catalogue.types)
    gpus = np.zeros((len(names), len(SIZES)), dtype=np.int64)
    speed = np.zeros(gpus.shape)
    for row, name in enumerate(names):
        counts = _counts(catalogue, name)
        for column, size in enumerate(SIZES):
            count = max((c for c in counts if c <= size), default=counts[0])
            fastest = max(catalogue.measured(name, count, t) or 0.0 for t in catalogue.types)
            gpus[row, column] = count
            speed[row, column] = catalogue.measured(name, count, reference) or fastest
    return gpus, speed


def _begin(recipe: CatalogueRecipe) -> Draw:
    # One sequence for each column, so that job k does not depend on how many are drawn at a time.
    models, variants, sizes, lengths, long, gaps = np.random.default_rng(recipe.seed).spawn(6)
    left = math.inf if recipe.jobs is None else recipe.jobs
    at = 0.0
    first = True

    def draw(count: int) -> Jobs:
        nonlocal left, at, first
        count = int(min(count, left))
        left -= count
        gap = gaps.exponential(3600.0 / recipe.jobs_per_hour, count)
        if first and count:
            gap[0] = 0.0
            first = False
        submitted = at + np.cumsum(gap)
        at = float(submitted[-1]) if count else at
        profile = _drawn(recipe, models.random(count), variants.random(count))
        size = np.searchsorted(CHANCES, sizes.random(count)) if recipe.multi_gpu else np.zeros(count, dtype=np.int64)
        part = lengths.random(count)
        duration = 60 * 10 ** np.where(long.random(count) >= 0.8, 3 + part, 1.5 + 1.5 * part)
        return _jobs(recipe, profile, size, submitted, duration)

    return draw


def _drawn(recipe: CatalogueRecipe, model: FloatArray, variant: FloatArray) -> IntArray:
    """The profile of each job: a model, then one of its profiles."""
    chosen = [recipe.models[int(m * len(recipe.models))] for m in model.tolist()]
    picked = [those[int(v * len(those))] for those, v in zip(chosen, variant.tolist(), strict=True)]
    return np.array(picked, dtype=np.int64)


def _jobs(
    recipe: CatalogueRecipe, profile: IntArray, size: IntArray, submitted: FloatArray, duration: FloatArray
) -> Jobs:
    count = len(profile)
    return Jobs(
        profiles=recipe.profiles,
        profile=profile,
        gpus=recipe.gpus[profile, size],
        total_steps=duration * recipe.speed[profile, size],
        submitted=submitted,
        weight=np.ones(count),
        deadline=np.full(count, np.inf),
        duration=duration,
        slo=np.full(count, np.nan),
    )
