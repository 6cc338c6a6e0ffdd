"""Rates of jobs that share GPUs, by kind of job: as far as a scheduler knows, and in truth.

They are looked up when somebody asks for them first. If they are estimated (rota.profiles.estimator), the truth takes
the place of an estimate once two kinds have run together on a type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from rota.core.arrays import FloatArray, IntArray, frozen
from rota.core.errors import ProfileMissing
from rota.core.gpu_types import TypeSet, permits
from rota.core.ports import Throughputs

Kind: TypeAlias = "tuple[str, int, str | None, TypeSet]"
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


def only_on(allowed: TypeSet, types: tuple[str, ...], rates: list[float]) -> list[float]:
    """Rates by type of jobs that may run on some types only; those on the others are 0."""
    return [r if permits(allowed, t) else 0.0 for t, r in zip(types, rates, strict=True)] if allowed else rates


class PairRates:
    """Pair rates by kind of job, grown when they are asked for and from then on with every new kind."""

    def __init__(self, types: tuple[str, ...], *, estimating: bool) -> None:
        self._types = types
        self._estimating = estimating
        self._kinds: dict[Kind, int] = {}
        self._kind: tuple[int, ...] = ()
        self._true: FloatArray = frozen(np.zeros((0, 0, len(types))))
        self._known: FloatArray = self._true

    def append(self, kind: Kind) -> None:
        """One more class, of this kind."""
        self._kind = (*self._kind, self._kinds.setdefault(kind, len(self._kinds)))

    def snapshot(self, source: Throughputs | None) -> PairSnapshot:
        """The rates of the classes of now."""
        return PairSnapshot(self, source, self._kind, tuple(self._kinds), self._true, self._known)

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
        self, source: Throughputs, kinds: tuple[Kind, ...], true: FloatArray, known: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """True and known rates of these kinds, of which the first ones are in the tables given."""
        if len(true) == len(kinds):
            return true, known
        types = self._types

        def true_rates(mine: Kind, other: Kind) -> list[float]:
            rates = [_measured(partial(source.pair_rate, mine[0], other[0], mine[1], t)) for t in types]
            return only_on(mine[3], types, rates)

        more = _with_new_kinds(true, kinds, true_rates)
        if not self._estimating:
            return more, more
        assert isinstance(source, PairEstimates)  # that is what `estimating` says
        rate = source.estimated_pair_rate

        def estimated_rates(mine: Kind, other: Kind) -> list[float]:
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


def _with_new_kinds(old: FloatArray, kinds: tuple[Kind, ...], rates: Callable[[Kind, Kind], list[float]]) -> FloatArray:
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


class PairSnapshot:
    """Pair rates of the classes that there were at one moment (implements core.classes.PairTable)."""

    def __init__(
        self,
        table: PairRates,
        source: Throughputs | None,
        kind: tuple[int, ...],
        kinds: tuple[Kind, ...],
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
