"""From places for classes of jobs to places for jobs: whoever can stay where it runs does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rota.core.configurations import Holding
from rota.mechanisms.divide.packing import Packing, Slots

Place = tuple[Slots, Holding]
"""(server, GPUs) of a job and what it holds beside them."""
Class = tuple[int, bool]
Places = dict[Class, list[Place]]
_OpenPlace = tuple[Class, tuple[tuple[int, int], ...], tuple[float, float] | None]
"""Class, slots, and CPUs and memory if they matter."""


def settled(places: Places, packing: Packing, last: Mapping[int, tuple[Class, Slots | None]]) -> Places:
    """The same places with equal servers exchanged, so that each holds as much as possible of what it held before.

    Whoever has nothing to stay for leaves them as they are.
    """
    shape = packing.servers
    count = len(shape)
    held: list[Counter[Class]] = [Counter() for _ in range(count)]
    for key, slots in last.values():
        for server, part in slots or ():
            held[server][key] += part
    if not any(held):
        return places
    wanted: list[Counter[Class]] = [Counter() for _ in range(count)]
    for key, each in places.items():
        for slots, _ in each:
            for server, part in slots:
                wanted[server][key] += part
    to = _matched(wanted, held, shape)
    if all(to[s] == s for s in range(count)):
        return places
    return {key: [(_moved(slots, to), holding) for slots, holding in each] for key, each in places.items()}


def _moved(slots: Slots, to: list[int]) -> Slots:
    return sorted((to[server], part) for server, part in slots)


def _matched(wanted: list[Counter[Class]], held: list[Counter[Class]], shape: Sequence[object]) -> list[int]:
    """For each server of a layout the one that takes its part: first those that hold just that, then the closest."""
    free = set(range(len(held)))
    to = [-1] * len(held)
    exact: dict[object, list[int]] = {}
    for server in sorted(free, reverse=True):
        exact.setdefault((shape[server], frozenset(held[server].items())), []).append(server)
    for server, what in enumerate(wanted):
        same = exact.get((shape[server], frozenset(what.items())))
        if same:
            to[server] = server if server in same else same[-1]
            same.remove(to[server])
            free.discard(to[server])
    unmatched = [server for server in range(len(to)) if to[server] < 0]
    for server in sorted(unmatched, key=lambda s: (-sum(wanted[s].values()), s)):
        what = wanted[server]
        able = [s for s in free if shape[s] == shape[server]]
        to[server] = max(able, key=lambda s: (sum((what & held[s]).values()), s == server, -s))
        free.discard(to[server])
    return to


def named(
    places: Places,
    tasks: list[int],
    classes: list[Class],
    last: list[Slots | None] | None,
    held: list[tuple[float, float] | None],
) -> Iterator[tuple[int, Place]]:
    """A place for every task: the very one it had, otherwise the same GPUs, otherwise by the order of the queue."""
    left: dict[Class, list[Place | None]] = {key: list(each) for key, each in places.items()}
    waiting = list(zip(tasks, classes, strict=True))
    if last is not None:
        for exact in (True, False):
            open_places = _open_places(left, exact=exact)
            rest = []
            for task, key in waiting:
                slots = last[task]
                had = held[task] if exact else None
                numbers = None if slots is None else open_places.get((key, tuple(sorted(slots)), had))
                if numbers:
                    yield task, _taken(left[key], numbers.pop())
                else:
                    rest.append((task, key))
            waiting = rest
    still = {key: iter([p for p in each if p is not None]) for key, each in left.items()}
    for task, key in waiting:
        yield task, next(still[key])


def _open_places(left: Mapping[Class, list[Place | None]], *, exact: bool) -> dict[_OpenPlace, list[int]]:
    """Numbers of places that nobody has yet, the last first, by class, slots and (if `exact`) CPUs and memory."""
    numbers: dict[_OpenPlace, list[int]] = {}
    for key, each in left.items():
        for number in range(len(each) - 1, -1, -1):
            place = each[number]
            if place is not None:
                slots, holding = place
                amounts = (holding.cpus, holding.memory_gb) if exact else None
                numbers.setdefault((key, tuple(slots), amounts), []).append(number)
    return numbers


def _taken(places: list[Place | None], number: int) -> Place:
    place = places[number]
    assert place is not None  # only open ones were listed
    places[number] = None
    return place
