"""Quotas over any policy: first the jobs of tenants within their quotas, then all others on what is left.

1. A quota is a small cluster of its tenant's own: the selecting half is asked about the jobs of this tenant alone on as
   many GPUs, so which of them are within the quota follows from the policy. Where quotas ask for more than there is
   (servers may be down), each is cut by the same factor, in whole GPUs; of a tenant counts what its jobs can use.
2. A quota of any type promises a number, not a type. If such tenants want the same GPUs, the selecting half divides
   them among the jobs that are within their quotas.
3. All other jobs borrow what is left, each on types on which it would be within quota and borrow limit by itself. Of a
   tenant that would hold more, those go on that are chosen on what it may hold, and the selecting half is asked again.
   The others of that tenant may take what is left then.

Tasks that have to stay count first. Names and order of tenants make no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.horizon import EVERY_ROUND
from rota.core.quotas import Quotas
from rota.core.view import View
from rota.mechanisms.choice import Choice, at_positions, joined, nobody_chosen
from rota.mechanisms.narrowing import narrowed

Choose: TypeAlias = "Callable[[View], Choice]"
Most: TypeAlias = "Callable[[int, IntArray], IntArray | None]"
"""How many of the GPUs by type that a tenant would hold it may; None: all."""


@dataclass(frozen=True, slots=True)
class Halves:
    """How jobs are chosen on some GPUs."""

    within: Choose
    """Jobs within a quota: as many as fit, by the policy's order."""
    beyond: Choose
    """Jobs that borrow."""


@dataclass(frozen=True, slots=True, eq=False)
class _Promises:
    """Quotas of the tenants of a view as arrays."""

    tenants: tuple[str, ...]
    types: tuple[str, ...]
    typed: BoolArray
    """[N] whether the quota is by type."""
    total: IntArray
    """[N] GPUs of any type."""
    by_type: IntArray
    """[N, T]"""
    borrow: FloatArray
    """[N] infinity: all that is free."""

    @property
    def limited(self) -> BoolArray:
        """[N] tenants whose quota makes a difference."""
        return (self.total > 0) | self.by_type.any(axis=1) | np.isfinite(self.borrow)

    def borrowed(self, tenant: int, held: IntArray) -> int:
        """GPUs beyond the quota of a tenant that holds so many by type."""
        if self.typed[tenant]:
            return int(np.maximum(held - self.by_type[tenant], 0).sum())
        return max(0, int(held.sum()) - int(self.total[tenant]))

    def allowed(self, held: IntArray) -> FloatArray:
        """[N, T] the most GPUs of each type that a tenant may have beyond those it holds ([N, T])."""
        own = np.where(self.typed[:, None], self.by_type - held, (self.total - held.sum(axis=1))[:, None])
        borrowed = np.where(self.typed, np.maximum(-own, 0).sum(axis=1), np.maximum(-own[:, 0], 0))
        return np.maximum(own, 0) + np.maximum(self.borrow - borrowed, 0)[:, None]

    def most(self, tenant: int, held: IntArray, more: IntArray) -> IntArray | None:
        """[T] how many of the GPUs that a tenant would hold beyond those it holds it may have; None: all of them."""
        borrowed = self.borrowed(tenant, held)
        allowed = max(self.borrow[tenant], borrowed)
        if self.borrowed(tenant, held + more) <= allowed:
            return None
        if self.typed[tenant]:
            own = np.minimum(more, np.maximum(self.by_type[tenant] - held, 0))
        else:
            own = _fastest(more, max(0, int(self.total[tenant] - held.sum())))
        extra = _fastest(more - own, int(allowed - borrowed))
        return np.asarray(own + extra, dtype=np.int64)


