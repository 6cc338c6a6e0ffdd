"""Jobs of equal size on two servers change places where that makes them faster together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rota.core.tolerance import TOLERANCE
from rota.mechanisms.divide.filling import Filling, Item, JobClass, Server

_MOST_CUT_JOBS = 16
"""Jobs below their wish for which an exchange is looked for at a time."""


def filled(
    classes: Sequence[JobClass],
    servers: Sequence[Server],
    make: Callable[[], list[Item]],
    *,
    whole: bool,
    limit: float,
) -> Filling | None:
    """The items on the servers; None if there are not enough GPUs."""
    filling = Filling(classes, servers, whole=whole)
    if not filling.fill(make()):
        return None
    improve(filling, limit, most=len(filling.items))
    return filling


def improve(filling: Filling, limit: float, most: int) -> None:
    """Let items change places as long as it helps and the total is below the limit, at most so often."""
    for _ in range(most):
        if filling.total >= limit:
            return
        cut = [
            item
            for item in filling.items
            if len(item.slots) == 1 and filling.speed(item) < filling.wished_speed(item) - TOLERANCE
        ]
        cut.sort(key=lambda item: filling.speed(item) - filling.wished_speed(item))
        if not any(_exchange(filling, item) for item in cut[:_MOST_CUT_JOBS]):
            return


@dataclass(frozen=True, slots=True, eq=False)
class _Exchange:
    """With whom an item changes places, and what both hold afterwards."""

    other: Item
    option: int
    other_option: int


def _exchange(filling: Filling, item: Item) -> bool:
    """Change places with the item with which both gain most; False if there is none."""
    best_gain = TOLERANCE
    best: _Exchange | None = None
    for other in _partners(filling, item):
        here = item.slots[0][0]
        there = other.slots[0][0]
        mine = filling.classes[item.job_class].options[item.option]
        theirs = filling.classes[other.job_class].options[other.option]
        option = _fastest(
            filling, item.job_class, filling.cpus[there] + theirs.cpus, filling.memory[there] + theirs.memory
        )
        other_option = _fastest(
            filling, other.job_class, filling.cpus[here] + mine.cpus, filling.memory[here] + mine.memory
        )
        if option is None or other_option is None:
            continue
        my_speed = filling.classes[item.job_class].options[option].speed
        their_speed = filling.classes[other.job_class].options[other_option].speed
        gain = my_speed + their_speed
        gain -= mine.speed + theirs.speed
        if gain > best_gain:
            best_gain = gain
            best = _Exchange(other, option, other_option)
    if best is None:
        return False
    _swap(filling, item, best)
    return True


def _partners(filling: Filling, item: Item) -> Iterator[Item]:
    """Items of another class with as many GPUs, each alone on another server; one of those that are alike."""
    here = item.slots[0][0]
    size = filling.classes[item.job_class].gpus
    for there in range(len(filling.gpus)):
        if there == here:
            continue
        seen: set[tuple[int, int]] = set()
        for other in filling.on[there]:
            key = (other.job_class, other.option)
            if key in seen or other.slots != [(there, size)] or other.job_class == item.job_class:
                continue
            seen.add(key)
            yield other


def _fastest(filling: Filling, job_class: int, cpus: float, memory: float) -> int | None:
    """The fastest option within these CPUs and GB of memory."""
    options = filling.classes[job_class].options
    for option in range(len(options) - 1, -1, -1):
        if options[option].cpus <= cpus + TOLERANCE and options[option].memory <= memory + TOLERANCE:
            return option
    return None


def _swap(filling: Filling, item: Item, exchange: _Exchange) -> None:
    other = exchange.other
    here = item.slots[0][0]
    there = other.slots[0][0]
    for one, where, option in ((item, there, exchange.option), (other, here, exchange.other_option)):
        filling.hold(one, one.option, -1)
        filling.on[one.slots[0][0]].remove(one)
        one.option = option
        filling.on[where].append(one)
    item.slots, other.slots = other.slots, item.slots
    filling.hold(item, exchange.option, 1)
    filling.hold(other, exchange.other_option, 1)
    filling.raise_all([*filling.on[here], *filling.on[there]])
