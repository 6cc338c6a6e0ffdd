"""Make the tables of `rota.emulate` from the figures published with GPEmu.

    python scripts/gpemu_tables.py FOLDER            # writes src/rota/emulate/data/*.csv.gz
    python scripts/gpemu_tables.py FOLDER --dense CHECKOUT --out tests/unit/emulate/data   # held-out sample for tests

FOLDER holds gpemu_profiles.csv.gz, gpemu_fits.csv.gz and gpemu_memory.csv.gz: the tables under `profiled_data` of
github.com/mengwanguc/gpemu (commit 27e9534) as long rows, each marked measured or fit. CHECKOUT is a git directory of
that repository; from it a few batch sizes that the built-in table does not hold are drawn, to test interpolation.
The licence is MIT by the package metadata of the source; it has no licence file at its root.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from rota.core import files

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "github.com/mengwanguc/gpemu, commit 27e9534, profiled_data"
LICENCE = "MIT by its package metadata (no licence file at its root)"
GRID = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256)
GPUS = {
    "NVIDIA_A100-SXM4-40GB": "a100",
    "Quadro_RTX_6000": "rtx6000",
    "Tesla_K80": "k80",
    "Tesla_M40": "m40",
    "Tesla_P100-PCIE-16GB": "p100",
    "Tesla_V100-PCIE-32GB": "v100",
}
PHASES = {"forward": "forward", "backward": "backward", "h2d_batch": "transfer", "h2d_model": "load"}
BAD_FROM = {
    ("resnext101_32x8d", "p100", "forward"): 49,
    ("vgg11", "k80", "backward"): 150,
    ("vgg16", "k80", "backward"): 90,
}
"""Series that jump near the limit of the card's memory: rows from this batch on are left out, the line is refitted."""

PARAMETERS = {
    "alexnet": 61_100_840,
    "densenet121": 7_978_856,
    "densenet161": 28_681_000,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "googlenet": 13_004_888,
    "mnasnet0_5": 2_218_512,
    "mnasnet0_75": 3_170_208,
    "mnasnet1_0": 4_383_312,
    "mnasnet1_3": 6_282_256,
    "mobilenet_v2": 3_504_872,
    "mobilenet_v3_large": 5_483_032,
    "mobilenet_v3_small": 2_542_856,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnext101_32x8d": 88_791_336,
    "resnext50_32x4d": 25_028_904,
    "shufflenet_v2_x0_5": 1_366_792,
    "shufflenet_v2_x1_0": 2_278_604,
    "shufflenet_v2_x1_5": 3_503_624,
    "shufflenet_v2_x2_0": 7_393_996,
    "squeezenet1_0": 1_248_424,
    "squeezenet1_1": 1_235_496,
    "vgg11": 132_863_336,
    "vgg11_bn": 132_868_840,
    "vgg13": 133_047_848,
    "vgg13_bn": 133_053_736,
    "vgg16": 138_357_544,
    "vgg16_bn": 138_365_992,
    "vgg19": 143_667_240,
    "vgg19_bn": 143_678_248,
    "wide_resnet101_2": 126_886_696,
    "wide_resnet50_2": 68_883_240,
}
"""Trainable parameters with 1000 classes, from the documentation of torchvision (BSD-3-Clause)."""


