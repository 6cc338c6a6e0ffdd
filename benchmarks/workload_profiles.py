"""`make workload-profiles`: what docs/training-workloads.md says about profiles of training workloads, measured here.

grid   the profile of a workload (at most 10 runs) against its whole grid of 6 x 5 cells, each measured; the largest
       cell again every five cells, because a machine whose owner has other guests is not as fast in every minute:
       speeds are compared relative to it, and as they are
gain   a heavy and a light workload as real processes on `rota up`, `tune` against `proportional`: the gain that the
       simulator computes from their profiles against the gain that is measured

Both need an idle machine. FOLDER keeps every run, so an interrupted check goes on where it was.
"""

import argparse
import asyncio
import csv
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rota import profiles
from rota.profiler.cell import CONTAMINATED, Cell, JobToProfile, RunRecord
from rota.profiler.run import RunRules
from rota.profiler.session import prepare, runner_of
from rota.profiles.models import Model

ROTA = (sys.executable, "-m", "rota.cli")
OPTIONS = {"imagenet": ("--workers", "2")}
MEMORY_GB = 1.2
MEDIAN = 0.05
WORST = 0.12
COVERED = 0.90
AGREEMENT = 0.10
LEAST_GAIN = 1.05
TRIES = 2
REFERENCE_EVERY = 5
HEAVY = ("rota", "workloads", "train", "imagenet", "--workers", "2")
LIGHT = ("rota", "workloads", "train", "language_model", "--device-ms", "100")


def axis(cpus: float) -> str:
    """Six numbers of CPUs, from a quarter on."""
    eighths = (1, 2, 3, 4, 6, 8) if cpus >= 2 else (2, 3, 4, 5, 6, 8)
    return ",".join(f"{cpus * part / 8:g}" for part in eighths)


def profiled(name: str, command: tuple[str, ...], folder: Path, cpus: float, run_s: float) -> tuple[Model, float]:
    """The profile of a command, made unless it is there, and the seconds of all its runs."""
    output = folder / f"{name}.toml"
    if not output.exists():
        rota = [
            *ROTA,
            "profile",
            "--job-name",
            name,
            "--device",
            "cpu",
            "-o",
            str(output),
            "--run-seconds",
            f"{run_s:g}",
        ]
        amounts = ["--cpu", f"{cpus:g}", "--cpu-axis", axis(cpus), "--memory", f"{MEMORY_GB:g}"]
        subprocess.run([*rota, *amounts, "--", *command], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    lines = (folder / f"{name}.runs.jsonl").read_text(encoding="utf-8").splitlines()
    seconds = sum(json.loads(line).get("seconds", 0.0) for line in lines)
    return next(iter(profiles.load(output).models.values())), seconds


def measured_grid(name: str, cells: list[Cell], folder: Path, cpus: float, run_s: float) -> list[RunRecord]:
    """Every cell of the grid, in any order, each tried twice at most; between them the largest one again and again."""
    journal = folder / f"{name}.grid.jsonl"
    command = ("rota", "workloads", "train", name, *OPTIONS.get(name, ()))
    env = {key: value for key, value in os.environ.items() if not key.startswith("ROTA_")}
    job = JobToProfile(name=name, argv=command, cpus=cpus, memory_gb=MEMORY_GB, device="cpu", cwd=str(folder), env=env)
    records: list[RunRecord] = []
    if journal.exists():
        lines = journal.read_text(encoding="utf-8").splitlines()
        records = [RunRecord.from_json(json.loads(line), str(journal)) for line in lines]

    async def work() -> None:
        async with runner_of(job, prepare(job, ()), folder / f".{name}.grid", RunRules(measure_s=run_s)) as runner:
            for cell in order_of_cells(name, cells)[len(records) :]:
                for attempt in range(TRIES):
                    record = await runner.run(cell, lambda *_: None)
                    print(f"  {cell}: {record.outcome} {record.rate:.4g} +-{100 * record.half_width:.1f} %", flush=True)
                    if record.outcome != CONTAMINATED or attempt == TRIES - 1:
                        break
                records.append(record)
                with journal.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record.to_json()) + "\n")

    asyncio.run(work())
    return records


def reference(cells: list[Cell]) -> Cell:
    """The largest cell."""
    return max(cells, key=lambda cell: (cell.cpus, cell.memory_gb or 0.0))


def order_of_cells(name: str, cells: list[Cell]) -> list[Cell]:
    """All cells in a random order that is always the same; the largest one first, last, and every five cells."""
    largest = reference(cells)
    others = random.Random(name).sample([cell for cell in cells if cell != largest], len(cells) - 1)
    starts = range(0, len(others), REFERENCE_EVERY)
    return [cell for at in starts for cell in (largest, *others[at : at + REFERENCE_EVERY])] + [largest]


