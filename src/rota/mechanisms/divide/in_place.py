"""The layout of `optimal` with everybody who runs left on its GPUs, where that is nearly as fast.

Those who run stay, at the floor of their class, which always fits; the others go whole to the server with most to
spare. Then each gets what it was to have in the best layout if its servers have that, and the rest is handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rota.mechanisms.divide.filling import Filling, Item, JobClass, Server
from rota.mechanisms.divide.packing import Slots


@dataclass(frozen=True, slots=True)
class Member:
    """A job of the round."""

    job_class: int
    """Number of its class."""
    option: int
    """What it holds in the best layout."""
    slots: Slots
    """Its GPUs there."""
    last: Slots | None
    """Where it runs; None for who starts."""

    @property
    def moves(self) -> bool:
        """Whether the best layout moves it."""
        return self.last is not None and sorted(self.last) != sorted(self.slots)


def left_in_place(
    classes: Sequence[JobClass], servers: Sequence[Server], members: Sequence[Member]
) -> tuple[float, list[Item]] | None:
    """The sum of speeds and the jobs in their order; None if somebody who starts finds no room."""
    filling = Filling(classes, servers, whole=True)
    items = [Item(member.job_class, member.option) for member in members]
    for item, member in zip(items, members, strict=True):
        if member.last is not None:
            filling.place(item, classes[item.job_class].floor, member.last)
    starting = [item for item, member in zip(items, members, strict=True) if member.last is None]
    for item in sorted(starting, key=lambda item: -classes[item.job_class].gpus):
        if not filling.put(item, classes[item.job_class].floor):
            return None
    for item in sorted(items, key=filling.wished_speed, reverse=True):
        filling.reach(item, item.wish)
    filling.raise_all(items)
    return (filling.total, items) if filling.sound else None