def read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, notes: Sequence[str], header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    for note in notes:
        text.write(f"# {note}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(text.getvalue().encode(), compresslevel=9, mtime=0)
    files.write_bytes(path, packed)
    print(f"{path}: {path.stat().st_size} bytes")


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Intercept and slope by least squares."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


def times(folder: Path) -> list[list[object]]:
    """One row per model, GPU and phase: measured seconds by batch (empty where not measured) and the fitted line."""
    measured: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for row in read(folder / "gpemu_profiles.csv.gz"):
        if row["kind"] == "measured" and row["gpu"] in GPUS:
            key = row["model"], GPUS[row["gpu"]], PHASES[row["phase"]]
            if int(row["batch_size"]) < BAD_FROM.get(key, 1000):
                measured[key][int(row["batch_size"])] = float(row["mean_s"])
    fits = {
        (row["model"], GPUS[row["gpu"]], PHASES[row["phase"]]): (
            float(row["intercept_s"]),
            float(row["slope_s_per_sample"]),
            int(row["max_measured_batch"]),
        )
        for row in read(folder / "gpemu_fits.csv.gz")
    }
    rows: list[list[object]] = []
    for key, points in sorted(measured.items()):
        if key[2] == "load":
            rows.append([*key, 0, f"{points[0]:.6g}", 0, *("" for _ in GRID)])
            continue
        intercept, slope, largest = fits[key]
        if key in BAD_FROM:
            intercept, slope = line(sorted(points.items()))
            largest = max(points)
        cells = (f"{points[b]:.6g}" if b in points else "" for b in GRID)
        rows.append([*key, largest, f"{intercept:.6g}", f"{slope:.6g}", *cells])
    return rows


def memory(folder: Path) -> list[list[object]]:
    """One table per model, measured on V100: memory hardly depends on the card."""
    return [
        [row["model"], row["batch_size"], row["peak_mib"], row["persistent_mib"]]
        for row in read(folder / "gpemu_memory.csv.gz")
        if GPUS[row["gpu"]] == "v100" and row["kind"] == "measured"
    ]


def held_out(checkout: Path, rows: Sequence[Sequence[object]]) -> list[list[object]]:
    """Every tenth of all measured batch sizes off the grid, counted through all series."""
    folders = {"forward": "compute/forward", "backward": "compute/backward", "transfer": "transfer"}
    long = {short: name for name, short in GPUS.items()}
    every: list[list[object]] = []
    for model, gpu, phase, *rest in rows:
        if phase == "load":
            continue
        last = max(b for b, cell in zip(GRID, rest[3:], strict=True) if cell)
        off = [b for b in range(1, last) if b not in GRID]
        name = "data_transfer_time_by_batch_size.csv" if phase == "transfer" else "time_by_batch_size.csv"
        path = f"profiled_data/time/{folders[str(phase)]}/{long[str(gpu)]}/{model}/{name}"
        text = subprocess.run(
            ["git", "-C", str(checkout), "show", f"HEAD:{path}"], check=True, capture_output=True, text=True
        ).stdout
        dense = {int(float(b)): float(s) for b, s in list(csv.reader(text.splitlines()))[1:]}
        every += [[model, gpu, phase, b, f"{dense[b]:.6g}"] for b in off]
    return every[::10]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "rota" / "emulate" / "data")
    parser.add_argument("--dense", type=Path, help="git directory of the source; write the held-out sample only")
    asked = parser.parse_args()
    notes = [f"source: {SOURCE}", f"licence: {LICENCE}"]
    rows = times(asked.folder)
    if asked.dense:
        header = ["model", "gpu", "phase", "batch", "seconds"]
        write(asked.out / "held_out.csv.gz", notes, header, held_out(asked.dense, rows))
        return
    header = ["model", "gpu", "phase", "largest", "intercept", "slope", *map(str, GRID)]
    about = ["seconds per step by batch size; empty cells were not measured; intercept + slope * batch is a fit"]
    write(asked.out / "times.csv.gz", about + notes, header, rows)
    about = ["MiB by batch size, measured on V100; rows that the source had filled in are left out"]
    write(asked.out / "memory.csv.gz", about + notes, ["model", "batch", "peak", "persistent"], memory(asked.folder))
    about = ["trainable parameters by model, 1000 classes", "source: documentation of torchvision (BSD-3-Clause)"]
    write(asked.out / "models.csv.gz", about, ["model", "parameters"], sorted(PARAMETERS.items()))


if __name__ == "__main__":
    main()
