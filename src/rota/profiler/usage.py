"""What a job and its neighbours use, read from the kernel while it runs."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from rota.deploy.clocks import machine_s
from rota.deploy.worker.limits import Enclosure
from rota.deploy.worker.procs import Process
from rota.profiler.blocks import Usage
from rota.profiler.core_speed import CoreSpeed
from rota.profiler.slices import shorten

_TICKS = os.sysconf("SC_CLK_TCK")
_BUSY = (0, 1, 2, 5, 6)
"""Of a line `cpuN` in /proc/stat: user, nice, system, irq, softirq."""
_STEAL = 7
_ONE_MOMENT_S = 0.01
"""What was read within this time belongs together."""
_READ_AGAIN = 5
"""How often counters are read again until they do."""


@dataclass(frozen=True, slots=True)
class _Counters:
    """Seconds since some moment, all read at once."""

    at: float
    own_s: float
    busy_s: float
    stolen_s: float


class UsageReader:
    """Reads the counters of one job.

    Threads that end take their run delay with them, so what is added up is what they had at the last
    look.
    """

    def __init__(self, enclosure: Enclosure, cpus: tuple[int, ...]) -> None:
        self._enclosure = enclosure
        self._cpus = cpus
        self._core_speed = CoreSpeed(cpus)
        self._delay_of: dict[tuple[int, int], int] = {}
        self._waiting_ns: dict[int, int] = {}
        self.resident_bytes = 0
        """The most memory that was seen in use beside page cache and shared memory."""

    @property
    def complete(self) -> bool:
        """Whether the job can be told from its neighbours: only in a group of its own."""
        return "cpu" in self._enclosure.groups or "cpuacct" in self._enclosure.groups

    def take_in(self) -> None:
        """Give the first threads short slices before they start others."""
        self._add_waiting(self._enclosure.members())

    def read(self) -> Usage:
        """All counters now."""
        members = self._enclosure.members()
        self._add_waiting(members)
        self._core_speed.read()
        self.resident_bytes = max(self.resident_bytes, self._anonymous())
        counters = self._at_one_moment()
        return Usage(
            at=counters.at,
            own_s=counters.own_s,
            busy_s=counters.busy_s,
            stolen_s=counters.stolen_s,
            waiting_s={process: ns / 1e9 for process, ns in self._waiting_ns.items()},
            throttled_s=self._throttled_s(),
            probes=self._core_speed.probes,
            probe_s=self._core_speed.probe_s,
        )

    def _at_one_moment(self) -> _Counters:
        """CPU time of the job and of its CPUs, read again if this process was held up in between."""
        for _ in range(_READ_AGAIN):
            at = machine_s()
            counted = self._enclosure.counted_cpu_seconds()
            own_s = self._enclosure.usage().cpu_seconds if counted is None else counted
            busy_s, stolen_s = _machine(self._cpus)
            if machine_s() - at < _ONE_MOMENT_S:
                break
        return _Counters(at=at, own_s=own_s, busy_s=busy_s, stolen_s=stolen_s)

    def close(self) -> None:
        """End what measures the speed of the CPUs."""
        self._core_speed.close()

    def _add_waiting(self, members: list[Process]) -> None:
        for process in members:
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{process.pid}/task"):  # noqa: PTH208 - many, often
                    self._add_thread(process, thread)

    def _add_thread(self, process: Process, thread: str) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{process.pid}/task/{thread}/schedstat").read_text(encoding="ascii")
            delay = int(text.split()[1])
            key = (process.start, int(thread))
            if key not in self._delay_of:
                shorten(int(thread))
            more = max(0, delay - self._delay_of.get(key, 0))
            self._waiting_ns[process.pid] = self._waiting_ns.get(process.pid, 0) + more
            self._delay_of[key] = delay

    def _throttled_s(self) -> float:
        group = self._enclosure.groups.get("cpu")
        if group is None:
            return 0.0
        figures = _figures(group / "cpu.stat")
        return figures.get("throttled_time", 0) / 1e9 + figures.get("throttled_usec", 0) / 1e6

    def _anonymous(self) -> int:
        group = self._enclosure.groups.get("memory")
        if group is None:
            return self._enclosure.usage().rss_bytes
        figures = _figures(group / "memory.stat")
        return figures.get("anon", figures.get("total_rss", figures.get("rss", 0)))


def _machine(cpus: tuple[int, ...]) -> tuple[float, float]:
    """Seconds in which these CPUs were busy, and in which they were taken away."""
    wanted = {f"cpu{number}" for number in cpus}
    busy = 0
    stolen = 0
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        name, *fields = line.split()
        if name in wanted:
            busy += sum(int(fields[at]) for at in _BUSY)
            stolen += int(fields[_STEAL])
    return busy / _TICKS, stolen / _TICKS


def _figures(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
