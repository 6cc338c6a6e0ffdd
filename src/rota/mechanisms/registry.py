"""Mechanisms by name; the selecting half follows from the rules and from the kind of allocation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import BoolArray, IntArray, every, some
from rota.core.errors import ConfigError, UnknownName
from rota.core.horizon import EVERY_ROUND
from rota.core.placement import Placement
from rota.core.registry import Registry
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE
from rota.core.view import View
from rota.mechanisms.bound import AroundBound
from rota.mechanisms.choice import Choice
from rota.mechanisms.dividing import Divide, Select
from rota.mechanisms.select.deficit import Deficit
from rota.mechanisms.select.fraction import Fraction
from rota.mechanisms.select.order import Order

mechanisms: Registry[Divide] = Registry("mechanism", "rota.mechanisms.divide", "rota.mechanisms", method="divide")


class ComposedMechanism:
    """A mechanism made of a selecting half (one for shares, one for rankings) and a dividing half."""

    def __init__(self, shares: Select, order: Order, divide: Divide) -> None:
        """`shares` selects by shares of time, `order` by a ranking."""
        self._shares = shares
        self._order = order
        self._divide = divide
        self._around_bound = AroundBound(divide.abilities, counts=divide.saved() is not None)
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
        return self._placed(view, allocation)

    def _somebody_is_bound(self, view: View) -> bool:
        """Whether a job is there that needs more than a proportional share, or certain servers."""
        bound = view.classes.bound
        return bound is not None and self._divide.abilities.places and bool(bound[view.job_class].any())

    def _chosen(self, view: View, allocation: Allocation) -> Choice:
        """The selecting half alone."""
        if view.staying is not None:
            return self._beside_staying(view, allocation, view.staying)
        return self._by_shares(view, allocation) if allocation.order is None else self._order.choose(view, allocation)

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
            level = _at(choose(view.some_jobs(rows, capacity), number == len(levels) - 1), rows)
            taken = np.bincount(level.type, weights=view.gpus[level.first], minlength=len(capacity))
            capacity = capacity - taken.astype(np.int64)
            chosen = level if chosen is None else _together(chosen, level)
        assert chosen is not None  # there is a level
        return dataclasses.replace(chosen, horizon=EVERY_ROUND, arrivals_wait=False)

    def _placed(self, view: View, allocation: Allocation) -> Placement:
        """Select, then divide, where all servers of a type are alike to jobs."""
        if view.staying is not None:
            return self._divide.divide(view, self._beside_staying(view, allocation, view.staying))
        if allocation.order is not None:
            return self._divide.divide(view, self._order.choose(view, allocation))
        last = view.placement
        only_arrivals = last is self._last and self._only_arrivals_since(view, allocation)
        alike = view.classes.priority is None
        if last is not None and only_arrivals and alike and self._shares.ignores_arrivals(view, allocation):
            return last
        choice = self._by_shares(view, allocation)
        if allocation.wish is not None and self.by_need:
            wish = _wishes(view, allocation.jobs, allocation.wish.which, choice)
            choice = dataclasses.replace(choice, wishes=allocation.wish, wish=wish)
        placement = self._divide.divide(view, choice)
        self._last = None
        if placement.horizon.until == math.inf and len(placement.first):  # otherwise it is made anew in every round
            self._last = placement
            self._last_allocation = allocation
            self._last_count = len(view.jobs)
            self._last_job = int(view.jobs[-1])
        return placement

    def _beside_staying(self, view: View, allocation: Allocation, staying: BoolArray) -> Choice:
        """Tasks that go on where they are, and whom the selecting half chooses for the GPUs beside them."""
        placement = view.placement
        assert placement is not None  # tasks of it stay
        part = view.beside_staying(staying)
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
        if allocation.wish is None or not self.by_need:
            return choice
        wish = _wishes(view, allocation.jobs, allocation.wish.which, choice)
        return dataclasses.replace(choice, wishes=allocation.wish, wish=wish)

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
        chosen = _at(self._shares.choose(part.some_jobs(positions, part.capacity), fills), positions)
        if not allocation.traits.fills:
            return chosen
        taken = np.bincount(chosen.type, weights=part.gpus[chosen.first], minlength=len(part.capacity))
        positions = np.flatnonzero(~promised)
        left = part.some_jobs(positions, part.capacity - taken.astype(np.int64))
        return _together(chosen, _at(self._shares.choose(left, allocation), positions))

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


def _at(choice: Choice, positions: IntArray) -> Choice:
    """A choice among some jobs, as one among all: `positions` says where they are."""
    second = choice.second
    if second is not None:
        second = np.where(second >= 0, positions[second], -1)
    return dataclasses.replace(choice, first=positions[choice.first], second=second)


def _together(one: Choice, two: Choice) -> Choice:
    """Two choices of different jobs."""
    second = None
    if one.second is not None or two.second is not None:
        columns = [np.full(len(c), -1, dtype=np.int64) if c.second is None else c.second for c in (one, two)]
        second = np.concatenate(columns)
    return dataclasses.replace(
        one,
        first=np.concatenate([one.first, two.first]),
        second=second,
        type=np.concatenate([one.type, two.type]),
    )


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
    name: str, rules: Rules, seed: int, settings: dict[str, Any] | None = None, *, watched: bool = True
) -> ComposedMechanism:
    """The mechanism of that name under the given rules.

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
    order = Order(rules, seed, divide.abilities)
    return ComposedMechanism(divide.select() or _select(rules, seed, by_need=divide.abilities.by_need), order, divide)


def _select(rules: Rules, seed: int, *, by_need: bool) -> Select:
    if rules.select == "fraction":
        return Fraction(rules, seed)
    if rules.select == "deficit":
        return Deficit(rules, by_need=by_need)
    raise UnknownName("selecting rule", rules.select, ["fraction", "deficit"])
