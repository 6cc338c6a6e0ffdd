"""What jobs of a log train, where the log does not say it, or names what nobody has measured.

A rule gives each job a profile, in order of arrival:

    mix      the models of Synergy's workloads, 20 % vision, 70 % language, 10 % speech, taking turns; with a seed the
             same models in a shuffled order
    random   any profile of the catalogue that was measured with as many GPUs as the job has, drawn with the seed
    like     the model the log names: itself if the catalogue has it, else a stand-in of similar kind (`STAND_INS`),
             else as in mix
    keep     the model the log names, whether it was measured or not
    recorded none: jobs take as long as the log says, on the type where they ran
    known    the model the log names if the catalogue has it, else as in recorded
    NAME     this profile for every job

Steps are then those which fill the duration of the job on the type where it ran, or on the reference
type where the log does not say it, at the speed of the profile with its GPUs (with the next smaller
measured number if it was not measured with these).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.gpu_types import ANY, NOT_SAID, TypeSet, gpu_types
from rota.core.jobs import RECORDED, RECORDED_RATE, Jobs, Requests, intern, own_names
from rota.core.queue_columns import QueueColumns
from rota.profiles import TRIED, Catalogue, load
from rota.workloads.synergy_models import MODELS, Mix
from rota.workloads.type_rules import TypeRules, where_recorded

STAND_INS = {
    "cifar10": "res18", "resnet18": "res18", "imagenet": "res50", "resnet50": "res50", "inception3": "res50",
    "yolov3": "res50", "vgg16": "alexnet", "deepspeech2": "deepspeech", "gpt2": "transformer", "gpt": "transformer",
}  # fmt: skip
"""Models that Sia's and ElasticFlow's traces name, and what we have measured of their kind
(catalogue synergy)."""
CATALOGUE = "synergy"
BY_NAME = ("like", "keep", "known")
"""Rules that look at the models of the log."""


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
    asked: Sequence[TypeSet] | None = None
    """Types of which the job asked for one."""
    ran_on: Sequence[str] | None = None
    """The type on which the job ran; empty where the log does not say it."""
    names: Sequence[str] | None = None
    """What the log calls its jobs."""
    queue: QueueColumns | None = None
    """Arrays and time limits."""
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
            asked=None if self.asked is None else [self.asked[i] for i in which],
            ran_on=None if self.ran_on is None else [self.ran_on[i] for i in which],
            names=None if self.names is None else [self.names[i] for i in which],
            queue=None if self.queue is None else self.queue.take(rows),
            from_zero=self.from_zero,
        )


class Assignment:
    """A rule, its seed, the catalogue with the speeds, and what is made of types."""

    def __init__(
        self,
        rule: str = "mix",
        seed: int | None = None,
        profiles: str | Catalogue | None = None,
        reference: str | None = None,
        types: TypeRules | None = None,
    ) -> None:
        self._rule = rule
        self._seed = seed
        self._profiles = profiles
        self._reference = reference
        self.types = types or TypeRules()

    def jobs(self, log: Logged) -> Jobs:
        """The jobs of a log by arrival, each with a profile and its steps."""
        order = np.argsort(log.submitted, kind="stable")
        log = log.only(order)
        submitted = log.submitted - (0.0 if log.from_zero else log.submitted[0])
        if self._rule == "known" and self._profiles is None and log.models is not None:
            self._profiles = _best_for(log.models)
        profiles, profile = self._given(log.gpus, log.models)
        allowed, recorded = self._where(log, np.array(profiles, dtype=object)[profile] == RECORDED)
        kept = self._rule == "keep" and log.steps is not None
        steps = log.steps if kept and log.steps is not None else self._steps(profiles, profile, log, recorded)
        tenants, tenant = intern(log.tenants)
        slo = np.full(len(order), np.nan) if log.deadline is None else (log.deadline - log.submitted) / log.duration
        deadline = submitted + slo * log.duration
        return Jobs(
            profiles=profiles,
            profile=profile,
            gpus=log.gpus,
            total_steps=steps,
            submitted=submitted,
            weight=np.ones(len(order)),
            deadline=np.where(np.isnan(deadline), np.inf, deadline),
            duration=log.duration,
            slo=slo,
            tenants=tenants,
            tenant=tenant,
            requests=log.requests,
            gpu_types=gpu_types(len(order), allowed, recorded),
            names=own_names(log.names),
            queue=log.queue,
        )

    def _where(self, log: Logged, as_recorded: BoolArray) -> tuple[list[TypeSet], list[str]]:
        """On which types each job may run, and on which its duration was recorded."""
        count = len(log.submitted)
        asked = list(log.asked) if log.asked is not None else [ANY] * count
        ran_on = list(log.ran_on) if log.ran_on is not None else [NOT_SAID] * count
        recorded = [self._reference] * count if self._reference else where_recorded(asked, ran_on)
        if not self.types.only_where_recorded:
            return asked, recorded
        rows = zip(asked, recorded, as_recorded.tolist(), strict=True)
        return [(where,) if bound and where else types for types, where, bound in rows], recorded

    def _given(self, gpus: IntArray, models: Sequence[str] | None) -> tuple[tuple[str, ...], IntArray]:
        """The profile of each job."""
        count = len(gpus)
        if self._rule == "random":
            return self._random(gpus)
        if self._rule in BY_NAME and models is not None:
            return intern(self._by_name(models))
        if self._rule in ("mix", "like"):
            return MODELS, self._mix(count)
        rule = RECORDED if self._rule == "known" else self._rule
        if rule == "keep":
            fix = "give mix, random, recorded or a profile"
            raise ConfigError(f"assign = 'keep', but this trace names no models; {fix}")
        if not self._catalogue().known(rule):
            raise ConfigError(
                f"assign = {rule!r} is neither a rule (mix, random, like, keep, recorded, known) nor a "
                f"profile of catalogue {self._catalogue().name!r}; `rota profiles "
                f"{self._catalogue().name}` lists its profiles"
            )
        return (rule,), np.zeros(count, dtype=np.int64)

    def _by_name(self, models: Sequence[str]) -> Sequence[str]:
        """Profiles by the models that the log names."""
        if self._rule == "keep":
            return models
        known = self._catalogue().known
        if self._rule == "known":
            return [name if known(name) else RECORDED for name in models]
        mixed = [MODELS[i] for i in self._mix(len(models)).tolist()]
        profile_of = {name: name if known(name) else STAND_INS.get(name.lower(), "") for name in set(models)}
        return [profile_of[name] or other for name, other in zip(models, mixed, strict=True)]

    def _mix(self, count: int) -> IntArray:
        if self._profiles is not None and not all(map(self._catalogue().known, MODELS)):
            raise ConfigError(
                f"assign needs Synergy's models, which catalogue {self._catalogue().name!r} has not; give "
                "assign=random or a profile, or profiles=synergy"
            )
        models = Mix().take(count)
        if self._seed is None:
            return models
        return np.random.default_rng(self._seed).permutation(models)

    def _random(self, gpus: IntArray) -> tuple[tuple[str, ...], IntArray]:
        catalogue = self._catalogue()
        reference = self._reference or catalogue.reference_type
        types = catalogue.types if reference is None else (reference,)
        drawn = np.random.default_rng(self._seed or 0).random(len(gpus))
        profile = np.zeros(len(gpus), dtype=np.int64)
        for size in np.unique(gpus).tolist():
            numbered = enumerate(catalogue.names)
            fit = [i for i, n in numbered if any(catalogue.measured(n, size, t) for t in types)]
            candidates = np.array(fit or range(len(catalogue.names)), dtype=np.int64)
            these = gpus == size
            profile[these] = candidates[(drawn[these] * len(candidates)).astype(np.int64)]
        return catalogue.names, profile

    def _steps(self, profiles: tuple[str, ...], profile: IntArray, log: Logged, recorded: list[str]) -> FloatArray:
        """Steps that fill the duration; NaN where that cannot be said without knowing the run."""
        names, where = intern(recorded)
        keys = np.stack((profile, log.gpus, where))
        combinations, which = np.unique(keys, axis=1, return_inverse=True)
        step_s = np.array([self._step_s(profiles[p], g, names[w]) for p, g, w in combinations.T.tolist()])
        return np.asarray(log.duration / step_s[which.ravel()], dtype=np.float64)

    def _step_s(self, profile: str, gpus: int, where: str) -> float:
        """Seconds of a step where the duration was recorded; NaN for what nobody has measured."""
        if profile == RECORDED:
            return 1 / RECORDED_RATE
        catalogue = self._catalogue()
        gpu_type = where or catalogue.reference_type
        if not catalogue.known(profile) or gpu_type is None:
            return np.nan
        counts = [gpus, *sorted((c for c in catalogue.gpu_counts(profile) if c <= gpus), reverse=True)]
        for count in (*counts, *catalogue.gpu_counts(profile)):
            if catalogue.measured(profile, count, gpu_type):
                return catalogue.step_s(profile, count, gpu_type)
        if where:
            raise ConfigError(
                f"{profile!r} was not measured on {where}, where jobs of the log took their time, in catalogue "
                f"{catalogue.name!r} (types {', '.join(catalogue.types)}); give profiles=FILE that has it, "
                "reference=TYPE to take all durations for those on another type, or assign=recorded to replay "
                "durations as they are"
            )
        return np.nan

    def _catalogue(self) -> Catalogue:
        if self._profiles is not None:
            return self._profiles if isinstance(self._profiles, Catalogue) else load(self._profiles)
        catalogues = (load(name) for name in (CATALOGUE, "gavel"))
        return next((c for c in catalogues if c.known(self._rule)), load(CATALOGUE))


def _best_for(models: Sequence[str]) -> str:
    """The built-in catalogue that knows most of the jobs; of equals the first, which is also that of the run."""
    counts = Counter(models)
    return max(TRIED, key=lambda name: sum(n for m, n in counts.items() if load(name).known(m)))
