"""How fast jobs were seen to run: steps/s by tenant, name, number of GPUs, GPU type, CPUs and memory, with a spread.

Kept in the registry and rebuilt from events (`SpeedMeasured`). A cell is a running mean over blocks of time (Welford),
of which the older ones fade from `REMEMBERED` on, so a command that changes is noticed. What a job reports is never
believed beyond `SLOWEST` and `FASTEST` steps/s, and it says something about jobs of its own tenant alone.

    mean += (rate - mean) / n        m2 += (rate - mean before) (rate - mean)        n = min(blocks, REMEMBERED)
    error = t(n - 1) sqrt(m2 / (n - 1) / n) / mean        half of the 95 % interval, relative
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from rota.deploy.events import SpeedMeasured

BELIEVED_BLOCKS = 8
"""Blocks after which a speed is believed, ..."""
BELIEVED_ERROR = 0.10
"""... if the 95 % interval is that narrow (half of it, relative), ..."""
BELIEVED_ANYWAY_BLOCKS = 32
"""... and after this number of blocks in any case."""
REMEMBERED = 64
"""Blocks that count; older ones fade out."""
SLOWEST = 1e-6
FASTEST = 1e6
"""Steps/s that are taken from anybody."""
MOST_CELLS = 2_000
"""Of one tenant; those that were measured last stay."""
_NORMAL = 1.96
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""t of a two-sided 95 % interval for 1, 2, ... degrees of freedom, ..."""
_SLOPE = 2.53
"""... and beyond them as far above that of the normal distribution, divided by their number (within 0.2 %)."""


Kind: TypeAlias = "tuple[str, str, int]"
"""(tenant, name, GPUs): jobs that are taken to be equally fast on equal GPUs, CPUs and memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedCell:
    """What a speed was measured for."""

    tenant: str
    name: str
    """A profile, or the fingerprint of a command (`speed_names`)."""
    gpus: int
    type: str
    cpus: float
    """Of the whole job."""
    memory_gb: float
    """Of the whole job."""
    servers: int = 1

    @property
    def kind(self) -> Kind:
        """Whose speed it is."""
        return self.tenant, self.name, self.gpus


@dataclass(slots=True, kw_only=True)
class CellSpeed:
    """What was seen in a cell."""

    blocks: int = 0
    """All that were ever measured."""
    mean: float = 0.0
    """Steps per engine second of the whole job."""
    m2: float = 0.0
    share: float = 1.0
    """Speed with these CPUs and memory on these servers, relative to the proportional share on one server."""
    last_job: int = -1
    last_at: float = 0.0
    """Engine seconds."""

    def add(self, rate: float) -> None:
        """One more block."""
        self.blocks += 1
        count = min(self.blocks, REMEMBERED)
        before = self.mean
        self.mean += (rate - before) / count
        if self.blocks > REMEMBERED:
            self.m2 *= 1 - 1 / REMEMBERED
        self.m2 += (rate - before) * (rate - self.mean)

    @property
    def error(self) -> float:
        """Half of the 95 % interval, relative; infinite for a single block."""
        return interval(min(self.blocks, REMEMBERED), self.mean, self.m2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSpeed:
    """A speed with the proportional share on one server, from all cells of a type."""

    rate: float
    """Steps per engine second of the whole job."""
    error: float
    """Half of the 95 % interval, relative."""
    blocks: int

    @property
    def believed(self) -> bool:
        """Whether it takes the place of what was believed before."""
        enough = self.blocks >= BELIEVED_BLOCKS and self.error <= BELIEVED_ERROR
        return enough or self.blocks >= BELIEVED_ANYWAY_BLOCKS


@dataclass(kw_only=True)
class LearnedSpeeds:
    """All cells, those that were measured last at the end."""

    cells: dict[SpeedCell, CellSpeed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The same by kind, and how many of each tenant.
        self._by_kind: dict[Kind, dict[SpeedCell, CellSpeed]] = {}
        self._cells_of: Counter[str] = Counter()
        for cell, speed in self.cells.items():
            self._index(cell, speed)

    def take(self, event: SpeedMeasured, tenant: str, gpus: int) -> None:
        """Take over blocks of an attempt."""
        cell = SpeedCell(
            tenant=tenant,
            name=event.name,
            gpus=gpus,
            type=event.type,
            cpus=event.cpus,
            memory_gb=event.memory_gb,
            servers=event.servers,
        )
        speed = self.cells.pop(cell, None)
        if speed is None:
            speed = CellSpeed()
            self._index(cell, speed)
        self.cells[cell] = speed  # the last one, as the newest
        for rate in event.rates:
            speed.add(rate)
        speed.share = event.share
        speed.last_job = event.job
        speed.last_at = event.at
        if self._cells_of[tenant] > MOST_CELLS:
            self._forget(next(cell for cell in self.cells if cell.tenant == tenant))

    def _index(self, cell: SpeedCell, speed: CellSpeed) -> None:
        self._by_kind.setdefault(cell.kind, {})[cell] = speed
        self._cells_of[cell.tenant] += 1

    def _forget(self, cell: SpeedCell) -> None:
        del self.cells[cell]
        del self._by_kind[cell.kind][cell]
        self._cells_of[cell.tenant] -= 1
        if not self._by_kind[cell.kind]:
            del self._by_kind[cell.kind]

    def of_kind(self, kind: Kind) -> dict[str, SeenSpeed]:
        """What was seen of a kind of job, by type, whether it is believed or not."""
        by_type: dict[str, list[CellSpeed]] = {}
        for cell, speed in self._by_kind.get(kind, {}).items():
            by_type.setdefault(cell.type, []).append(speed)
        return {gpu_type: combined(speeds) for gpu_type, speeds in by_type.items()}

    def visible(self, tenant: str | None) -> Iterator[tuple[SpeedCell, CellSpeed]]:
        """The cells that a caller may see: those of its tenant, of all for None."""
        return (pair for pair in self.cells.items() if tenant in {None, pair[0].tenant})

    def kinds(self, tenant: str | None) -> list[Kind]:
        """Kinds of jobs of which a caller may see the speeds."""
        return sorted(kind for kind in self._by_kind if tenant in {None, kind[0]})


def combined(speeds: Iterable[CellSpeed]) -> SeenSpeed:
    """The speed with the proportional share, each cell by its blocks."""
    parts = [(min(speed.blocks, REMEMBERED), speed) for speed in speeds]
    count = sum(weight for weight, _ in parts)
    mean = sum(weight * speed.mean / speed.share for weight, speed in parts) / count
    m2 = sum(speed.m2 / speed.share**2 + weight * (speed.mean / speed.share - mean) ** 2 for weight, speed in parts)
    return SeenSpeed(rate=mean, error=interval(count, mean, m2), blocks=sum(speed.blocks for _, speed in parts))


def interval(count: int, mean: float, m2: float) -> float:
    """Half of the 95 % interval of a mean over so many blocks, relative; infinite for a single one."""
    if count < 2 or mean <= 0:
        return math.inf
    freedom = count - 1
    quantile = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL + _SLOPE / freedom
    return quantile * math.sqrt(max(m2, 0.0) / (count - 1) / count) / mean
