"""Write the catalogues sia, arena, zeus, lambda and mlperf from the figures that others published.

    python scripts/gpu_catalogues.py sia arena zeus --tables FOLDER
    python scripts/gpu_catalogues.py lambda --checkout DEEPLEARNING_BENCHMARK
    python scripts/gpu_catalogues.py mlperf --checkout TRAINING_RESULTS   (with v2.1, v4.0 and v4.1 in it)

FOLDER holds sia_steps.csv.gz, arena_iterations.csv.gz and zeus_power.csv.gz: the figures of those artifacts as plain
tables. What each row means, and what was left out: src/rota/profiles/data/README.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

DATA = Path(__file__).parents[1] / "src" / "rota" / "profiles" / "data"
COLUMNS = ("profile", "gpus", "type", "spread", "rate", "origin", "watts")

Row = dict[str, object]


def read(folder: Path, name: str) -> list[dict[str, str]]:
    with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, about: Mapping[str, str], rows: Iterable[Row]) -> None:
    kept = list(rows)
    columns = [column for column in COLUMNS if any(column in row for row in kept)]
    with (DATA / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"# {key}: {value}\n" for key, value in {"name": name, **about}.items())
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)


def row(profile: str, gpus: int, gpu_type: str, rate: float, *, spread: bool = False, **more: object) -> Row:
    return {"profile": profile, "gpus": gpus, "type": gpu_type, "spread": int(spread), "rate": f"{rate:.8g}", **more}


# Sia: a batch per GPU, so that a step grows with the GPUs

SIA_BATCHES = {
    "bert": (4, 8, 11, 23),
    "cifar10": (64, 257, 725, 1450),
    "deepspeech2": (10, 28, 57, 115),
    "imagenet": (40, 81, 163, 327),
    "ncf": (1025, 8207, 32768),
    "yolov3": (4, 6, 8, 16),
}
"""Per GPU: small, middle and large of those that were measured on all types, and one for large cards only."""
SIA_CLUSTERS = {"aws": "t4", "azure": "v100", "dgx": "a100", "quad": "rtx6000", "rtx": "rtx2080ti", "dgx-ext": "a100"}
"""In the order in which they are believed: what is extended comes last."""
GPUS = (1, 2, 4, 8, 16)


def sia(tables: Path) -> None:
    steps: dict[tuple[str, int, int, str, str], float] = {}
    for r in read(tables, "sia_steps"):
        if r["placement"] and float(r["local_batch"]).is_integer():
            key = (r["model"], int(float(r["local_batch"])), int(r["gpus"]), r["cluster"], r["placement"])
            steps[key] = float(r["step_s"])
    rows: dict[tuple[str, int, str, bool], Row] = {}
    for model, batches in SIA_BATCHES.items():
        for batch in batches:
            for gpus in GPUS:
                for cluster, gpu_type in SIA_CLUSTERS.items():
                    found = {
                        p: s for (m, b, g, c, p), s in steps.items() if (m, b, g, c) == (model, batch, gpus, cluster)
                    }
                    origin = "extended" if cluster == "dgx-ext" else ""
                    for spread, placement in _compact_and_even(found):
                        profile = f"{model} (batch size {batch} per GPU)"
                        made = row(profile, gpus, gpu_type, 1 / found[placement], spread=spread, origin=origin)
                        rows.setdefault((profile, gpus, gpu_type, spread), made)
    about = {
        "title": "Sia: six models on T4, V100, A100, RTX 6000 and RTX 2080 Ti, steps/s; a batch per GPU",
        "source": "Sia artifact (Jayaram Subramanya et al., SOSP 2023), built on Pollux (OSDI 2021), its step times",
        "licence": "Apache-2.0 (AdaptDL); the Sia repository itself names none",
        "reference": "a100",
    }
    write("sia", about, rows.values())


def _compact_and_even(found: Mapping[str, float]) -> list[tuple[bool, str]]:
    """The most compact placement, and the most even one on the fewest servers beyond one."""
    if not found:
        return []
    chosen = [(False, min(found, key=lambda p: (len(p), _unevenness(p))))]
    several = [p for p in found if len(p) > 1]
    return chosen + ([(True, min(several, key=lambda p: (len(p), _unevenness(p))))] if several else [])


def _unevenness(placement: str) -> int:
    return max(map(int, placement)) - min(map(int, placement))


# Arena: one batch for the whole job, at the best parallel plan


def arena(tables: Path) -> None:
    by_kind: dict[tuple[str, int, str], dict[int, str]] = {}
    for r in read(tables, "arena_iterations"):
        profile = f"{r['model'].replace('_', '-')}-{r['parameters']} (batch size {r['global_batch']})"
        gpus = int(r["nodes"]) * int(r["gpus_per_node"])
        by_kind.setdefault((profile, gpus, r["gpu_type"]), {})[int(r["nodes"])] = r["iteration_s"]
    rows = []
    for (profile, gpus, gpu_type), seconds in by_kind.items():
        compact = seconds[min(seconds)]
        rows.append(row(profile, gpus, gpu_type, 1 / float(compact) if compact else 0.0))
        several = [nodes for nodes, text in seconds.items() if nodes > 1 and text]
        if several and compact:
            rows.append(row(profile, gpus, gpu_type, 1 / float(seconds[min(several)]), spread=True))
    about = {
        "title": "Arena: BERT, MoE and wide ResNet of 0.5 to 27 B parameters on A100, A40, A10 and V100, iterations/s",
        "source": "Arena artifact (EuroSys 2026), seconds per iteration at the best parallel plan",
        "licence": "Apache-2.0",
        "reference": "a100",
    }
    write("arena", about, sorted(rows, key=lambda r: (r["profile"], r["gpus"], r["type"], r["spread"])))


# Zeus: one GPU, with its power


def zeus(tables: Path) -> None:
    table = read(tables, "zeus_power")
    most = {r["gpu_type"]: 0 for r in table}
    for r in table:
        most[r["gpu_type"]] = max(most[r["gpu_type"]], int(r["power_limit_w"]))
    rows = [
        row(
            f"{r['model']} {r['dataset']} {r['optimizer']} (batch size {r['batch']})",
            1,
            r["gpu_type"],
            1000 / float(r["seconds_per_epoch"]),
            watts=r["average_power_w"],
        )
        for r in table
        if int(r["power_limit_w"]) == most[r["gpu_type"]]
    ]
    about = {
        "title": "Zeus: five models on one V100, P100, A40 or RTX 6000, thousandths of an epoch/s, with watts",
        "source": "Zeus artifact (You et al., NSDI 2023), seconds per epoch and watts at the highest power limit",
        "licence": "Apache-2.0",
        "reference": "v100",
    }
    write("zeus", about, sorted(rows, key=lambda r: (r["profile"], r["type"])))


# Lambda: the benchmark of a cloud, 1 to 8 GPUs of a server

LAMBDA_STEPS = {
    "ssd": (100, "images"),
    "bert_base_squad": (100, "sequences"),
    "bert_large_squad": (100, "sequences"),
    "gnmt": (100000, "tokens"),
    "resnet50": (1000, "images"),
    "tacotron2": (100000, "mels"),
    "waveglow": (100000, "samples"),
}
"""What is taken as a step: an amount of data, because batches differ between GPUs."""
LAMBDA_TYPES = {
    r"(?:LambdaCloud )?\d?x? ?V100 16GB": "v100",
    r"(?:LambdaCloud )?1x A10": "a10",
    r"(?:\dx )?A100 80GB SXM4": "a100",
    r"(?:\dx )?RTX A6000": "a6000",
    r"(?:\dx )?RTX 6000 Ada": "rtx6000ada",
    r"(?:\dx )?RTX 3090": "rtx3090",
    r"(?:\dx )?RTX 4090": "rtx4090",
    r"LambdaCloud \dx H100 80GB SXM5": "h100",
    r"LambdaCloud 1x GH200 96GB": "gh200",
    r"LambdaCloud \dx B200 192GB SXM5": "b200",
    r"LambdaBM_ENG04_\dxH200_140GB_SXM_h200_v2": "h200",
}
L40S_OF_ADA = 864 / 960
"""Memory bandwidth (GB/s) of an L40S over that of an RTX 6000 Ada, which has the same chip."""


def lambda_cloud(checkout: Path) -> None:
    samples: dict[tuple[str, int, str], float] = {}
    for name in ("csv_v1_v2/pytorch-train-throughput-fp16.csv", "pytorch-train-throughput-v2-fp16.csv"):
        with (checkout / "pytorch" / name).open(encoding="utf-8", newline="") as file:
            for r in csv.DictReader(file):
                label = r.get("name_gpu") or r[""]
                gpu_type = next((t for pattern, t in LAMBDA_TYPES.items() if re.fullmatch(pattern, label)), None)
                count = re.search(r"(\d)x", label)
                for model in LAMBDA_STEPS if gpu_type else ():
                    samples.setdefault((model, int(count[1]) if count else 1, str(gpu_type)), float(r[model]))
    rows = []
    for (model, gpus, gpu_type), rate in samples.items():
        amount, unit = LAMBDA_STEPS[model]
        rows.append(row(f"{model} ({amount} {unit})", gpus, gpu_type, rate / amount))
        if gpu_type == "rtx6000ada":
            derived = rate / amount * L40S_OF_ADA
            rows.append(row(f"{model} ({amount} {unit})", gpus, "l40s", derived, origin="derived"))
    for model, (amount, unit) in LAMBDA_STEPS.items():
        one, eight = (samples[model, gpus, "h200"] / amount for gpus in (1, 8))
        for gpus in (2, 4):
            between = one * gpus ** (math.log(eight / one) / math.log(8))
            rows.append(row(f"{model} ({amount} {unit})", gpus, "h200", between, origin="derived"))
    about = {
        "title": "Lambda: seven models on V100 to B200, L40S derived, steps/s of an amount of data",
        "source": "Lambda's PyTorch benchmark, fp16, github.com/lambdal/deeplearning-benchmark, commit aa5addb",
        "licence": "none named; figures only",
        "reference": "a100",
    }
    write("lambda", about, sorted(rows, key=lambda r: (r["profile"], r["gpus"], r["type"])))


# MLPerf Training: times to a quality

MLPERF = (
    ("v2.1", "NVIDIA/results/dgxa100_ngc22.0[49]_(?:mxnet|pytorch)/(?:bert|resnet|ssd|unet3d)", "a100", 8, False),
    ("v4.0", "Dell/results/XE8640x4H100-SXM-80GB/.*", "h100", 4, False),
    ("v4.1", "Dell/results/XE8640x4H100-SXM-80GB/(?:llama2_70b_lora|stable_diffusion)", "h100", 4, False),
    ("v4.0", "NVIDIA/results/eos_ngc[^/]*/.*", "h100", 8, False),
    ("v4.0", "NVIDIA/results/h200_ngc[^/]*/.*", "h200", 8, False),
    ("v4.1", "NVIDIA/results/b200_preview_[^/]*/.*", "b200", 8, False),
    ("v4.0", "Dell/results/R760xax4L40S/.*", "l40s", 4, False),
    ("v4.0", "Lenovo/results/SR675V3-8xL40S_PCIe_48GB_350W/.*", "l40s", 8, False),
    ("v4.0", "NVIDIA/results/l40s_n2_ngc[^/]*/.*", "l40s", 8, True),
    ("v4.0", "Fujitsu/results/PRIMERGY-CDI-L40Sx16/.*", "l40s", 16, False),
    ("v4.0", "NVIDIA/results/l40s_n16_ngc[^/]*/.*", "l40s", 64, True),
)
"""Round, folders of a submission, type, GPUs, whether they are on several servers."""


def mlperf(checkouts: Path) -> None:
    rows: dict[tuple[str, int, str, bool], Row] = {}
    for version, pattern, gpu_type, gpus, spread in MLPERF:
        root = checkouts / version
        folders = {p.parent for p in root.glob("*/results/*/*/result_*.txt")}
        for folder in sorted(f for f in folders if re.fullmatch(pattern, f.relative_to(root).as_posix())):
            profile = f"{folder.name} (MLPerf)"
            rate = 1000 / official_seconds(folder)
            for on_several in (False, True) if spread else (False,):
                rows.setdefault(
                    (profile, gpus, gpu_type, on_several), row(profile, gpus, gpu_type, rate, spread=on_several)
                )
    about = {
        "title": "MLPerf Training: eight benchmarks on A100, H100, H200, B200 and L40S, thousandths of a training/s",
        "source": "MLPerf Training v2.1 (A100), v4.0 and v4.1 results, github.com/mlcommons, closed division",
        "licence": "Apache-2.0",
        "reference": "h100",
    }
    write("mlperf", about, sorted(rows.values(), key=lambda r: (r["profile"], r["gpus"], r["type"], r["spread"])))


def official_seconds(folder: Path) -> float:
    """The result by the rules: the mean without a tenth at either end, times the factor for lucky convergence."""
    times = sorted(_seconds(path) for path in folder.glob("result_*.txt"))
    left_out = max(1, round(len(times) / 10))
    middle = times[left_out:-left_out]
    scaling = folder / "scaling.json"
    factor = json.loads(scaling.read_text())["scaling_factor"] if scaling.exists() else 1.0
    return sum(middle) / len(middle) * factor


def _seconds(path: Path) -> float:
    """From start to stop; infinite for a run that did not reach the quality."""
    at = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        found = re.search(r":::MLLOG (\{.*\})", line)
        if found is None:
            continue
        entry = json.loads(found[1])
        if entry["key"] in {"run_start", "run_stop"}:
            at[entry["key"]] = entry
    reached = at["run_stop"]["metadata"]["status"] == "success"
    return (at["run_stop"]["time_ms"] - at["run_start"]["time_ms"]) / 1000 if reached else math.inf


MADE_FROM_TABLES = {"sia": sia, "arena": arena, "zeus": zeus}
MADE_FROM_CHECKOUTS = {"lambda": lambda_cloud, "mlperf": mlperf}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=[*MADE_FROM_TABLES, *MADE_FROM_CHECKOUTS])
    parser.add_argument("--tables", type=Path, help="folder with the tables of sia, arena and zeus")
    parser.add_argument("--checkout", type=Path, help="folder with the files of lambda or mlperf")
    asked = parser.parse_args()
    for name in asked.names:
        if name in MADE_FROM_TABLES:
            MADE_FROM_TABLES[name](asked.tables)
        else:
            MADE_FROM_CHECKOUTS[name](asked.checkout)


if __name__ == "__main__":
    main()
