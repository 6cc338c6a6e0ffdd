"""Gavel's realisation of shares (OSDI'20, section 5): serve who has the largest share / fraction of time received.

Per type, options are sorted by (priority, time owed, share), largest first, and taken while GPUs last; smaller ones
may overtake one that does not fit. priority = share / (seconds received / seconds received by all options on this
type since the last allocation). Options without a share have priority 0 and take what is left over, unless the
policy does not fill. What is accidental in the published simulator is a field of `Rules`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation, Traits
from rota.core.arrays import BoolArray, FloatArray, IntArray, some, trues
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE, UNTIL_JOBS_LEAVE, Horizon
from rota.core.rules import Rules
from rota.core.view import Accounts, View
from rota.mechanisms.choice import Choice
from rota.mechanisms.dividing import Select
from rota.mechanisms.select.types import TypeOrder


class Fraction(Select):
    """Selects by share over fraction of time received."""

    def __init__(self, rules: Rules, seed: int = 0) -> None:
        self._rules = rules
        self._order = TypeOrder(rules.type_order, seed)

    def choose(self, view: View, allocation: Allocation) -> Choice:
        """The options of the coming round."""
        accounts = view.accounts
        if accounts is None:
            raise ValueError("the fraction rule needs accounts of received time")
        aware = allocation.traits.aware
        order = self._order.preferred(view) if aware else self._order.shuffled(view, view.round)
        if view.single_gpu and not allocation.traits.packs and not self._rules.global_queue:
            return self._single_gpus(view, accounts, allocation, order)
        walk = _Walk(view, accounts, allocation, self._rules)
        if self._rules.global_queue:
            walk.all_types(order)
        else:
            for kind in order:
                walk.one_type(kind)
        return walk.choice()

    def ignores_arrivals(self, view: View, allocation: Allocation) -> bool:
        """Whether newcomers leave the last placement as it is: they have no share, so at most they fill.

        Then they take GPUs without running on them; nobody gives way where all of them fit, or where only jobs with a
        share run.
        """
        traits, last, accounts = allocation.traits, view.placement, view.accounts
        if traits.packs or last is None or accounts is None:
            return False
        if not traits.fills:
            return True
        if not (self._rules.newcomers_waste_slots and view.single_gpu):
            return False
        running = np.bincount(last.type, minlength=len(view.capacity))
        newcomers = len(view) - int(np.count_nonzero(accounts.promised))
        crowded = running + newcomers > view.capacity
        if not some(crowded):
            return True
        rows = view.jobs.searchsorted(last.first)
        return not some(crowded[last.type] & ~accounts.wants[last.type, rows])

    def _single_gpus(self, view: View, accounts: Accounts, allocation: Allocation, order: list[int]) -> Choice:
        """The same for jobs of one GPU each, nobody sharing: each type takes its best, without a walk."""
        traits, classes, count = allocation.traits, view.classes, len(view)
        rows, kinds = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        flags = kernels.FILLS * traits.fills | kernels.BY_SPEED * traits.fills_by_speed
        if view.previous is not None and view.previous.traits.scatters_ties:
            flags |= kernels.SCATTERS
        chosen, crowded = kernels.choose_ones(
            np.array(order),
            view.capacity,
            classes.runs_on,
            view.job_class,
            view.jobs,
            accounts.share,
            accounts.received,
            accounts.owed,
            classes.throughput,
            accounts.type_time,
            rows,
            kinds,
            flags,
        )
        first = rows[:chosen]
        wasted = _unknown(self._rules, accounts, first, None)
        return Choice(first=first, type=kinds[:chosen], wasted=wasted, horizon=_horizon(allocation, crowded=crowded))


class _Walk:
    """One pass over the queue of each type."""

    def __init__(self, view: View, accounts: Accounts, allocation: Allocation, rules: Rules) -> None:
        self.view = view
        self.accounts = accounts
        self.allocation = allocation
        self.rules = rules
        self.runs = accounts.runs
        self.wants = accounts.wants
        self.share = accounts.share
        self.received = accounts.received
        self.unchosen: BoolArray = trues(len(view))
        self.remaining = len(view)
        self.left: list[int] = view.capacity.tolist()
        self.refused = False
        self.first: list[IntArray] = []
        self.second: list[IntArray | None] = []
        self.kinds: list[int] = []
        pairs = accounts.extras
        self.pairs = _Pairs(view, accounts) if allocation.traits.packs and len(pairs) else None

    def one_type(self, kind: int) -> None:
        """Serve the options with a share on this type, then those without."""
        if self.left[kind] <= 0 or self.remaining == 0:
            return
        if self.pairs is None:
            self._singles(kind)
        else:
            self._mixed(kind)
        if self.left[kind] > 0 and self.remaining and self.allocation.traits.fills:
            self._fill(kind)

    def priority(self, kind: int) -> FloatArray:
        """[J] share over fraction of the time received; 0 without a share or speed."""
        priority = kernels.priority(self.share[kind], self.received[kind], self.accounts.type_time[kind])
        return np.where(self.runs[kind], priority, 0.0)

    def _singles(self, kind: int) -> None:
        wanting = (self.wants[kind] & self.unchosen).nonzero()[0]
        share, received = self.share[kind][wanting], self.received[kind][wanting]
        priority = kernels.priority(share, received, self.accounts.type_time[kind])
        self._take_fitting(wanting[_ranked(self.view, self.accounts, kind, wanting, -priority)], kind)

    def _take_fitting(self, ranked: IntArray, kind: int) -> None:
        free, taken = self.left[kind], []
        gpus = self.view.gpus[ranked].tolist()
        for row, size in zip(ranked.tolist(), gpus, strict=True):
            if size <= free:
                free -= size
                taken.append(row)
            else:
                self.refused = True
        self._take(np.array(taken, dtype=np.int64), kind, self.left[kind] - free)

    def _take(self, rows: IntArray, kind: int, gpus: int) -> None:
        count = len(rows)
        if count == 0:
            return
        self.unchosen[rows] = False
        self.remaining -= count
        self.left[kind] -= gpus
        self.first.append(rows)
        self.second.append(None)
        self.kinds.append(kind)

    def _fill(self, kind: int) -> None:
        """Left-over GPUs go to jobs without a share here, most owed first."""
        idle = (self.unchosen & self.runs[kind] & ~self.wants[kind]).nonzero()[0]
        if self.rules.all_pairs_fill and self.allocation.traits.pairs_fill:
            self._fill_with_pairs(kind, idle)
            return
        if len(idle):
            refused = self.refused
            owed = self.accounts.owed[kind, idle]
            self._take_fitting(idle[_waiting(self.view, kind, idle, owed, self.allocation.traits)], kind)
            self.refused = refused

    # Space sharing

    def _mixed(self, kind: int) -> None:
        """Singles and pairs with a share, in one queue."""
        pairs = self.pairs
        assert pairs is not None  # the caller has looked
        wanting = (self.wants[kind] & self.unchosen).nonzero()[0]
        priority = self.priority(kind)
        joined = np.flatnonzero((pairs.priority[kind] > 0) & self.unchosen[pairs.first] & self.unchosen[pairs.second])
        keys = (
            np.concatenate([self.accounts.share[kind, wanting], pairs.share[kind, joined]]),
            np.concatenate([self.accounts.owed[kind, wanting], pairs.owed[kind, joined]]),
            np.concatenate([priority[wanting], pairs.priority[kind, joined]]),
        )
        first = np.concatenate([wanting, pairs.first[joined]])
        second = np.concatenate([np.full(len(wanting), -1), pairs.second[joined]])
        self._walk_queue(kind, first, second, np.lexsort((*_age(first, second), *(-k for k in keys))), counts=True)

    def _fill_with_pairs(self, kind: int, idle: IntArray) -> None:
        """As the artifact does: any two idle jobs may share, and pairs that never ran are owed their opening credit."""
        able = np.flatnonzero(self.unchosen)
        first, second, owed, share = _all_pairs(self, kind, able)
        first = np.concatenate([idle, first])
        second = np.concatenate([np.full(len(idle), -1, dtype=np.int64), second])
        owed = np.concatenate([self.accounts.owed[kind, idle], owed])
        share = np.concatenate([self.accounts.share[kind, idle], share])
        self._walk_queue(kind, first, second, np.lexsort((*_age(first, second), -share, -owed)), counts=False)

    def _walk_queue(self, kind: int, first: IntArray, second: IntArray, order: IntArray, *, counts: bool) -> None:
        free, unchosen, sizes = self.left[kind], self.unchosen, self.view.gpus
        taken: list[int] = []
        for entry in order.tolist():
            a, b = first[entry], second[entry]
            if free <= 0 and not counts:
                break
            if not unchosen[a] or (b >= 0 and not unchosen[b]):
                self.refused |= counts
                continue
            if sizes[a] > free:
                self.refused |= counts
                continue
            free -= int(sizes[a])
            unchosen[a] = False
            self.remaining -= 1
            if b >= 0:
                unchosen[b] = False
                self.remaining -= 1
            taken.append(entry)
        if taken:
            self.left[kind] = free
            self.first.append(first[taken])
            self.second.append(second[taken])
            self.kinds.append(kind)

    def all_types(self, order: list[int]) -> None:
        """One queue over all types (no pairs): the sort key leads, the order of types breaks ties."""
        rows, kinds = [], []
        for kind in order:
            able = np.flatnonzero(self.runs[kind])
            rows.append(able)
            kinds.append(np.full(len(able), kind))
        row, kind_of = np.concatenate(rows), np.concatenate(kinds)
        priority = np.stack([self.priority(kind) for kind in range(len(self.left))])
        keys = (-self.accounts.share[kind_of, row], -self.accounts.owed[kind_of, row], -priority[kind_of, row])
        for entry in np.lexsort(keys).tolist():
            job, kind = int(row[entry]), int(kind_of[entry])
            if not self.unchosen[job] or (priority[kind, job] <= 0 and not self.allocation.traits.fills):
                continue
            size = int(self.view.gpus[job])
            if size <= self.left[kind]:
                self._take(np.array([job]), kind, size)
        self.refused = True

    def choice(self) -> Choice:
        """What was taken, type by type."""
        horizon = _horizon(self.allocation, crowded=self.refused)
        if not self.first:
            none = np.zeros(0, dtype=np.int64)
            return Choice(first=none, type=none, horizon=horizon)
        first, kind = _joined(list(zip(self.kinds, self.first, strict=True)))
        second = None
        if any(part is not None for part in self.second):
            both = zip(self.first, self.second, strict=True)
            second = np.concatenate([np.full(len(f), -1) if part is None else part for f, part in both])
        wasted = _unknown(self.rules, self.accounts, first, second)
        return Choice(first=first, second=second, type=kind, wasted=wasted, horizon=horizon)


def _horizon(allocation: Allocation, *, crowded: bool) -> Horizon:
    """Until jobs change where everybody with a share has a place; newcomers matter if they may fill or share."""
    traits = allocation.traits
    if crowded or not traits.aware:  # for policies that see no types their order is drawn anew in every round
        return EVERY_ROUND
    base = UNTIL_JOBS_CHANGE if traits.fills or traits.packs else UNTIL_JOBS_LEAVE
    return base.not_beyond(allocation.horizon.until)


def _unknown(rules: Rules, accounts: Accounts, first: IntArray, second: IntArray | None) -> BoolArray | None:
    """Options with a member that the allocation in force does not know; None if there is none or it does not matter."""
    if not (rules.newcomers_waste_slots and accounts.newcomers):
        return None
    promised = accounts.promised
    late = promised[first] == 0
    if second is not None:
        late |= (second >= 0) & (promised[second] == 0)
    return late if late.any() else None


def _joined(groups: list[tuple[int, IntArray]]) -> tuple[IntArray, IntArray]:
    """Rows and types of what was taken type by type."""
    if not groups:
        none = np.zeros(0, dtype=np.int64)
        return none, none
    rows = np.concatenate([part for _, part in groups])
    kinds = np.empty(len(rows), dtype=np.int64)
    at = 0
    for kind, part in groups:
        kinds[at : at + len(part)] = kind
        at += len(part)
    return rows, kinds


def _ranked(view: View, accounts: Accounts, kind: int, rows: IntArray, behind: FloatArray) -> IntArray:
    """Positions within `rows`, best first; ties by time owed, share and age, or by scattered numbers."""
    scatters = view.previous is not None and view.previous.traits.scatters_ties
    return kernels.ranked(
        behind, view.jobs[rows], accounts.owed[kind][rows], accounts.share[kind][rows], scatters=scatters
    )


def _waiting(view: View, kind: int, idle: IntArray, owed: FloatArray, traits: Traits) -> IntArray:
    """Jobs without a share here, in the order in which they may fill."""
    # Not the rates of all classes: a refused one may have no speed at all.
    return kernels.waiting(kind, owed, view.classes.throughput[view.job_class[idle]] if traits.fills_by_speed else None)


class _Pairs:
    """Pairs that have an account, as positions of their members."""

    def __init__(self, view: View, accounts: Accounts) -> None:
        table = accounts.extras
        self.first = view.position(table.options.first)
        self.second = view.position(table.options.second)
        self.share, self.owed = table.share, table.owed
        classes = view.job_class
        can = (view.classes.pair[classes[self.first], classes[self.second]] > 0).T
        self.priority = kernels.priority(table.share, table.received, accounts.type_time[:, None]) * can
        self.row = {(a, b): k for k, (a, b) in enumerate(zip(self.first.tolist(), self.second.tolist(), strict=True))}


def _age(first: IntArray, second: IntArray) -> tuple[IntArray, IntArray]:
    """Sort keys (least significant first) of the order in which accounts were opened."""
    return second * 0 + np.where(second >= 0, first, -1), np.maximum(first, second)


def _all_pairs(walk: _Walk, kind: int, able: IntArray) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """All pairs of unchosen jobs that can share GPUs of this type and have no priority of their own."""
    view, pairs = walk.view, walk.pairs
    classes = view.job_class[able]
    can = view.classes.pair[classes[:, None], classes[None, :], kind] > 0
    left, right = np.nonzero(np.triu(can, 1))
    first, second = able[left], able[right]
    known = walk.accounts.promised
    credit = (walk.rules.opening_credit - walk.rules.pair_opening_credit) * walk.rules.round_s
    owed = np.where((known[first] == 1) & (known[second] == 1), credit, 0.0)
    share = np.zeros(len(first))
    keep = np.ones(len(first), dtype=np.bool_)
    if pairs is not None:
        for k, row in _known_rows(pairs, first, second):
            keep[k] = pairs.priority[kind, row] <= 0
            owed[k], share[k] = pairs.owed[kind, row], pairs.share[kind, row]
    return first[keep], second[keep], owed[keep], share[keep]


def _known_rows(pairs: _Pairs, first: IntArray, second: IntArray) -> Iterator[tuple[int, int]]:
    for k, key in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        row = pairs.row.get(key)
        if row is not None:
            yield k, row
