"""Job classes: jobs with the same (profile, GPUs, weight, reference) share one row of rates.

Rows are appended when a new kind of job arrives and never change their number, so a class number is a stable name
for the whole run. Pair rates are looked up only when a policy that packs asks for them.

The reference is None unless pair rates are estimated (rota.profiles.estimator). Then there are two tables of them:
what policies see, and the truth by which jobs progress. Once two classes have run together on a type, the first
table holds the truth there too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.cluster import Cluster
from rota.core.errors import ProfileMissing
from rota.core.jobs import Jobs
from rota.core.ports import Sensitivities, Throughputs, on_servers
from rota.core.sensitivity import Sensitivity
from rota.engine.configurations import Configurations, Shape

_UNKNOWN = Shape(0.0, 0.0, 1, 0.0, 0.0)

_Key: TypeAlias = "tuple[str, int, float, str | None]"
"""(profile, GPUs, weight, reference) of a class."""
_Kind: TypeAlias = "tuple[str, int, str | None]"
"""(profile, GPUs, reference): all that pair rates depend on."""


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
    """Rates by class and type, growing with the run (implements core.view.Classes)."""

    def __init__(
        self,
        throughputs: Throughputs,
        types: tuple[str, ...],
        holds: Callable[[int], list[bool]] | None = None,
        configurations: Configurations | None = None,
    ) -> None:
        """`holds` says on which types a job of so many GPUs can run at all; without it, on all."""
        self._source = throughputs
        self.configurations = configurations or Configurations((_UNKNOWN,) * len(types), two_valued=False)
        self._types = types
        self._holds = holds
        self.estimating = isinstance(throughputs, PairEstimates)
        self._drawn = 0
        self._number: dict[_Key, int] = {}
        self._kinds: dict[_Kind, int] = {}
        self._kind_true: FloatArray = np.zeros((0, 0, len(types)))
        self._kind_pair: FloatArray = self._kind_true
        self._pair: FloatArray | None = None
        self._true_pair: FloatArray | None = None
        self._able: BoolArray | None = None
        self._looked_at = -1
        self.profile: tuple[str, ...] = ()
        self.gpus: IntArray = np.zeros(0, dtype=np.int64)
        self.weight: FloatArray = np.zeros(0)
        self.kind: IntArray = np.zeros(0, dtype=np.int64)
        self.throughput: FloatArray = np.zeros((0, len(types)))
        self.spread: FloatArray = np.zeros((0, len(types)))
        self.spreading_costs = False
        self.step_s: FloatArray = np.zeros((0, len(types)))
        self.best_step_s: FloatArray = np.zeros(0)
        self.runs_on: BoolArray = np.zeros((0, len(types)), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.profile)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but where the rates came from (see `attach`)."""
        return {**self.__dict__, "_source": None, "_holds": None}

    def attach(self, throughputs: Throughputs, holds: Callable[[int], list[bool]] | None = None) -> None:
        """Where rates come from after a checkpoint was read."""
        self._source = throughputs
        self._holds = holds

    def renewed(
        self, cluster: Cluster, holds: Callable[[int], list[bool]], configurations: Configurations
    ) -> ClassTable:
        """An empty table for another cluster, from the same source."""
        return ClassTable(on_servers(self._source, cluster), cluster.types, holds, configurations)

    def number(self, profile: str, gpus: int, weight: float) -> int:
        """The class of an arriving job; a new row if there was none yet."""
        key = (profile, gpus, weight, self._reference(profile, gpus) if self.estimating else None)
        found = self._number.get(key)
        return self._append(key) if found is None else found

    def numbers(self, jobs: Jobs) -> IntArray:
        """The classes of arriving jobs."""
        columns = (jobs.profile.tolist(), jobs.gpus.tolist(), jobs.weight.tolist())
        found = [self.number(jobs.profiles[p], g, w) for p, g, w in zip(*columns, strict=True)]
        return np.array(found, dtype=np.int64)

    def able(self, capacity: IntArray) -> BoolArray | None:
        """[C] whether some type has both speed and enough GPUs for a job of the class; None if that is so for all."""
        if len(self) != self._looked_at:
            able = np.any(self.runs_on & (capacity[None, :] >= self.gpus[:, None]), axis=1)
            self._able, self._looked_at = (None if np.all(able) else np.asarray(able)), len(self)
        return self._able

    def keys(self) -> list[_Key]:
        """(profile, gpus, weight, reference) of every class, in order."""
        return list(self._number)

    @property
    def pair(self) -> FloatArray:
        """[C, C, T] steps/s of the first class while sharing with the second; 0 where they cannot.

        As far as the scheduler knows: an estimate for pairs that never ran, if rates are estimated.
        """
        if self._pair is None:
            self._grow_pairs()
            self._pair = self._kind_pair[self.kind[:, None], self.kind[None, :]]
        return self._pair

    @property
    def true_pair(self) -> FloatArray:
        """The same as it is in truth."""
        if not self.estimating:
            return self.pair
        if self._true_pair is None:
            self._grow_pairs()
            self._true_pair = self._kind_true[self.kind[:, None], self.kind[None, :]]
        return self._true_pair

    def learn(self, first: IntArray, second: IntArray, types: IntArray) -> None:
        """Replace estimates by the truth for classes that ran together on these types."""
        if not self.estimating:
            return
        self._grow_pairs()
        one, two = self.kind[first], self.kind[second]
        at, back = (one, two, types), (two, one, types)
        true, seen = self._kind_true, self._kind_pair
        if (seen[at] != true[at]).any() or (seen[back] != true[back]).any():
            seen[at], seen[back] = true[at], true[back]
            self._pair = None

    def _reference(self, profile: str, gpus: int) -> str | None:
        """Every job is profiled when it arrives; draws are counted here, so that a checkpoint knows them."""
        self._drawn += 1
        assert isinstance(self._source, PairEstimates)  # that is what `estimating` says
        return self._source.reference(profile, gpus, self._drawn - 1)

    def _append(self, key: _Key) -> int:
        profile, gpus, weight, reference = key
        base = self._configure(profile, gpus)
        alone = self._rates(profile, gpus, base, spread=False)
        spread = self._rates(profile, gpus, base, spread=True) if gpus > 1 else alone
        self._number[key] = number = len(self.profile)
        kind = self._kinds.setdefault((profile, gpus, reference), len(self._kinds))
        self.profile = (*self.profile, profile)
        self.gpus = np.append(self.gpus, gpus)
        self.weight = np.append(self.weight, weight)
        self.kind = np.append(self.kind, kind)
        self.throughput = np.vstack([self.throughput, alone])
        self.spread = np.vstack([self.spread, spread])
        self.spreading_costs = self.spreading_costs or any(s < a for s, a in zip(spread, alone, strict=True))
        self.step_s = np.vstack([self.step_s, self._step_s(profile, gpus, alone, base)])
        self.best_step_s = self.step_s.min(axis=1)
        self.runs_on = self.throughput > 0
        self._pair = self._true_pair = None
        return number

    def _configure(self, profile: str, gpus: int) -> list[float]:
        """Tell the configurations; what the proportional share makes of the rates in the catalogue, by type."""
        found: list[Sensitivity | None] = [None] * len(self._types)
        if isinstance(self._source, Sensitivities) and self._source.known(profile):
            with contextlib.suppress(ProfileMissing):
                found = [self._source.sensitivity(profile, gpus, t) for t in self._types]
        return self.configurations.add_class(gpus, found)

    def _rates(self, profile: str, gpus: int, base: list[float], *, spread: bool) -> list[float]:
        """By type; all 0 for a known profile that was not measured with so many GPUs."""
        holds = [True] * len(self._types) if self._holds is None else self._holds(gpus)
        rate = self._source.rate
        try:
            return [
                rate(profile, gpus, t, spread=spread) * b if h else 0.0
                for t, b, h in zip(self._types, base, holds, strict=True)
            ]
        except ProfileMissing:
            if not self._source.known(profile):
                raise
            return [0.0] * len(self._types)

    def _step_s(self, profile: str, gpus: int, rates: list[float], base: list[float]) -> list[float]:
        """Seconds per step by type: the measured number itself where the catalogue has it, infinite without speed."""
        exact = self._source if isinstance(self._source, Sensitivities) else None
        found = []
        for kind, rate, part in zip(self._types, rates, base, strict=True):
            if rate <= 0:
                found.append(np.inf)
            else:
                found.append(1.0 / rate if exact is None or part != 1.0 else exact.step_s(profile, gpus, kind))
        return found

    def _grow_pairs(self) -> None:
        """Look up the pairs of kinds that were added since the last time."""
        if len(self._kind_true) == len(self._kinds):
            return
        self._kind_true = self._grown(self._kind_true, self._true_rates)
        self._kind_pair = self._grown(self._kind_pair, self._estimated_rates) if self.estimating else self._kind_true

    def _grown(self, old: FloatArray, rates: Callable[[_Kind, _Kind], list[float]]) -> FloatArray:
        """The table with the pairs of new kinds; both members must be able to run, or neither does."""
        kinds, have = list(self._kinds), len(old)
        found = np.zeros((len(kinds), len(kinds), len(self._types)))
        found[:have, :have] = old
        for a, mine in enumerate(kinds):
            for b in range(have if a < have else 0, len(kinds)):
                if mine[1] == kinds[b][1]:
                    found[a, b] = rates(mine, kinds[b])
        both = (found > 0) & (found.transpose(1, 0, 2) > 0)
        return np.where(both, found, 0.0)

    def _true_rates(self, mine: _Kind, other: _Kind) -> list[float]:
        return [self._source.pair_rate(mine[0], other[0], mine[1], t) for t in self._types]

    def _estimated_rates(self, mine: _Kind, other: _Kind) -> list[float]:
        assert isinstance(self._source, PairEstimates)  # that is what `estimating` says
        rate = self._source.estimated_pair_rate
        return [rate(mine[0], mine[2], other[0], other[2], mine[1], t) for t in self._types]
