"""What we claim about speed, as ratios: `make bench`.

Whole simulations against the published Gavel and Synergy simulators, the Philly log, single solves, start-up of the
command line and, with `--scale`, a million jobs. CPU seconds are scaled by a plain Python loop that was timed on both
machines, so that a slow or busy machine does not decide. Every run is a process of its own, started through the
command line.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROTA = str(Path(sys.executable).with_name("rota"))


def calibrate() -> float:
    """CPU seconds of the calibration loop on this machine, now."""
    start = time.process_time()
    total = 0
    for i in range(20_000_000):
        total += i * i
    return time.process_time() - start


def rota(*arguments: str) -> dict[str, Any]:
    """One command in a process of its own; its JSON answer."""
    done = subprocess.run([ROTA, *arguments, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"rota {' '.join(arguments)} failed:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def simulate(run: dict[str, Any]) -> dict[str, Any]:
    gpus, (first, last) = run["gpus"], run["measure"]
    return rota(
        "simulate", "--workload", "gavel-continuous", "--set", f"interarrival_s={run['interarrival_s']}",
        "--seed", str(run["seed"]), "--cluster", f"v100={gpus},p100={gpus},k80={gpus}", "--policy", run["policy"],
        "--rules", "gavel-artifact", "--measure", f"{first}:{last}",
    )  # fmt: skip


def compared(
    facts: dict[str, Any],
    what: str,
    ours: Callable[[dict[str, Any]], dict[str, Any]],
    repeats: int,
    asked: tuple[int, int],
) -> bool:
    """Every recorded run against ours; whether mean and least ratio are as asked.

    Machines change their speed from one second to the next: the calibration loop and our run take turns, and the best
    of each counts.
    """
    print(f"{what:38} {'artifact s':>10} {'ours s':>8} {'ratio':>7} {'MB':>6}")
    ratios = []
    for run in facts["runs"]:
        loop = math.inf
        best = math.inf
        for _ in range(repeats):
            loop = min(loop, calibrate())
            answer = ours(run)
            best = min(best, answer["cpu_s"])
        best /= loop / facts["calibration_cpu_s"]
        ratios.append(ratio := run["artifact_cpu_s"] / best)
        print(f"{run['name']:38} {run['artifact_cpu_s']:10.1f} {best:8.3f} {ratio:6.1f}x {answer['peak_rss_mb']:6.0f}")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    least = min(ratios)
    good = mean >= asked[0] and least >= asked[1]
    print(f"geometric mean {mean:.1f}x (asked {asked[0]}x), least {least:.1f}x (asked {asked[1]}x): {verdict(good)}\n")
    return good


def synergy_runs(facts: dict[str, Any], repeats: int) -> bool:
    good = compared(facts, "long run", synergy, repeats, (30, 12))
    return check_line(facts, repeats) and good


def check_line(facts: dict[str, Any], repeats: int) -> bool:
    """The published line of Synergy, which its simulator needs minutes for."""
    run = next(r for r in facts["runs"] if r["name"] == "single_9_FIFO+tune")
    best = math.inf
    for _ in range(repeats):
        speed = calibrate() / facts["check_calibration_cpu_s"]
        best = min(best, synergy(run)["cpu_s"] / speed)
    shipped = facts["check"]["as_shipped"]
    lean = facts["check"]["without_round_copy"]
    print(
        f"check line: {best:.2f} s (asked 2.4), {shipped / best:.0f}x as shipped, {lean / best:.0f}x without its copy: "
        f"{verdict(best <= 2.4)}\n"
    )
    return best <= 2.4


def synergy(run: dict[str, Any]) -> dict[str, Any]:
    options = [part for key, value in run["settings"].items() for part in ("--set", f"{key}={value}")]
    if "measure" in run:
        options += ["--measure", "{}:{}".format(*run["measure"])]
    if "until" in run:
        options += ["--until", str(run["until"])]
    return rota(
        "simulate", "--workload", "philly-derived", *options, "--cluster", run["cluster"], "--policy", run["policy"],
        "--mechanism", run["mechanism"], "--rules", "synergy-artifact",
    )  # fmt: skip


def philly(facts: dict[str, Any]) -> bool:
    """The whole Philly log on 512 GPUs."""
    speed = calibrate() / facts["check_calibration_cpu_s"]
    answer = rota(
        "simulate", "--workload", "philly-log", "--cluster", "philly-512", "--policy", "las", "--mechanism", "tune"
    )
    seconds = answer["cpu_s"] / speed
    jobs = answer["jobs_finished"]
    good = seconds < 60
    print(f"Philly log, {jobs:,} jobs on 512 GPUs, las + tune: {seconds:.1f} s (asked 60): {verdict(good)}\n")
    return good


def large(facts: dict[str, Any]) -> bool:
    """200,000 jobs on 4,096 GPUs of one type, CPUs and memory divided by need: not full, then full."""
    print(f"{'200,000 jobs on 4,096 GPUs':38} {'jobs/h':>7} {'rounds':>8} {'cpu s':>8} {'ms/round':>9} {'MB':>6}")
    good = True
    for policy, mechanism in (("srtf", "tune"), ("las", "tune"), ("las", "greedy")):
        for load in (240, 360):
            speed = calibrate() / facts["check_calibration_cpu_s"]
            answer = rota(
                "simulate", "--workload", "philly-derived", "--set", f"jobs_per_hour={load}", "--set", "jobs=200000",
                "--cluster", "v100=4096/8:cpus=24:memory=500", "--policy", policy, "--mechanism", mechanism,
            )  # fmt: skip
            seconds = answer["cpu_s"] / speed
            rounds = answer["rounds"]
            fine = seconds < 60
            good &= fine
            print(
                f"{policy + ' + ' + mechanism:38} {load:7} {rounds:8,} {seconds:8.1f} {1e3 * seconds / rounds:9.2f} "
                f"{answer['peak_rss_mb']:6.0f} {verdict(fine)}"
            )
    print()
    return good


def mixed(facts: dict[str, Any]) -> bool:
    """40,000 jobs on 4,000 GPUs of three types: no ranking takes longer than the linear program."""
    program = "max-min-fairness-perf"
    print(f"{'40,000 jobs on 4,000 mixed GPUs':38} {'rounds':>8} {'cpu s':>8}")
    seconds = {}
    for policy in (program, "fifo", "las", "srtf", "las-perf", "srtf-perf"):
        speed = calibrate() / facts["check_calibration_cpu_s"]
        answer = rota(
            "simulate", "--workload", "gavel-continuous", "--set", "interarrival_s=17", "--set", "jobs=40000",
            "--cluster", "v100=1333,p100=1333,k80=1334", "--policy", policy,
        )  # fmt: skip
        seconds[policy] = answer["cpu_s"] / speed
        fine = seconds[policy] <= seconds[program]
        print(f"{policy:38} {answer['rounds']:8,} {seconds[policy]:8.1f} {verdict(fine)}")
    print()
    return max(seconds.values()) == seconds[program]


def optimal(facts: dict[str, Any]) -> bool:
    """A round of the mechanism `optimal` from nothing."""
    good = True
    for extra in ((), ("--multi-gpu",)):
        speed = calibrate() / facts["check_calibration_cpu_s"]
        answer = rota("bench", "place", "--jobs", "512", *extra)
        seconds = answer["cpu_s"] / speed
        gap = answer["gap"]
        fine = seconds < 2 and gap < 0.005
        good &= fine
        print(
            f"optimal, {answer['running']} running jobs on 512 GPUs{' (gangs)' if extra else ''}: "
            f"{seconds:.3f} s (asked 2), {100 * gap:.2f} % below the linear bound (asked 0.5): {verdict(fine)}"
        )
    print()
    return good


def solves(facts: dict[str, Any]) -> bool:
    print(f"{'one solve':38} {'jobs':>8} {'ms':>9} {'asked ms':>9}")
    good = True
    for case in facts["solves"]:
        speed = calibrate() / facts["calibration_cpu_s"]
        sizes = () if case.get("single_gpu") else ("--multi-gpu",)
        answer = rota("bench", "solve", "--policy", case["policy"], "--jobs", str(case["jobs"]), *sizes)
        seconds = answer["cpu_s"] / speed
        fine = seconds < case["limit_s"]
        good &= fine
        limit = case["limit_s"] * 1e3
        print(f"{case['policy']:38} {case['jobs']:8,} {seconds * 1e3:9.2f} {limit:9.1f} {verdict(fine)}")
    print()
    return good


def start_up(facts: dict[str, Any]) -> bool:
    speed = calibrate() / facts["calibration_cpu_s"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([ROTA, "--help"], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / speed
    print(f"rota --help: {seconds:.3f} s of CPU (asked 0.3): {verdict(seconds < 0.3)}\n")
    return seconds < 0.3


def scale(facts: dict[str, Any], jobs: int) -> bool:
    """Cost per round against active jobs, then a million jobs on 10,000 GPUs."""
    print(f"{'scale':>10} {'GPUs':>7} {'rounds':>8} {'cpu s':>8} {'us/round':>9} {'jobs/s':>8} {'MB':>7}")
    sizes = [(jobs // 100, 100), (jobs // 10, 1000), (jobs, 10_000)]
    seconds = 0.0
    megabytes = 0.0
    for count, gpus in sizes:
        third = gpus // 3
        speed = calibrate() / facts["calibration_cpu_s"]
        answer = rota(
            "simulate", "--workload", "gavel-continuous", "--set", f"interarrival_s={115_000 / gpus}",
            "--set", f"jobs={count}", "--cluster", f"v100={gpus - 2 * third},p100={third},k80={third}",
            "--policy", "max-min-fairness-perf",
        )  # fmt: skip
        seconds = answer["cpu_s"] / speed
        megabytes = answer["peak_rss_mb"]
        rounds = max(1, answer["rounds"])
        per_round = 1e6 * seconds / rounds
        rate = count / seconds
        print(f"{count:10,} {gpus:7,} {rounds:8,} {seconds:8.1f} {per_round:9.0f} {rate:8.0f} {megabytes:7.0f}")
    good = seconds < 900 and megabytes < 4096
    print(f"{jobs:,} jobs: {seconds / 60:.1f} minutes (asked 15), {megabytes:.0f} MB (asked 4096): {verdict(good)}\n")
    return good


def verdict(good: bool) -> str:
    return "reached" if good else "NOT REACHED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", action="store_true", help="also a million jobs (minutes)")
    parser.add_argument("--jobs", type=int, default=1_000_000, help="jobs of the largest scale run")
    parser.add_argument("--repeats", type=int, default=2, help="runs per simulation; the best counts")
    parser.add_argument(
        "--only",
        choices=["runs", "synergy", "philly", "large", "mixed", "optimal", "solves", "help", "scale"],
        help="one part",
    )
    options = parser.parse_args()
    facts = json.loads((HERE / "gavel_artifact.json").read_text())
    others = json.loads((HERE / "synergy_artifact.json").read_text())
    parts = {
        "runs": lambda: compared(facts, "whole simulation", simulate, options.repeats, (50, 20)),
        "synergy": lambda: synergy_runs(others, options.repeats),
        "philly": lambda: philly(others),
        "large": lambda: large(others),
        "mixed": lambda: mixed(others),
        "optimal": lambda: optimal(others),
        "solves": lambda: solves(facts),
        "help": lambda: start_up(facts),
        "scale": lambda: scale(facts, options.jobs),
    }
    usual = ["runs", "synergy", "philly", "large", "mixed", "optimal", "solves", "help"]
    wanted = [options.only] if options.only else usual + (["scale"] if options.scale else [])
    results = [parts[name]() for name in wanted]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
