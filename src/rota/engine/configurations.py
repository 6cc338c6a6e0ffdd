"""Makes `core.configurations.Configurations`: a new value whenever a class of jobs is added.

Rows are appended and keep their numbers as long as the cluster is the same.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rota.core.arrays import IntArray, frozen
from rota.core.cluster import Cluster, Resources
from rota.core.configurations import Configurations, Holding, Measured, Shape, raised, relative_speed, within_share
from rota.core.errors import ProfileMissing
from rota.core.needs import NOTHING, Needs
from rota.core.sensitivity import Sensitivity
from rota.core.tolerance import TOLERANCE

log = logging.getLogger(__name__)


def shapes(cluster: Cluster) -> tuple[Shape, ...]:
    """The shape of each type, in the order of the cluster's types."""
    return tuple(
        Shape(
            float(cluster.fair_cpus[t]),
            float(cluster.fair_memory_gb[t]),
            _largest([server.capacity for server in cluster.ordered[lo:hi]]),
        )
        for t, (lo, hi) in enumerate(itertools.pairwise(cluster.server_bounds))
    )


def _largest(sizes: list[Resources]) -> tuple[Resources, ...]:
    """Those that no other one has as much of everything as, each once."""
    kept: list[Resources] = []
    ordered = sorted(set(sizes), key=lambda size: (size.gpus, size.cpus, size.memory_gb), reverse=True)
    for size in ordered:
        if not any(other.cpus >= size.cpus and other.memory_gb >= size.memory_gb for other in kept):
            kept.append(size)
    return tuple(kept)


class _Group(NamedTuple):
    """The configurations of one class; rows are by type."""

    gpus: int
    base: list[float]
    """Speed with the proportional share, relative to the rate in the catalogue."""
    fair: list[int]
    full: list[int]
    cut: list[int]
    by_type: tuple[Measured | None, ...]
    problem: str
    needs: Needs


class ConfigurationTable:
    """The configurations of the classes seen so far."""

    def __init__(self, shapes: tuple[Shape, ...], *, two_valued: bool) -> None:
        self._shapes = shapes
        self._two_valued = two_valued
        self._numbers: dict[tuple[int, int, float, float], int] = {}
        self._rows: list[Holding] = []
        none = np.zeros((0, len(shapes)), dtype=np.int64)
        self.value = Configurations(
            shapes=shapes,
            two_valued=two_valued,
            gpus=(),
            cpus=frozen(np.zeros(0)),
            memory_gb=frozen(np.zeros(0)),
            speed=frozen(np.zeros(0)),
            fair=frozen(none),
            full=frozen(none),
            cut=frozen(none),
            best=frozen(np.zeros(0)),
            problems={},
            sensitive=False,
            by_class=(),
        )
        """All of them, as they are now."""

    def add_class(self, gpus: int, tables: list[Sensitivity | None], needs: Needs = NOTHING) -> list[float]:
        """A new class; its speed with the proportional share relative to its rate in the catalogue, by type.

        That is 0 on a type whose proportional share lies outside what was measured: the class cannot run there. No
        configuration has less than the CPUs and memory that the class needs.
        """
        return self.add_classes([(gpus, tables, needs)])[0]

    def add_classes(self, asked: Sequence[tuple[int, list[Sensitivity | None], Needs]]) -> list[list[float]]:
        """Several of them, of which each is (GPUs, tables by type, needs): what there is already is copied once."""
        first = len(self.value.gpus)
        groups = [self._group(first + at, *one) for at, one in enumerate(asked)]
        self._renew(groups)
        return [group.base for group in groups]

    def _group(self, group: int, gpus: int, tables: list[Sensitivity | None], needs: Needs) -> _Group:
        """The configurations of one class, whose number it is."""
        base: list[float] = []
        fair: list[int] = []
        full: list[int] = []
        cut: list[int] = []
        by_type: list[Measured | None] = []
        problem = ""
        for gpu_type, (shape, table) in enumerate(zip(self._shapes, tables, strict=True)):
            share = Holding(gpus * shape.fair_cpus, gpus * shape.fair_memory, 1.0)
            least = raised(None, gpus, share, needs) if table is None and shape.known else share
            fair.append(self._append(group, gpu_type, least))
            full.append(fair[-1])
            cut.append(fair[-1])
            base.append(1.0)
            by_type.append(None)
            if table is None or not shape.known:
                continue
            try:
                base[-1] = 1.0 if self._two_valued else table.at(shape.fair_cpus, shape.fair_memory)
                measured = Measured(table, base[-1])
                wish = self._full(gpus, shape, measured, share)
                within = within_share(measured, gpus, share, wish, two_valued=self._two_valued)
            except ProfileMissing as missing:
                base[-1] = 0.0
                problem = str(missing)
                continue
            full[-1] = self._append(group, gpu_type, raised(measured, gpus, wish, needs))
            cut[-1] = self._append(group, gpu_type, raised(measured, gpus, within, needs))
            fair[-1] = self._append(group, gpu_type, raised(measured, gpus, share, needs))
            by_type[-1] = measured
        if problem and any(base):  # otherwise its jobs are refused with this reason
            log.warning("%s", problem)
        return _Group(gpus, base, fair, full, cut, tuple(by_type), problem, needs)

    def _renew(self, groups: Sequence[_Group]) -> None:
        """The value with some classes more."""
        old = self.value
        first = len(old.gpus)
        problems = {first + at: group.problem for at, group in enumerate(groups) if group.problem}
        measured = (one is not None for group in groups for one in group.by_type)
        rows = self._rows
        speed = np.array([row.speed for row in rows])
        all_full = _with_rows(old.full, [group.full for group in groups])
        self.value = Configurations(
            shapes=self._shapes,
            two_valued=self._two_valued,
            gpus=(*old.gpus, *(group.gpus for group in groups)),
            cpus=frozen(np.array([row.cpus for row in rows])),
            memory_gb=frozen(np.array([row.memory_gb for row in rows])),
            speed=frozen(speed),
            fair=frozen(_with_rows(old.fair, [group.fair for group in groups])),
            full=frozen(all_full),
            cut=frozen(_with_rows(old.cut, [group.cut for group in groups])),
            best=frozen(speed[all_full].max(axis=1)),
            problems={**old.problems, **problems} if problems else old.problems,
            sensitive=old.sensitive or any(measured),
            by_class=(*old.by_class, *(group.by_type for group in groups)),
            needs=(*old.needs, *(group.needs for group in groups)),
            _choices=old._choices,  # noqa: SLF001 - what was worked out before stays true
        )

    def _full(self, gpus: int, shape: Shape, measured: Measured, share: Holding) -> Holding:
        """The least that makes a class as fast as it can get; its share where that is better."""
        if self._two_valued:
            return _two_valued(gpus, shape, measured.sensitivity)
        best = _fastest(_wish(gpus, measured, *most) for most in shape.most(gpus))
        return share if best.speed < 1 - TOLERANCE else best  # a limit of the server bites: the share is better

    def _append(self, group: int, gpu_type: int, holding: Holding) -> int:
        """The row of a holding; a new one if there was none with these amounts."""
        key = (group, gpu_type, holding.cpus, holding.memory_gb)
        number = self._numbers.setdefault(key, len(self._rows))
        if number == len(self._rows):
            self._rows.append(holding)
        return number


