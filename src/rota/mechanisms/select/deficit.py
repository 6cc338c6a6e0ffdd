"""Rota's own realisation of shares: serve who is furthest behind its share.

    debt = seconds owed at the last allocation + share x (time since then + the coming round) - seconds received since

In each pass every job without a turn asks for the type on which its debt is largest, and each type takes the largest
debts while its GPUs last (a smaller job may overtake one that does not fit); whoever is refused asks for its next
type. Whoever ran in the last round counts as `stay_rounds` more behind where it ran, so jobs are not moved or stopped
for a few seconds of debt. With space sharing, jobs and pairs stand in one queue by debt instead. What is left goes to
jobs without a turn, most owed first, each on its fastest free type. Debts are carried over from one allocation to the
next, so shares are met however often they change. Whoever is many of its own turns behind (the shares of gangs cannot
always be kept) goes first; before all others go jobs that the policy calls pressing.

To a job that is as fast on several types, time on one of them is as good as on another: its debts there are one debt,
so it is not moved between them for nothing.

Where the policy wishes for CPUs and they are divided by need, a turn is worth less without them. So nobody takes a GPU
whose wish would leave too few CPUs of the type for its other GPUs: others with smaller wishes come first, and the debt
stays for a round in which the CPUs are there. GPUs that nobody else wants go by debt alone, and so does who is late.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.allocation import Allocation, Wishes
from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE, Horizon
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.core.view import Accounts, View
from rota.mechanisms.choice import Choice
from rota.mechanisms.dividing import Select
from rota.mechanisms.select.equal_types import EqualTypes

_PATIENCE = 20.0
"""Rounds that a job may be behind before it goes first, times its share ..."""
_PATIENT_TURNS = 5.0
"""... and rounds on top of that, whatever its share."""
_URGENT = 1e12
"""Seconds of debt that put a job before all that are not late."""
_DIGITS = 6
"""Of debts in seconds: sums of fractions must not tell equals apart."""
_PRESSING = 1e18
"""Seconds of debt that put a job before everybody else."""


class Deficit(Select):
    """Selects by time behind the promised share."""

    def __init__(self, rules: Rules, *, by_need: bool = False) -> None:
        """`by_need`: whether jobs get the CPUs that the policy wishes for them."""
        self._by_need = by_need
        self._round_s = rules.round_s
        self._stay_s = rules.stay_rounds * rules.round_s
        self._alike = EqualTypes()

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
        debt = debt.round(_DIGITS)
        pressing = _pressing(view, allocation)
        pairs = accounts.extras
        if allocation.traits.packs and len(pairs):
            pair_debt = pairs.owed + pairs.share * elapsed - pairs.received
            pair_debt = self._urgent(pair_debt, pairs.share)
            queue = _queue(view, accounts, self._urgent(debt, accounts.share) + pressing, pair_debt)
            steady = this_round.one_queue(queue)
        else:
            wants, ranked = self._ranked(view, allocation, wants, debt)
            ranked = self._urgent(ranked, accounts.share) + pressing
            steady = self._serve(this_round, wants, ranked, allocation)
        if allocation.traits.fills and this_round.spare > 0 and this_round.unserved.any():
            this_round.fill((debt - accounts.share * self._round_s).sum(axis=0))
        horizon = UNTIL_JOBS_CHANGE.not_beyond(allocation.horizon.until) if steady else EVERY_ROUND
        return this_round.choice(horizon)

    def _ranked(
        self, view: View, allocation: Allocation, wants: BoolArray, debt: FloatArray
    ) -> tuple[BoolArray, FloatArray]:
        """[T, J] who wants to run where, and the debt by which it asks."""
        if not allocation.traits.fills:  # it names who runs on which type: nobody may be in the way there
            wish = debt if allocation.traits.aware else debt + _favourite(view)
            return wants, self._loyal(view, wish)
        wants, wish = self._alike.pooled(view, wants, debt)
        if not allocation.traits.aware:
            wish = wish + _favourite(view)
        return wants, self._alike.towards_weakest(view, self._loyal(view, wish))

    def _serve(self, this_round: _Round, wants: BoolArray, debt: FloatArray, allocation: Allocation) -> bool:
        """Turns by debt; whether the same would happen again."""
        if allocation.wish is None or not self._by_need:
            return this_round.passes(wants, debt)
        this_round.heed(_wished_cpus(this_round.view, allocation.jobs, allocation.wish))
        steady = this_round.passes(wants, debt)
        this_round.heed(None)
        return this_round.passes(wants, debt) and steady

    def _urgent(self, debt: FloatArray, share: FloatArray) -> FloatArray:
        """Debts with a bonus for who has waited long by the measure of its own share.

        Gangs can make promises that rounds cannot keep; the largest debts would then be served for ever.
        """
        patience = self._round_s * (_PATIENCE * share + _PATIENT_TURNS)
        late = debt > patience
        if not np.count_nonzero(late):
            return debt
        return np.where(late, _URGENT + debt / np.maximum(share, TOLERANCE), debt)

    def _loyal(self, view: View, debt: FloatArray) -> FloatArray:
        """Debts with a bonus for staying, so that jobs do not move or stop for the sake of a few seconds."""
        last = view.placement
        tasks = view.last_task
        if last is None or tasks is None or len(last) == 0 or self._stay_s == 0:
            return debt
        ran = (tasks >= 0).nonzero()[0]
        debt = debt.copy()
        debt[last.type[tasks[ran]], ran] += self._stay_s
        return debt


@dataclass(frozen=True, slots=True, eq=False)
class _Queue:
    """Jobs and pairs that want to run on a type, most behind first; positions of the members, -1 for no second."""

    first: IntArray
    second: IntArray
    gpu_type: IntArray


def _queue(view: View, accounts: Accounts, debt: FloatArray, pair_debt: FloatArray) -> _Queue:
    """All that have a share, by debt ([T, J] of jobs, [T, P] of pairs)."""
    pairs = accounts.extras
    job_type, job = accounts.wants.nonzero()
    one = view.position(pairs.options.first)
    two = view.position(pairs.options.second)
    can = view.classes.pair[view.job_class[one], view.job_class[two]] > 0
    pair_type, row = ((pairs.share > TOLERANCE) & can.T).nonzero()
    first = np.concatenate([job, one[row]])
    second = np.concatenate([np.full(len(job), -1), two[row]])
    gpu_type = np.concatenate([job_type, pair_type])
    debts = np.concatenate([debt[job_type, job], pair_debt[pair_type, row]])
    order = np.lexsort((gpu_type, first, -debts))
    return _Queue(first[order], second[order], gpu_type[order])


class _CpuWishes:
    """CPUs that jobs are to hold [J, T], and how many are left by type while one round is chosen."""

    def __init__(self, cpus: FloatArray, left: FloatArray) -> None:
        self._cpus = cpus
        self._left: list[float] = left.tolist()

    def affordable(self, jobs: IntArray, sizes: IntArray, late: BoolArray, gpu_type: int, free: int) -> list[int]:
        """Which of the jobs, in this order, may take GPUs of a type of which so many are free.

        Those that are late may in any case: with them, perhaps no round has CPUs for all GPUs.
        """
        wished = self._cpus[jobs, gpu_type]
        least = float((wished / sizes).min())
        left = self._left[gpu_type]
        taken = []
        entries = zip(wished.tolist(), sizes.tolist(), late.tolist(), strict=True)
        for place, (cpus, size, urgent) in enumerate(entries):
            if free == 0:
                break
            if size <= free and (urgent or cpus <= left - (free - size) * least + TOLERANCE):
                free -= size
                left -= cpus
                taken.append(place)
        self._left[gpu_type] = left
        return taken


def _wished_cpus(view: View, known: IntArray, wish: Wishes) -> _CpuWishes:
    """What the policy wishes for; the proportional share for jobs that came after it was asked."""
    cluster = view.cluster
    at = np.minimum(known.searchsorted(view.jobs), len(known) - 1)
    fair = view.gpus[:, None] * cluster.fair_cpus
    cpus = np.where((known[at] == view.jobs)[:, None], wish.cpus[wish.which[at]], fair)
    total = np.bincount(cluster.server_type, weights=cluster.server_cpus, minlength=len(cluster.types))
    return _CpuWishes(cpus, total * view.capacity / cluster.capacity)


class _Round:
    """GPUs that are left and jobs that have a turn, while one round is chosen."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._cpus: _CpuWishes | None = None
        self._free: list[int] = view.capacity.tolist()
        self._ones = view.single_gpu or len(view) == 0 or bool(view.gpus.max() == 1)
        self.unserved: BoolArray = np.ones(len(view), dtype=np.bool_)
        self._first: list[IntArray] = []
        self._second: list[IntArray] = []
        self._gpu_type: list[IntArray] = []

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
            for gpu_type in range(len(self._free)):
                mine = asking[favourite == gpu_type]
                taken = self._take(mine, debt[gpu_type, mine], gpu_type)
                steady &= taken == len(mine)
            wants = wants.copy()
            wants[favourite, asking] = False
            debt[favourite, asking] = -np.inf
        return steady

    def heed(self, wishes: _CpuWishes | None) -> None:
        """Let the following turns leave enough CPUs to others, or not any more."""
        self._cpus = wishes

    def _take(self, jobs: IntArray, debt: FloatArray, gpu_type: int) -> int:
        """Serve those with the largest debts as far as the GPUs of this type go; how many."""
        free = self._free[gpu_type]
        if len(jobs) == 0 or free == 0:
            return 0
        if self._cpus is not None:
            by_debt = (-debt).argsort(kind="stable")
            order = jobs[by_debt]
            late = debt[by_debt] >= _URGENT
            served = order[self._cpus.affordable(order, self.view.gpus[order], late, gpu_type, free)]
        elif self._ones and len(jobs) <= free:
            served = jobs
        else:
            order = jobs[(-debt).argsort(kind="stable")]
            served = order[:free] if self._ones else self._fitting(order, free)
        self._serve(served, np.full(len(served), -1, dtype=np.int64), gpu_type)
        return len(served)

    def _fitting(self, order: IntArray, free: int) -> IntArray:
        """All up to the first that does not fit, then whoever still does."""
        sizes = self.view.gpus[order]
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

    def _serve(self, first: IntArray, second: IntArray, gpu_type: int) -> None:
        self.unserved[first] = False
        self._free[gpu_type] -= int(self.view.gpus[first].sum())
        self._first.append(first)
        self._second.append(second)
        self._gpu_type.append(np.full(len(first), gpu_type, dtype=np.int64))

    def one_queue(self, queue: _Queue) -> bool:
        """Jobs and pairs by debt over all types; whether the same would happen again."""
        sizes = self.view.gpus.tolist()
        unserved = self.unserved
        steady = True
        taken = []
        entries = zip(queue.first.tolist(), queue.second.tolist(), queue.gpu_type.tolist(), strict=True)
        for entry, (one, two, gpu_type) in enumerate(entries):
            if not unserved[one] or (two >= 0 and not unserved[two]) or sizes[one] > self._free[gpu_type]:
                steady = False
                continue
            self._free[gpu_type] -= sizes[one]
            unserved[one] = False
            if two >= 0:
                unserved[two] = False
            taken.append(entry)
        self._first.append(queue.first[taken])
        self._second.append(queue.second[taken])
        self._gpu_type.append(queue.gpu_type[taken])
        return steady

    def fill(self, owed: FloatArray) -> None:
        """Give what is left to jobs without a turn, most owed first, each on its fastest free type."""
        view = self.view
        free = self._free
        rates = view.classes.throughput
        waiting = self.unserved.nonzero()[0]
        waiting = waiting[(-owed[waiting]).argsort(kind="stable")]
        groups = view.job_class[waiting].tolist()
        sizes = view.gpus[waiting].tolist()
        wishes: dict[int, list[int]] = {}
        spare = self.spare
        for job, group, size in zip(waiting.tolist(), groups, sizes, strict=True):
            if spare <= 0:
                return
            if group not in wishes:
                row = rates[group]
                wishes[group] = [t for t in (-row).argsort(kind="stable").tolist() if row[t] > 0]
            gpu_type = next((t for t in wishes[group] if free[t] >= size), None)
            if gpu_type is not None:
                self._serve(np.array([job]), np.array([-1]), gpu_type)
                spare -= size

    def choice(self, horizon: Horizon) -> Choice:
        """What was taken, grouped by type."""
        if not self._first:
            none = np.zeros(0, dtype=np.int64)
            return Choice(first=none, type=none, horizon=horizon)
        gpu_type = np.concatenate(self._gpu_type)
        order = gpu_type.argsort(kind="stable")
        second = np.concatenate(self._second)[order]
        return Choice(
            first=np.concatenate(self._first)[order],
            second=second if (second >= 0).any() else None,
            type=gpu_type[order],
            horizon=horizon,
        )


def _pressing(view: View, allocation: Allocation) -> FloatArray | float:
    """[J] extra debt of jobs that have to run in every round."""
    if allocation.pressing is None:
        return 0.0
    extra = np.zeros(len(view))
    at = view.position(allocation.pressing)
    extra[at[at >= 0]] = _PRESSING
    return extra


def _favourite(view: View) -> FloatArray:
    """[T, J] less than a second of extra debt on one type per job, for policies that see no difference in types."""
    gpu_types = np.arange(len(view.types))[:, None]
    return ((gpu_types + view.jobs[None, :]) % len(view.types)) / (len(view.types) + 1.0)
