"""Makes `core.classes.Classes`: a new value whenever a kind of job arrives that was not there before.

Pair rates are looked up only when a policy that packs asks for them. If they are estimated (rota.profiles.estimator),
there are two tables: what policies see, and the truth by which jobs progress. Once two classes have run together on a
type, the first table holds the truth there too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray, frozen
from rota.core.classes import Classes
from rota.core.cluster import Cluster
from rota.core.configurations import Shape
from rota.core.errors import ProfileMissing
from rota.core.gpu_types import ANY, TypeSet
from rota.core.jobs import Jobs
from rota.core.ports import Sensitivities, Throughputs, measured_rate, on_servers
from rota.core.sensitivity import Sensitivity
from rota.engine.configurations import ConfigurationTable

_UNKNOWN = Shape(0.0, 0.0, 1, 0.0, 0.0)

Key: TypeAlias = "tuple[str, int, float, str | None, TypeSet]"
"""(profile, GPUs, weight, reference, types on which jobs may run) of a class."""
_Kind: TypeAlias = "tuple[str, int, str | None, TypeSet]"
"""(profile, GPUs, reference, types): all that pair rates depend on."""


@runtime_checkable
class PairEstimates(Protocol):
    """What throughputs offer beside their true rates if pairs were not all measured."""

    def reference(self, profile: str, gpus: int, draw: int) -> str | None:
        """Which measured model stands for the arriving job number `draw`."""

    def estimated_pair_rate(
        self, profile: str, reference: str | None, partner: str, partner_reference: str | None, gpus: int, type_: str
    ) -> float:
        """What the pair rate is taken to be before the two have run together."""


class ClassTable:
    """The classes seen so far; `value` is all of them as they are now."""

    def __init__(
        self,
        throughputs: Throughputs,
        types: tuple[str, ...],
        holds: Callable[[int], list[bool]] | None = None,
        configurations: ConfigurationTable | None = None,
    ) -> None:
        """`holds` says on which types a job of so many GPUs can run at all; without it, on all."""
        self._source = throughputs
        self._configurations = configurations or ConfigurationTable((_UNKNOWN,) * len(types), two_valued=False)
        self._types = types
        self._holds = holds
        self.estimating = isinstance(throughputs, PairEstimates)
        self._drawn = 0
        self._number: dict[Key, int] = {}
        self._pairs = _PairRates(types, estimating=self.estimating)
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
        )

    def __len__(self) -> int:
        return len(self._number)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but where the rates came from (see `attach`), and pairs that follow from it."""
        return {**self.__dict__, "_source": None, "_holds": None, "value": None, "_value": _columns(self.value)}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        columns = saved.pop("_value")
        self.__dict__.update(saved)
        snapshot = self._pairs.snapshot(None)
        self.value = Classes(**columns, configurations=self._configurations.value, pairs=snapshot)

    def attach(self, throughputs: Throughputs, holds: Callable[[int], list[bool]] | None = None) -> None:
        """Where rates come from after a checkpoint was read."""
        self._source = throughputs
        self._holds = holds
        self._renew()

    def renewed(
        self, cluster: Cluster, holds: Callable[[int], list[bool]], configurations: ConfigurationTable
    ) -> ClassTable:
        """An empty table for another cluster, from the same source."""
        return ClassTable(on_servers(self._source, cluster), cluster.types, holds, configurations)

    def number(self, profile: str, gpus: int, weight: float, allowed: TypeSet = ANY) -> int:
        """The class of an arriving job; a new row if there was none yet."""
        key = (profile, gpus, weight, self._reference(profile, gpus) if self.estimating else None, allowed)
        number = self._number.get(key)
        return self._append(key) if number is None else number

    def numbers(self, jobs: Jobs) -> IntArray:
        """The classes of arriving jobs."""
        if len(jobs.gpus) == 1:
            profile = jobs.profiles[int(jobs.profile[0])]
            allowed = ANY if jobs.gpu_types is None else jobs.allowed_types()[0]
            return np.array([self.number(profile, int(jobs.gpus[0]), float(jobs.weight[0]), allowed)])
        columns = (jobs.profile.tolist(), jobs.gpus.tolist(), jobs.weight.tolist(), jobs.allowed_types())
        classes = [self.number(jobs.profiles[p], g, w, allowed) for p, g, w, allowed in zip(*columns, strict=True)]
        return np.array(classes, dtype=np.int64)

    def able(self, capacity: IntArray) -> BoolArray | None:
        """[C] whether some type has both speed and enough GPUs for a job of the class; None if that is so for all."""
        if len(self) != self._looked_at:
            able = np.any(self.value.runs_on & (capacity[None, :] >= self.value.gpus[:, None]), axis=1)
            self._able = None if np.all(able) else np.asarray(able)
            self._looked_at = len(self)
        return self._able

    def keys(self) -> list[Key]:
        """What makes every class, in order."""
        return list(self._number)

    def saved(self) -> dict[str, Any]:
        """What makes every class, in order, as plain values."""
        return {"keys": [[*key[:4], list(key[4])] for key in self._number], "drawn": self._drawn}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Add the classes that were saved to an empty table; speeds are those of the catalogue of now."""
        for profile, gpus, weight, reference, allowed in saved["keys"]:
            self._append((str(profile), int(gpus), float(weight), reference, tuple(allowed)))
        self._drawn = int(saved["drawn"])

    def learn(self, first: IntArray, second: IntArray, types: IntArray) -> None:
        """Replace estimates by the truth for classes that ran together on these types."""
        if self.estimating and self._pairs.learn(self._source, first, second, types):
            self._renew()

    def _renew(self) -> None:
        columns = _columns(self.value)
        snapshot = self._pairs.snapshot(self._source)
        self.value = Classes(**columns, configurations=self._configurations.value, pairs=snapshot)

    def _reference(self, profile: str, gpus: int) -> str | None:
        """Every job is profiled when it arrives; draws are counted here, so that a checkpoint knows them."""
        self._drawn += 1
        assert isinstance(self._source, PairEstimates)  # that is what `estimating` says
        return self._source.reference(profile, gpus, self._drawn - 1)

    def _append(self, key: Key) -> int:
        profile, gpus, weight, reference, allowed = key
        base = self._configure(profile, gpus)
        alone = only_on(allowed, self._types, self._rates(profile, gpus, base, spread=False))
        spread = alone
        if gpus > 1:
            spread = only_on(allowed, self._types, self._rates(profile, gpus, base, spread=True))
        number = len(self._number)
        self._number[key] = number
        self._pairs.append((profile, gpus, reference, allowed))
        old = self.value
        throughput = np.vstack([old.throughput, alone])
        step_s = np.vstack([old.step_s, self._step_s(profile, gpus, alone, base)])
        self.value = Classes(
            profile=(*old.profile, profile),
            gpus=frozen(np.append(old.gpus, gpus)),
            weight=frozen(np.append(old.weight, weight)),
            throughput=frozen(throughput),
            spread=frozen(np.vstack([old.spread, spread])),
            spreading_costs=old.spreading_costs or any(s < a for s, a in zip(spread, alone, strict=True)),
            step_s=frozen(step_s),
            best_step_s=frozen(step_s.min(axis=1)),
            runs_on=frozen(throughput > 0),
            configurations=self._configurations.value,
            pairs=self._pairs.snapshot(self._source),
            allowed=(*old.allowed, allowed),
        )
        return number

    def _configure(self, profile: str, gpus: int) -> list[float]:
        """Tell the configurations; what the proportional share makes of the rates in the catalogue, by type."""
        tables: list[Sensitivity | None] = [None] * len(self._types)
        if isinstance(self._source, Sensitivities) and self._source.known(profile):
            for at, gpu_type in enumerate(self._types):
                with contextlib.suppress(ProfileMissing):
                    tables[at] = self._source.sensitivity(profile, gpus, gpu_type)
        return self._configurations.add_class(gpus, tables)

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


_COLUMNS = (
    "profile", "gpus", "weight", "throughput", "spread", "spreading_costs", "step_s", "best_step_s", "runs_on",
    "allowed",
)  # fmt: skip


def only_on(allowed: TypeSet, types: tuple[str, ...], rates: list[float]) -> list[float]:
    """Rates by type of jobs that may run on some types only; those on the others are 0."""
    return [r if t in allowed else 0.0 for t, r in zip(types, rates, strict=True)] if allowed else rates


def _columns(classes: Classes) -> dict[str, Any]:
    return {name: getattr(classes, name) for name in _COLUMNS}


class _PairRates:
    """Pair rates by kind of job, grown when they are asked for and from then on with every new kind."""

    def __init__(self, types: tuple[str, ...], *, estimating: bool) -> None:
        self._types = types
        self._estimating = estimating
        self._kinds: dict[_Kind, int] = {}
        self._kind: tuple[int, ...] = ()
        self._true: FloatArray = frozen(np.zeros((0, 0, len(types))))
        self._known: FloatArray = self._true

    def append(self, kind: _Kind) -> None:
        """One more class, of this kind."""
        self._kind = (*self._kind, self._kinds.setdefault(kind, len(self._kinds)))

    def snapshot(self, source: Throughputs | None) -> _PairSnapshot:
        """The rates of the classes of now."""
        return _PairSnapshot(self, source, self._kind, tuple(self._kinds), self._true, self._known)

    def learn(self, source: Throughputs, first: IntArray, second: IntArray, types: IntArray) -> bool:
        """Put the truth in the place of estimates; whether anything changed."""
        true, known = self.grown(source, tuple(self._kinds), self._true, self._known)
        kind = np.array(self._kind, dtype=np.int64)
        there = (kind[first], kind[second], types)
        back = (kind[second], kind[first], types)
        news = (known[there] != true[there]).any() or (known[back] != true[back]).any()
        if news:
            known = known.copy()
            known[there] = true[there]
            known[back] = true[back]
        self._true = true
        self._known = known
        return bool(news)

    def grown(
        self, source: Throughputs, kinds: tuple[_Kind, ...], true: FloatArray, known: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """True and known rates of these kinds, of which the first ones are in the tables given."""
        if len(true) == len(kinds):
            return true, known
        types = self._types

        def true_rates(mine: _Kind, other: _Kind) -> list[float]:
            rates = [_measured(partial(source.pair_rate, mine[0], other[0], mine[1], t)) for t in types]
            return only_on(mine[3], types, rates)

        more = _with_new_kinds(true, kinds, true_rates)
        if not self._estimating:
            return more, more
        assert isinstance(source, PairEstimates)  # that is what `estimating` says
        rate = source.estimated_pair_rate

        def estimated_rates(mine: _Kind, other: _Kind) -> list[float]:
            rates = [_measured(partial(rate, mine[0], mine[2], other[0], other[2], mine[1], t)) for t in types]
            return only_on(mine[3], types, rates)

        return more, _with_new_kinds(known, kinds, estimated_rates)

    def keep(self, true: FloatArray, known: FloatArray, since: FloatArray) -> None:
        """Rates that somebody looked up are there for everybody, unless something was learned meanwhile."""
        if self._known is since and len(true) > len(self._true):
            self._true = true
            self._known = known


def _measured(rate: Callable[[], float]) -> float:
    """A rate of jobs that are known; 0 where it was not measured."""
    try:
        return rate()
    except ProfileMissing:
        return 0.0


def _with_new_kinds(
    old: FloatArray, kinds: tuple[_Kind, ...], rates: Callable[[_Kind, _Kind], list[float]]
) -> FloatArray:
    """The table with the pairs of new kinds; both members must be able to run, or neither does."""
    have = len(old)
    table = np.zeros((len(kinds), len(kinds), old.shape[2]))
    table[:have, :have] = old
    for a, mine in enumerate(kinds):
        for b in range(have if a < have else 0, len(kinds)):
            if mine[1] == kinds[b][1]:
                table[a, b] = rates(mine, kinds[b])
    both = (table > 0) & (table.transpose(1, 0, 2) > 0)
    return frozen(np.where(both, table, 0.0))


class _PairSnapshot:
    """Pair rates of the classes that there were at one moment (implements core.classes.PairTable)."""

    def __init__(
        self,
        table: _PairRates,
        source: Throughputs | None,
        kind: tuple[int, ...],
        kinds: tuple[_Kind, ...],
        true: FloatArray,
        known: FloatArray,
    ) -> None:
        self._table = table
        self._source = source
        self._kind = kind
        self._kinds = kinds
        self._by_kind = (true, known)
        self._by_class: tuple[FloatArray, FloatArray] | None = None

    @property
    def known(self) -> FloatArray:
        """As far as the scheduler knows."""
        return self._looked_up()[1]

    @property
    def true(self) -> FloatArray:
        """As it is in truth."""
        return self._looked_up()[0]

    def _looked_up(self) -> tuple[FloatArray, FloatArray]:
        if self._by_class is None:
            true, known = self._by_kind
            if len(true) < len(self._kinds):
                assert self._source is not None  # it was attached
                before = known
                true, known = self._table.grown(self._source, self._kinds, true, known)
                self._table.keep(true, known, before)
            at = np.array(self._kind, dtype=np.int64)
            by_class = frozen(true[at[:, None], at[None, :]])
            same = known is true
            self._by_class = (by_class, by_class if same else frozen(known[at[:, None], at[None, :]]))
        return self._by_class
