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
    return {key: [(sorted((to[s], part) for s, part in slots), c) for slots, c in each] for key, each in places.items()}


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
    for server in sorted((s for s in range(len(to)) if to[s] < 0), key=lambda s: (-sum(wanted[s].values()), s)):
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
    for exact in (True, False) if last is not None else ():
        rest = []
        open_: dict[tuple[Class, object, tuple[float, float] | None], list[int]] = {}
        for key, each in left.items():
            for n in range(len(each) - 1, -1, -1):
                place = each[n]
                if place is not None:
                    amounts = (place[1].cpus, place[1].memory_gb) if exact else None
                    open_.setdefault((key, tuple(place[0]), amounts), []).append(n)
        for task, key in waiting:
            slots = last[task] if last is not None else None
            had = held[task] if exact else None
            places_of = None if slots is None else open_.get((key, tuple(sorted(slots)), had))
            if not places_of:
                rest.append((task, key))
                continue
            n = places_of.pop()
            place = left[key][n]
            left[key][n] = None
            assert place is not None  # only open ones were listed
            yield task, place
        waiting = rest
    still = {key: iter([p for p in each if p is not None]) for key, each in left.items()}
    for task, key in waiting:
        yield task, next(still[key])
