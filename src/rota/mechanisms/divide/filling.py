"""Jobs with chosen CPUs and memory onto the servers of one type, so that as much of the choice as possible is kept.

Jobs are not named here: an `Item` is one job of a class. Those that want much beside their GPUs go first, each to the
server with most to spare, so that demanding and modest jobs are mixed; every server keeps what the most modest job
would need for each of its free GPUs. A job that finds no room takes a smaller option; in the end the others on its
servers go back to their floor, which always fits. Then whatever is left is handed out, and jobs of equal size change
places where that makes them faster together (`exchanging`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
class JobClass:
    """Jobs that are alike: their GPUs and their options, slow ones first."""

    gpus: int
    options: tuple[Option, ...]
    floor: int
    """The fastest option within the proportional share."""


class Item:
    """One job and where it is.

    `job_class` is the number of its class; `wish` and `option` are numbers of options of that class.
    """

    __slots__ = ("job_class", "option", "slots", "wish")

    def __init__(self, job_class: int, wish: int) -> None:
        self.job_class = job_class
        self.wish = wish
        self.option = wish
        self.slots: Slots = []


class Filling:
    """Servers while items are put on them."""

    def __init__(self, classes: Sequence[JobClass], servers: Sequence[Server], *, whole: bool) -> None:
        """With `whole`, jobs that fit on one server are never cut, and large ones go first."""
        self.classes = classes
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
        return sum(self.classes[i.job_class].options[i.option].speed for i in self.items)

    @property
    def sound(self) -> bool:
        """Whether no server gives more than it has."""
        return all(min(s) >= -TOLERANCE for s in zip(self.gpus, self.cpus, self.memory, strict=True))

    def fill(self, items: list[Item]) -> bool:
        """Put everybody somewhere; False if there are not enough GPUs."""
        if sum(self.classes[i.job_class].gpus for i in items) > sum(self.gpus):
            return False
        if items:
            wishes = [(self.classes[i.job_class].gpus, self._wish(i)) for i in items]
            least_cpus = min(wish.cpus / gpus for gpus, wish in wishes)
            least_memory = min(wish.memory / gpus for gpus, wish in wishes)
            self.reserve = (least_cpus, least_memory)
        homeless = [item for item in sorted(items, key=self._rank) if not self.put(item, item.wish)]
        for item in homeless:
            options = self.classes[item.job_class].options
            speed = options[item.wish].speed
            from_the_fastest = range(len(options) - 1, -1, -1)
            smaller = (o for o in from_the_fastest if options[o].speed <= speed and o != item.wish)
            if not any(self.put(item, o) for o in smaller):
                self._force(item)
        self.raise_all(self.items)
        return True

    def _wish(self, item: Item) -> Option:
        return self.classes[item.job_class].options[item.wish]

    def speed(self, item: Item) -> float:
        """With what it holds."""
        return self.classes[item.job_class].options[item.option].speed

    def wished_speed(self, item: Item) -> float:
        """With what it was to hold."""
        return self._wish(item).speed

    def _rank(self, item: Item) -> tuple[float, float, int, int]:
        load = self._load(item.job_class, item.wish)
        size = float(self.classes[item.job_class].gpus)
        if self.whole:
            return (-size, -load, item.job_class, item.wish)
        return (-load, -size, item.job_class, item.wish)

    def _load(self, job_class: int, option: int) -> float:
        """The larger part per GPU of what a GPU has on average."""
        size = self.classes[job_class].gpus
        wanted = self.classes[job_class].options[option]
        return max(wanted.cpus / size / self.mean[0], wanted.memory / size / self.mean[1])

    def put(self, item: Item, option: int) -> bool:
        """Let an item hold an option on the server with most to spare; False if there is no room."""
        size = self.classes[item.job_class].gpus
        wanted = self.classes[item.job_class].options[option]
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
        best_score = -1.0
        best_server = None
        mean_cpus, mean_memory = self.mean
        least_cpus, least_memory = self.reserve
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
            if score > best_score + TOLERANCE:
                best_score = score
                best_server = server
        return best_server

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
        self.hold(item, option, 1)
        self.items.append(item)

    def remove(self, item: Item) -> None:
        """Take an item off its servers."""
        self.hold(item, item.option, -1)
        for server, part in item.slots:
            self.gpus[server] += part
            self.on[server].remove(item)
        self.items.remove(item)

    def hold(self, item: Item, option: int, sign: int) -> None:
        """Take CPUs and memory of an option off the servers of an item, or with sign -1 give them back."""
        size = self.classes[item.job_class].gpus
        held = self.classes[item.job_class].options[option]
        for server, part in item.slots:
            self.cpus[server] -= sign * held.cpus * part / size
            self.memory[server] -= sign * held.memory * part / size

    def change(self, item: Item, option: int) -> None:
        """Let an item hold another option where it is."""
        self.hold(item, item.option, -1)
        item.option = option
        self.hold(item, option, 1)

    def reach(self, item: Item, option: int) -> None:
        """The same if its servers have what it takes and it is faster for it."""
        job_class = self.classes[item.job_class]
        held = job_class.options[item.option]
        wanted = job_class.options[option]
        if wanted.speed > held.speed and self._has(item, held, wanted):
            self.change(item, option)

    def _has(self, item: Item, held: Option, wanted: Option) -> bool:
        """Whether the servers of an item have what one option takes beyond another."""
        gpus = self.classes[item.job_class].gpus
        return all(
            (wanted.cpus - held.cpus) * part <= (self.cpus[server] + TOLERANCE) * gpus
            and (wanted.memory - held.memory) * part <= (self.memory[server] + TOLERANCE) * gpus
            for server, part in item.slots
        )

    def _force(self, item: Item) -> None:
        """Take free GPUs wherever they are, at the floor, and send others there back to their floor until it fits."""
        slots = self._free_gpus(self.classes[item.job_class].gpus)
        self.place(item, self.classes[item.job_class].floor, slots)
        tight = [server for server, _ in slots]
        while tight:
            server = tight.pop()
            for other in sorted(self.on[server], key=lambda i: -self._load(i.job_class, i.option)):
                if self.cpus[server] >= -TOLERANCE and self.memory[server] >= -TOLERANCE:
                    break
                floor = self.classes[other.job_class].floor
                if other.option != floor:  # which may take more of one thing, elsewhere too
                    self.change(other, floor)
                    tight += [s for s, _ in other.slots if s != server]

    def _free_gpus(self, wanted: int) -> Slots:
        """On one server if one has that many (the one with most CPUs), otherwise from the emptiest on."""
        free = [s for s, gpus in enumerate(self.gpus) if gpus]
        enough = [s for s in free if self.gpus[s] >= wanted]
        if enough:
            return [(max(enough, key=lambda s: (self.cpus[s], -s)), wanted)]
        slots: Slots = []
        for server in sorted(free, key=lambda s: (-self.gpus[s], s)):
            part = min(wanted, self.gpus[server])
            slots.append((server, part))
            wanted -= part
            if wanted == 0:
                break
        return slots

    def raise_all(self, items: Iterable[Item]) -> None:
        """Hand out what is left: the largest gain first."""
        waiting = [i for i in items if i.option < len(self.classes[i.job_class].options) - 1]
        while waiting:
            raises = [(item, raised) for item in waiting if (raised := self._raise(item)) is not None]
            if not raises:
                return
            item, (_, option) = max(raises, key=lambda entry: entry[1][0])  # of equal gains the first
            self.change(item, option)
            waiting = [item for item, _ in raises]

    def _raise(self, item: Item) -> tuple[float, int] | None:
        """The largest gain in speed that an item could have with what is left, and its option then; None if none."""
        job_class = self.classes[item.job_class]
        held = job_class.options[item.option]
        for option in range(len(job_class.options) - 1, -1, -1):
            wanted = job_class.options[option]
            if wanted.speed <= held.speed + TOLERANCE:
                return None
            if self._has(item, held, wanted):
                return wanted.speed - held.speed, option
        return None
