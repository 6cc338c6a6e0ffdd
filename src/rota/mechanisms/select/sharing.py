"""Space sharing under the fraction rule: pairs of jobs stand in the queue of a type beside single jobs.

A pair has a share, an account and a priority like a job. Under the rule `all_pairs_fill`, left-over GPUs may also go
to two jobs that the policy did not pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation
from rota.core.arrays import FloatArray, IntArray
from rota.core.rules import Rules
from rota.core.view import Accounts, View
from rota.mechanisms.select.queue_walk import QueueWalk


class SharingWalk(QueueWalk):
    """One pass over the queue of each type, in which pairs of jobs stand too."""

    def __init__(self, view: View, accounts: Accounts, allocation: Allocation, rules: Rules) -> None:
        super().__init__(view, accounts, allocation, rules)
        self._pairs = _Pairs(view, accounts) if allocation.traits.packs and len(accounts.extras) else None

    def serve(self, gpu_type: int) -> None:
        """Singles and pairs with a share, in one queue."""
        pairs = self._pairs
        if pairs is None:
            super().serve(gpu_type)
            return
        wanting = (self.wants[gpu_type] & self.unchosen).nonzero()[0]
        priority = self.priority(gpu_type)
        unchosen = self.unchosen[pairs.first] & self.unchosen[pairs.second]
        joined = np.flatnonzero((pairs.priority[gpu_type] > 0) & unchosen)
        keys = (
            np.concatenate([self.accounts.share[gpu_type, wanting], pairs.share[gpu_type, joined]]),
            np.concatenate([self.accounts.owed[gpu_type, wanting], pairs.owed[gpu_type, joined]]),
            np.concatenate([priority[wanting], pairs.priority[gpu_type, joined]]),
        )
        first = np.concatenate([wanting, pairs.first[joined]])
        second = np.concatenate([np.full(len(wanting), -1), pairs.second[joined]])
        order = np.lexsort((*_age(first, second), *(-key for key in keys)))
        self._walk_queue(gpu_type, first, second, order, counts=True)

    def fill(self, gpu_type: int) -> None:
        """Left-over GPUs go to jobs without a share here; as in the artifact, any two of them may share.

        Pairs that never ran are owed their opening credit.
        """
        if not (self.rules.all_pairs_fill and self.allocation.traits.pairs_fill):
            super().fill(gpu_type)
            return
        idle = self.idle(gpu_type)
        pairs = self._all_pairs(gpu_type, np.flatnonzero(self.unchosen))
        first = np.concatenate([idle, pairs.first])
        second = np.concatenate([np.full(len(idle), -1, dtype=np.int64), pairs.second])
        owed = np.concatenate([self.accounts.owed[gpu_type, idle], pairs.owed])
        share = np.concatenate([self.accounts.share[gpu_type, idle], pairs.share])
        order = np.lexsort((*_age(first, second), -share, -owed))
        self._walk_queue(gpu_type, first, second, order, counts=False)

    def _walk_queue(self, gpu_type: int, first: IntArray, second: IntArray, order: IntArray, *, counts: bool) -> None:
        """Take what fits in this order; `counts` says whether one that is refused ends a steady state."""
        free = self.left[gpu_type]
        unchosen = self.unchosen
        sizes = self.view.gpus
        taken: list[int] = []
        for entry in order.tolist():
            one = first[entry]
            two = second[entry]
            if free <= 0 and not counts:
                break
            if not unchosen[one] or (two >= 0 and not unchosen[two]) or sizes[one] > free:
                self.refused |= counts
                continue
            free -= int(sizes[one])
            unchosen[one] = False
            self.remaining -= 1
            if two >= 0:
                unchosen[two] = False
                self.remaining -= 1
            taken.append(entry)
        if taken:
            self.left[gpu_type] = free
            self.first.append(first[taken])
            self.second.append(second[taken])
            self.gpu_types.append(gpu_type)

    def _all_pairs(self, gpu_type: int, able: IntArray) -> _Candidates:
        """All pairs of these jobs that can share GPUs of this type and have no priority of their own."""
        classes = self.view.job_class[able]
        can = self.view.classes.pair[classes[:, None], classes[None, :], gpu_type] > 0
        left, right = np.nonzero(np.triu(can, 1))
        first = able[left]
        second = able[right]
        known = self.accounts.promised
        credit = (self.rules.opening_credit - self.rules.pair_opening_credit) * self.rules.round_s
        owed = np.where((known[first] == 1) & (known[second] == 1), credit, 0.0)
        share = np.zeros(len(first))
        keep = np.ones(len(first), dtype=np.bool_)
        pairs = self._pairs
        if pairs is not None:
            for at, row in _known_rows(pairs, first, second):
                keep[at] = pairs.priority[gpu_type, row] <= 0
                owed[at] = pairs.owed[gpu_type, row]
                share[at] = pairs.share[gpu_type, row]
        return _Candidates(first[keep], second[keep], owed[keep], share[keep])


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Pairs that may fill: positions of the members, seconds owed and share on one type."""

    first: IntArray
    second: IntArray
    owed: FloatArray
    share: FloatArray


class _Pairs:
    """Pairs that have an account, as positions of their members."""

    def __init__(self, view: View, accounts: Accounts) -> None:
        table = accounts.extras
        self.first = view.position(table.options.first)
        self.second = view.position(table.options.second)
        self.share = table.share
        self.owed = table.owed
        classes = view.job_class
        can = (view.classes.pair[classes[self.first], classes[self.second]] > 0).T
        self.priority = kernels.priority(table.share, table.received, accounts.type_time[:, None]) * can
        members = zip(self.first.tolist(), self.second.tolist(), strict=True)
        self.row = {pair: row for row, pair in enumerate(members)}


def _age(first: IntArray, second: IntArray) -> tuple[IntArray, IntArray]:
    """Sort keys (least significant first) of the order in which accounts were opened."""
    return second * 0 + np.where(second >= 0, first, -1), np.maximum(first, second)


def _known_rows(pairs: _Pairs, first: IntArray, second: IntArray) -> Iterator[tuple[int, int]]:
    """(position among these, row of the accounts) of each pair that has an account."""
    for at, key in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        row = pairs.row.get(key)
        if row is not None:
            yield at, row