class QuotaLevels:
    """Chooses jobs within quotas, then those that borrow."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._known: _Promises | None = None

    @property
    def limited(self) -> bool:
        """Whether any tenant has a quota or a limit to what it borrows, also one without a job."""
        return self._quotas.limited

    def concerns(self, view: View) -> bool:
        """Whether a job is there whose tenant has a quota or a limit to what it borrows."""
        if not self.limited or len(view) == 0:
            return False
        return bool(self._promises(view).limited[view.tenant].any())

    def room(self, view: View, held: IntArray) -> FloatArray | None:
        """[N, T] the most GPUs that tenants may have beyond those they hold ([N, T]); None: any number."""
        return self._promises(view).allowed(held) if self.concerns(view) else None

    def choose(self, view: View, halves: Halves, held: IntArray) -> Choice:
        """The jobs of the coming round; `held` [N, T] GPUs that tenants hold already, beside those of the view."""
        level = _Level(view, self._promises(view), held)
        self._by_type(level, halves)
        self._of_any_type(level, halves)
        self._borrowing(level, halves)
        return level.choice()

    def _promises(self, view: View) -> _Promises:
        known = self._known
        if known is None or known.tenants != view.tenants or known.types != view.types:
            quotas = [self._quotas.of(name) for name in view.tenants]
            by_type = [[quota.of_type(gpu_type) for gpu_type in view.types] for quota in quotas]
            known = _Promises(
                tenants=view.tenants,
                types=view.types,
                typed=np.array([quota.by_type is not None for quota in quotas], dtype=np.bool_),
                total=np.array([quota.any_type for quota in quotas], dtype=np.int64),
                by_type=np.array(by_type, dtype=np.int64).reshape(len(quotas), len(view.types)),
                borrow=np.array([quota.borrow for quota in quotas], dtype=np.float64),
            )
            self._known = known
        return known

    # Within quotas

    def _by_type(self, level: _Level, halves: Halves) -> None:
        """Jobs of tenants with quotas by type; together they never ask for more than there is."""
        promises = level.promises
        tenants = level.tenants(promises.typed & promises.by_type.any(axis=1))
        if not tenants:
            return
        left = np.maximum(promises.by_type - level.held, 0)
        asked = np.array([np.minimum(left[tenant], level.usable(tenant)) for tenant in tenants])
        oldest = [level.oldest(tenant) for tenant in tenants]
        columns = [
            cut_to(asked[:, gpu_type], int(level.capacity[gpu_type]), oldest) for gpu_type in range(asked.shape[1])
        ]
        for tenant, gpus in zip(tenants, np.stack(columns, axis=1), strict=True):
            rows = level.rows_of(tenant)
            level.take(at_positions(_fitting(level.view, rows, gpus, halves.within), rows))

    def _of_any_type(self, level: _Level, halves: Halves) -> None:
        """Jobs of tenants with a quota of any type; where they want the same GPUs, the policy says who has which."""
        promises = level.promises
        tenants = level.tenants(~promises.typed & (promises.total > 0))
        if not tenants:
            return
        left = np.array([max(0, int(promises.total[t] - level.held[t].sum())) for t in tenants])
        asked = np.minimum(left, [int(level.gpus_of(tenant)) for tenant in tenants])
        parts = cut_to(asked, int(level.capacity.sum()), [level.oldest(tenant) for tenant in tenants])
        choices = [
            _on_any_type(level, tenant, gpus, halves.within)
            for tenant, gpus in zip(tenants, parts.tolist(), strict=True)
        ]
        if bool((sum(level.use(choice) for choice in choices) <= level.capacity).all()):
            for choice in choices:
                level.take(choice)
            return
        limits = dict(zip(tenants, parts.tolist(), strict=True))
        rows = np.unique(np.concatenate([_members(choice) for choice in choices]))

        def most(tenant: int, use: IntArray) -> IntArray | None:
            return None if use.sum() <= limits[tenant] else _fastest(use, limits[tenant])

        level.take(_limited(level.view, level, rows, halves.within, most)[0])

    # Beyond them

    def _borrowing(self, level: _Level, halves: Halves) -> None:
        def most(tenant: int, use: IntArray) -> IntArray | None:
            return level.promises.most(tenant, level.held[tenant], use)

        rows = np.flatnonzero(level.waits)
        while True:
            room = level.promises.allowed(level.held)[level.view.tenant]
            view = narrowed(level.view, level.view.gpus[:, None] <= room)
            able = view.classes.runs_on[view.job_class[rows]].any(axis=1)
            choice, out = _limited(view, level, rows[able], halves.beyond, most)
            level.take(choice)
            if len(choice) == 0 or len(out) == 0:
                return
            rows = out


class _Level:
    """GPUs that are left and jobs without a turn, while one round is chosen."""

    def __init__(self, view: View, promises: _Promises, held: IntArray) -> None:
        self.view = view
        self.promises = promises
        self.held = held.copy()
        self.capacity = view.capacity
        self.waits: BoolArray = np.ones(len(view), dtype=np.bool_)
        self._chosen: Choice | None = None

    def tenants(self, which: BoolArray) -> list[int]:
        """Those of some tenants that have jobs, by the oldest: who is chosen first is put on servers first."""
        present = np.unique(self.view.tenant)
        found: list[int] = present[which[present]].tolist()
        return sorted(found, key=self.oldest)

    def rows_of(self, tenant: int) -> IntArray:
        """Jobs of a tenant without a turn."""
        return np.flatnonzero(self.waits & (self.view.tenant == tenant))

    def oldest(self, tenant: int) -> int:
        """The smallest number of a job of a tenant: who is first among equals."""
        return int(self.view.jobs[self.view.tenant == tenant].min())

    def gpus_of(self, tenant: int) -> int:
        """GPUs for which the jobs of a tenant ask."""
        rows = self.rows_of(tenant)
        able = self.view.classes.runs_on[self.view.job_class[rows]].any(axis=1)
        return int(self.view.gpus[rows[able]].sum())

    def usable(self, tenant: int) -> IntArray:
        """[T] the same, by type on which they could run."""
        rows = self.rows_of(tenant)
        runs = self.view.classes.runs_on[self.view.job_class[rows]]
        return np.asarray(self.view.gpus[rows] @ runs, dtype=np.int64)

    def use(self, choice: Choice) -> IntArray:
        """[T] GPUs of chosen jobs."""
        return _use(self.view, choice)

    def use_by_tenant(self, choice: Choice) -> dict[int, IntArray]:
        """[T] the same by tenant; a task of two tenants counts for both."""
        use: dict[int, IntArray] = {}
        view = self.view
        sizes = view.gpus[choice.first]
        first = view.tenant[choice.first]
        second = first if choice.second is None else np.where(choice.second >= 0, view.tenant[choice.second], first)
        for tenant in np.unique(np.concatenate([first, second])).tolist():
            mine = (first == tenant) | (second == tenant)
            gpus = np.bincount(choice.type[mine], weights=sizes[mine], minlength=len(view.capacity))
            use[tenant] = gpus.astype(np.int64)
        return use

    def take(self, choice: Choice) -> None:
        """These jobs have their turn."""
        self.waits[_members(choice)] = False
        self.capacity = np.maximum(self.capacity - self.use(choice), 0)
        for tenant, gpus in self.use_by_tenant(choice).items():
            self.held[tenant] += gpus
        self._chosen = choice if self._chosen is None else joined(self._chosen, choice)

    def choice(self) -> Choice:
        """All that have a turn; it is looked at again in every round."""
        assert self._chosen is not None  # whoever borrows was asked last
        return replace(self._chosen, horizon=EVERY_ROUND, arrivals_wait=False)


def cut_to(asked: IntArray, there: int, oldest: list[int]) -> IntArray:
    """Whole numbers in proportion to what is asked for, if that is more than there is; the oldest first of equals."""
    total = int(asked.sum())
    if total <= there:
        return asked
    parts = asked * there // total
    rest = asked * there % total
    order = sorted(range(len(asked)), key=lambda at: (-int(rest[at]), oldest[at]))
    parts[order[: there - int(parts.sum())]] += 1
    return parts


def _limited(view: View, level: _Level, rows: IntArray, choose: Choose, most: Most) -> tuple[Choice, IntArray]:
    """Whom the selecting half chooses among some jobs, if tenants hold no more than they may; and who is left out.

    Of a tenant that would hold more, those jobs are asked about again that are chosen on what it may hold.
    """
    asked = rows
    while True:
        choice = at_positions(choose(view.some_jobs(rows, level.capacity)), rows)
        out = [
            _beyond(view, rows[view.tenant[rows] == tenant], gpus, choose)
            for tenant, use in level.use_by_tenant(choice).items()
            if (gpus := most(tenant, use)) is not None
        ]
        if not out:
            return choice, np.setdiff1d(asked, rows)
        rows = np.setdiff1d(rows, np.concatenate(out))


def _beyond(view: View, rows: IntArray, gpus: IntArray, choose: Choose) -> IntArray:
    """Jobs of a tenant that are not chosen on so many GPUs by type; one at least, also where two share GPUs."""
    chosen = rows[_members(_fitting(view, rows, gpus, choose))]
    out = np.setdiff1d(rows, chosen)
    return out if len(out) else rows[-1:]


def _fitting(view: View, rows: IntArray, gpus: IntArray, choose: Choose) -> Choice:
    """Whom the selecting half chooses among some jobs on so many GPUs by type, and for whom there are GPUs."""
    choice = choose(view.some_jobs(rows, gpus))
    if bool((_use(view, at_positions(choice, rows)) <= gpus).all()):
        return choice
    left = gpus.tolist()  # it names all that may run: whoever divides servers goes down the queue by itself
    kept = []
    for row, (position, gpu_type) in enumerate(zip(rows[choice.first].tolist(), choice.type.tolist(), strict=True)):
        size = int(view.gpus[position])
        if size <= left[gpu_type]:
            left[gpu_type] -= size
            kept.append(row)
    return choice.rows(np.array(kept, dtype=np.int64))


def _on_any_type(level: _Level, tenant: int, gpus: int, choose: Choose) -> Choice:
    """Jobs of a tenant within a number of GPUs; if they want more, those of the fastest types come first."""
    view = level.view
    rows = level.rows_of(tenant)
    capacity = level.capacity
    chosen: Choice | None = None
    while gpus > 0 and len(rows):
        choice = at_positions(_fitting(view, rows, capacity, choose), rows)
        use = level.use(choice)
        if int(use.sum()) > gpus:
            choice = at_positions(_fitting(view, rows, _fastest(use, gpus), choose), rows)
            use = level.use(choice)
        if len(choice) == 0:
            break
        gpus -= int(use.sum())
        capacity = capacity - use
        chosen = choice if chosen is None else joined(chosen, choice)
        rows = np.setdiff1d(rows, _members(choice))
    return nobody_chosen() if chosen is None else chosen


def _fastest(use: IntArray, gpus: int) -> IntArray:
    """[T] a number of GPUs of those that would be used, of the fastest types; types stand from slow to fast."""
    faster = np.cumsum(use[::-1])[::-1] - use
    return np.asarray(np.clip(gpus - faster, 0, use), dtype=np.int64)


def _use(view: View, choice: Choice) -> IntArray:
    used = np.bincount(choice.type, weights=view.gpus[choice.first], minlength=len(view.capacity))
    return used.astype(np.int64)


def _members(choice: Choice) -> IntArray:
    """Positions of all jobs of a choice."""
    if choice.second is None:
        return choice.first
    return np.concatenate([choice.first, choice.second[choice.second >= 0]])
