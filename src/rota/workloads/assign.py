"""What jobs of a log train, where the log does not say it, or names what nobody has measured.

A rule gives each job a profile, in order of arrival:

    mix      the models of Synergy's workloads, 20 % vision, 70 % language, 10 % speech, taking turns; with a seed the
             same models in a shuffled order
    random   any profile of the catalogue that was measured with as many GPUs as the job has, drawn with the seed
    like     the model the log names: itself if the catalogue has it, else a stand-in of similar kind (`STAND_INS`),
             else as in mix
    keep     the model the log names, whether it was measured or not
    NAME     this profile for every job

Steps are then those which fill the duration of the job on the reference type, at the speed of the
profile with its GPUs (with the next smaller measured number if it was not measured with these).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.jobs import Jobs, Requests, intern
from rota.profiles import Catalogue, load
from rota.workloads.synergy_models import MODELS, Mix

STAND_INS = {
    "cifar10": "res18", "resnet18": "res18", "imagenet": "res50", "resnet50": "res50", "inception3": "res50",
    "yolov3": "res50", "vgg16": "alexnet", "deepspeech2": "deepspeech", "gpt2": "transformer", "gpt": "transformer",
}  # fmt: skip
"""Models that Sia's and ElasticFlow's traces name, and what we have measured of their kind
(catalogue synergy)."""
REFERENCE_TYPE = "v100"
CATALOGUE = "synergy"


@dataclass(frozen=True, kw_only=True, eq=False)
class Logged:
    """What a log knows about its jobs, in any order."""

    submitted: FloatArray
    duration: FloatArray
    gpus: IntArray
    tenants: Sequence[str]
    models: Sequence[str] | None = None
    steps: FloatArray | None = None
    """Steps of the models named; only good as long as these are kept."""
    deadline: FloatArray | None = None
    """On the clock of the log; NaN where there is none."""
    requests: Requests | None = None
    from_zero: bool = False
    """Whether the clock of the log begins at 0; otherwise the first job arrives at 0."""

    def only(self, rows: IntArray) -> Logged:
        """Some of the jobs."""
        which = rows.tolist()
        return Logged(
            submitted=self.submitted[rows],
            duration=self.duration[rows],
            gpus=self.gpus[rows],
            tenants=[self.tenants[i] for i in which],
            models=None if self.models is None else [self.models[i] for i in which],
            steps=None if self.steps is None else self.steps[rows],
            deadline=None if self.deadline is None else self.deadline[rows],
            requests=None if self.requests is None else self.requests.take(rows),
            from_zero=self.from_zero,
        )


class Assignment:
    """A rule, its seed and the catalogue with the speeds."""

    def __init__(
        self,
        rule: str = "mix",
        seed: int | None = None,
        profiles: str | None = None,
    ) -> None:
        self._rule = rule
        self._seed = seed
        self._profiles = profiles

    def jobs(self, log: Logged) -> Jobs:
        """The jobs of a log by arrival, each with a profile and its steps."""
        order = np.argsort(log.submitted, kind="stable")
        duration = log.duration[order]
        gpus = log.gpus[order]
        submitted = log.submitted[order] - (0.0 if log.from_zero else log.submitted[order[0]])
        names = None if log.models is None else [log.models[i] for i in order.tolist()]
        profiles, profile = self._given(gpus, names)
        kept = self._rule == "keep" and log.steps is not None
        steps = log.steps[order] if kept and log.steps is not None else self._steps(profiles, profile, gpus, duration)
        tenants, tenant = intern(log.tenants)
        slo = np.full(len(order), np.nan)
        if log.deadline is not None:
            slo = (log.deadline - log.submitted)[order] / duration
        deadline = submitted + slo * duration
        return Jobs(
            profiles=profiles,
            profile=profile,
            gpus=gpus,
            total_steps=steps,
            submitted=submitted,
            weight=np.ones(len(order)),
            deadline=np.where(np.isnan(deadline), np.inf, deadline),
            duration=duration,
            slo=slo,
            tenants=tenants,
            tenant=tenant[order],
            requests=None if log.requests is None else log.requests.take(order),
        )

    def _given(
        self,
        gpus: IntArray,
        models: Sequence[str] | None,
    ) -> tuple[tuple[str, ...], IntArray]:
        """The profile of each job."""
        count = len(gpus)
        if self._rule == "random":
            return self._random(gpus)
        if self._rule == "keep":
            if models is None:
                fix = "give mix, random or a profile"
                raise ConfigError(f"assign = 'keep', but this trace names no models; {fix}")
            return intern(models)
        if self._rule == "mix" or (self._rule == "like" and models is None):
            return MODELS, self._mix(count)
        if self._rule == "like" and models is not None:
            mixed = [MODELS[i] for i in self._mix(count).tolist()]
            known = self._catalogue().known
            profile_of = {name: name if known(name) else STAND_INS.get(name.lower(), "") for name in set(models)}
            pairs = zip(models, mixed, strict=True)
            return intern([profile_of[name] or other for name, other in pairs])
        if not self._catalogue().known(self._rule):
            raise ConfigError(
                f"assign = {self._rule!r} is neither a rule (mix, random, like, keep) nor a "
                f"profile of catalogue {self._catalogue().name!r}; `rota profiles "
                f"{self._catalogue().name}` lists its profiles"
            )
        return (self._rule,), np.zeros(count, dtype=np.int64)

    def _mix(self, count: int) -> IntArray:
        if self._profiles is not None and not all(map(self._catalogue().known, MODELS)):
            raise ConfigError(
                f"assign needs Synergy's models, which catalogue {self._profiles!r} has not; give "
                "assign=random or a profile, or profiles=synergy"
            )
        models = Mix().take(count)
        if self._seed is None:
            return models
        return np.random.default_rng(self._seed).permutation(models)

    def _random(self, gpus: IntArray) -> tuple[tuple[str, ...], IntArray]:
        catalogue = self._catalogue()
        drawn = np.random.default_rng(self._seed or 0).random(len(gpus))
        profile = np.zeros(len(gpus), dtype=np.int64)
        for size in np.unique(gpus).tolist():
            numbered = enumerate(catalogue.names)
            fit = [i for i, n in numbered if catalogue.measured(n, size, REFERENCE_TYPE)]
            candidates = np.array(fit or range(len(catalogue.names)), dtype=np.int64)
            these = gpus == size
            profile[these] = candidates[(drawn[these] * len(candidates)).astype(np.int64)]
        return catalogue.names, profile

    def _steps(
        self,
        profiles: tuple[str, ...],
        profile: IntArray,
        gpus: IntArray,
        duration: FloatArray,
    ) -> FloatArray:
        catalogue = self._catalogue()
        combinations, which = np.unique(np.stack((profile, gpus)), axis=1, return_inverse=True)
        step_s = np.array([_step_s(catalogue, profiles[p], g) for p, g in combinations.T.tolist()])
        return np.asarray(duration / step_s[which.ravel()], dtype=np.float64)

    def _catalogue(self) -> Catalogue:
        if self._profiles is not None:
            return load(self._profiles)
        catalogues = (load(name) for name in (CATALOGUE, "gavel"))
        return next((c for c in catalogues if c.known(self._rule)), load(CATALOGUE))


def _step_s(catalogue: Catalogue, profile: str, gpus: int) -> float:
    """Seconds of a step; NaN for what nobody has measured."""
    if not catalogue.known(profile):
        return np.nan
    counts = [gpus, *sorted((c for c in catalogue.gpu_counts(profile) if c <= gpus), reverse=True)]
    for count in (*counts, *catalogue.gpu_counts(profile)):
        if catalogue.measured(profile, count, REFERENCE_TYPE):
            return catalogue.step_s(profile, count, REFERENCE_TYPE)
    return np.nan
