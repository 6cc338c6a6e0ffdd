"""What a job may hold beside its GPUs, and how fast that makes it.

A configuration is (class, type, CPUs, memory) of a whole job; its speed is relative to the speed with the
proportional share, which is what `ClassTable.throughput` holds. Every class has two from the start on every type: the
proportional share (`fair`) and the least that makes it as fast as it can get (`full`). Mechanisms and policies may ask
for others; rows are appended and never change their number.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.cluster import Cluster
from rota.core.errors import ProfileMissing
from rota.core.sensitivity import Sensitivity

log = logging.getLogger(__name__)

_GAIN = 1e-9
"""Relative speed below which more resources are no gain."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What servers of one type have: the least per GPU over all of them, and the largest server. 0: unknown."""

    fair_cpus: float
    fair_memory: float
    gpus: int
    cpus: float
    memory: float

    @property
    def known(self) -> bool:
        """Whether CPUs and memory can be divided at all."""
        return self.fair_cpus > 0 and self.fair_memory > 0


def shapes(cluster: Cluster) -> tuple[Shape, ...]:
    """The shape of each type, in the order of the cluster's types."""
    bounds = cluster.server_bounds
    return tuple(
        Shape(
            float(cluster.fair_cpus[t]),
            float(cluster.fair_memory_gb[t]),
            int(cluster.server_gpus[lo:hi].max()),
            float(cluster.server_cpus[lo:hi].max()),
            float(cluster.server_memory_gb[lo:hi].max()),
        )
        for t, (lo, hi) in enumerate(itertools.pairwise(bounds))
    )


