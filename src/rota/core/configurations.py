"""What a job may hold beside its GPUs, and how fast that makes it.

A configuration is (CPUs, memory) of a whole job of one class on one GPU type; its speed is relative to the speed with
the proportional share, which is what `Classes.throughput` holds. Every class has two or three on every type: the
proportional share (`fair`), the least that makes it as fast as it can get (`full`), and what is left of that when all
beyond the proportional share is given back (`cut`). Others follow from what was measured (`speed_of`, `choices`).

This is a value: a class that arrives later is in another one (`engine/configurations.py` makes them). Row numbers mean
something together with the value they come from.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rota.core.arrays import FloatArray, IntArray
from rota.core.cluster import Resources
from rota.core.errors import ProfileMissing
from rota.core.needs import NOTHING, Needs
from rota.core.sensitivity import Sensitivity
from rota.core.tolerance import TOLERANCE


@dataclass(frozen=True, slots=True)
class Shape:
    """What servers of one type have: the least per GPU over all of them, and the largest servers. 0: unknown."""

    fair_cpus: float
    fair_memory: float
    largest: tuple[Resources, ...]
    """Sizes of servers that no other one has as much of everything as: one, unless servers have more of one thing and
    less of another."""

    @property
    def known(self) -> bool:
        """Whether CPUs and memory can be divided at all."""
        return self.fair_cpus > 0 and self.fair_memory > 0

    @property
    def gpus(self) -> int:
        """The most GPUs that one server has."""
        return max(size.gpus for size in self.largest)

    def on_one_server(self, gpus: int) -> tuple[Resources, ...]:
        """The sizes that hold a job of so many GPUs; none if it needs several servers."""
        return tuple(size for size in self.largest if size.gpus >= gpus)

    def most(self, gpus: int) -> tuple[tuple[float, float], ...]:
        """CPUs and memory that such a job can hold at most: all of one server, or its share on several."""
        whole = tuple((size.cpus, size.memory_gb) for size in self.on_one_server(gpus))
        return whole or ((gpus * self.fair_cpus, gpus * self.fair_memory),)


@dataclass(frozen=True, slots=True)
class Holding:
    """CPUs and memory (GB) of a whole job, and its speed with them relative to the proportional share."""

    cpus: float
    memory_gb: float
    speed: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured for a class on a type, and its value at the proportional share."""

    sensitivity: Sensitivity
    base: float


