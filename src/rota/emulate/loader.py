"""The data side of an emulated job, which is real: processes that read, decode and prefetch.

Batch i is made by worker i mod n, each worker works up to `prefetch` batches ahead, and batches
come out in order. How fast they come is measured, not modelled: fewer CPUs (affinity or a quota),
less bandwidth or a smaller cache make real batches really late, and a step takes max(loader,
device) because the device waits for them.

The cache holds a fixed set, as MinIO's does: the first samples of the first epoch that fit, for
ever. A fraction f of the dataset in the cache saves exactly f of the reads of every later epoch,
whatever the order.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from rota.core.errors import ConfigError, RotaError
from rota.emulate.dataset import Dataset
from rota.emulate.sampling import Sampler, permutation

WORKER = Path(__file__).with_name("worker.py")
LOOK_S = 0.02
"""How often a wait for data looks whether it should stop."""


class LoaderFailed(RotaError):
    """A loader process ended before its work."""


@dataclass(frozen=True)
class LoaderSettings:
    """What the data side has and needs."""

    workers: int = 1
    cpu_s: float = 0.0
    """CPU seconds per sample."""
    prefetch: int = 2
    """Batches per worker ahead of the device."""
    cache_bytes: float = 0.0
    """The job's memory allotment for data; filled for real."""
    bandwidth: float | None = None
    """Bytes per second that all workers may read together."""
    direct: bool = True
    """Read past the page cache of the machine, where possible."""

    def __post_init__(self) -> None:
        if self.workers < 1 or self.prefetch < 1 or self.cpu_s < 0.0 or self.cache_bytes < 0.0:
            raise ConfigError(
                f"{self}: needs at least 1 worker and 1 batch ahead, no negative CPU time or cache"
            )
        if self.bandwidth is not None and not self.bandwidth > 0.0:
            raise ConfigError(
                f"a bandwidth of {self.bandwidth} bytes/s reads nothing; leave it out for no limit"
            )


@dataclass(frozen=True)
class Batch:
    """A batch that is there."""

    step: int
    samples: tuple[int, ...]
    ready: float
    """When its last sample was done, on the clock of `time.monotonic`."""
    disk_bytes: int
    hits: int
    cpu_s: float


class _Worker:
    def __init__(self, settings: dict[str, object], cache: int | None) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=() if cache is None else (cache,),
            bufsize=0,
        )
        self._stdin = cast("IO[bytes]", self.process.stdin)
        self._stdout = cast("IO[bytes]", self.process.stdout)
        self._rest = b""
        self.send(settings)

    def send(self, message: dict[str, object]) -> None:
        try:
            self._stdin.write(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise self._failed() from error

    def receive(self, stopping: Callable[[], bool]) -> dict[str, Any] | None:
        """The next answer; None if it is time to stop."""
        while b"\n" not in self._rest:
            readable, _, _ = select.select([self._stdout], [], [], LOOK_S)
            if stopping():
                return None
            if readable:
                more = os.read(self._stdout.fileno(), 1 << 16)
                if not more:
                    raise self._failed()
                self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self.process.kill()
        self.process.wait()

    def _failed(self) -> LoaderFailed:
        code = self.process.wait()
        return LoaderFailed(
            f"loader process {self.process.pid} ended with exit code {code}; the job cannot go on"
        )


class Loader:
    """Batches of a dataset from a step on, made by processes. Use it in a `with` block."""

    def __init__(
        self, dataset: Dataset, sampler: Sampler, settings: LoaderSettings, *, start: int = 0
    ) -> None:
        if sampler.samples > dataset.samples:
            raise ConfigError(
                f"{dataset.path}: {dataset.samples} samples, but {sampler.samples} are to be drawn"
            )
        self.dataset = dataset
        self.sampler = sampler
        self.settings = settings
        self.disk_bytes = self.hits = 0
        self.cpu_s = 0.0
        self._next = start
        self._asked = start
        self._workers: list[_Worker] = []
        self._slots = dataset.slots(settings.cache_bytes)
        self._slot_of: dict[int, int] = {}
        self._cache: int | None = None

    def __enter__(self) -> Loader:
        if self._slots:
            first = permutation(self.sampler.samples, self.sampler.seed, 0)[: self._slots]
            self._slot_of = {sample: slot for slot, sample in enumerate(first)}
            self._cache = _shared_memory(self._slots * (self.dataset.sample_bytes + 1))
        share = self.settings.bandwidth / self.settings.workers if self.settings.bandwidth else None
        settings: dict[str, object] = {
            "path": str(self.dataset.path),
            "sample_bytes": self.dataset.sample_bytes,
            "cpu_s": self.settings.cpu_s,
            "bandwidth": share,
            "direct": self.settings.direct,
            "slots": self._slots,
            "cache_fd": self._cache,
        }
        self._workers = [_Worker(settings, self._cache) for _ in range(self.settings.workers)]
        for _ in range(self.settings.workers * self.settings.prefetch):
            self._ask()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []
        if self._cache is not None:
            os.close(self._cache)
            self._cache = None

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [worker.process.pid for worker in self._workers]

    def next(self, stopping: Callable[[], bool] = lambda: False) -> Batch | None:
        """The next batch in order, waiting for it if it has to; None if it is time to stop."""
        answer = self._worker(self._next).receive(stopping)
        if answer is None:
            return None
        step = self._next
        if answer["batch"] != step:
            raise LoaderFailed(f"a loader process sent batch {answer['batch']} instead of {step}")
        self._next += 1
        self._ask()
        batch = Batch(
            step=step,
            samples=self.sampler.at(step),
            ready=float(answer["ready"]),
            disk_bytes=int(answer["disk_bytes"]),
            hits=int(answer["hits"]),
            cpu_s=float(answer["cpu_s"]),
        )
        self.disk_bytes += batch.disk_bytes
        self.hits += batch.hits
        self.cpu_s += batch.cpu_s
        return batch

    def _ask(self) -> None:
        samples = self.sampler.at(self._asked)
        slots = [self._slot_of.get(sample, -1) for sample in samples]
        self._worker(self._asked).send({"batch": self._asked, "samples": samples, "slots": slots})
        self._asked += 1

    def _worker(self, step: int) -> _Worker:
        return self._workers[step % len(self._workers)]


def _shared_memory(size: int) -> int:
    """Memory without a name, shared by inheritance: gone with the last process, however it ends."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("rota-cache")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, size)
    return handle
