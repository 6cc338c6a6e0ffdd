"""What large requests cost a simulation: the same jobs with and without them.

    python benchmarks/requests.py --jobs 400

A fifth of generated jobs asks for more CPUs or memory than its proportional share, on three types of servers of known
size. Prints CPU seconds of las and max-min-fairness under proportional and tune, without and with requests, and their
ratio. With `--keep FOLDER` the lines of jobs stay there, to compare two versions to the digit.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROTA = str(Path(sys.executable).with_name("rota"))
CLUSTER = "v100=64/8:cpus=48:memory=500,p100=64/8:cpus=32:memory=320,k80=64/8:cpus=32:memory=240"
PART = 0.2
"""Of the jobs that ask for more than their share."""


def write_jobs(folder: Path, jobs: int, seed: int) -> tuple[Path, Path]:
    """Traces of the same jobs, without and with requests."""
    plain = folder / f"plain-{seed}.csv"
    command = [ROTA, "trace", "generate", "gavel-continuous", str(plain), "--jobs", str(jobs), "--seed", str(seed)]
    subprocess.run([*command, "--set", "interarrival_s=400"], check=True, capture_output=True)
    with plain.open() as file:
        rows = list(csv.DictReader(file))
    draw = random.Random(seed)
    for row in rows:
        row["cpus"] = ""
        row["memory_gb"] = ""
        if draw.random() < PART:
            ask_for_more(row, draw)
    asking = folder / f"asking-{seed}.csv"
    with asking.open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return plain, asking


def ask_for_more(row: dict[str, str], draw: random.Random) -> None:
    """A request beyond the proportional share on at least one type."""
    gpus = int(row["gpus"])
    if draw.random() < 0.5:
        row["cpus"] = str(draw.choice([8, 10, 12]) * gpus)
    else:
        row["memory_gb"] = str(draw.choice([80, 100, 150]) * gpus)


def seconds(trace: Path, policy: str, mechanism: str) -> float:
    """CPU seconds of a simulation; its jobs go to a file beside the trace."""
    lines = trace.with_name(f"{trace.stem}-{policy}-{mechanism}.jobs.csv")
    command = [ROTA, "simulate", "--trace", str(trace), "--profiles", "gavel", "--cluster", CLUSTER, "--json"]
    command += ["--policy", policy, "--mechanism", mechanism, "--jobs-csv", str(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return float(json.loads(done.stdout)["cpu_s"])


def main() -> None:
    """Every policy and mechanism, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for traces and lines of jobs (default: none is kept)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        plain, asking = write_jobs(folder, options.jobs, options.seed)
        print(f"{'':36} {'without s':>10} {'with s':>8} {'ratio':>7}")
        for policy in ("las", "max-min-fairness"):
            for mechanism in ("proportional", "tune"):
                without = seconds(plain, policy, mechanism)
                with_requests = seconds(asking, policy, mechanism)
                ratio = with_requests / without
                print(f"{policy + ', ' + mechanism:36} {without:10.2f} {with_requests:8.2f} {ratio:6.1f}x")


if __name__ == "__main__":
    main()
