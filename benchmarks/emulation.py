"""How true the emulated devices are: the checks of docs/emulation.md in their long form.

    python benchmarks/emulation.py                    # all of them; 25 minutes, nearly all of it waiting
    python benchmarks/emulation.py --quick            # shorter runs of the same; two minutes
    python benchmarks/emulation.py --checks A1 A3     # some of them
    python benchmarks/emulation.py --ordinary         # without real-time priority

Each line says what was reached and what is asked. A machine that others use at the same time makes waits end late and
takes CPU away from the data side. Against the former the thread that waits gets real-time priority where that is
allowed; the load of the machine is printed with the figures, and how long each check took.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from rota.emulate.catalogue import DeviceTimes, ExtrapolatedWarning, StepTime, rows
from rota.emulate.dataset import Dataset, generate
from rota.emulate.device import Device, DevicePool
from rota.emulate.device_memory import OutOfDeviceMemory
from rota.emulate.loader import Loader, LoaderSettings
from rota.emulate.pacing import Pacer
from rota.emulate.priority import realtime
from rota.emulate.sampling import Sampler

TIMES = DeviceTimes()
A1_STEPS = int(os.environ.get("A1_STEPS", "200"))
HELD_OUT = Path(__file__).resolve().parents[1] / "tests" / "unit" / "emulate" / "data" / "held_out.csv.gz"


class Verdict(NamedTuple):
    """Whether a check is met, and by how much."""

    met: bool
    text: str


async def paced(device: Device, step: StepTime, steps: int, errors: list[float] | None = None) -> float:
    """Mean seconds of a step of one job on a device; `errors` gets the error of each."""
    seat = device.attach("job")
    begun = last = time.monotonic()
    for _ in range(steps):
        await seat.run(step)
        now = time.monotonic()
        if errors is not None:
            errors.append(abs(now - last - step.seconds))
        last = now
    device.release("job")
    return (last - begun) / steps


def p95(ordered: Sequence[float]) -> float:
    """The smallest value that 95 % of them do not exceed."""
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


Key = tuple[str, str, int]
"""Model, GPU, batch."""


async def all_paced(keys: Sequence[Key], steps: int) -> dict[Key, tuple[float, float]]:
    """For each: how far the mean step is off, and p95 of single steps as a part of what is allowed."""
    found: dict[Key, tuple[float, float]] = {}
    # Long steps slowest first and many at a time, short ones few at a time: some thousand steps per second in all.
    many, few = asyncio.Semaphore(600), asyncio.Semaphore(24)

    async def one(key: Key) -> None:
        step = TIMES.step(*key)
        errors: list[float] = []
        async with many if step.seconds > 0.1 else few:
            mean = await paced(Device("d", key[1], 1e6), step, steps, errors)
        errors.sort()
        found[key] = (abs(mean / step.seconds - 1.0), p95(errors) / max(0.03 * step.seconds, 0.002))

    await asyncio.gather(*(one(key) for key in sorted(keys, key=lambda key: -TIMES.step(*key).seconds)))
    return found


def a1(quick: bool) -> Verdict:
    """Every measured (model, GPU, batch) with a step of 5 ms or more, many devices at a time.

    A machine that stands still for a moment, such as a virtual one whose host is busy, spoils what runs just then; that
    is run again, at most twice, and every try is reported.
    """
    left = [
        (model, gpu, batch)
        for model in TIMES.models
        for gpu in TIMES.gpus
        for batch in TIMES.batches(model, gpu)
        if batch <= TIMES.largest(model, gpu) and TIMES.step(model, gpu, batch).seconds >= 0.005
    ]
    left = left[::60] if quick else left
    count, steps, texts = len(left), 20 if quick else A1_STEPS, []
    for _ in range(3):
        found = asyncio.run(all_paced(left, steps))
        worst = max(mean for mean, _ in found.values())
        means, singles = (sum(pair[i] > bound for pair in found.values()) for i, bound in ((0, 0.01), (1, 1.0)))
        texts.append(f"of {len(left)}: mean off by {worst:.2%} at worst, by over 1 % {means}, p95 outside {singles}")
        left = [key for key, (mean, single) in found.items() if mean > 0.01 or single > 1.0]
        if not left:
            break
    said = f"{count - len(left)} of {count} x {steps} steps within 1 % and p95 within bound; tries: {'; '.join(texts)}"
    return Verdict(not left, said)


def a2(quick: bool) -> Verdict:
    """Steps of 1 to 5 ms, in a process of their own."""
    errors = []
    for step_s in (0.001, 0.002, 0.005):
        pacer = Pacer()
        steps = 300 if quick else 1000
        begun = time.monotonic()
        for _ in range(steps):
            pacer.step(StepTime(step_s))
        errors.append((time.monotonic() - begun) / (steps * step_s) - 1.0)
    text = ", ".join(f"{e:+.2%}" for e in errors)
    return Verdict(max(map(abs, errors)) <= 0.02, f"1, 2, 5 ms: {text} (2 %)")


def a3(quick: bool) -> Verdict:
    """Drift over ten minutes of 20 ms."""
    steps = 1000 if quick else 30_000
    pacer = Pacer()
    begun = time.monotonic()
    for _ in range(steps):
        pacer.step(StepTime(0.02))
    error = (time.monotonic() - begun) / (steps * 0.02) - 1.0
    report = pacer.report()
    late = f"mean {1e3 * report.mean_s:.2f}, p95 {1e3 * report.p95_s:.2f}, max {1e3 * report.max_s:.1f} ms late"
    return Verdict(abs(error) < 0.001, f"{steps} steps: {error:+.4%} (0.1 %); {late}; lost {report.lost_s:.2f} s")


def a4(quick: bool) -> Verdict:  # noqa: ARG001
    """Interpolation against batches that the table does not hold."""
    by_phase: dict[str, list[float]] = {}
    for row in rows(str(HELD_OUT)):
        found = TIMES.seconds(row["model"], row["gpu"], int(row["batch"]), row["phase"])  # type: ignore[arg-type]
        by_phase.setdefault(row["phase"], []).append(abs(found.value / float(row["seconds"]) - 1.0))
    texts, met = [], True
    for phase, errors in by_phase.items():
        errors.sort()
        median, p95 = statistics.median(errors), errors[int(0.95 * len(errors))]
        met &= median <= 0.01 and p95 <= 0.085
        texts.append(f"{phase} {median:.2%} / {p95:.2%} of {len(errors)}")
    return Verdict(met, f"median / p95: {', '.join(texts)} (1 % / 8.5 %)")


def a6(quick: bool) -> Verdict:
    """Overlap: x = 0.1, c = 0.2, 50 steps."""
    k = 10.0 if quick else 1.0
    seconds = []
    for overlap in (True, False):
        pacer = Pacer(overlap=overlap)
        begun = time.monotonic()
        for _ in range(50):
            pacer.step(StepTime(0.2 / k, 0.1 / k))
        seconds.append((time.monotonic() - begun) * k)
    met = abs(seconds[0] / 10.1 - 1.0) <= 0.01 and abs(seconds[1] / 15.0 - 1.0) <= 0.01
    return Verdict(met, f"overlapped {seconds[0]:.3f} s (10.1), synchronous {seconds[1]:.3f} s (15.0), within 1 %")


def a7(quick: bool) -> Verdict:
    """Sharing: k jobs of 0.5753 s and 0.0067 s of copying."""
    step = StepTime(0.05753, 0.00067) if quick else StepTime(0.5753, 0.0067)
    steps, worst = (20 if quick else 40), 0.0

    async def shared(sharing: str, jobs: int) -> list[float]:
        device = Device("d", "p100", 1e6, sharing=sharing)

        async def one(name: str) -> float:
            seat = device.attach(name)
            await seat.run(step)
            begun = time.monotonic()
            for _ in range(steps):
                await seat.run(step)
            return (time.monotonic() - begun) / steps

        return await asyncio.gather(*(one(f"j{i}") for i in range(jobs)))

    for sharing in ("fifo", "round-robin", "weighted"):
        for jobs in (1, 2, 3):
            expected = step.seconds if jobs == 1 else jobs * step.compute_s
            worst = max(worst, *(abs(s / expected - 1.0) for s in asyncio.run(shared(sharing, jobs))))
    return Verdict(worst <= 0.01, f"k = 1, 2, 3, three ways to share: worst step {worst:.2%} off (1 %)")


def a8(quick: bool) -> Verdict:  # noqa: ARG001
    """Memory of a P100 and resnet50."""

    async def second_refused() -> bool:
        device = DevicePool.of(["p100"], sharing="fifo")["gpu0"]
        need = TIMES.memory("resnet50", 128)
        seats = [device.attach(name, persistent_mib=need.persistent_mib, peak_mib=need.peak_mib) for name in ("a", "b")]
        ended = await asyncio.gather(*(seat.run(StepTime(0.01)) for seat in seats), return_exceptions=True)
        return ended[0] is True and isinstance(ended[1], OutOfDeviceMemory)

    usable = DevicePool.of(["p100"])["gpu0"].memory.capacity_mib
    small, large = TIMES.memory("resnet50", 128).peak_mib, TIMES.memory("resnet50", 256).peak_mib
    met = small <= usable < large and asyncio.run(second_refused())
    return Verdict(
        met, f"usable {usable:.0f}: batch 128 ({small:.0f}) runs, 256 ({large:.0f}) fails, second job fails alone"
    )


def a9(quick: bool) -> Verdict:  # noqa: ARG001
    """The largest batch that fits, where the measurements stopped below 256."""
    pairs = [(m, g) for m in TIMES.models for g in TIMES.gpus if TIMES.fitted_on_card(m, g) < 256]
    off = {p: TIMES.largest_that_fits(*p) / TIMES.fitted_on_card(*p) - 1.0 for p in pairs}
    bad = {p: f"{e:+.0%}" for p, e in off.items() if abs(e) > 0.1}
    return Verdict(
        len(bad) <= 0.1 * len(pairs), f"{len(pairs) - len(bad)} of {len(pairs)} within 10 % (90 %); not: {bad}"
    )


def throughput(dataset: Dataset, settings: LoaderSettings, step: StepTime, batches: int) -> tuple[float, float]:
    """Samples per second of loader and device together, and CPU seconds per second that the loader got."""
    pacer = Pacer()
    batch = 16
    with Loader(dataset, Sampler(dataset.samples, batch), settings) as loader:
        for _ in range(2 * settings.workers * settings.prefetch):
            first = loader.next()
            pacer.step(step, first.ready if first else None)
        begun, cpu = time.monotonic(), loader.cpu_s
        for _ in range(batches):
            found = loader.next()
            pacer.step(step, found.ready if found else None)
        seconds = time.monotonic() - begun
        return batch * batches / seconds, (loader.cpu_s - cpu) / seconds


def a10(quick: bool) -> Verdict:
    """Stalls from CPUs: 2 ms of CPU per sample, a device for 800 samples/s, 1 to n cores."""
    texts, met = [], True
    allowed = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        dataset = generate(Path(folder) / "data", 512, 16384)
        for cores in range(1, len(allowed) + 1):
            os.sched_setaffinity(0, allowed[:cores])
            found = [
                throughput(dataset, LoaderSettings(workers=cores, cpu_s=0.002), StepTime(0.02), 60 if quick else 300)
                for _ in range(3)
            ]
            rate, got = max(found)
            expected, possible = min(got / 0.002, 800.0), min(cores / 0.002, 800.0)
            met &= abs(rate / expected - 1.0) <= 0.05
            texts.append(f"{cores} cores: {rate:.0f}/s (got {got:.2f} cores: {expected:.0f}; with all: {possible:.0f})")
        os.sched_setaffinity(0, allowed)
    return Verdict(met, "; ".join(texts) + "; within 5 %")


def a11(quick: bool) -> Verdict:
    """Stalls from reading: a cap on bytes per second, and a cache of a part of the data."""
    texts, met = [], True
    with tempfile.TemporaryDirectory() as folder:
        dataset = generate(Path(folder) / "data", 512, 16384)
        for bandwidth in (2e6, 8e6, 32e6):
            settings = LoaderSettings(workers=2, bandwidth=bandwidth)
            rate, _ = throughput(dataset, settings, StepTime(0.02), 60 if quick else 200)
            expected = min(bandwidth / dataset.sample_bytes, 800.0)
            met &= abs(rate / expected - 1.0) <= 0.05
            texts.append(f"{bandwidth / 1e6:g} MB/s: {rate:.0f}/s ({expected:.0f})")
        for part in (0.25, 0.6):
            with Loader(
                dataset, Sampler(512, 16), LoaderSettings(workers=2, cache_bytes=part * dataset.size)
            ) as loader:
                for step in range(64):
                    if step == 32:
                        first = loader.disk_bytes
                    loader.next()
                saved = 1.0 - (loader.disk_bytes - first) / dataset.size
            met &= abs(saved - part) <= 0.02
            texts.append(f"cache {part:g}: {saved:.3f} of reads saved")
    return Verdict(met, "; ".join(texts))


def a14(quick: bool) -> Verdict:
    """A job off its device in the middle of a step of 2 s."""

    async def one() -> float:
        device = DevicePool.of(["v100"])["gpu0"]
        seat = device.attach("a")
        step = asyncio.ensure_future(seat.run(StepTime(2.0)))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        seat.interrupt()
        done = await step
        device.release("a")
        return 99.0 if done or device.holders else time.monotonic() - begun

    seconds = [asyncio.run(one()) for _ in range(5 if quick else 50)]
    return Verdict(max(seconds) <= 0.1, f"worst of {len(seconds)}: {1e3 * max(seconds):.1f} ms (100 ms)")


def a15(quick: bool) -> Verdict:
    """256 devices in one process: with steps of resnet50 on V100, and with steps of 20 ms to see what it costs."""

    async def everything(step: StepTime, steps: int) -> list[float]:
        fleet = DevicePool.of(["v100"] * 256)
        return await asyncio.gather(*(paced(d, step, steps) for d in fleet.devices.values()))

    texts, errors = [], []
    for step in (TIMES.step("resnet50", "v100", 64), StepTime(0.02)):
        cpu, begun = time.process_time(), time.monotonic()
        means = asyncio.run(everything(step, int((4.0 if quick else 20.0) / step.seconds)))
        part = (time.process_time() - cpu) / (time.monotonic() - begun)
        errors.append(max(abs(mean / step.seconds - 1.0) for mean in means))
        texts.append(f"steps of {1e3 * step.seconds:.0f} ms: worst of 256 {errors[-1]:.2%} off, {part:.3f} of a core")
    return Verdict(errors[0] <= 0.02, "; ".join(texts) + " (2 % for the first)")


def a18(quick: bool) -> Verdict:
    """The same job on six types."""
    gpus = TIMES.gpus
    steps = {gpu: TIMES.step("resnet50", gpu, 64) for gpu in gpus}

    async def everything() -> list[float]:
        runs = (paced(Device(g, g, 1e6), steps[g], 3 if quick else 50) for g in gpus)
        return await asyncio.gather(*runs)

    found = dict(zip(gpus, asyncio.run(everything()), strict=True))
    worst = max(abs(found["v100"] / found[g] / (steps["v100"].seconds / steps[g].seconds) - 1.0) for g in gpus)
    means = {
        g: statistics.geometric_mean(
            TIMES.step(m, "v100", 64).compute_s / TIMES.step(m, g, 64).compute_s for m in TIMES.models
        )
        for g in gpus
    }
    speeds = ", ".join(f"{g} {means[g]:.2f}" for g in gpus)
    return Verdict(worst <= 0.01, f"ratios {worst:.2%} off (1 %); mean speed by V100's: {speeds}")


def a19(quick: bool) -> Verdict:
    """Time compression by 20."""
    steps, seconds = (20 if quick else 200), []
    for k in (1.0, 20.0):
        pacer = Pacer(compression=k)
        begun = time.monotonic()
        for _ in range(steps):
            pacer.step(StepTime(0.1))
        seconds.append((time.monotonic() - begun) * k)
    error = seconds[1] / seconds[0] - 1.0
    return Verdict(abs(error) <= 0.03, f"{seconds[0]:.2f} s and 20 x {seconds[1] / 20:.3f} s: {error:+.2%} (3 %)")


CHECKS: dict[str, Callable[[bool], Verdict]] = {
    name.__name__.upper(): name for name in (a1, a2, a3, a4, a6, a7, a8, a9, a10, a11, a14, a15, a18, a19)
}


BESIDE = ("A3",)
"""Ten minutes of waiting that take nothing from the others: in a process of their own, from the beginning."""


class Run(NamedTuple):
    """A check that was made."""

    verdict: Verdict
    realtime: bool
    seconds: float
    load: float


def run(name: str, *, quick: bool, ordinary: bool) -> Run:
    """Make a check in this process."""
    warnings.simplefilter("ignore", ExtrapolatedWarning)
    first = not ordinary and realtime()
    begun = time.monotonic()
    verdict = CHECKS[name](quick)
    return Run(verdict, first, time.monotonic() - begun, os.getloadavg()[0])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--ordinary", action="store_true", help="do without real-time priority")
    parser.add_argument("--checks", nargs="*", choices=sorted(CHECKS), default=list(CHECKS))
    asked = parser.parse_args(arguments)
    how = {"quick": asked.quick, "ordinary": asked.ordinary}
    met = True
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        beside = {name: pool.submit(run, name, **how) for name in asked.checks if name in BESIDE}
        for name in asked.checks:
            done = beside[name].result() if name in beside else run(name, **how)
            met &= done.verdict.met
            said = (
                f"load {done.load:.1f}, {done.seconds:.0f} s, {'real-time' if done.realtime else 'ordinary'} priority"
            )
            print(f"{name:4} {'met   ' if done.verdict.met else 'NOT MET'} {done.verdict.text}  [{said}]", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
