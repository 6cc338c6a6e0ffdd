"""Rota's own realisation of shares: serve who is furthest behind its share.

    debt = seconds owed at the last allocation + share x (time since then + the coming round) - seconds received since

In each pass every job without a turn asks for the type on which its debt is largest, and each type takes the largest
debts while its GPUs last (a smaller job may overtake one that does not fit); whoever is refused asks for its next
type. Whoever ran in the last round counts as `stay_rounds` more behind where it ran, so jobs are not moved or stopped
for a few seconds of debt. With space sharing, jobs and pairs stand in one queue by debt instead. What is left goes to
jobs without a turn, most owed first, each on its fastest free type. Debts are carried over from one allocation to the
next, so shares are met however often they change. Whoever is many of its own turns behind (the shares of gangs cannot
always be kept) goes first.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE, Horizon
from rota.core.rules import Rules
from rota.core.view import Accounts, View
from rota.mechanisms.choice import Choice
from rota.mechanisms.dividing import Select

_PATIENCE, _PATIENT_TURNS = 20.0, 5.0
"""Rounds, and turns of its own, that a job may be behind before it goes first."""
_URGENT = 1e12
_TINY = 1e-9
"""Shares below this are noise of a solver."""


class Deficit(Select):
    """Selects by time behind the promised share."""

    def __init__(self, rules: Rules) -> None:
        self._round_s = rules.round_s
        self._stay_s = rules.stay_rounds * rules.round_s

    def choose(self, view: View, allocation: Allocation) -> Choice:
        """The options of the coming round."""
        accounts = view.accounts
        if accounts is None:
            raise ValueError("the deficit rule needs accounts of received time")
        elapsed = view.now - view.solved_at + self._round_s
        this_round = _Round(view)
        wants = accounts.wants
        debt = accounts.owed + accounts.share * elapsed
        debt -= accounts.received
        pairs = accounts.extras
        if allocation.traits.packs and len(pairs):
            pair_debt = pairs.owed + pairs.share * elapsed - pairs.received
            pair_debt = self._urgent(pair_debt, pairs.share)
            steady = this_round.one_queue(
                wants, self._urgent(debt, accounts.share), pairs.share > _TINY, pair_debt, accounts
            )
        else:
            wish = debt if allocation.traits.aware else debt + _favourite(view)
            steady = this_round.passes(wants, self._urgent(self._loyal(view, wish), accounts.share))
        if allocation.traits.fills and this_round.spare > 0 and this_round.unserved.any():
            this_round.fill((debt - accounts.share * self._round_s).sum(axis=0))
        return this_round.choice(UNTIL_JOBS_CHANGE.not_beyond(allocation.horizon.until) if steady else EVERY_ROUND)

    def _urgent(self, debt: FloatArray, share: FloatArray) -> FloatArray:
        """Debts with a bonus for who has waited long by the measure of its own share.

        Gangs can make promises that rounds cannot keep; the largest debts would then be served for ever.
        """
        patience = self._round_s * (_PATIENCE * share + _PATIENT_TURNS)
        late = debt > patience
        if not np.count_nonzero(late):
            return debt
        return np.where(late, _URGENT + debt / np.maximum(share, _TINY), debt)

    def _loyal(self, view: View, debt: FloatArray) -> FloatArray:
        """Debts with a bonus for staying, so that jobs do not move or stop for the sake of a few seconds."""
        last, tasks = view.placement, view.last_task
        if last is None or tasks is None or len(last) == 0 or self._stay_s == 0:
            return debt
        ran = (tasks >= 0).nonzero()[0]
        debt = debt.copy()
        debt[last.type[tasks[ran]], ran] += self._stay_s
        return debt


class _Round:
    """GPUs that are left and jobs that have a turn, while one round is chosen."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._free: list[int] = view.capacity.tolist()
        self._ones = view.single_gpu or len(view) == 0 or bool(view.gpus.max() == 1)
        self.unserved: BoolArray = np.ones(len(view), dtype=np.bool_)
        self._first: list[IntArray] = []
        self._second: list[IntArray] = []
        self._kind: list[IntArray] = []

    @property
    def spare(self) -> int:
        """GPUs nobody has taken yet."""
        return sum(self._free)

    def passes(self, wants: BoolArray, debt: FloatArray) -> bool:
        """Jobs ask for one type after the other; whether the same would happen again."""
        steady = bool((wants.sum(axis=0) <= 1).all())
        debt = np.where(wants, debt, -np.inf)
        for _ in range(len(self._free)):
            asking = (self.unserved & wants.any(axis=0)).nonzero()[0]
            if len(asking) == 0:
                break
            favourite = debt[:, asking].argmax(axis=0)
            for kind in range(len(self._free)):
                mine = asking[favourite == kind]
                taken = self._take(mine, debt[kind, mine], kind)
                steady &= taken == len(mine)
            wants = wants.copy()
            wants[favourite, asking] = False
            debt[favourite, asking] = -np.inf
        return steady

    def _take(self, jobs: IntArray, debt: FloatArray, kind: int) -> int:
        """Serve those with the largest debts as far as the GPUs of this type go; how many."""
        free = self._free[kind]
        if len(jobs) == 0 or free == 0:
            return 0
        if self._ones and len(jobs) <= free:
            served = jobs
        else:
            order = jobs[(-debt).argsort(kind="stable")]
            served = order[:free] if self._ones else self._fitting(order, free)
        self._serve(served, np.full(len(served), -1, dtype=np.int64), kind)
        return len(served)

    def _fitting(self, order: IntArray, free: int) -> IntArray:
        """All up to the first that does not fit, then whoever still does."""
        sizes = self._view.gpus[order]
        whole = int(np.searchsorted(np.cumsum(sizes), free, side="right"))
        free -= int(sizes[:whole].sum())
        late = []
        for at, size in enumerate(sizes[whole:].tolist(), start=whole):
            if free <= 0:
                break
            if size <= free:
                free -= size
                late.append(at)
        return np.concatenate([order[:whole], order[late]])

    def _serve(self, first: IntArray, second: IntArray, kind: int) -> None:
        self.unserved[first] = False
        self._free[kind] -= int(self._view.gpus[first].sum())
        self._first.append(first)
        self._second.append(second)
        self._kind.append(np.full(len(first), kind, dtype=np.int64))

    def one_queue(
        self, wants: BoolArray, debt: FloatArray, pair_wants: BoolArray, pair_debt: FloatArray, accounts: Accounts
    ) -> bool:
        """Jobs and pairs by debt over all types; whether the same would happen again."""
        view, options = self._view, accounts.extras.options
        kind, first = wants.nonzero()
        a, b = view.position(options.first), view.position(options.second)
        can = view.classes.pair[view.job_class[a], view.job_class[b]] > 0
        pair_kind, row = (pair_wants & can.T).nonzero()
        firsts = np.concatenate([first, a[row]])
        seconds = np.concatenate([np.full(len(first), -1), b[row]])
        kinds = np.concatenate([kind, pair_kind])
        debts = np.concatenate([debt[kind, first], pair_debt[pair_kind, row]])
        order = np.lexsort((kinds, firsts, -debts))
        sizes, steady, taken = view.gpus.tolist(), True, []
        queue = zip(order.tolist(), firsts[order].tolist(), seconds[order].tolist(), kinds[order].tolist(), strict=True)
        for entry, one, two, on in queue:
            if not self.unserved[one] or (two >= 0 and not self.unserved[two]) or sizes[one] > self._free[on]:
                steady = False
                continue
            self._free[on] -= sizes[one]
            self.unserved[one] = False
            if two >= 0:
                self.unserved[two] = False
            taken.append(entry)
        self._first.append(firsts[taken])
        self._second.append(seconds[taken])
        self._kind.append(kinds[taken])
        return steady

    def fill(self, owed: FloatArray) -> None:
        """Give what is left to jobs without a turn, most owed first, each on its fastest free type."""
        view, free = self._view, self._free
        rates = view.classes.throughput
        waiting = self.unserved.nonzero()[0]
        waiting = waiting[(-owed[waiting]).argsort(kind="stable")]
        groups, sizes = view.job_class[waiting].tolist(), view.gpus[waiting].tolist()
        wishes: dict[int, list[int]] = {}
        spare = self.spare
        for job, group, size in zip(waiting.tolist(), groups, sizes, strict=True):
            if spare <= 0:
                return
            if group not in wishes:
                row = rates[group]
                wishes[group] = [t for t in (-row).argsort(kind="stable").tolist() if row[t] > 0]
            kind = next((t for t in wishes[group] if free[t] >= size), None)
            if kind is not None:
                self._serve(np.array([job]), np.array([-1]), kind)
                spare -= size

    def choice(self, horizon: Horizon) -> Choice:
        """What was taken, grouped by type."""
        if not self._first:
            none = np.zeros(0, dtype=np.int64)
            return Choice(first=none, type=none, horizon=horizon)
        kind = np.concatenate(self._kind)
        order = kind.argsort(kind="stable")
        second = np.concatenate(self._second)[order]
        return Choice(
            first=np.concatenate(self._first)[order],
            second=second if (second >= 0).any() else None,
            type=kind[order],
            horizon=horizon,
        )


def _favourite(view: View) -> FloatArray:
    """[T, J] less than a second of extra debt on one type per job, for policies that see no difference in types."""
    kinds = np.arange(len(view.types))[:, None]
    return ((kinds + view.jobs[None, :]) % len(view.types)) / (len(view.types) + 1.0)