def speed_of_machine(records: list[RunRecord], largest: Cell) -> list[float]:
    """Steps/s of the largest cell at the time of each run, by the runs of it before and after."""
    at = [number for number, record in enumerate(records) if record.cell == largest and record.usable]
    rates = [records[number].rate for number in at]
    return [float(rate) for rate in np.interp(range(len(records)), at, rates)]


@dataclass(frozen=True)
class Compared:
    """A cell of the grid: steps/s by the profile and as measured, and how fast the machine was then."""

    expected: float
    found: float
    of_machine: float
    allowed: float

    @property
    def off(self) -> float:
        """Error of the profile."""
        return self.expected / self.found - 1

    @property
    def relative_off(self) -> float:
        """Error of the profile if the machine had stayed as fast as when it was made."""
        return self.expected * self.of_machine / self.found - 1


def within(compared: list[Compared], offs: list[float], what: str, cells: int) -> bool:
    """Whether the errors keep the bounds; prints them."""
    sizes = [abs(off) for off in offs]
    part = sum(size <= one.allowed for size, one in zip(sizes, compared, strict=True)) / len(compared)
    print(
        f"  {what}: {len(compared)} of {cells} other cells, median error {100 * statistics.median(sizes):.1f} %, "
        f"worst {100 * max(sizes):.1f} %, stated errors cover {100 * part:.0f} %",
        flush=True,
    )
    return statistics.median(sizes) <= MEDIAN and max(sizes) <= WORST and part >= COVERED


def grid_check(args: argparse.Namespace) -> bool:
    """Median error, worst error and coverage of each workload, and the time of both ways."""
    good = True
    for name in args.workloads.split(","):
        command = ("rota", "workloads", "train", name, *OPTIONS.get(name, ()))
        model, profile_s = profiled(name, command, args.folder, args.cpu, args.run_seconds)
        table, notes = model.sensitivity, model.cells
        assert table is not None
        assert notes is not None
        wanted = [float(part) for part in axis(args.cpu).split(",")]
        places = {
            Cell(float(table.cpus[row]), float(table.memory_gb[column])): (row, column)
            for row in range(len(table.cpus))
            if any(math.isclose(float(table.cpus[row]), cpus) for cpus in wanted)
            for column in range(len(table.memory_gb))
        }
        cells = list(places)
        records = measured_grid(name, cells, args.folder, args.cpu, args.run_seconds)
        largest = reference(cells)
        profiled_rate = float(table.speed[places[largest]]) / model.step_s
        machine = speed_of_machine(records, largest)
        grid_s = sum(record.seconds for record in records[1:] if record.cell != largest)
        print(f"{name}: {profile_s:.0f} s against {grid_s:.0f} s, load {os.getloadavg()[0]:.1f}")
        print(
            f"  the largest cell had {min(machine):.1f} to {max(machine):.1f} steps/s meanwhile, "
            f"{profiled_rate:.1f} in the profile"
        )
        compared = [
            Compared(
                expected=float(table.speed[places[record.cell]]) / model.step_s,
                found=record.rate,
                of_machine=now / profiled_rate,
                allowed=float(notes.error[places[record.cell]]) + record.half_width,
            )
            for record, now in zip(records, machine, strict=True)
            if record.usable and record.cell != largest
        ]
        within(compared, [one.off for one in compared], "as they are", len(cells) - 1)
        relative = [one.relative_off for one in compared]
        good = within(compared, relative, "relative to the largest cell", len(cells) - 1) and good
    return good


@dataclass(frozen=True)
class Jobs:
    """The heavy and the light job, and how many steps they make."""

    profiles: str
    heavy_steps: int
    light_steps: int


def simulated_s(jobs: Jobs, cluster: str, mechanism: str, folder: Path) -> tuple[float, float]:
    """Seconds of the heavy and the light job by the simulator."""
    trace = folder / "two.csv"
    rows = [("arrival_s", "gpus", "profile", "steps")]
    rows += [(0, 1, "heavy", jobs.heavy_steps), (0, 1, "light", jobs.light_steps)]
    with trace.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    made = folder / f"simulated-{mechanism}.csv"
    options = ["--trace", str(trace), "--profiles", jobs.profiles, "--cluster", cluster, "--round", "10"]
    more = ["--policy", "fifo", "--mechanism", mechanism, "--jobs-csv", str(made)]
    subprocess.run([*ROTA, "simulate", *options, *more], check=True, stdout=subprocess.DEVNULL)
    with made.open(encoding="utf-8", newline="") as file:
        of_profile = {row["profile"]: float(row["finish_s"]) for row in csv.DictReader(file)}
    return of_profile["heavy"], of_profile["light"]


