"""The jobs of Synergy's simulator (Mohan et al., OSDI 2022), number for number.

A length is 60 * 10**u seconds, with u uniform in [1.5, 3] for four jobs of five and in [3, 4] for
the rest; steps are length / step time, cut to whole ones. Gaps are exponential, rounded up to
seconds. The model follows from the mix. Random numbers are those of CPython's Mersenne Twister: all
lengths from the seed; then, from the same seed again, one number per gap and one small integer that
the artifact draws for a model and does not use. The Philly log only says how many jobs there are
before lengths repeat, and with `multi_gpu` how many GPUs each has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count as numbers
from itertools import islice
from random import Random

import numpy as np

from rota.core.errors import ConfigError
from rota.core.jobs import Jobs
from rota.workloads import philly
from rota.workloads.registry import workloads
from rota.workloads.settings import at_least, positive, whole
from rota.workloads.stream import Stream
from rota.workloads.synergy_models import MODELS, Mix, checked_split, step_seconds

Asked = tuple[float, float, int, int]
"""Arrival, duration, GPUs, tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedRecipe:
    """The settings, checked."""

    jobs_per_hour: float | None
    """None if all arrive at once."""
    split: tuple[float, ...]
    jobs: int | None
    multi_gpu: bool
    small: bool
    cold: bool
    hours: tuple[float, float]
    seed: int
    step_s: tuple[float, ...]
    """By model."""


@workloads.register("philly-derived", from_run=("seed",))
def philly_derived(
    *,
    jobs_per_hour: float | None = None,
    split: str | Sequence[float] = "20,70,10",
    jobs: int | None = None,
    multi_gpu: bool = False,
    static: bool = False,
    small: bool = False,
    synthetic: bool = False,
    original: bool = False,
    from_hour: float = 0.0,
    to_hour: float | None = None,
    cold: bool = False,
    seed: int = 42,
    profiles: str = "synergy",
) -> Stream:
    """Synergy's stream of jobs.

    `jobs_per_hour` is the load; `split` is percent of vision, language, speech. Without `jobs` the
    stream has no end. `multi_gpu` takes GPU counts from the Philly log. `static`: all at the start,
    a millisecond apart. `small`: lengths of the artifact's small trace. `synthetic`: the artifact
    without a log, which draws GPU counts too. `cold`: arrivals of the artifact's first run, before
    it has stored its list of jobs. `original`: arrivals and durations of the Philly log, between
    `from_hour` and `to_hour`. `profiles` has the seconds per step.
    """
    _check_modes(
        original=original,
        synthetic=synthetic,
        static=static,
        small=small,
        cold=cold,
        multi_gpu=multi_gpu,
    )
    if jobs is not None:
        whole("jobs", jobs, 1, "1000")
    elif static:
        fix = "give jobs=N, e.g. jobs=100"
        raise ConfigError(f"jobs is not given, and static jobs come all at once; {fix}")
    paced = not (static or original)
    if not original and (from_hour or to_hour is not None):
        fix = "give original=true too"
        raise ConfigError(f"from_hour and to_hour choose a part of the Philly log; {fix}")
    recipe = DerivedRecipe(
        jobs_per_hour=positive("jobs_per_hour", jobs_per_hour, "9") if paced else None,
        split=checked_split(split),
        jobs=jobs,
        multi_gpu=multi_gpu,
        small=small,
        cold=cold,
        hours=(at_least("from_hour", from_hour, 0, "0"), math.inf if to_hour is None else to_hour),
        seed=whole("seed", seed, 0, "42"),
        step_s=tuple(step_seconds(profiles, model) for model in MODELS),
    )
    source = _original if original else _synthetic if synthetic else _lengths_of_the_list
    endless = jobs is None and not original
    count = None if original else jobs
    return Stream(partial(_begin, recipe, source), endless=endless, static=static, count=count)


def _check_modes(*, original: bool, synthetic: bool, **others: bool) -> None:
    """Refuse settings that say nothing together."""
    useless = {"original": ("synthetic", "static", "small", "cold"), "synthetic": ("multi_gpu", "cold")}
    for mode, asked in (("original", original), ("synthetic", synthetic)):
        for other in useless[mode]:
            if asked and {"synthetic": synthetic, **others}[other]:
                raise ConfigError(f"{mode} and {other} do not go together; leave one of them out")


