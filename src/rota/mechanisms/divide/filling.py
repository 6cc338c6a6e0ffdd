"""Jobs with chosen CPUs and memory onto the servers of one type, so that as much of the choice as possible is kept.

Jobs are not named here: an `Item` is one job of a class. Those that want much beside their GPUs go first, each to the
server with most to spare, so that demanding and modest jobs are mixed; every server keeps what the most modest job
would need for each of its free GPUs. A job that finds no room takes a smaller option; in the end the others on its
servers go back to their floor, which always fits. Then whatever is left is handed out, and jobs of equal size change
places where that makes them faster together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rota.core.tolerance import TOLERANCE
from rota.mechanisms.divide.packing import Slots

Server = tuple[int, float, float]
"""GPUs, CPUs, GB."""


@dataclass(frozen=True, slots=True)
class Option:
    """What a job may hold, and how fast it is then."""

    cpus: float
    memory: float
    speed: float
    offered: bool = True
    """Whether it may be chosen from the start, or only when something is left."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of jobs: its GPUs and its options, slow ones first."""

    gpus: int
    options: tuple[Option, ...]
    floor: int
    """The fastest option within the proportional share."""


class Item:
    """One job and where it is."""

    __slots__ = ("kind", "option", "slots", "wish")

    def __init__(self, kind: int, wish: int) -> None:
        self.kind = kind
        self.wish = wish
        self.option = wish
        self.slots: Slots = []


