"""Mechanisms by name; the selecting half follows from the rules and from the kind of allocation."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import IntArray
from rota.core.errors import UnknownName
from rota.core.placement import Placement
from rota.core.registry import Registry
from rota.core.rules import Rules
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.select.deficit import Deficit
from rota.mechanisms.select.fraction import Fraction
from rota.mechanisms.select.order import Order


class Select(Protocol):
    """The selecting half."""

    def choose(self, view: View, allocation: Allocation) -> Choice:
        """The options of the coming round."""


class Divide(Protocol):
    """The dividing half."""

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers for the chosen options."""


mechanisms: Registry[Divide] = Registry("mechanism", "rota.mechanisms.divide", "rota.mechanisms")


class Halves:
    """A mechanism made of a selecting and a dividing half."""

    def __init__(self, shares: Select, divide: Divide) -> None:
        self.by_need = bool(getattr(divide, "by_need", False))
        """Whether CPUs and memory are divided by need, so that jobs may be faster than with their share."""
        self._shares = shares
        self._order = Order(walks=bool(getattr(divide, "walks", False)))
        self._divide = divide

    def place(self, view: View, allocation: Allocation) -> Placement:
        """Select, then divide."""
        select: Select = self._shares if allocation.order is None else self._order
        choice = select.choose(view, allocation)
        if allocation.wish is not None and self.by_need:
            choice = dataclasses.replace(choice, wish=_wishes(view, allocation.jobs, allocation.wish, choice))
        return self._divide.divide(view, choice)

    def unmoved(self, view: View, allocation: Allocation) -> bool:
        """As the selecting half says, if it says so."""
        ask = getattr(self._shares, "unmoved", None)
        return ask is not None and allocation.order is None and ask(view, allocation)

    @property
    def tally(self) -> Any:
        """What the dividing half counts about its decisions (a dataclass of numbers); None if it does not."""
        return getattr(self._divide, "tally", None)

    def saved(self) -> tuple[Any, ...] | None:
        """Plain values of the tally for a checkpoint."""
        return None if self.tally is None else dataclasses.astuple(self.tally)

    def restore(self, saved: tuple[Any, ...] | None) -> None:
        """Go on counting from a checkpoint."""
        if self.tally is not None and saved is not None:
            for field, value in zip(dataclasses.fields(self.tally), saved, strict=True):
                setattr(self.tally, field.name, value)

    def remarks(self) -> list[str]:
        """What the dividing half has to say about the run so far."""
        own = getattr(self._divide, "remarks", None)
        return [] if own is None else list(own())


def _wishes(view: View, known: IntArray, wish: IntArray, choice: Choice) -> IntArray:
    """What the policy wants for each chosen option; -1 for jobs that came after it was asked."""
    if len(known) == 0:
        return np.full(len(choice), -1, dtype=np.int64)
    jobs = view.jobs[choice.first]
    at = np.minimum(known.searchsorted(jobs), len(known) - 1)
    return np.where(known[at] == jobs, wish[at, choice.type], -1)


def may_starve(name: str) -> bool:
    """Whether jobs may find no room under this mechanism although there are enough GPUs."""
    return bool(getattr(mechanisms.entry(name).factory, "walks", False))


def build(
    name: str, rules: Rules, seed: int, settings: dict[str, Any] | None = None, *, watched: bool = True
) -> Halves:
    """The mechanism of that name under the given rules.

    When nobody watches on which servers jobs run, and the rules do not care, a mechanism that can leaves them out.
    """
    wanted = dict(settings or {})
    if not (watched or rules.spread_costs or rules.restart_s) and "slots" in mechanisms.entry(name).parameters():
        wanted.setdefault("slots", False)
    divide = mechanisms.create(name, **wanted)
    follow = getattr(divide, "follow", None)
    if follow is not None:
        follow(rules)
    return Halves(_select(rules, seed, divide), divide)


def _select(rules: Rules, seed: int, divide: Divide) -> Select:
    own = getattr(divide, "select", None)
    if own is not None:
        selected: Select = own()
        return selected
    if rules.select == "fraction":
        return Fraction(rules, seed)
    if rules.select == "deficit":
        return Deficit(rules)
    raise UnknownName("selecting rule", rules.select, ["fraction", "deficit"])
