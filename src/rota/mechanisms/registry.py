"""Mechanisms by name; the selecting half follows from the rules and from the kind of allocation."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import IntArray
from rota.core.errors import ConfigError, UnknownName
from rota.core.placement import Placement
from rota.core.registry import Registry
from rota.core.rules import Rules
from rota.core.view import View
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
        """Select, then divide."""
        if allocation.order is not None:
            return self._divide.divide(view, self._order.choose(view, allocation))
        last = view.placement
        only_arrivals = last is self._last and self._only_arrivals_since(view, allocation)
        if last is not None and only_arrivals and self._shares.ignores_arrivals(view, allocation):
            return last
        choice = self._shares.choose(view, allocation)
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
    needs_servers = watched or rules.spread_costs or rules.restart_s > 0
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
