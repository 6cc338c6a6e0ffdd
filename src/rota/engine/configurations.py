"""Makes `core.configurations.Configurations`: a new value whenever a class of jobs is added.

Rows are appended and keep their numbers as long as the cluster is the same.
"""

from __future__ import annotations

import itertools
import logging

import numpy as np

from rota.core.arrays import frozen
from rota.core.cluster import Cluster
from rota.core.configurations import Configurations, Holding, Measured, Shape, raised, relative_speed, within_share
from rota.core.errors import ProfileMissing
from rota.core.needs import NOTHING, Needs
from rota.core.sensitivity import Sensitivity
from rota.core.tolerance import TOLERANCE

log = logging.getLogger(__name__)


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
        group = len(self.value.gpus)
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
        self._renew(gpus, fair, full, cut, tuple(by_type), problem, needs)
        return base

    def _renew(
        self,
        gpus: int,
        fair: list[int],
        full: list[int],
        cut: list[int],
        by_type: tuple[Measured | None, ...],
        problem: str,
        needs: Needs,
    ) -> None:
        """The value with one class more."""
        old = self.value
        problems = old.problems
        if problem:
            problems = {**problems, len(old.gpus): problem}
        rows = self._rows
        speed = np.array([row.speed for row in rows])
        all_full = np.vstack([old.full, np.array(full, dtype=np.int64)])
        self.value = Configurations(
            shapes=self._shapes,
            two_valued=self._two_valued,
            gpus=(*old.gpus, gpus),
            cpus=frozen(np.array([row.cpus for row in rows])),
            memory_gb=frozen(np.array([row.memory_gb for row in rows])),
            speed=frozen(speed),
            fair=frozen(np.vstack([old.fair, np.array(fair, dtype=np.int64)])),
            full=frozen(all_full),
            cut=frozen(np.vstack([old.cut, np.array(cut, dtype=np.int64)])),
            best=frozen(speed[all_full].max(axis=1)),
            problems=problems,
            sensitive=old.sensitive or any(measured is not None for measured in by_type),
            by_class=(*old.by_class, by_type),
            needs=(*old.needs, needs),
            _choices=old._choices,  # noqa: SLF001 - what was worked out before stays true
        )

    def _full(self, gpus: int, shape: Shape, measured: Measured, share: Holding) -> Holding:
        """The least that makes a class as fast as it can get; its share where that is better."""
        table = measured.sensitivity
        if self._two_valued:
            return _two_valued(gpus, shape, table)
        spread = gpus > shape.gpus
        most_cpus = gpus * shape.fair_cpus if spread else shape.cpus
        most_memory = gpus * shape.fair_memory if spread else shape.memory
        cpus = min(gpus * max(table.ideal_cpus, float(table.cpus[0])), most_cpus)
        memory = min(gpus * max(table.ideal_memory_gb, float(table.memory_gb[0])), most_memory)
        speed = relative_speed(measured, gpus, cpus, memory)
        if speed < 1 - TOLERANCE:  # a limit of the server bites: the proportional share is better
            return share
        return Holding(cpus, memory, speed)

    def _append(self, group: int, gpu_type: int, holding: Holding) -> int:
        """The row of a holding; a new one if there was none with these amounts."""
        key = (group, gpu_type, holding.cpus, holding.memory_gb)
        number = self._numbers.setdefault(key, len(self._rows))
        if number == len(self._rows):
            self._rows.append(holding)
        return number


def _two_valued(gpus: int, shape: Shape, table: Sensitivity) -> Holding:
    """Demand and speed-up of Synergy's simulator: clipped to one server, the speed-up cut on the CPU axis alone."""
    speed = table.speedup
    adjust = False
    demands = [gpus * table.ideal_cpus, gpus * table.ideal_memory_gb]
    for resource, limit in enumerate((shape.cpus, shape.memory)):
        if demands[resource] <= limit:
            continue
        demands[resource] = limit
        adjust = True
        if gpus > shape.gpus:
            demands[resource] = gpus * limit / shape.gpus
            speed = 1.0
            adjust = False
    if gpus > shape.gpus:  # the storage of one server never suffices for these
        speed = 1.0
        adjust = False
    if adjust:
        fair = gpus * shape.cpus / shape.gpus
        ideal = gpus * table.ideal_cpus
        if ideal != fair:
            slope = (speed - 1) / (ideal - fair)
            speed = 1 + slope * (demands[0] - fair)
    return Holding(demands[0], demands[1], speed)