def _begin(
    recipe: DerivedRecipe,
    source: Callable[[DerivedRecipe], Iterator[Asked]],
) -> Callable[[int], Jobs]:
    asked = islice(source(recipe), recipe.jobs)
    mix = Mix(recipe.split)
    step_s = np.array(recipe.step_s)
    tenants = philly.shipped().tenants if source is _original else ("default",)

    def draw(count: int) -> Jobs:
        rows = list(islice(asked, count))
        at, length, gpus, tenant = zip(*rows, strict=True) if rows else ((), (), (), ())
        model = mix.take(len(rows))
        duration = np.array(length, dtype=np.float64)
        return Jobs(
            profiles=MODELS,
            profile=model,
            gpus=np.array(gpus, dtype=np.int64),
            total_steps=np.floor(duration / step_s[model]),
            submitted=np.array(at, dtype=np.float64),
            weight=np.ones(len(rows)),
            deadline=np.full(len(rows), np.inf),
            duration=duration,
            slo=np.full(len(rows), np.nan),
            tenants=tenants,
            tenant=np.array(tenant, dtype=np.int64),
        )

    return draw


def _lengths_of_the_list(recipe: DerivedRecipe) -> Iterator[Asked]:
    """Endless: lengths drawn beforehand, one per job of the log.

    After the last one they begin again.
    """
    gpus = philly.synergy_gpus() if recipe.multi_gpu else [1] * philly.SINGLE_GPU_JOBS
    lengths: list[float] = []
    drawn = random = Random(recipe.seed)
    if recipe.cold:
        lengths = [_length(drawn, small=recipe.small) for _ in gpus]
    else:
        random = Random(recipe.seed)
    at = 0.0
    for job in numbers():
        at = _arrival(recipe, job, at, random)
        if len(lengths) < min(job + 1, len(gpus)):  # a sequence of its own: drawn when it is needed
            lengths.append(_length(drawn, small=recipe.small))
        yield at, lengths[job % len(gpus)], gpus[job % len(gpus)], 0
        _unused_model(random)


def _synthetic(recipe: DerivedRecipe) -> Iterator[Asked]:
    """Endless: everything drawn job by job from one sequence."""
    random = Random(recipe.seed)
    at = 0.0
    for job in numbers():
        at = _arrival(recipe, job, at, random)
        length = _length(random, small=recipe.small)
        yield at, length, _gpus(random.random()), 0
        _unused_model(random)


def _original(recipe: DerivedRecipe) -> Iterator[Asked]:
    """The log itself, a part of it by the hours since its first job."""
    log = philly.shipped()
    if recipe.multi_gpu:
        log = log.only(np.isin(log.gpus, philly.GPU_COUNTS))
    first, last = recipe.hours
    log = log.of_usual_length()
    log = log.only((log.submitted >= first * 3600) & (log.submitted < last * 3600)).by_arrival()
    if not len(log.gpus):
        raise ConfigError(
            f"no job of the Philly log was submitted from hour {first:g} to hour {last:g} after "
            "its first; choose from_hour and to_hour between 0 and "
            f"{philly.shipped().submitted.max() / 3600:.0f}"
        )
    gpus = log.gpus.tolist() if recipe.multi_gpu else [1] * len(log.gpus)
    submitted = log.submitted.tolist()
    return zip(submitted, log.duration.tolist(), gpus, log.tenant.tolist(), strict=True)


def _arrival(recipe: DerivedRecipe, job: int, previous: float, random: Random) -> float:
    if recipe.jobs_per_hour is None:
        return round(job * 0.001, 3)
    return previous + math.ceil(-math.log(1.0 - random.random()) / recipe.jobs_per_hour * 60 * 60)


def _length(random: Random, *, small: bool) -> float:
    low, middle, high = (1.5, 2.5, 2.7) if small else (1.5, 3.0, 4.0)
    if random.random() >= 0.8:
        return float(60 * 10 ** (middle + (high - middle) * random.random()))
    return float(60 * 10 ** (low + (middle - low) * random.random()))


def _gpus(draw: float) -> int:
    if draw >= 0.95:
        return 8
    if draw >= 0.8:
        return 4
    return 2 if draw >= 0.7 else 1


def _unused_model(random: Random) -> None:
    """Draw what the artifact draws, a number below ten, and forget it."""
    while random.getrandbits(4) >= 10:
        pass
