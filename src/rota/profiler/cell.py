"""What is measured: a job with CPUs, memory and storage, and what came out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rota.core.errors import ConfigError

MEASURED = "measured"
WIDE = "wide"
CONTAMINATED = "contaminated"
FAILED = "failed"
OUT_OF_MEMORY = "out of memory"
"""How the reason of a run begins that the kernel ended at its memory limit."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What the whole job gets. Memory is None where nobody limits it."""

    cpus: float
    memory_gb: float | None = None
    mbps: float | None = None
    """MB/s of storage; None: as fast as it goes."""
    replay: bool = False
    """The first batches again and again: how fast the device is without its data."""

    def __str__(self) -> str:
        parts = [f"{self.cpus:g} CPUs"]
        parts += [] if self.memory_gb is None else [f"{self.memory_gb:.3g} GB"]
        parts += [] if self.mbps is None else [f"{self.mbps:.3g} MB/s"]
        return ", ".join(parts) + (", device alone" if self.replay else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSide:
    """Of a run with `rota.data`, while it was measured; all per step but the sizes."""

    workers: int
    items: float
    prepare_s: float
    """Seconds of a worker for the data of a step, reading not counted."""
    fetch_s: float
    """Seconds of a worker to read those of a step that were not cached."""
    fetched_mb: float
    missed: float
    """Part of the items that were not in the cache."""
    step_mb: float
    data_gb: float
    cache_gb: float
    """What the cache might hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run that is over, for good."""

    cell: Cell
    outcome: str
    """MEASURED, WIDE (the interval is wider than it should be), CONTAMINATED or FAILED."""
    rate: float = 0.0
    half_width: float = 0.0
    cpu_s: float = 0.0
    resident_gb: float = 0.0
    seconds: float = 0.0
    blocks: tuple[tuple[float, float, float, float], ...] = ()
    """Every block: seconds, steps, part denied, part stolen."""
    source: str = ""
    """What told the steps: `client` or `output`."""
    data: DataSide | None = None
    reason: str = ""
    remarks: tuple[str, ...] = ()
    check: float | None = None
    """Steps/s that were predicted before, where the run was a check."""
    pace: float = 0.0
    """Of the CPU of a job with one of them, at its best: pieces of fixed work per second of CPU time; 0: not known."""

    @property
    def usable(self) -> bool:
        """Whether its speed may be used."""
        return self.outcome in {MEASURED, WIDE} and self.rate > 0

    def needs_more_than(self, cell: Cell) -> bool:
        """Whether it ran out of memory, so that a cell with no more memory cannot be had either."""
        memory = math.inf if self.cell.memory_gb is None else self.cell.memory_gb
        return (
            self.outcome == FAILED
            and self.reason.startswith(OUT_OF_MEMORY)
            and cell.memory_gb is not None
            and cell.memory_gb <= memory
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def _check(self) -> None:
        """ValueError for what no run can be."""
        if self.outcome not in {MEASURED, WIDE, CONTAMINATED, FAILED}:
            raise ValueError(f"outcome {self.outcome!r}")
        amounts = [self.rate, self.half_width, self.cpu_s, self.resident_gb, self.seconds, self.pace, self.check or 0.0]
        if not all(0 <= amount < math.inf for amount in amounts):
            raise ValueError("an amount is negative or no number")
        if not 0 < self.cell.cpus < math.inf:
            raise ValueError(f"{self.cell.cpus!r} CPUs")

    @classmethod
    def from_json(cls, values: Mapping[str, Any], place: str) -> RunRecord:
        """The opposite of `to_json`."""
        try:
            given = {name.name: values[name.name] for name in fields(cls) if name.name in values}
            given["cell"] = Cell(**values["cell"])
            given["data"] = None if values.get("data") is None else DataSide(**values["data"])
            given["blocks"] = tuple(tuple(block) for block in values.get("blocks", ()))
            given["remarks"] = tuple(values.get("remarks", ()))
            record = cls(**given)
            record._check()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            fix = "remove the file, or give --again, to begin anew"
            raise ConfigError(f"{place} is no run of a profiler ({error!r}); {fix}") from None
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class JobToProfile:
    """What the user wants profiled, and with what at most."""

    name: str
    argv: tuple[str, ...]
    cpus: float
    memory_gb: float
    gpus: int = 1
    batch: int | None = None
    max_iterations: int | None = None
    image: str = ""
    launcher: str = ""
    mounts: tuple[str, ...] = ()
    master_addr: str = "127.0.0.1"
    master_port: int = 29500
    steps_regex: str = ""
    device: str = "auto"
    type: str = ""
    data: str = ""
    """A path on the storage whose speed is limited."""
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
