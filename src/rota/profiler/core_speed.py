"""How fast the CPUs of a job are: a fixed piece of work, again and again, and the CPU time that it takes.

A neighbour on the other thread of the same core, or a lower clock, makes a job slower without taking
any CPU time from it: nothing that the kernel counts shows it, least of all in a virtual machine, whose
neighbours are in others. The same work then needs more CPU time. A process of its own does it on the
CPUs of the job, some tenths of a millisecond ten times a second, and ends when nobody reads any more.

Only the standard library: this file is run as a program.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

LOOPS = 4_000
"""Turns of the fixed work: about a quarter of a millisecond."""
REPEATED = 2
"""The faster of so many counts: an interrupt within one is not the CPU's speed."""
EVERY_S = 0.1
_LINE_BYTES = 24


class CoreSpeed:
    """Reads what the probing process says. The sums grow from the start on, like the kernel's counters."""

    def __init__(self, cpus: tuple[int, ...]) -> None:
        argv = [sys.executable, "-I", "-S", str(Path(__file__)), ",".join(map(str, cpus))]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        self._stream = self._process.stdout.fileno()
        os.set_blocking(self._stream, False)
        self._rest = b""
        self.probes = 0
        """How often the work was done."""
        self.probe_s = 0.0
        """CPU seconds of it, all together."""

    def read(self) -> None:
        """Add what was said since the last time."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._stream, 100 * _LINE_BYTES):
                *lines, self._rest = (self._rest + data).split(b"\n")
                self.probes += len(lines)
                self.probe_s += sum(int(line) for line in lines) / 1e9

    def close(self) -> None:
        """End the probing process."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def work_ns() -> int:
    """CPU nanoseconds of the fixed work."""
    start = time.thread_time_ns()
    total = 0
    for number in range(LOOPS):
        total += number * number
    return time.thread_time_ns() - start


def main(cpus: list[int]) -> None:
    """Probe these CPUs in turn until nobody reads any more."""
    with contextlib.suppress(OSError):
        os.nice(-20)
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        while True:
            for cpu in cpus:
                os.sched_setaffinity(0, {cpu})
                taken_ns = min(work_ns() for _ in range(REPEATED))
                os.write(1, b"%d\n" % taken_ns)
            time.sleep(EVERY_S)


if __name__ == "__main__":
    main([int(part) for part in sys.argv[1].split(",")])
