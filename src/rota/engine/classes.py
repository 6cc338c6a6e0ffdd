"""Makes `core.classes.Classes`: a new value whenever a kind of job arrives that was not there before.

Pair rates are looked up only when a policy that packs asks for them. If they are estimated (rota.profiles.estimator),
there are two tables: what policies see, and the truth by which jobs progress. Once two classes have run together on a
type, the first table holds the truth there too. The same goes for speeds of jobs alone, where a scheduler has to find
them out (`core.ports.Beliefs`): what was measured replaces what was believed (`SpeedsLearned`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rota.core.arrays import BoolArray, IntArray, frozen
from rota.core.classes import Classes, Speeds
from rota.core.cluster import Cluster, Resources
from rota.core.configurations import Shape
from rota.core.errors import ProfileMissing
from rota.core.events import SpeedsLearned
from rota.core.gpu_types import ANY, NOWHERE, TypeSet
from rota.core.jobs import Jobs
from rota.core.needs import NOTHING, Needs, types_that_bind, types_that_hold
from rota.core.ports import Beliefs, Sensitivities, Throughputs, measured_rate, on_servers
from rota.core.sensitivity import Sensitivity
from rota.engine.class_columns import columns_of, speed_columns, with_priorities, with_rows
from rota.engine.configurations import ConfigurationTable
from rota.engine.pair_rates import PairEstimates, PairRates, only_on

_UNKNOWN = Shape(0.0, 0.0, (Resources(1),))

Key: TypeAlias = "tuple[str, int, float, str | None, TypeSet, Needs, int]"
"""(profile, GPUs, weight, reference or belief, types on which jobs may run, needs, priority) of a class."""
Cell: TypeAlias = "tuple[str, str, int, str]"
"""(profile, belief, GPUs, type): what a speed is learned for."""
MOST_LEARNED = 100_000
"""Cells that are remembered; those that were learned last stay."""


class _Row(NamedTuple):
    """The speeds of a class: the true ones, those that policies see, and among whose jobs they are learned."""

    true: Speeds
    known: Speeds
    belief: str


class ClassTable:
    """The classes seen so far; `value` is all of them as they are now."""

    def __init__(
        self,
        throughputs: Throughputs,
        types: tuple[str, ...],
        holds: Callable[[int], list[bool]] | None = None,
        configurations: ConfigurationTable | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """`holds` says on which types a job of so many GPUs can run at all; without it, on all.

        `cluster` has the servers that needs of jobs are about; without it they count for nothing.
        """
        self._source = throughputs
        self._cluster = cluster
        self._configurations = configurations or ConfigurationTable((_UNKNOWN,) * len(types), two_valued=False)
        self._types = types
        self._holds = holds
        self.estimating = isinstance(throughputs, PairEstimates)
        self._beliefs = throughputs if isinstance(throughputs, Beliefs) else None
        self._learned: dict[Cell, float] = {}
        """Steps/s that were found out."""
        self._expected: dict[tuple[str, str, int], dict[str, float]] = {}
        """Steps/s by type as the source has them, of kinds of jobs whose speed is found out."""
        self._drawn = 0
        self._number: dict[Key, int] = {}
        self._pairs = PairRates(types, estimating=self.estimating)
        self._able: BoolArray | None = None
        self._looked_at = -1
        nothing = np.zeros((0, len(types)))
        self.value = Classes(
            profile=(),
            gpus=frozen(np.zeros(0, dtype=np.int64)),
            weight=frozen(np.zeros(0)),
            throughput=frozen(nothing),
            spread=frozen(nothing),
            spreading_costs=False,
            step_s=frozen(nothing),
            best_step_s=frozen(np.zeros(0)),
            runs_on=frozen(np.zeros((0, len(types)), dtype=np.bool_)),
            configurations=self._configurations.value,
            pairs=self._pairs.snapshot(self._source),
            truth=None if self._beliefs is None else Speeds(frozen(nothing), frozen(nothing), frozen(nothing)),
        )

    def __len__(self) -> int:
        return len(self._number)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but where the rates came from (see `attach`), and pairs that follow from it."""
        columns = columns_of(self.value)
        return {**self.__dict__, "_source": None, "_beliefs": None, "_holds": None, "value": None, "_value": columns}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        columns = saved.pop("_value")
        self.__dict__.update(saved)
        snapshot = self._pairs.snapshot(None)
        self.value = Classes(**columns, configurations=self._configurations.value, pairs=snapshot)

    def attach(self, throughputs: Throughputs, holds: Callable[[int], list[bool]] | None = None) -> None:
        """Where rates come from after a checkpoint was read."""
        self._source = throughputs
        self._beliefs = throughputs if isinstance(throughputs, Beliefs) else None
        self._holds = holds
        self._renew()

    def renewed(
        self, cluster: Cluster, holds: Callable[[int], list[bool]], configurations: ConfigurationTable
    ) -> ClassTable:
        """A table without classes for another cluster, from the same source; what was learned stays known."""
        source = on_servers(self._source, cluster)
        servers = None if self._cluster is None else cluster
        table = ClassTable(source, cluster.types, holds, configurations, servers)
        table._learned = self._learned
        return table

    def number(
        self,
        profile: str,
        gpus: int,
        weight: float,
        allowed: TypeSet = ANY,
        needs: Needs = NOTHING,
        priority: int = 0,
        belief: str = "",
    ) -> int:
        """The class of an arriving job; a new row if there was none yet. `belief` as in `Jobs.beliefs`."""
        return self._numbers_of([self._key(profile, gpus, weight, allowed, needs, priority, belief)])[0]

    def _key(
        self, profile: str, gpus: int, weight: float, allowed: TypeSet, needs: Needs, priority: int, belief: str
    ) -> Key:
        return profile, gpus, weight, belief or self._reference(profile, gpus), allowed, needs, priority

    def _numbers_of(self, keys: Sequence[Key]) -> list[int]:
        """The classes of these keys; new rows for those that were not there yet, all at once."""
        new = [key for key in dict.fromkeys(keys) if key not in self._number]
        if new:
            self._append(new)
        return [self._number[key] for key in keys]

    def numbers(self, jobs: Jobs) -> IntArray:
        """The classes of arriving jobs."""
        priorities = [0] * len(jobs.gpus) if jobs.priority is None else jobs.priority.tolist()
        if len(jobs.gpus) == 1:
            profile = jobs.profiles[int(jobs.profile[0])]
            allowed = ANY if jobs.gpu_types is None else jobs.allowed_types()[0]
            belief = "" if jobs.beliefs is None else jobs.beliefs[0]
            needs = self._needs(jobs)[0]
            weight = float(jobs.weight[0])
            return np.array([self.number(profile, int(jobs.gpus[0]), weight, allowed, needs, priorities[0], belief)])
        columns = (
            jobs.profile.tolist(), jobs.gpus.tolist(), jobs.weight.tolist(), jobs.allowed_types(), self._needs(jobs),
            priorities, jobs.beliefs or ("",) * len(jobs),
        )  # fmt: skip
        keys = [self._key(jobs.profiles[p], *rest) for p, *rest in zip(*columns, strict=True)]
        return np.array(self._numbers_of(keys), dtype=np.int64)

    def _needs(self, jobs: Jobs) -> Sequence[Needs]:
        """What each of the jobs needs; nothing where no servers are known."""
        if self._cluster is None or not jobs.has_needs:
            return [NOTHING] * len(jobs.gpus)
        return jobs.needs()

    def able(self, capacity: IntArray) -> BoolArray | None:
        """[C] whether some type has both speed and enough GPUs for a job of the class; None if that is so for all."""
        if len(self) != self._looked_at:
            able = np.any(self.value.runs_on & (capacity[None, :] >= self.value.gpus[:, None]), axis=1)
            self._able = None if np.all(able) else np.asarray(able)
            self._looked_at = len(self)
        return self._able

    def learned(self, profile: str, belief: str, gpus: int) -> dict[str, float]:
        """Steps/s by type that were found out for a kind of job, as policies see them."""
        rates = {gpu_type: self._learned.get((profile, belief, gpus, gpu_type)) for gpu_type in self._types}
        return {gpu_type: rate for gpu_type, rate in rates.items() if rate is not None}

    def expected(self, profile: str, belief: str, gpus: int) -> dict[str, float]:
        """Steps/s by type that a kind of job was taken to do before anything was found out about it."""
        return self._expected.get((profile, belief, gpus), {})

    def keys(self) -> list[Key]:
        """What makes every class, in order."""
        return list(self._number)

    def saved(self) -> dict[str, Any]:
        """What makes every class, in order, as plain values."""
        learned = [[*cell, rate] for cell, rate in self._learned.items()]
        return {
            "keys": [_plain_key(key) for key in self._number], "drawn": self._drawn, "learned": learned,
        }  # fmt: skip

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Add the classes that were saved to an empty table; speeds are those of the catalogue of now, or learned."""
        learned = saved.get("learned", [])
        self._learned = {(str(p), str(b), int(g), str(t)): float(rate) for p, b, g, t, rate in learned}
        keys: list[Key] = []
        for profile, gpus, weight, reference, allowed, *more in saved["keys"]:
            needs = _needs_of(*more[0]) if more else NOTHING
            priority = int(more[1]) if len(more) > 1 else 0
            keys.append((str(profile), int(gpus), float(weight), reference, tuple(allowed), needs, priority))
        self._numbers_of(keys)
        self._drawn = int(saved["drawn"])

    def learn(self, first: IntArray, second: IntArray, types: IntArray) -> None:
        """Replace estimates by the truth for classes that ran together on these types."""
        if self.estimating and self._pairs.learn(self._source, first, second, types):
            self._renew()

    def learn_speeds(self, event: SpeedsLearned) -> None:
        """Replace what was believed by what was found out."""
        columns = (event.profiles, event.beliefs, event.gpus.tolist(), event.types)
        cells = list(zip(*columns, strict=True))
        news = dict(zip(cells, event.rates.tolist(), strict=True))
        rest = {cell: rate for cell, rate in self._learned.items() if cell not in news}
        self._learned = dict([*rest.items(), *news.items()][-MOST_LEARNED:])
        concerned = {cell[:3] for cell in cells}
        old = self.value
        rows = [row for row, key in enumerate(self._number) if (key[0], old.beliefs[row], key[1]) in concerned]
        if not rows:
            return
        throughput = old.throughput.copy()
        spread = old.spread.copy()
        step_s = old.step_s.copy()
        for row in rows:
            kind = (old.profile[row], old.beliefs[row], int(old.gpus[row]))
            learned = self._as_learned(kind, Speeds(throughput[row], spread[row], step_s[row]))
            throughput[row] = learned.throughput
            spread[row] = learned.spread
            step_s[row] = learned.step_s
        self._renew(Speeds(frozen(throughput), frozen(spread), frozen(step_s)))

    def _as_learned(self, kind: tuple[str, str, int], known: Speeds) -> Speeds:
        """A row of speeds with what was learned in it; a type on which jobs cannot run stays one."""
        rates = [self._learned.get((*kind, gpu_type)) for gpu_type in self._types]
        throughput = known.throughput.copy()
        spread = known.spread.copy()
        step_s = known.step_s.copy()
        for at, rate in enumerate(rates):
            if rate is not None and throughput[at] > 0:
                spread[at] *= rate / throughput[at]
                throughput[at] = rate
                step_s[at] = 1.0 / rate
        return Speeds(throughput, spread, step_s)

    def _renew(self, speeds: Speeds | None = None) -> None:
        columns = columns_of(self.value)
        if speeds is not None:
            columns |= speed_columns(speeds)
        snapshot = self._pairs.snapshot(self._source)
        self.value = Classes(**columns, configurations=self._configurations.value, pairs=snapshot)

    def _reference(self, profile: str, gpus: int) -> str | None:
        """Every job is profiled when it arrives; draws are counted here, so that a checkpoint knows them."""
        if not self.estimating and self._beliefs is None:
            return None
        self._drawn += 1
        if self._beliefs is not None:
            return self._beliefs.belief(self._drawn - 1) or None
        assert isinstance(self._source, PairEstimates)  # that is what `estimating` says
        return self._source.reference(profile, gpus, self._drawn - 1)

    def _append(self, keys: Sequence[Key]) -> None:
        """New rows. All at once: what is there already is copied, and a submission may bring thousands."""
        bases = self._configure(keys)
        rows = [self._row(key, base) for key, base in zip(keys, bases, strict=True)]
        for key in keys:
            self._number[key] = len(self._number)
        known = [row.known for row in rows]
        true = [row.true for row in rows]
        old = self.value
        speeds = with_rows(Speeds(old.throughput, old.spread, old.step_s), known)
        slower = any(bool(np.any(row.spread < row.throughput)) for row in known)
        self.value = Classes(
            profile=(*old.profile, *(key[0] for key in keys)),
            gpus=frozen(np.append(old.gpus, [key[1] for key in keys])),
            weight=frozen(np.append(old.weight, [key[2] for key in keys])),
            **speed_columns(speeds),
            spreading_costs=old.spreading_costs or slower,
            configurations=self._configurations.value,
            pairs=self._pairs.snapshot(self._source),
            allowed=(*old.allowed, *(key[4] for key in keys)),
            needs=(*old.needs, *(key[5] for key in keys)),
            bound=self._bound(old, keys),
            priority=with_priorities(old, [key[6] for key in keys]),
            truth=None if old.truth is None else with_rows(old.truth, true),
            beliefs=(*old.beliefs, *(row.belief for row in rows)),
        )

    def _row(self, key: Key, base: list[float]) -> _Row:
        """The speeds of a new class."""
        profile, gpus, _, reference, allowed, needs, _ = key
        true = self._speeds(key, base)
        belief = "" if self.estimating else reference or ""
        kind = (profile, belief, gpus)
        known = self._as_learned(kind, self._believed(key, base) if belief and self._beliefs is not None else true)
        if belief:
            self._expected[kind] = dict(zip(self._types, true.throughput.tolist(), strict=True))
        self._pairs.append((profile, gpus, reference if self.estimating else None, NOWHERE if needs else allowed))
        return _Row(true, known, belief)

    def _bound(self, old: Classes, keys: Sequence[Key]) -> BoolArray | None:
        """The rows of before and those of more classes; None as long as nobody is bound."""
        nowhere = [False] * len(self._types)
        more = [
            types_that_bind(self._cluster, key[1], key[5]) if key[5] and self._cluster is not None else nowhere
            for key in keys
        ]
        if old.bound is None and not any(any(binds) for binds in more):
            return None
        before = np.zeros((len(old), len(self._types)), dtype=np.bool_) if old.bound is None else old.bound
        return frozen(np.vstack([before, np.array(more)]))

    def _speeds(self, key: Key, base: list[float]) -> Speeds:
        """The rates of a class by type, as the catalogue has them."""
        profile, gpus, _, _, allowed, needs, _ = key
        if needs and self._cluster is not None:
            able = types_that_hold(self._cluster, gpus, needs)
            base = [part if held else 0.0 for part, held in zip(base, able, strict=True)]
        alone = only_on(allowed, self._types, self._rates(profile, gpus, base, spread=False))
        spread = alone
        if gpus > 1:
            spread = only_on(allowed, self._types, self._rates(profile, gpus, base, spread=True))
        step_s = self._step_s(profile, gpus, alone, base)
        return Speeds(np.array(alone), np.array(spread), np.array(step_s))

    def _believed(self, key: Key, base: list[float]) -> Speeds:
        """The rates that a class is taken to have; it can run where it really can."""
        profile, gpus, _, belief, *_ = key
        assert self._beliefs is not None  # somebody had that belief
        true = self._speeds(key, base)
        throughput = true.throughput.copy()
        spread = true.spread.copy()
        for at, gpu_type in enumerate(self._types):
            if throughput[at] > 0:
                throughput[at] = self._beliefs.believed_rate(profile, belief or "", gpus, gpu_type) * base[at]
                apart = self._beliefs.believed_rate(profile, belief or "", gpus, gpu_type, spread=True) * base[at]
                spread[at] = min(apart, throughput[at]) if gpus > 1 else throughput[at]
        step_s = np.divide(1.0, throughput, out=np.full(len(throughput), np.inf), where=throughput > 0)
        return Speeds(throughput, spread, step_s)

    def _configure(self, keys: Sequence[Key]) -> list[list[float]]:
        """Tell the configurations; what the proportional share makes of the rates in the catalogue, by type."""
        return self._configurations.add_classes([(key[1], self._sensitivities(key[0], key[1]), key[5]) for key in keys])

    def _sensitivities(self, profile: str, gpus: int) -> list[Sensitivity | None]:
        """By type, how a job depends on CPUs and memory; None where nobody measured that."""
        tables: list[Sensitivity | None] = [None] * len(self._types)
        if isinstance(self._source, Sensitivities) and self._source.known(profile):
            for at, gpu_type in enumerate(self._types):
                with contextlib.suppress(ProfileMissing):
                    tables[at] = self._source.sensitivity(profile, gpus, gpu_type)
        return tables

    def _rates(self, profile: str, gpus: int, base: list[float], *, spread: bool) -> list[float]:
        """By type; 0 where a known profile was not measured with so many GPUs, which rules out that type alone."""
        holds = [True] * len(self._types) if self._holds is None else self._holds(gpus)
        rates = [0.0] * len(self._types)
        for at, (gpu_type, part, held) in enumerate(zip(self._types, base, holds, strict=True)):
            if held:
                rates[at] = measured_rate(self._source, profile, gpus, gpu_type, spread=spread) * part
        return rates

    def _step_s(self, profile: str, gpus: int, rates: list[float], base: list[float]) -> list[float]:
        """Seconds per step by type: the measured number itself where the catalogue has it, infinite without speed."""
        exact = self._source if isinstance(self._source, Sensitivities) else None
        seconds = []
        for gpu_type, rate, part in zip(self._types, rates, base, strict=True):
            if rate <= 0:
                seconds.append(np.inf)
            elif exact is None or part != 1.0:
                seconds.append(1.0 / rate)
            else:
                seconds.append(exact.step_s(profile, gpus, gpu_type))
        return seconds


def _plain_key(key: Key) -> list[Any]:
    """What makes a class; needs and priority only where there are some."""
    *first, allowed, needs, priority = key
    asked = [[needs.cpus, needs.memory_gb, list(needs.labels)]] if needs or priority else []
    return [*first, list(allowed), *asked, *([priority] if priority else [])]


def _needs_of(cpus: Any, memory_gb: Any, labels: Any) -> Needs:
    return Needs(float(cpus), float(memory_gb), tuple(str(label) for label in labels))