@dataclass(frozen=True, slots=True, eq=False)
class Configurations:
    """The configurations of all classes, as columns; one row each."""

    shapes: tuple[Shape, ...]
    """By type."""
    two_valued: bool
    """Whether speeds are those of Synergy's simulator: the proportional share or the full one, nothing between."""
    gpus: tuple[int, ...]
    """By class."""
    cpus: FloatArray
    """CPUs of the whole job."""
    memory_gb: FloatArray
    speed: FloatArray
    """Relative to the speed with the proportional share."""
    fair: IntArray
    """[C, T] the row of the proportional share."""
    full: IntArray
    """[C, T] the row of the least that makes the class as fast as it can get."""
    cut: IntArray
    """[C, T] the row of what is left of that when all beyond the proportional share is given back."""
    best: FloatArray
    """[C] the speed of each class where it is fastest with all it can use."""
    problems: Mapping[int, str]
    """Why a class cannot run on some type where it has a rate."""
    sensitive: bool
    """Whether some class gains by more than its proportional share, or can do with less."""
    by_class: tuple[tuple[Measured | None, ...], ...]
    """[C][T] what was measured; None for a class that does not care, or cannot run."""
    needs: tuple[Needs, ...] = ()
    """By class: CPUs and memory that none of its configurations goes below."""
    _choices: dict[tuple[int, int], tuple[Holding, ...]] = field(default_factory=dict, repr=False)
    """Answers of `choices` that were worked out before; they depend on the class and the type alone."""

    def holding(self, row: int) -> Holding:
        """One row."""
        return Holding(float(self.cpus[row]), float(self.memory_gb[row]), float(self.speed[row]))

    def measured(self, group: int, gpu_type: int) -> Sensitivity | None:
        """What was measured for a class on a type."""
        known = self.by_class[group][gpu_type]
        return None if known is None else known.sensitivity

    def speed_of(self, group: int, gpu_type: int, cpus: float, memory_gb: float) -> float:
        """Relative speed of a job of the class with so many CPUs and GB; raises ProfileMissing outside the table."""
        return relative_speed(self.by_class[group][gpu_type], self.gpus[group], cpus, memory_gb)

    def within_share(self, group: int, gpu_type: int, wish: Holding) -> Holding:
        """What is left of a wish when all beyond the proportional share is given back, if that is no slower.

        A job that wants more memory and fewer CPUs than its share gives back memory and does not take CPUs for it:
        others may have them.
        """
        fair = self.holding(int(self.fair[group, gpu_type]))
        measured = self.by_class[group][gpu_type]
        gpus = self.gpus[group]
        return self.at_least(group, gpu_type, within_share(measured, gpus, fair, wish, two_valued=self.two_valued))

    def at_least(self, group: int, gpu_type: int, holding: Holding) -> Holding:
        """A holding with no less than the class needs; the holding itself where it has that."""
        needs = self.needs[group] if self.needs else NOTHING
        return raised(self.by_class[group][gpu_type], self.gpus[group], holding, needs)

    def suffices(self, group: int, cpus: float, memory_gb: float) -> bool:
        """Whether so many CPUs and GB are no less than the class needs."""
        needs = self.needs[group] if self.needs else NOTHING
        return cpus >= needs.cpus - TOLERANCE and memory_gb >= needs.memory_gb - TOLERANCE

    def choices(self, group: int, gpu_type: int) -> tuple[Holding, ...]:
        """What a policy may choose from: no slower than the proportional share, none worse in every respect.

        The amounts are those that were measured, the proportional share and the full one, as far as a server goes;
        fastest first.
        """
        known = self._choices.get((group, gpu_type))
        if known is None:
            known = tuple(self._efficient(group, gpu_type))
            self._choices[group, gpu_type] = known
        return known

    def _efficient(self, group: int, gpu_type: int) -> Iterator[Holding]:
        """Amounts that no other amounts beat, the fastest first."""
        fair = self.holding(int(self.fair[group, gpu_type]))
        full = self.holding(int(self.full[group, gpu_type]))
        tried = {(h.cpus, h.memory_gb): h.speed for h in (full, fair)}
        measured = self.by_class[group][gpu_type]
        if measured is not None and not self.two_valued:
            for amounts in self._grid(group, gpu_type, measured.sensitivity):
                if amounts not in tried and self.suffices(group, *amounts):
                    with contextlib.suppress(ProfileMissing):
                        tried[amounts] = self.speed_of(group, gpu_type, *amounts)
        kept: list[tuple[float, float]] = []
        for (cpus, memory), speed in sorted(tried.items(), key=lambda item: (-round(item[1] / TOLERANCE), item[0])):
            beaten = any(c <= cpus + TOLERANCE and m <= memory + TOLERANCE for c, m in kept)
            if speed >= 1 - TOLERANCE and not beaten:
                kept.append((cpus, memory))
                yield Holding(cpus, memory, speed)

    def _grid(self, group: int, gpu_type: int, table: Sensitivity) -> Iterator[tuple[float, float]]:
        """Measured amounts and the proportional share, for the whole job, as far as one server has them."""
        gpus = self.gpus[group]
        shape = self.shapes[gpu_type]
        most = shape.most(gpus)
        cpus = sorted({gpus * c for c in (*table.cpus.tolist(), shape.fair_cpus)})
        memory = sorted({gpus * m for m in (*table.memory_gb.tolist(), shape.fair_memory)})
        amounts = itertools.product(cpus, memory)
        return (held for held in amounts if any(held[0] <= c and held[1] <= m for c, m in most))


def relative_speed(measured: Measured | None, gpus: int, cpus: float, memory_gb: float) -> float:
    """Speed of a whole job relative to the proportional share; 1 where nothing was measured."""
    if measured is None:
        return 1.0
    return measured.sensitivity.at(cpus / gpus, memory_gb / gpus) / measured.base


def raised(measured: Measured | None, gpus: int, holding: Holding, needs: Needs) -> Holding:
    """A holding with no less than these needs; a raised one is taken to be no slower where nobody measured it."""
    cpus = max(holding.cpus, needs.cpus)
    memory = max(holding.memory_gb, needs.memory_gb)
    if (cpus, memory) == (holding.cpus, holding.memory_gb):
        return holding
    speed = holding.speed
    with contextlib.suppress(ProfileMissing):
        speed = max(speed, relative_speed(measured, gpus, cpus, memory))
    return Holding(cpus, memory, speed)


def within_share(measured: Measured | None, gpus: int, fair: Holding, wish: Holding, *, two_valued: bool) -> Holding:
    """The part of a wish that lies within the proportional share; the whole share where that part is slower."""
    cpus = min(fair.cpus, wish.cpus)
    memory = min(fair.memory_gb, wish.memory_gb)
    try:
        speed = 1.0 if two_valued else relative_speed(measured, gpus, cpus, memory)
    except ProfileMissing:
        return fair
    return Holding(cpus, memory, speed) if speed >= 1 - TOLERANCE else fair