class Filling:
    """Servers while items are put on them."""

    def __init__(self, kinds: Sequence[Kind], servers: Sequence[Server], *, whole: bool) -> None:
        """With `whole`, jobs that fit on one server are never cut, and large ones go first."""
        self.kinds = kinds
        self.whole = whole
        self.gpus = [s[0] for s in servers]
        self.cpus = [s[1] for s in servers]
        self.memory = [s[2] for s in servers]
        self.largest = max(self.gpus)
        total = max(1, sum(self.gpus))
        self.mean = (max(sum(self.cpus) / total, TOLERANCE), max(sum(self.memory) / total, TOLERANCE))
        self.reserve = (0.0, 0.0)
        self.items: list[Item] = []
        self.on: list[list[Item]] = [[] for _ in servers]

    @property
    def total(self) -> float:
        """The sum of the speeds."""
        return sum(self.kinds[i.kind].options[i.option].speed for i in self.items)

    @property
    def sound(self) -> bool:
        """Whether no server gives more than it has."""
        return all(min(s) >= -TOLERANCE for s in zip(self.gpus, self.cpus, self.memory, strict=True))

    def fill(self, items: list[Item]) -> bool:
        """Put everybody somewhere; False if there are not enough GPUs."""
        if sum(self.kinds[i.kind].gpus for i in items) > sum(self.gpus):
            return False
        wishes = [(self.kinds[i.kind], self.kinds[i.kind].options[i.wish]) for i in items]
        if wishes:
            self.reserve = (min(o.cpus / k.gpus for k, o in wishes), min(o.memory / k.gpus for k, o in wishes))
        homeless = [item for item in sorted(items, key=self._rank) if not self._put(item, item.wish)]
        for item in homeless:
            options = range(len(self.kinds[item.kind].options) - 1, -1, -1)
            speed = self.kinds[item.kind].options[item.wish].speed
            smaller = (o for o in options if self.kinds[item.kind].options[o].speed <= speed and o != item.wish)
            if not any(self._put(item, o) for o in smaller):
                self._force(item)
        self.raise_all(self.items)
        return True

    def _rank(self, item: Item) -> tuple[float, float, int, int]:
        kind = self.kinds[item.kind]
        load, size = self._load(item.kind, item.wish), float(kind.gpus)
        return (-size, -load, item.kind, item.wish) if self.whole else (-load, -size, item.kind, item.wish)

    def _load(self, kind: int, option: int) -> float:
        """The larger part per GPU of what a GPU has on average."""
        size, wanted = self.kinds[kind].gpus, self.kinds[kind].options[option]
        return max(wanted.cpus / size / self.mean[0], wanted.memory / size / self.mean[1])

    def _put(self, item: Item, option: int) -> bool:
        size, wanted = self.kinds[item.kind].gpus, self.kinds[item.kind].options[option]
        server = self._roomiest(size, wanted.cpus, wanted.memory)
        if server is not None:
            self.place(item, option, [(server, size)])
            return True
        if size == 1 or (self.whole and size <= self.largest):
            return False
        slots = self._cut(size, wanted.cpus / size, wanted.memory / size)
        if slots is not None:
            self.place(item, option, slots)
        return slots is not None

    def _roomiest(self, size: int, cpus: float, memory: float) -> int | None:
        """The server with most to spare after that; with `whole` and several GPUs, the fullest one that can."""
        best, found = -1.0, None
        (mean_cpus, mean_memory), (least_cpus, least_memory) = self.mean, self.reserve
        for server, free in enumerate(self.gpus):
            if free < size:
                continue
            rest = free - size
            spare_cpus = self.cpus[server] - cpus - rest * least_cpus
            spare_memory = self.memory[server] - memory - rest * least_memory
            if spare_cpus < -TOLERANCE or spare_memory < -TOLERANCE:
                continue
            score = min(spare_cpus / mean_cpus, spare_memory / mean_memory) + 1.0
            if self.whole and size > 1:
                score = 1.0 / (1 + rest)
            if score > best + TOLERANCE:
                best, found = score, server
        return found

    def _cut(self, size: int, cpus: float, memory: float) -> Slots | None:
        """GPU by GPU where most is to spare."""
        taken: dict[int, int] = {}
        for _ in range(size):
            server = self._roomiest(1, cpus, memory)
            if server is None:
                break
            taken[server] = taken.get(server, 0) + 1
            self._take(server, 1, cpus, memory)
        for server, part in taken.items():
            self._take(server, -part, -cpus * part, -memory * part)
        return sorted(taken.items()) if sum(taken.values()) == size else None

    def _take(self, server: int, gpus: int, cpus: float, memory: float) -> None:
        self.gpus[server] -= gpus
        self.cpus[server] -= cpus
        self.memory[server] -= memory

    def place(self, item: Item, option: int, slots: Slots) -> None:
        """Let an item hold an option on these GPUs."""
        item.slots = slots
        for server, part in slots:
            self.gpus[server] -= part
            self.on[server].append(item)
        item.option = option
        self._hold(item, option, 1)
        self.items.append(item)

    def remove(self, item: Item) -> None:
        """Take an item off its servers."""
        self._hold(item, item.option, -1)
        for server, part in item.slots:
            self.gpus[server] += part
            self.on[server].remove(item)
        self.items.remove(item)

    def _hold(self, item: Item, option: int, sign: int) -> None:
        size, held = self.kinds[item.kind].gpus, self.kinds[item.kind].options[option]
        for server, part in item.slots:
            self.cpus[server] -= sign * held.cpus * part / size
            self.memory[server] -= sign * held.memory * part / size

    def change(self, item: Item, option: int) -> None:
        """Let an item hold another option where it is."""
        self._hold(item, item.option, -1)
        item.option = option
        self._hold(item, option, 1)

    def _force(self, item: Item) -> None:
        """Take free GPUs wherever they are, at the floor, and send others there back to their floor until it fits."""
        size = self.kinds[item.kind].gpus
        floor = self.kinds[item.kind].floor
        slots: Slots = []
        wanted = size
        free = [s for s, gpus in enumerate(self.gpus) if gpus]
        one = [s for s in free if self.gpus[s] >= size]
        if one:
            slots = [(max(one, key=lambda s: (self.cpus[s], -s)), size)]
        else:
            for server in sorted(free, key=lambda s: (-self.gpus[s], s)):
                slots.append((server, min(wanted, self.gpus[server])))
                wanted -= slots[-1][1]
                if wanted == 0:
                    break
        self.place(item, floor, slots)
        tight = [server for server, _ in slots]
        while tight:
            server = tight.pop()
            for other in sorted(self.on[server], key=lambda i: -self._load(i.kind, i.option)):
                if self.cpus[server] >= -TOLERANCE and self.memory[server] >= -TOLERANCE:
                    break
                if other.option != self.kinds[other.kind].floor:  # which may take more of one thing, elsewhere too
                    self.change(other, self.kinds[other.kind].floor)
                    tight += [s for s, _ in other.slots if s != server]

    def raise_all(self, items: Iterable[Item]) -> None:
        """Hand out what is left: the largest gain first."""
        waiting = [i for i in items if i.option < len(self.kinds[i.kind].options) - 1]
        while waiting:
            found = [(gain, -n, item, option) for n, item in enumerate(waiting) for gain, option in self._raises(item)]
            if not found:
                return
            _, _, item, option = max(found, key=lambda f: f[:2])
            self.change(item, option)
            waiting = [i for n, i in enumerate(waiting) if i is item or -n in {f[1] for f in found}]

    def _raises(self, item: Item) -> list[tuple[float, int]]:
        """The largest gain that an item could have with what is left, if any."""
        kind = self.kinds[item.kind]
        held = kind.options[item.option]
        for option in range(len(kind.options) - 1, -1, -1):
            wanted = kind.options[option]
            if wanted.speed <= held.speed + TOLERANCE:
                return []
            if all(
                (wanted.cpus - held.cpus) * part <= (self.cpus[server] + TOLERANCE) * kind.gpus
                and (wanted.memory - held.memory) * part <= (self.memory[server] + TOLERANCE) * kind.gpus
                for server, part in item.slots
            ):
                return [(wanted.speed - held.speed, option)]
        return []

    def improve(self, limit: float, most: int) -> None:
        """Let items change places as long as it helps and the total is below the limit, at most so often."""
        for _ in range(most):
            if self.total >= limit:
                return
            cut = [i for i in self.items if len(i.slots) == 1 and self._speed(i) < self._wished(i) - TOLERANCE]
            cut.sort(key=lambda i: self._speed(i) - self._wished(i))
            if not any(self._exchange(item) for item in cut[:16]):
                return

    def _speed(self, item: Item) -> float:
        return self.kinds[item.kind].options[item.option].speed

    def _wished(self, item: Item) -> float:
        return self.kinds[item.kind].options[item.wish].speed

    def _exchange(self, item: Item) -> bool:
        """Change places with the item with which both gain most."""
        here, size = item.slots[0][0], self.kinds[item.kind].gpus
        mine = self.kinds[item.kind].options[item.option]
        best, found = TOLERANCE, None
        for there in range(len(self.gpus)):
            if there == here:
                continue
            seen: set[tuple[int, int]] = set()
            for other in self.on[there]:
                key = (other.kind, other.option)
                if key in seen or other.slots != [(there, size)] or other.kind == item.kind:
                    continue
                seen.add(key)
                theirs = self.kinds[other.kind].options[other.option]
                to = self._best(item.kind, self.cpus[there] + theirs.cpus, self.memory[there] + theirs.memory)
                back = self._best(other.kind, self.cpus[here] + mine.cpus, self.memory[here] + mine.memory)
                if to is None or back is None:
                    continue
                gain = self.kinds[item.kind].options[to].speed + self.kinds[other.kind].options[back].speed
                gain -= mine.speed + theirs.speed
                if gain > best:
                    best, found = gain, (other, to, back)
        if found is None:
            return False
        other, to, back = found
        there = other.slots[0][0]
        for one, where, option in ((item, there, to), (other, here, back)):
            self._hold(one, one.option, -1)
            self.on[one.slots[0][0]].remove(one)
            one.option = option
            self.on[where].append(one)
        item.slots, other.slots = other.slots, item.slots
        self._hold(item, to, 1)
        self._hold(other, back, 1)
        self.raise_all([*self.on[here], *self.on[there]])
        return True

    def _best(self, kind: int, cpus: float, memory: float) -> int | None:
        """The fastest option within so much."""
        options = self.kinds[kind].options
        for option in range(len(options) - 1, -1, -1):
            if options[option].cpus <= cpus + TOLERANCE and options[option].memory <= memory + TOLERANCE:
                return option
        return None


def filled(
    kinds: Sequence[Kind], servers: Sequence[Server], make: Callable[[], list[Item]], *, whole: bool, limit: float
) -> Filling | None:
    """The items on the servers; None if there are not enough GPUs."""
    filling = Filling(kinds, servers, whole=whole)
    if not filling.fill(make()):
        return None
    filling.improve(limit, most=len(filling.items))
    return filling
