"""How often `rota eta` names the round in which a job starts, on emulated clusters where nobody else comes.

    python benchmarks/eta_on_emulated_clusters.py [--time-scale 5] [--jobs 340] [policy ...]

A cluster of its own for every policy (all at the same time), all jobs submitted at once, one question for all that wait
after a round; then the real starts from the journal. A line of JSON per policy.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rota.assembly import make_throughputs
from rota.deploy.control import Client

POLICIES = ("las", "srtf", "max-min-fairness", "finish-time-fairness")
PROFILES = ("ResNet-18 (batch size 32)", "ResNet-50 (batch size 64)", "Transformer (batch size 64)")
ROUND_S = 120.0


def jobs(seed: int, count: int, longest_rounds: float) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    catalogue = make_throughputs("gavel")
    specs = []
    for _ in range(count):
        profile = draw.choice(PROFILES)
        gpus = draw.choice([1, 1, 1, 2])
        seconds = draw.uniform(0.2, longest_rounds) * ROUND_S
        steps = max(1, int(catalogue.rate(profile, gpus, "v100") * seconds))
        specs.append({"emulated": True, "profile": profile, "gpus": gpus, "steps": steps})
    return specs


def measured(policy: str, settings: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rota.cli", "up", "--json", "--server", settings.server, "--emulate"]
        command += ["--time-scale", str(settings.time_scale), "--round", str(ROUND_S), "--policy", policy]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        up = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert up.stdout is not None
            address = json.loads(up.stdout.readline())["address"]
            place = Path(folder) / ".rota"
            with Client(address, certs=place / "certs", token_file=place / "token") as client:
                return {"policy": policy, **asked(client, settings)}
        finally:
            up.terminate()
            up.wait(30)


def asked(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    specs = jobs(settings.seed, settings.jobs, settings.longest)
    short = [{**spec, "steps": max(1, spec["steps"] // 20)} for spec in specs[:8]]
    client.wait(client.submit(short), 600)  # so that delays of this machine are known
    numbers = client.submit(specs)
    time.sleep(ROUND_S / settings.time_scale)
    answer = client.eta(futures=0)
    said = {job["job"]: job["start_in_s"] + answer["now_s"] for job in answer["jobs"] if job["start_in_s"] is not None}
    infos = {info.job: info for info in client.wait(numbers, 7200, every_s=2.0)}
    scale = client.status().time_scale
    begun = next(iter(infos.values()))
    zero = begun.submitted_at - begun.submitted_s / scale
    real = {number: (info.started_at - zero) * scale for number, info in infos.items()}
    waited = [number for number in numbers if real[number] > answer["now_s"]]
    errors = [said[number] - real[number] for number in waited if number in said]
    same = [number for number in waited if number in said and said[number] // ROUND_S == real[number] // ROUND_S]
    return {
        "waiting": len(waited),
        "same_round": len(same) / max(1, len(waited)),
        "median_error_s": statistics.median(map(abs, errors)) if errors else None,
        "largest_error_s": max(map(abs, errors), default=None),
        "question_cpu_s": answer["cpu_s"],
        "rounds": (max(info.ended_s for info in infos.values()) - answer["now_s"]) / ROUND_S,
        "wall_s_per_round": ROUND_S / settings.time_scale,
        "scored_by_itself": client.eta_accuracy(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="*", default=list(POLICIES))
    parser.add_argument("--time-scale", type=float, default=5.0)
    parser.add_argument("--jobs", type=int, default=340)
    parser.add_argument("--longest", type=float, default=2.4, help="rounds that the longest job takes")
    parser.add_argument("--server", default="v100=48/4")
    parser.add_argument("--seed", type=int, default=0)
    settings = parser.parse_args()
    with ThreadPoolExecutor(len(settings.policies)) as all_at_once:
        runs = [all_at_once.submit(measured, policy, settings) for policy in settings.policies]
        for run in runs:
            print(json.dumps(run.result()), flush=True)


if __name__ == "__main__":
    main()
