"""The stages of a job that was profiled: read, prepare, compute; and its speed with other CPUs, memory and storage.

A worker of a data loader reads a batch and then prepares it, so the two add up within a worker, and
workers add up until CPUs or storage are used up:

    loader(c, m, b) = min( W / (d + (1 - h) max(f, s / b)),  c / (k + (1 - h) r),  b / ((1 - h) s) )
    rate(c, m, b)   = min( G, loader )
    h(m)            = min(1, (m - reserve(m)) / D)          reserve(m) = max(reserve_gb, reserve_part m)

per GPU with c CPUs, m GB and b MB/s of storage. G steps/s of the device alone; k CPU seconds of all
processes for a step whose data are cached, r those more if none are; W workers; d seconds in which
one worker prepares a step's data; f seconds in which it reads them if nothing is cached, s their MB;
D GB of the data set; h the cached part.

Without workers (W = 0) one process does one after the other:

    rate = 1 / max( K / c,  1 / G + d + (1 - h) max(f, s / b) + max(0, K - c P) (1 / c - 1) )

where K = k + (1 - h) r, and the last term, for less than a CPU, is what a quota with the period P holds up a step for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError, UnknownName

QUOTA_PERIOD_S = 0.02
"""P: of the CPU quota that tasks get for fractions of a CPU (rota.deploy.worker.cgroups)."""
LIMITS = ("device", "CPUs", "workers", "storage")
"""What may hold a job up, in the order of `Stages.bounds`."""
_NEVER = math.inf
_LEAST = 1e-12
_MOST = 1e18
"""What a file may say; beyond these, speeds are too large or too small for a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Pipeline parameters of one job on one type, per GPU."""

    device_rate: float | None = None
    """G, steps/s; None: the device never was what held the job up."""
    cpu_s: float | None = None
    """k; None: not known, CPUs never were what held the job up."""
    read_cpu_s: float = 0.0
    """r; of `fetch_s` or beside it: reading takes CPU time."""
    workers: int = 0
    """W; 0: the training process reads and prepares by itself."""
    prepare_s: float = 0.0
    """d."""
    fetch_s: float = 0.0
    """f, as measured at `storage_mbps`."""
    step_mb: float = 0.0
    """s; 0: nothing is read, or nobody knows what."""
    data_gb: float | None = None
    """D; None: the script has no cache whose size is known, and memory is not modelled."""
    reserve_gb: float = 0.0
    """Memory that does not go to the cache, at least."""
    reserve_part: float = 0.0
    """The same as a part of the memory."""
    resident_gb: float = 0.0
    """Memory that the job needs beside the cache."""
    storage_mbps: float | None = None
    """What storage gave when nothing limited it; None: not known."""

    def cached(self, memory_gb: FloatArray | float) -> FloatArray:
        """h: the part of the data set that is in the cache."""
        memory = np.asarray(memory_gb, dtype=np.float64)
        if self.data_gb is None:
            return np.zeros_like(memory)
        cache_gb = memory - np.maximum(self.reserve_gb, self.reserve_part * memory)
        part: FloatArray = np.clip(cache_gb / self.data_gb, 0.0, 1.0)
        return part

    def memory_for(self, cached: float) -> float:
        """The least memory with which this part of the data set is cached: the opposite of `cached`."""
        cache_gb = cached * (self.data_gb or 0.0)
        return max(cache_gb + self.reserve_gb, cache_gb / (1 - self.reserve_part))

    def bounds(
        self, cpus: FloatArray | float, memory_gb: FloatArray | float, mbps: float | None = None
    ) -> tuple[FloatArray, ...]:
        """Steps/s that each of LIMITS allows; infinite where it does not hold the job up."""
        cpus, memory = np.broadcast_arrays(np.asarray(cpus, dtype=np.float64), np.asarray(memory_gb, dtype=np.float64))
        missed = 1.0 - self.cached(memory)
        speed = self.storage_mbps if mbps is None else mbps
        transfer_s = self.step_mb / speed if speed else 0.0
        prepare_s = self.prepare_s + missed * max(self.fetch_s, transfer_s)
        device = np.full(cpus.shape, self.device_rate or _NEVER)
        step_cpu_s = (self.cpu_s or 0.0) + missed * self.read_cpu_s
        cpu = np.full(cpus.shape, _NEVER) if not self.cpu_s else cpus / step_cpu_s
        storage = _inverse(missed * transfer_s)
        if self.workers:
            return device, cpu, self.workers * _inverse(prepare_s), storage
        held_up_s = np.maximum(0.0, step_cpu_s - cpus * QUOTA_PERIOD_S) * np.maximum(0.0, 1 / cpus - 1)
        serial = _inverse(1 / device + prepare_s + held_up_s)
        return device, cpu, serial, storage

    def rate(self, cpus: FloatArray | float, memory_gb: FloatArray | float, mbps: float | None = None) -> FloatArray:
        """Steps/s."""
        slowest: FloatArray = np.minimum.reduce(self.bounds(cpus, memory_gb, mbps))
        return slowest

    def limit(self, cpus: float, memory_gb: float, mbps: float | None = None) -> str:
        """What holds the job up with these."""
        return LIMITS[int(np.argmin([float(bound) for bound in self.bounds(cpus, memory_gb, mbps)]))]

    def knee_cpus(self, memory_gb: float, mbps: float | None = None) -> float | None:
        """CPUs beyond which nothing is gained, c* = (k + (1 - h) r) rate; None if CPUs never hold the job up."""
        if not self.cpu_s:
            return None
        best = float(self.rate(1e6, memory_gb, mbps))
        step_cpu_s = self.cpu_s + (1.0 - float(self.cached(memory_gb))) * self.read_cpu_s
        return step_cpu_s * best if math.isfinite(best) and best < 1e6 / step_cpu_s else None

    def on_device(self, ratio: float) -> Stages:
        """The same job on a device that is `ratio` times as fast."""
        return self if self.device_rate is None else replace(self, device_rate=self.device_rate * ratio)

    def to_table(self) -> dict[str, float | int]:
        """Plain values for a file; what is not known is left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_table(cls, table: Any, place: str) -> Stages:
        """The opposite of `to_table`; raises ConfigError with the place of what is wrong."""
        if not isinstance(table, Mapping):
            raise ConfigError(f"{place}: pipeline = {table!r} is not a table; `rota profile` writes it")
        known = [field.name for field in fields(cls)]
        for name, value in table.items():
            if name not in known:
                raise UnknownName(f"key in {place}, pipeline:", name, known)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0 <= value <= _MOST:
                raise ConfigError(
                    f"{place}, pipeline: {name} = {value!r} cannot be used; give a number from 0 to {_MOST:g}"
                )
        if table.get("reserve_part", 0) >= 1:
            raise ConfigError(f"{place}, pipeline: reserve_part = {table['reserve_part']!r}; give a number below 1")
        for name in ("device_rate", "cpu_s", "data_gb", "storage_mbps"):
            if table.get(name, 1) < _LEAST:
                raise ConfigError(f"{place}, pipeline: {name} = {table[name]!r} says nothing; leave it out")
        workers = table.get("workers", 0)
        if workers != int(workers):
            raise ConfigError(f"{place}, pipeline: workers = {workers!r} is not a whole number")
        return cls(**{**table, "workers": int(workers)})


def _inverse(seconds: FloatArray | float) -> FloatArray:
    """1 / seconds; infinite for none."""
    seconds = np.asarray(seconds, dtype=np.float64)
    endless = np.full(seconds.shape, _NEVER)
    served: FloatArray = np.divide(1.0, seconds, out=endless, where=seconds > 0)
    return served
