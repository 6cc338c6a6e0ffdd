"""Job classes: jobs with the same (profile, GPUs, weight) share one row of rates.

Rows are appended when a new kind of job arrives and never change their number, so a class number is a stable name
for the whole run. Pair rates are looked up only when a policy that packs asks for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.ports import Throughputs


class ClassTable:
    """Rates by class and type, growing with the run (implements core.view.Classes)."""

    def __init__(self, throughputs: Throughputs, types: tuple[str, ...]) -> None:
        self._source = throughputs
        self._types = types
        self._number: dict[tuple[str, int, float], int] = {}
        self._kinds: dict[tuple[str, int], int] = {}
        self._kind_pair = np.zeros((0, 0, len(types)))
        self._pair: FloatArray | None = None
        self._able: BoolArray | None = None
        self._looked_at = -1
        self.profile: tuple[str, ...] = ()
        self.gpus: IntArray = np.zeros(0, dtype=np.int64)
        self.weight: FloatArray = np.zeros(0)
        self.kind: IntArray = np.zeros(0, dtype=np.int64)
        self.throughput: FloatArray = np.zeros((0, len(types)))
        self.spread: FloatArray = np.zeros((0, len(types)))
        self.runs_on: BoolArray = np.zeros((0, len(types)), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.profile)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but where the rates came from (see `attach`)."""
        return {**self.__dict__, "_source": None}

    def attach(self, throughputs: Throughputs) -> None:
        """Where rates come from after a checkpoint was read."""
        self._source = throughputs

    def number(self, profile: str, gpus: int, weight: float) -> int:
        """The class of such a job; a new row if there was none yet."""
        key = (profile, gpus, weight)
        found = self._number.get(key)
        return self._append(key) if found is None else found

    def able(self, capacity: IntArray) -> BoolArray | None:
        """[C] whether some type has both speed and enough GPUs for a job of the class; None if that is so for all."""
        if len(self) != self._looked_at:
            able = (self.runs_on & (capacity[None, :] >= self.gpus[:, None])).any(axis=1)
            self._able, self._looked_at = (None if able.all() else able), len(self)
        return self._able

    def keys(self) -> list[tuple[str, int, float]]:
        """(profile, gpus, weight) of every class, in order."""
        return list(self._number)

    @property
    def pair(self) -> FloatArray:
        """[C, C, T] steps/s of the first class while sharing with the second; 0 where they cannot."""
        if self._pair is None:
            self._grow_pairs()
            self._pair = self._kind_pair[self.kind[:, None], self.kind[None, :]]
        return self._pair

    def _append(self, key: tuple[str, int, float]) -> int:
        profile, gpus, weight = key
        alone = [self._source.rate(profile, gpus, t) for t in self._types]
        spread = [self._source.rate(profile, gpus, t, spread=True) for t in self._types] if gpus > 1 else alone
        self._number[key] = number = len(self.profile)
        kind = self._kinds.setdefault((profile, gpus), len(self._kinds))
        self.profile = (*self.profile, profile)
        self.gpus = np.append(self.gpus, gpus)
        self.weight = np.append(self.weight, weight)
        self.kind = np.append(self.kind, kind)
        self.throughput = np.vstack([self.throughput, alone])
        self.spread = np.vstack([self.spread, spread])
        self.runs_on = self.throughput > 0
        self._pair = None
        return number

    def _grow_pairs(self) -> None:
        """Look up the pairs of kinds that were added since the last time."""
        kinds = list(self._kinds)
        have = len(self._kind_pair)
        rates = np.zeros((len(kinds), len(kinds), len(self._types)))
        rates[:have, :have] = self._kind_pair
        for a, (profile, gpus) in enumerate(kinds):
            for b, (partner, partner_gpus) in enumerate(kinds):
                if gpus == partner_gpus and (a >= have or b >= have):
                    rates[a, b] = [self._source.pair_rate(profile, partner, gpus, t) for t in self._types]
        both = (rates > 0) & (rates.transpose(1, 0, 2) > 0)
        self._kind_pair = np.where(both, rates, 0.0)
