"""Rota's own realisation of shares: serve who is furthest behind its share.

debt = seconds owed at the last allocation + share x (time since then + the coming round) - seconds received since.
Jobs and pairs with a share are served by debt, largest first, over all types in one queue, so that a job runs where
it is most behind; what is left goes to jobs without a turn, the longest waiting account first, each on its fastest
free type. The debt is carried over from one allocation to the next, so shares are met however often they change.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import FloatArray, IntArray
from rota.core.rules import Rules
from rota.core.view import Accounts, View
from rota.mechanisms.choice import Choice

_TINY = 1e-9
"""Shares below this are noise of a solver."""


class Deficit:
    """Selects by time behind the promised share."""

    def __init__(self, rules: Rules) -> None:
        self._round_s = rules.round_s

    def choose(self, view: View, allocation: Allocation) -> Choice:
        """The options of the coming round."""
        accounts = view.accounts
        if accounts is None:
            raise ValueError("the deficit rule needs accounts of received time")
        first, second, kind, debt = self._candidates(view, accounts, packs=allocation.traits.packs)
        if allocation.traits.aware:
            order = np.lexsort((kind, first, -debt))
        else:
            order = np.lexsort((_scatter(first, kind, view), -debt))
        walk = _Walk(view)
        for entry in order.tolist():
            walk.offer(int(first[entry]), int(second[entry]), int(kind[entry]))
        refused = walk.refused
        if allocation.traits.fills:
            walk.fill(_waiting(view, accounts))
        return walk.choice(steady=not refused)

    def _candidates(
        self, view: View, accounts: Accounts, *, packs: bool
    ) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """Options with a share: positions of the members, type, debt."""
        horizon = view.now - view.solved_at + self._round_s
        share = accounts.share * view.classes.throughput.T[:, view.job_class].astype(bool)
        kind, first = np.nonzero(share > _TINY)
        debt = (accounts.owed + accounts.share * horizon - accounts.received)[kind, first]
        second = np.full(len(first), -1, dtype=np.int64)
        pairs = accounts.extras
        if not packs or len(pairs) == 0:
            return first, second, kind, debt
        a, b = view.position(pairs.options.first), view.position(pairs.options.second)
        pair_kind, row = np.nonzero(pairs.share > _TINY)
        pair_debt = (pairs.owed + pairs.share * horizon - pairs.received)[pair_kind, row]
        return (
            np.concatenate([first, a[row]]),
            np.concatenate([second, b[row]]),
            np.concatenate([kind, pair_kind]),
            np.concatenate([debt, pair_debt]),
        )


class _Walk:
    """One pass over the queue."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._sizes = view.gpus.tolist()
        self._unchosen = [True] * len(view)
        self._free = view.capacity.tolist()
        self._spare = sum(self._free)
        self._taken: list[tuple[int, int, int]] = []
        self.refused = False

    def offer(self, first: int, second: int, kind: int) -> None:
        """Take the option if its members are free and its GPUs are there."""
        if not self._unchosen[first] or (second >= 0 and not self._unchosen[second]):
            self.refused = True
            return
        size = self._sizes[first]
        if size > self._free[kind]:
            self.refused = True
            return
        self._free[kind] -= size
        self._spare -= size
        self._unchosen[first] = False
        if second >= 0:
            self._unchosen[second] = False
        self._taken.append((first, second, kind))

    def fill(self, waiting: list[int]) -> None:
        """Give what is left to jobs without a turn, each on its fastest free type."""
        if self._spare <= 0:
            return
        rates = self._view.classes.throughput
        wishes = [[t for t in np.argsort(-row, kind="stable").tolist() if row[t] > 0] for row in rates]
        classes = self._view.job_class.tolist()
        for job in waiting:
            if self._spare <= 0:
                return
            if self._unchosen[job]:
                size = self._sizes[job]
                kind = next((t for t in wishes[classes[job]] if self._free[t] >= size), None)
                if kind is not None:
                    self.offer(job, -1, kind)

    def choice(self, *, steady: bool) -> Choice:
        """What was taken, grouped by type."""
        taken = np.array(self._taken, dtype=np.int64).reshape(-1, 3)
        taken = taken[np.argsort(taken[:, 2], kind="stable")]
        second = taken[:, 1] if (taken[:, 1] >= 0).any() else None
        return Choice(first=taken[:, 0], second=second, type=taken[:, 2], steady=steady)


def _waiting(view: View, accounts: Accounts) -> list[int]:
    """Jobs by what they are owed over all types, most first."""
    owed = (accounts.owed + accounts.share * (view.now - view.solved_at) - accounts.received).sum(axis=0)
    order: list[int] = np.lexsort((view.jobs, -owed)).tolist()
    return order


def _scatter(first: IntArray, kind: IntArray, view: View) -> IntArray:
    """For policies that do not know types: a different favourite type for each job and round, without randomness."""
    count = len(view.types)
    return (kind + view.jobs[first] + view.round) % count