class Configurations:
    """All configurations seen so far, as columns (part of core.view.Classes)."""

    def __init__(self, shapes: tuple[Shape, ...], *, two_valued: bool) -> None:
        self.shapes = shapes
        self._two_valued = two_valued
        self._number: dict[tuple[int, int, float, float], int] = {}
        self._sensitivity: dict[tuple[int, int], tuple[Sensitivity, float]] = {}
        self._gpus: list[int] = []
        self.cpus: FloatArray = np.zeros(0)
        self.memory_gb: FloatArray = np.zeros(0)
        self.speed: FloatArray = np.zeros(0)
        self.fair: IntArray = np.zeros((0, len(shapes)), dtype=np.int64)
        """[C, T] the proportional share of a class on a type."""
        self.full: IntArray = np.zeros((0, len(shapes)), dtype=np.int64)
        """[C, T] the least with which it is as fast as it can get."""
        self.cut: IntArray = np.zeros((0, len(shapes)), dtype=np.int64)
        """[C, T] what is left of that when all beyond the proportional share is given back."""
        self.best: FloatArray = np.zeros(0)
        """[C] the speed of each class where it is fastest with all it can use."""
        self._choices: dict[tuple[int, int], IntArray] = {}
        self.problems: dict[int, str] = {}
        """Why a class cannot run on some type where it has a rate."""
        self.sensitive = False
        """Whether some class gains by more than its proportional share, or can do with less."""

    def add_class(self, gpus: int, found: list[Sensitivity | None]) -> list[float]:
        """A new class; its speed with the proportional share relative to its rate in the catalogue, by type.

        That is 0 on a type whose proportional share lies outside what was measured: the class cannot run there.
        """
        number = len(self._gpus)
        self._gpus.append(gpus)
        base, fair, full, cut = [], [], [], []
        for kind, (shape, sensitivity) in enumerate(zip(self.shapes, found, strict=True)):
            fair.append(self._append(number, kind, gpus * shape.fair_cpus, gpus * shape.fair_memory, 1.0))
            full.append(fair[-1])
            cut.append(fair[-1])
            base.append(1.0)
            if sensitivity is None or not shape.known:
                continue
            try:
                base[-1] = 1.0 if self._two_valued else sensitivity.at(shape.fair_cpus, shape.fair_memory)
                self._sensitivity[number, kind] = (sensitivity, base[-1])
                full[-1] = self._full(number, kind, shape, sensitivity, fair[-1])
                cut[-1] = self.within_share(number, kind, fair[-1], full[-1])
            except ProfileMissing as problem:
                self._sensitivity.pop((number, kind), None)
                base[-1] = 0.0
                self.problems[number] = str(problem)
                continue
            self.sensitive = True
        self.fair = np.vstack([self.fair, np.array(fair, dtype=np.int64)])
        self.full = np.vstack([self.full, np.array(full, dtype=np.int64)])
        if number in self.problems and any(base):  # otherwise its jobs are refused with this reason
            log.warning("%s", self.problems[number])
        self.cut = np.vstack([self.cut, np.array(cut, dtype=np.int64)])
        self.best = self.speed[self.full].max(axis=1)
        return base

    def number(self, group: int, kind: int, cpus: float, memory_gb: float) -> int:
        """The row for so much of everything; a new one if there was none yet."""
        found = self._number.get((group, kind, cpus, memory_gb))
        if found is not None:
            return found
        return self._append(group, kind, cpus, memory_gb, self._measured(group, kind, cpus, memory_gb))

    def within_share(self, group: int, kind: int, fair: int, wish: int) -> int:
        """What is left of a wish when all beyond the proportional share is given back, if that is no slower.

        Who wants more memory and fewer CPUs than its share gives back memory and does not take CPUs for it: others
        may have them.
        """
        cpus, memory = (float(min(column[fair], column[wish])) for column in (self.cpus, self.memory_gb))
        try:
            speed = 1.0 if self._two_valued else self._measured(group, kind, cpus, memory)
        except ProfileMissing:
            return fair
        return self._append(group, kind, cpus, memory, speed) if speed >= 1 - _GAIN else fair

    def choices(self, group: int, kind: int) -> IntArray:
        """Rows that a policy may choose from: no slower than the proportional share, none worse in every respect.

        The amounts are those that were measured, the proportional share and the full one, as far as a server goes.
        """
        found = self._choices.get((group, kind))
        if found is None:
            found = self._choices[group, kind] = np.array(self._efficient(group, kind), dtype=np.int64)
        return found

    def measured(self, group: int, kind: int) -> Sensitivity | None:
        """What was measured for a class on a type."""
        found = self._sensitivity.get((group, kind))
        return None if found is None else found[0]

    def _measured(self, group: int, kind: int, cpus: float, memory_gb: float) -> float:
        found = self._sensitivity.get((group, kind))
        if found is None:
            return 1.0
        sensitivity, base = found
        gpus = self._gpus[group]
        return sensitivity.at(cpus / gpus, memory_gb / gpus) / base

    def _efficient(self, group: int, kind: int) -> list[int]:
        """Rows that no other row beats, the fastest first."""
        fair, full = int(self.fair[group, kind]), int(self.full[group, kind])
        tried = {(float(self.cpus[n]), float(self.memory_gb[n])): float(self.speed[n]) for n in (full, fair)}
        measured = self._sensitivity.get((group, kind))
        if measured is not None and not self._two_valued:
            for amounts in self._grid(group, kind, measured[0]):
                with contextlib.suppress(ProfileMissing):
                    tried.setdefault(amounts, self._measured(group, kind, *amounts))
        kept: list[tuple[float, float]] = []
        for (cpus, memory), speed in sorted(tried.items(), key=lambda item: (-round(item[1] / _GAIN), item[0])):
            if speed >= 1 - _GAIN and not any(c <= cpus + _GAIN and m <= memory + _GAIN for c, m in kept):
                kept.append((cpus, memory))
        return [self._append(group, kind, *amounts, tried[amounts]) for amounts in kept]

    def _grid(self, group: int, kind: int, found: Sensitivity) -> Iterator[tuple[float, float]]:
        """Measured amounts and the proportional share, for the whole job, as far as one server has them."""
        gpus, shape = self._gpus[group], self.shapes[kind]
        spread = gpus > shape.gpus
        most_cpus = gpus * shape.fair_cpus if spread else shape.cpus
        most_memory = gpus * shape.fair_memory if spread else shape.memory
        cpus = sorted({gpus * c for c in (*found.cpus.tolist(), shape.fair_cpus)})
        memory = sorted({gpus * m for m in (*found.memory_gb.tolist(), shape.fair_memory)})
        return itertools.product([c for c in cpus if c <= most_cpus], [m for m in memory if m <= most_memory])

    def _full(self, group: int, kind: int, shape: Shape, found: Sensitivity, fair: int) -> int:
        gpus = self._gpus[group]
        if self._two_valued:
            cpus, memory, speed = _two_valued(gpus, shape, found)
            return self._append(group, kind, cpus, memory, speed)
        spread = gpus > shape.gpus
        cpus = min(gpus * max(found.ideal_cpus, float(found.cpus[0])), gpus * shape.fair_cpus if spread else shape.cpus)
        memory = min(
            gpus * max(found.ideal_memory_gb, float(found.memory_gb[0])),
            gpus * shape.fair_memory if spread else shape.memory,
        )
        speed = self._measured(group, kind, cpus, memory)
        if speed < 1 - _GAIN:  # a limit of the server bites: the proportional share is better
            return fair
        return self._append(group, kind, cpus, memory, speed)

    def _append(self, group: int, kind: int, cpus: float, memory_gb: float, speed: float) -> int:
        key = (group, kind, cpus, memory_gb)
        found = self._number.get(key)
        if found is not None:
            return found
        self._number[key] = number = len(self._number)
        self.cpus = np.append(self.cpus, cpus)
        self.memory_gb = np.append(self.memory_gb, memory_gb)
        self.speed = np.append(self.speed, speed)
        return number


def _two_valued(gpus: int, shape: Shape, found: Sensitivity) -> tuple[float, float, float]:
    """Demand and speed-up of Synergy's simulator: clipped to one server, the speed-up cut on the CPU axis alone."""
    speed, adjust = found.speedup, False
    demands = [gpus * found.ideal_cpus, gpus * found.ideal_memory_gb]
    for resource, limit in enumerate((shape.cpus, shape.memory)):
        if demands[resource] <= limit:
            continue
        demands[resource], adjust = limit, True
        if gpus > shape.gpus:
            demands[resource], speed, adjust = gpus * limit / shape.gpus, 1.0, False
    if gpus > shape.gpus:  # the storage of one server never suffices for these
        speed, adjust = 1.0, False
    if adjust:
        fair, ideal = gpus * shape.cpus / shape.gpus, gpus * found.ideal_cpus
        if ideal != fair:
            slope = (speed - 1) / (ideal - fair)
            speed = 1 + slope * (demands[0] - fair)
    return demands[0], demands[1], speed
