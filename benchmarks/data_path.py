"""What the data path promises, measured: `python benchmarks/data_path.py` (all), or with the names of checks.

Prints a table per check and ends with status 1 if a bound is not met. Times depend on what else the machine does;
bytes, hits and CPU seconds hardly do.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
import zlib
from pathlib import Path
from random import Random

import rota.client
from rota.data import CachedDataset, Coordinated, Files, PreparedBatches, Sampler

FORK = multiprocessing.get_context("fork")
FAILED: list[str] = []


def expect(holds: bool, what: str) -> None:
    print(f"  {'ok  ' if holds else 'FAIL'} {what}")
    if not holds:
        FAILED.append(what)


def files_in(folder: Path, count: int = 400, size: int = 50_000) -> list[Path]:
    dice = Random(1)
    paths = []
    for number in range(count):
        path = folder / f"{number:04d}.bin"
        path.write_bytes(dice.randbytes(size + dice.randrange(size)))
        paths.append(path)
    os.sync()  # pages that are not on disk cannot be dropped
    return paths


def read_from_disk() -> int:
    """Bytes that this process made the storage read."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def one_epoch(data: CachedDataset, epoch: int) -> None:
    sampler = Sampler(data, seed=1)
    sampler.set_epoch(epoch)
    for index in sampler:
        data[index]


def cache(folder: Path) -> None:
    """Bytes from disk fall by the cached share from the second epoch on."""
    paths = files_in(folder)
    total = sum(path.stat().st_size for path in paths)
    print(f"  {len(paths)} files, {total / 1e6:.0f} MB; cold reads, bytes by /proc/self/io")
    for part in (0.25, 0.6, 0.9):
        data = CachedDataset(Files(paths, cold=True), cache_bytes=int(part * total), environ={})
        from_disk = []
        for epoch in range(3):
            before = read_from_disk()
            one_epoch(data, epoch)
            from_disk.append(read_from_disk() - before)
        if not from_disk[0]:
            print("  the file system does not count reads here; the counters of the data set are used")
            from_disk = [total, *[total - data.cached_bytes] * 2]
        fallen = 1 - from_disk[2] / from_disk[0]
        expect(abs(fallen - part) <= 0.01, f"cache of {part:.0%}: reads fell by {fallen:.2%} in epoch 3")


def stalls(_: Path) -> None:
    """Timing a loop costs less than 1 % of steps of 2 ms."""
    runs = [(_step_cpu_s("off"), _step_cpu_s("on")) for _ in range(9)]  # in turns: the machine changes meanwhile
    off_s, on_s = (statistics.median(column) for column in zip(*runs, strict=True))
    cost_s = on_s - off_s
    report_s = _report_cpu_s()
    part = (cost_s + 0.002 * REPORTS_PER_S * report_s) / 0.002
    print(f"  CPU time of an empty step: {off_s * 1e6:.3f} us untimed, {on_s * 1e6:.3f} us timed; median of 9")
    print(f"  CPU time of a report: {report_s * 1e6:.0f} us, {REPORTS_PER_S:g} per second")
    expect(cost_s > 0, "the cost is above 0, so something was measured")
    expect(part < 0.01, f"timing and reports cost {part:.3%} of a step of 2 ms")


REPORTS_PER_S = 2.0


def _step_cpu_s(word: str, steps: int = 50_000) -> float:
    os.environ["ROTA_STALLS"] = word
    loop = rota.client.Iterator(range(steps))
    if (loop.stall_times is not None) != (word == "on"):
        sys.exit(f"ROTA_STALLS={word} has no effect")
    began = time.thread_time()
    for _ in loop:
        pass
    return (time.thread_time() - began) / steps


def _report_cpu_s(times: int = 500) -> float:
    """What the thread that reports spends on asking a data set that 20 workers have used."""
    data = CachedDataset([b"x"] * 10, sizes=1, environ={})
    workers = [FORK.Process(target=data.__getitem__, args=(number % 10,)) for number in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    os.environ["ROTA_STALLS"] = "on"
    loop = rota.client.Iterator(range(1))
    began = time.thread_time()
    for _ in range(times):
        _ = loop.stall_times
    return (time.thread_time() - began) / times


BATCHES = 60
ITEMS = 8


class _Images:
    """Compressed items that take some milliseconds of a CPU to decode."""

    def __init__(self) -> None:
        dice = Random(2)
        raw = bytes(dice.choices(b"abcdefgh", k=200_000))
        self.packed = zlib.compress(raw, 6)

    def __len__(self) -> int:
        return BATCHES * ITEMS

    def __getitem__(self, index: int) -> bytes:
        image = self.packed
        for _ in range(2):
            image = zlib.compress(zlib.decompress(self.packed), 1)
        return image[:1000] + bytes([index % 256])


def _search(group: str, folder: str, results: multiprocessing.Queue[tuple[float, float]], gate: object) -> None:
    """One job of a search: an epoch, 5 ms of a device per batch."""
    prepare = PreparedBatches(_Images(), ITEMS, seed=3)
    items = Coordinated(prepare, group=group, item_bytes=100_000, environ={"ROTA_DATA_SHARED": folder})
    gate.wait()  # type: ignore[attr-defined]
    began = time.perf_counter()
    for _ in items:
        time.sleep(0.005)
    used = resource.getrusage(resource.RUSAGE_SELF)
    results.put((time.perf_counter() - began, used.ru_utime + used.ru_stime))


def coordinated(folder: Path) -> None:
    """A search over hyper-parameters: jobs that prepare together against jobs that do not."""
    cores = os.cpu_count() or 1
    print(f"  {BATCHES} batches of {ITEMS} items per job, {cores} cores; the device is waited for 5 ms per batch")
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"  others use this machine (load {load:.1f} on {cores} cores): wall times below say little")
    for jobs in (1, 2, 4):
        taken = {}
        for together in (False, True):
            results: multiprocessing.Queue[tuple[float, float]] = FORK.Queue()
            gate = FORK.Barrier(jobs)
            groups = [f"{jobs} together" if together else f"{jobs} alone {number}" for number in range(jobs)]
            processes = [FORK.Process(target=_search, args=(group, str(folder), results, gate)) for group in groups]
            for process in processes:
                process.start()
            found = [results.get() for _ in processes]
            for process in processes:
                process.join()
            taken[together] = (max(wall for wall, _ in found), sum(cpu for _, cpu in found))
        wall, cpu = (taken[False][which] / taken[True][which] for which in (0, 1))
        print(
            f"  {jobs} jobs: alone {taken[False][0]:6.2f} s and {taken[False][1]:6.2f} CPU s, together "
            f"{taken[True][0]:6.2f} s and {taken[True][1]:6.2f} CPU s: {wall:.2f} times as fast, CPU / {cpu:.2f}"
        )
        expect(cpu > 0.75 * jobs, f"{jobs} jobs need less than {1 / (0.75 * jobs):.0%} of the CPU seconds")


CHECKS = {"cache": cache, "stalls": stalls, "coordinated": coordinated}


def main() -> None:
    for name in sys.argv[1:] or CHECKS:
        check = CHECKS[name]
        print(f"{name}: {check.__doc__}")
        folder = Path(tempfile.mkdtemp(prefix="rota-data-path-"))
        try:
            check(folder)
        finally:
            shutil.rmtree(folder)
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
