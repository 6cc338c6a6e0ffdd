"""The two halves of a mechanism, and what each of them declares.

A new mechanism is a class that inherits from `Divide`, says what it can do (`abilities`) and implements `divide`; the
guide is docs/add-a-mechanism.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from rota.core.allocation import Allocation
from rota.core.placement import Placement
from rota.core.rules import Rules
from rota.core.view import View
from rota.mechanisms.choice import Choice


class Select(Protocol):
    """The selecting half: which options run, on which type."""

    def choose(self, view: View, allocation: Allocation) -> Choice:
        """The options of the coming round."""

    def ignores_arrivals(self, view: View, allocation: Allocation) -> bool:
        """Whether `view.placement`, which would be chosen again without them, stays although jobs arrived.

        Asked when nothing but arrivals happened since it was made. False if unsure.
        """
        del view, allocation
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a dividing half can do, as far as others have to know."""

    by_need: bool = False
    """Divides CPUs and memory by need: jobs may be faster than with their share, and a policy may have wishes."""
    walks: bool = False
    """Goes down the queue by itself, because a chosen job may find no room although there are enough GPUs."""
    places: bool = True
    """Puts jobs on servers. One that does not cannot say what they hold there, and floors mean nothing to it."""


class Divide(Protocol):
    """The dividing half: on which servers the chosen options run. Inherit from it; only `divide` has to be written."""

    abilities: ClassVar[Abilities] = Abilities()

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers for the chosen options; `view.placement` itself if nothing changes."""

    def follow(self, rules: Rules) -> None:
        """The rules of the run, told once before the first round."""
        del rules

    def select(self) -> Select | None:
        """A selecting half of its own for shares; None for the one that the rules name."""
        return None

    def remarks(self) -> list[str]:
        """What a user should know about the decisions so far."""
        return []

    @property
    def last_gap(self) -> float | None:
        """How far below its bound the last decision was, as a fraction; None without a bound."""
        return None

    def saved(self) -> tuple[Any, ...] | None:
        """Plain values of what it counts about its decisions, for a checkpoint; None if it counts nothing."""
        return None

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Go on counting from a checkpoint."""
        del saved