def _with_rows(before: IntArray, rows: list[list[int]]) -> IntArray:
    return np.vstack([before, np.array(rows, dtype=np.int64)])


def _wish(gpus: int, measured: Measured, most_cpus: float, most_memory: float) -> Holding:
    """The least that makes a class as fast as it can get with so much at most."""
    table = measured.sensitivity
    cpus = min(gpus * max(table.ideal_cpus, float(table.cpus[0])), most_cpus)
    memory = min(gpus * max(table.ideal_memory_gb, float(table.memory_gb[0])), most_memory)
    return Holding(cpus, memory, relative_speed(measured, gpus, cpus, memory))


def _fastest(holdings: Iterable[Holding]) -> Holding:
    """The fastest; of those that are as fast, the one with the fewest CPUs, then with the least memory."""
    return min(holdings, key=lambda h: (-round(h.speed / TOLERANCE), h.cpus, h.memory_gb))


def _two_valued(gpus: int, shape: Shape, table: Sensitivity) -> Holding:
    """Demand and speed-up of Synergy's simulator: on one server if one has the GPUs."""
    servers = shape.on_one_server(gpus)
    if servers:
        return _fastest(_clipped(gpus, server, table) for server in servers)
    cpus = _on_several(gpus * table.ideal_cpus, gpus * shape.fair_cpus, max(size.cpus for size in shape.largest))
    most_memory = max(size.memory_gb for size in shape.largest)
    memory = _on_several(gpus * table.ideal_memory_gb, gpus * shape.fair_memory, most_memory)
    return Holding(cpus, memory, 1.0)  # the storage of one server never suffices for these


def _on_several(demand: float, share: float, of_one_server: float) -> float:
    """What a job on several servers holds: its share if it wants more than one server has, even if it wants less."""
    return share if demand > of_one_server else min(demand, share)


def _clipped(gpus: int, server: Resources, table: Sensitivity) -> Holding:
    """What Synergy's simulator lets a job hold on one server; the speed-up is cut on the CPU axis alone."""
    speed = table.speedup
    cpus = gpus * table.ideal_cpus
    ideal = cpus
    fair = gpus * server.cpus / server.gpus
    memory = gpus * table.ideal_memory_gb
    cut = cpus > server.cpus or memory > server.memory_gb
    cpus = min(cpus, server.cpus)
    if cut and ideal != fair:
        slope = (speed - 1) / (ideal - fair)
        speed = 1 + slope * (cpus - fair)
    return Holding(cpus, min(memory, server.memory_gb), speed)