def measured_s(jobs: Jobs, server: str, mechanism: str, folder: Path) -> tuple[float, float]:
    """Seconds of the heavy and the light job on a cluster of real processes, from their first step to their last."""
    here = folder / f"{mechanism}-{time.time():.0f}"
    here.mkdir()
    for command in (HEAVY, LIGHT):  # their data are there before the cluster is
        subprocess.run([*command, "--steps", "1"], check=True, cwd=here, stdout=subprocess.DEVNULL)
    options = ["--profiles", jobs.profiles, "--policy", "fifo", "--mechanism", mechanism, "--round", "10", "--json"]
    up = [*ROTA, "up", "--server", server, "--emulate", *options]
    cluster = subprocess.Popen(up, cwd=here, stdout=subprocess.PIPE, text=True)
    try:
        assert cluster.stdout is not None
        cluster.stdout.readline()
        numbers = []
        for profile, steps, command in (("heavy", jobs.heavy_steps, HEAVY), ("light", jobs.light_steps, LIGHT)):
            submit = [*ROTA, "submit", "--profile", profile, "--steps", str(steps), "--", *command]
            done = subprocess.run(submit, check=True, capture_output=True, text=True, cwd=here)
            numbers.append(done.stdout.strip())
        return _seconds_of(numbers[0], here), _seconds_of(numbers[1], here)
    finally:
        cluster.terminate()
        cluster.wait(60)


def _seconds_of(job: str, folder: Path) -> float:
    end = time.monotonic() + 1800
    while time.monotonic() < end:
        done = subprocess.run([*ROTA, "logs", job], check=False, capture_output=True, text=True, cwd=folder)
        found = re.search(r": done; \d+ steps in ([\d.]+) s", done.stdout)
        if found:
            return float(found[1])
        time.sleep(2)
    raise SystemExit(f"job {job} did not end; its last output: {done.stdout[-500:]}")


def gain_check(args: argparse.Namespace) -> bool:
    """Gain of `tune` over `proportional` in mean completion time, simulated and measured; one has to be there."""
    parts = [profiled("heavy", HEAVY, args.folder, args.cpu, args.run_seconds)[0]]
    parts.append(profiled("light", LIGHT, args.folder, args.cpu, args.run_seconds)[0])
    share = args.cpu / 2
    rates = [float(part.sensitivity.at(share, MEMORY_GB)) / part.step_s for part in parts if part.sensitivity]
    files = ",".join(str(args.folder / f"{name}.toml") for name in ("heavy", "light"))
    jobs = Jobs(files, round(rates[0] * args.gain_seconds), round(rates[1] * args.gain_seconds))
    spec = f"cpu=2:cpus={args.cpu:g}:memory={2 * MEMORY_GB:g}"
    expected = {kind: simulated_s(jobs, spec, kind, args.folder) for kind in ("proportional", "tune")}
    found = {kind: measured_s(jobs, spec, kind, args.folder) for kind in ("proportional", "tune")}
    gains = [sum(times["proportional"]) / sum(times["tune"]) for times in (expected, found)]
    for what, times in (("simulated", expected), ("measured", found)):
        shown = "; ".join(f"{kind}: heavy {heavy:.1f} s, light {light:.1f} s" for kind, (heavy, light) in times.items())
        print(f"{what}: {shown}")
    off = gains[0] / gains[1] - 1
    print(
        f"gain of tune in mean completion time: {gains[0]:.3f} simulated, {gains[1]:.3f} measured, {100 * off:+.1f} %, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    if gains[0] < LEAST_GAIN:
        print(f"there is nothing to compare: a gain below {LEAST_GAIN} is no gain")
    return gains[0] >= LEAST_GAIN and abs(off) <= AGREEMENT


CHECKS = {"grid": grid_check, "gain": gain_check}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="keeps profiles, runs and data")
    parser.add_argument("--only", default=",".join(CHECKS))
    parser.add_argument("--workloads", default="imagenet,speech,cifar", help="of the grid")
    parser.add_argument("--cpu", type=float, default=float(os.cpu_count() or 1), help="CPUs of the largest runs")
    parser.add_argument("--run-seconds", type=float, default=25.0)
    parser.add_argument("--gain-seconds", type=float, default=90.0, help="length of the jobs of the gain")
    args = parser.parse_args()
    args.folder = args.folder.absolute()
    args.folder.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    verdicts = {name: CHECKS[name](args) for name in args.only.split(",")}
    for name, good in verdicts.items():
        print(f"{name}: {'good' if good else 'OUT OF BOUNDS'}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
