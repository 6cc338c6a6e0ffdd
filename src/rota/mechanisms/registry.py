"""Mechanisms by name; the selecting half follows from the rules and from the kind of allocation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import BoolArray, IntArray, every, some
from rota.core.errors import ConfigError, UnknownName
from rota.core.horizon import EVERY_ROUND
from rota.core.placement import Placement
from rota.core.quotas import Quotas
from rota.core.registry import Registry
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.core.view import View
from rota.mechanisms.bound import AroundBound
from rota.mechanisms.choice import Choice, at_positions, joined
from rota.mechanisms.dividing import Divide, Select
from rota.mechanisms.merging import BoundTask
from rota.mechanisms.quota_levels import Halves, QuotaLevels
from rota.mechanisms.select.deficit import Deficit
from rota.mechanisms.select.fraction import Fraction
from rota.mechanisms.select.order import Order

mechanisms: Registry[Divide] = Registry("mechanism", "rota.mechanisms.divide", "rota.mechanisms", method="divide")


class ComposedMechanism:
    """A mechanism made of a selecting half (one for shares, one for rankings) and a dividing half."""

    def __init__(self, shares: Select, order: Order, divide: Divide, quotas: Quotas | None = None) -> None:
        """`shares` selects by shares of time, `order` by a ranking; `quotas` of tenants come before both."""
        self._quotas = QuotaLevels(quotas or Quotas())
        self._shares = shares
        self._order = order
        self._divide = divide
        self._around_bound = AroundBound(divide.abilities, self._quotas.room, counts=divide.saved() is not None)
        self._last: Placement | None = None
        self._last_allocation: Allocation | None = None
        self._last_count = 0
        self._last_job = -1

    @property
    def by_need(self) -> bool:
        """Whether CPUs and memory are divided by need, so that jobs may be faster than with their share."""
        return self._divide.abilities.by_need

    @property
    def may_leave_gpus_idle(self) -> bool:
        """Whether jobs may find no room although there are enough GPUs."""
        return self._divide.abilities.walks

    def place(self, view: View, allocation: Allocation) -> Placement:
        """Select, then divide; jobs that not every server can hold come first."""
        if self._somebody_is_bound(view):
            return self._around_bound.place(view, allocation, self._chosen, self._placed)
        return self._placed(view, allocation, ())

    def _somebody_is_bound(self, view: View) -> bool:
        """Whether a job is there that needs more than a proportional share, or certain servers."""
        bound = view.classes.bound
        return bound is not None and self._divide.abilities.places and bool(bound[view.job_class].any())

    def _chosen(self, view: View, allocation: Allocation) -> Choice:
        """The selecting half alone."""
        if view.staying is not None:
            return self._beside_staying(view, allocation, view.staying, _nothing_held(view))
        if self._quotas.concerns(view):
            return self._within_quotas(view, allocation, _nothing_held(view))
        return self._by_shares(view, allocation) if allocation.order is None else self._by_order(view, allocation)

    def _by_order(self, view: View, allocation: Allocation) -> Choice:
        """Whom the selecting half for rankings chooses; who arrives may be within a quota, and then comes first."""
        choice = self._order.choose(view, allocation)
        return dataclasses.replace(choice, arrivals_wait=False) if self._quotas.limited else choice

    def _within_quotas(self, view: View, allocation: Allocation, held: IntArray) -> Choice:
        """Jobs within quotas of their tenants, then those that borrow; `held` [N, T] GPUs of tenants beside them."""
        halves = Halves(
            within=lambda part: self._as_many_as_fit(part, allocation),
            beyond=lambda part: self._starting(part, allocation),
        )
        return self._quotas.choose(view, halves, held)

    def _as_many_as_fit(self, part: View, allocation: Allocation) -> Choice:
        """Whom the selecting half chooses if nobody has to leave GPUs to others."""
        if allocation.order is not None:
            return self._order.choose(part, allocation)
        upper = _filling(allocation)
        levels = priority_levels(part)
        if len(levels) < 2:
            return self._shares.choose(part, upper)
        return self._by_level(part, levels, lambda level, _: self._shares.choose(level, upper))

    def _by_shares(self, view: View, allocation: Allocation) -> Choice:
        """Whom the selecting half for shares chooses; with priorities, level by level."""
        levels = priority_levels(view) if self._divide.abilities.places else []
        if len(levels) < 2:
            return self._shares.choose(view, allocation)
        upper = _filling(allocation)
        return self._by_level(view, levels, lambda part, last: self._shares.choose(part, allocation if last else upper))

    def _by_level(self, view: View, levels: list[IntArray], choose: Callable[[View, bool], Choice]) -> Choice:
        """Who is chosen among the jobs of each level on what those above it leave; `choose` hears which is the last."""
        chosen: Choice | None = None
        capacity = view.capacity
        for number, rows in enumerate(levels):
            level = at_positions(choose(view.some_jobs(rows, capacity), number == len(levels) - 1), rows)
            taken = np.bincount(level.type, weights=view.gpus[level.first], minlength=len(capacity))
            capacity = capacity - taken.astype(np.int64)
            chosen = level if chosen is None else joined(chosen, level)
        assert chosen is not None  # there is a level
        return dataclasses.replace(chosen, horizon=EVERY_ROUND, arrivals_wait=False)

    def _placed(self, view: View, allocation: Allocation, beside: Sequence[BoundTask]) -> Placement:
        """Select, then divide, where all servers of a type are alike to jobs; tasks `beside` these have their place."""
        if view.staying is not None:
            held = _held_by_tasks(view, beside)
            return self._divide.divide(view, self._beside_staying(view, allocation, view.staying, held))
        if self._quotas.concerns(view):
            self._last = None
            choice = self._within_quotas(view, allocation, _held_by_tasks(view, beside))
            return self._divide.divide(view, self._with_wishes(view, allocation, choice))
        if allocation.order is not None:
            return self._divide.divide(view, self._by_order(view, allocation))
        last = view.placement
        only_arrivals = last is self._last and self._only_arrivals_since(view, allocation)
        alike = view.classes.priority is None
        if last is not None and only_arrivals and alike and self._shares.ignores_arrivals(view, allocation):
            return last
        choice = self._with_wishes(view, allocation, self._by_shares(view, allocation))
        placement = self._divide.divide(view, choice)
        self._last = None
        if placement.horizon.until == math.inf and len(placement.first):  # otherwise it is made anew in every round
            self._last = placement
            self._last_allocation = allocation
            self._last_count = len(view.jobs)
            self._last_job = int(view.jobs[-1])
        return placement

    def _with_wishes(self, view: View, allocation: Allocation, choice: Choice) -> Choice:
        """The choice with what the policy wants jobs to hold."""
        if allocation.wish is None or not self.by_need:
            return choice
        wish = _wishes(view, allocation.jobs, allocation.wish.which, choice)
        return dataclasses.replace(choice, wishes=allocation.wish, wish=wish)

    def _beside_staying(self, view: View, allocation: Allocation, staying: BoolArray, held: IntArray) -> Choice:
        """Tasks that go on where they are, and whom the selecting half chooses for the GPUs beside them.

        `held` [N, T]: GPUs that tenants hold beside all of these.
        """
        placement = view.placement
        assert placement is not None  # tasks of it stay
        part = view.beside_staying(staying)
        if self._quotas.concerns(part):
            others = self._within_quotas(part, allocation, held + _held_by_staying(view, placement, staying))
        else:
            others = self._starting(part, allocation)
        at = view.position(part.jobs[others.first])
        partners = None
        if placement.shared or others.second is not None:
            partners = np.concatenate([_partners(view, placement.second[staying]), _partners_of(view, part, others)])
        choice = Choice(
            first=np.concatenate([view.position(placement.first[staying]), at]),
            second=partners if partners is not None and some(partners >= 0) else None,
            type=np.concatenate([placement.type[staying], others.type]),
            largest_first=others.largest_first,
        )
        return self._with_wishes(view, allocation, choice)

    def _starting(self, part: View, allocation: Allocation) -> Choice:
        """Who is chosen for GPUs that those who stay leave.

        Shares are about the whole cluster: the type that the policy has in mind for a job may be held by somebody who
        would make way at the start of a round. So whoever has a share may take GPUs of any type, before all others.
        """
        if allocation.order is not None:
            return self._order.choose(part, allocation)
        levels = priority_levels(part)
        if len(levels) < 2:
            return self._starting_alike(part, allocation)
        return self._by_level(part, levels, lambda level, _: self._starting_alike(level, allocation))

    def _starting_alike(self, part: View, allocation: Allocation) -> Choice:
        """The same among jobs of one priority."""
        promised = _has_share(part.jobs, allocation)
        fills = dataclasses.replace(allocation, traits=dataclasses.replace(allocation.traits, fills=True))
        if every(promised):
            return self._shares.choose(part, fills)
        positions = np.flatnonzero(promised)
        chosen = at_positions(self._shares.choose(part.some_jobs(positions, part.capacity), fills), positions)
        if not allocation.traits.fills:
            return chosen
        taken = np.bincount(chosen.type, weights=part.gpus[chosen.first], minlength=len(part.capacity))
        positions = np.flatnonzero(~promised)
        left = part.some_jobs(positions, part.capacity - taken.astype(np.int64))
        return joined(chosen, at_positions(self._shares.choose(left, allocation), positions))

    def _only_arrivals_since(self, view: View, allocation: Allocation) -> bool:
        """Whether all jobs that were there when the last placement was made still are, and nothing else was decided."""
        if allocation is not self._last_allocation or len(view.jobs) < self._last_count:
            return False
        return bool(view.jobs[self._last_count - 1] == self._last_job)

    @property
    def last_gap(self) -> float | None:
        """How far below its bound the last decision was, as a fraction; None without a bound."""
        return self._divide.last_gap

    def saved(self) -> tuple[Any, ...] | None:
        """What a checkpoint must hold."""
        return self._divide.saved()

    def restore(self, saved: tuple[Any, ...] | None) -> None:
        """Go on counting from a checkpoint."""
        if saved is not None:
            self._divide.restore(saved)

    def remarks(self) -> list[str]:
        """What the dividing half has to say about the run so far."""
        return self._divide.remarks()


def priority_levels(view: View) -> list[IntArray]:
    """Positions of the jobs of each priority, the highest first; none if there are no priorities."""
    priority = view.priority
    if priority is None:
        return []
    return [np.flatnonzero(priority == level) for level in np.unique(priority)[::-1].tolist()]


def _nothing_held(view: View) -> IntArray:
    """[N, T] GPUs held by tenants: none."""
    return np.zeros((len(view.tenants), len(view.types)), dtype=np.int64)


def _held_by_tasks(view: View, tasks: Sequence[BoundTask]) -> IntArray:
    """[N, T] GPUs of tasks that have their place, by tenant and type."""
    held = _nothing_held(view)
    for task in tasks:
        held[task.tenant, task.type] += task.size
    return held


def _held_by_staying(view: View, placement: Placement, staying: BoolArray) -> IntArray:
    """[N, T] GPUs of tasks that stay, by tenant and type; those of two tenants count for both."""
    held = _nothing_held(view)
    first = view.tenant[view.position(placement.first[staying])]
    np.add.at(held, (first, placement.type[staying]), placement.gpus[staying])
    if placement.shared:
        partner = placement.second[staying]
        second = np.where(partner >= 0, view.tenant[view.position(partner)], first)
        other = second != first
        np.add.at(held, (second[other], placement.type[staying][other]), placement.gpus[staying][other])
    return held


def _filling(allocation: Allocation) -> Allocation:
    """The same with jobs that take GPUs beyond their share, before anybody of a lower priority runs."""
    if allocation.traits.fills:
        return allocation
    return dataclasses.replace(allocation, traits=dataclasses.replace(allocation.traits, fills=True))


def _has_share(jobs: IntArray, allocation: Allocation) -> BoolArray:
    """Whom of the jobs the policy gives time, alone or with a partner."""
    some_time = allocation.share.sum(axis=1) > TOLERANCE
    alone = len(allocation.jobs)
    pairs = allocation.extras
    ids = np.concatenate(
        [allocation.jobs[some_time[:alone]], pairs.first[some_time[alone:]], pairs.second[some_time[alone:]]]
    )
    return np.isin(jobs, ids)


def _partners(view: View, ids: IntArray) -> IntArray:
    """Positions of jobs; -1 where there is none."""
    return np.where(ids >= 0, view.position(ids), -1)


def _partners_of(view: View, part: View, choice: Choice) -> IntArray:
    """Positions in the view of partners that were chosen in a part of it."""
    if choice.second is None:
        return np.full(len(choice), -1, dtype=np.int64)
    return _partners(view, np.where(choice.second >= 0, part.jobs[choice.second], -1))


def _wishes(view: View, known: IntArray, wish: IntArray, choice: Choice) -> IntArray:
    """What the policy wants for each chosen option; -1 for jobs that came after it was asked."""
    if len(known) == 0:
        return np.full(len(choice), -1, dtype=np.int64)
    jobs = view.jobs[choice.first]
    at = np.minimum(known.searchsorted(jobs), len(known) - 1)
    return np.where(known[at] == jobs, wish[at, choice.type], -1)


def build(
    name: str,
    rules: Rules,
    seed: int,
    settings: dict[str, Any] | None = None,
    *,
    watched: bool = True,
    quotas: Quotas | None = None,
) -> ComposedMechanism:
    """The mechanism of that name under the given rules, with the quotas of tenants.

    When nobody watches on which servers jobs run, and the rules do not care, a mechanism that can leaves them out.
    """
    wanted = dict(settings or {})
    needs_servers = watched or rules.spread_costs or rules.restart_s > 0 or rules.at_once
    if not needs_servers and "slots" in mechanisms.entry(name).from_run:
        wanted.setdefault("slots", False)
    divide = mechanisms.create(name, **wanted)
    if Divide not in type(divide).__mro__:
        raise ConfigError(f"mechanism {name!r}: its class must inherit from rota.mechanisms.dividing.Divide")
    divide.follow(rules)
    if quotas is not None and quotas.limited and not divide.abilities.places:
        raise ConfigError(f"mechanism {name!r} gives jobs fractions of a round and knows no quotas; choose another one")
    order = Order(rules, seed, divide.abilities)
    shares = divide.select() or _select(rules, seed, by_need=divide.abilities.by_need)
    return ComposedMechanism(shares, order, divide, quotas)


def _select(rules: Rules, seed: int, *, by_need: bool) -> Select:
    if rules.select == "fraction":
        return Fraction(rules, seed)
    if rules.select == "deficit":
        return Deficit(rules, by_need=by_need)
    raise UnknownName("selecting rule", rules.select, ["fraction", "deficit"])
