"""Do gains from GPU types and from CPUs and memory add up? The experiment of docs/unified.md.

    python benchmarks/unified.py                 # all of it, a table per part; some minutes
    python benchmarks/unified.py --seeds 2 --parts stream --vision 60 --load 18
    python benchmarks/unified.py --seeds 3 --parts jct     # policies for the least mean JCT against the best others

A cluster of 32 V100, 32 P100 and 32 K80 in servers of 8 with 24 CPUs and 500 GB, the catalogue `pipeline`, and jobs
with the lengths of Synergy's small trace, restricted to the models that the catalogue has. Five ways to decide run on
the same jobs; numbers are means over seeds with 95 % confidence intervals (Student's t), gains are paired by seed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, quantiles, stdev
from typing import NamedTuple

import rota
from rota import profiles
from rota.core import files
from rota.core.jobs import Jobs, table

SERVER = "cpus=24:memory=500"
CLUSTER = ",".join(f"{gpu_type}=32/8:{SERVER}" for gpu_type in ("v100", "p100", "k80"))
VISION = ("res18", "res50")
LANGUAGE = ("transformer", "lstm")
WAYS = {
    "baseline": ("", "proportional"),
    "types only": ("-perf", "proportional"),
    "CPUs only": ("", "tune"),
    "both, apart": ("-perf", "tune"),
    "unified": ("-unified", "tune"),
}
"""What is added to the policy's name, and the mechanism."""
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""97.5 % quantile of Student's t by number of seeds."""


@dataclass(frozen=True)
class Part:
    """One experiment: which policies, which number, which jobs."""

    title: str
    policy: str
    number: str
    jobs: int
    measure: tuple[int, int] | None


PARTS = {
    "stream": Part("mean JCT, jobs arriving", "max-min-fairness", "mean_jct_s", 1000, (200, 800)),
    "batch": Part("makespan, all jobs at the start", "min-total-duration", "makespan_s", 400, None),
}
RIVALS = ("srtf-perf", "finish-time-fairness-unified", "min-total-duration-unified")
"""The best of all other policies under `tune` in these workloads."""
LEAST_JCT = ("min-mean-jct", "min-mean-jct-unified")
CELLS = ((14.0, 20.0), (18.0, 20.0), (22.0, 20.0), (14.0, 60.0), (18.0, 60.0), (22.0, 60.0), (24.0, 40.0), (26.0, 60.0))
"""Jobs per hour and percent of vision jobs of the comparison of mean JCTs."""


def jobs_of(part: Part, load: float | None, vision: float, seed: int) -> Jobs:
    """Lengths of Synergy's small trace; steps so that a job takes its length on a V100 with the proportional share.

    Half an hour to 8 hours, 3 on average: with the lengths of its stream, up to a week, a run of some minutes would not
    come near a steady state. `load` is in jobs per hour; without one all jobs are there at the start.
    """
    random = Random(seed)
    catalogue = profiles.load("pipeline")
    names = []
    steps = []
    arrivals = []
    at = 0.0
    for _ in range(part.jobs):
        long = random.random() >= 0.8
        length = 60 * 10 ** (random.uniform(2.5, 2.7) if long else random.uniform(1.5, 2.5))
        name = random.choice(VISION if random.random() < vision / 100 else LANGUAGE)
        at += 0.0 if load is None else random.expovariate(load / 3600)
        names.append(name)
        steps.append(math.floor(length / catalogue.step_s(name, 1, "v100")))
        arrivals.append(at)
    return table(profile_names=names, gpus=[1] * part.jobs, total_steps=steps, submitted=arrivals)


class Outcome(NamedTuple):
    """What one run gave."""

    hours: float
    used: float
    """Part of the GPUs that was in use."""
    slowdown: float
    """95th percentile of the time from arrival to finish over the job's length."""


def run(part: Part, way: str, load: float | None, vision: float, seed: int) -> Outcome:
    """One way on the jobs of one seed."""
    suffix, mechanism = WAYS[way]
    result = rota.simulate(
        jobs=jobs_of(part, load, vision, seed), cluster=CLUSTER, policy=part.policy + suffix, mechanism=mechanism,
        profiles="pipeline", seed=seed, measure=part.measure,
    )  # fmt: skip
    if result.summary["solve_failures"] or result.notes:
        print(f"{way}, seed {seed}: {result.summary['solve_failures']} solves failed; {result.notes}", file=sys.stderr)
    jobs = result.jobs
    step_s = profiles.load("pipeline").step_s
    slowdown = [
        jct / (steps * step_s(str(name), 1, "v100"))
        for jct, steps, name, counts in zip(
            jobs["jct_s"], jobs["steps"], jobs["profile"], jobs["measured"], strict=True
        )
        if counts
    ]
    hours = float(result.summary[part.number]) / 3600
    return Outcome(hours, float(result.summary["utilization"]), quantiles(slowdown, n=20)[-1])


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half the width of its 95 % confidence interval."""
    return fmean(values), STUDENT[len(values)] * stdev(values) / math.sqrt(len(values))


def study(part: Part, load: float | None, vision: float, seeds: int) -> dict[str, list[float]]:
    """All ways on all seeds, as a table on the screen and as numbers."""
    hours_by_way: dict[str, list[float]] = {}
    rate = "" if load is None else f" at {load:g} per hour"
    print(f"\n{part.title}{rate}; {vision:g} % vision; {seeds} seeds")
    print(f"{'way':28} {'policy':34} {'hours':>14} {'gain over baseline':>18}", end=" ")
    print(f"{'GPUs in use':>11} {'slowdown p95':>15} {'CPU s':>6}")
    for way, (suffix, mechanism) in WAYS.items():
        start = time.process_time()
        runs = [run(part, way, load, vision, seed) for seed in range(1, seeds + 1)]
        hours_by_way[way] = [outcome.hours for outcome in runs]
        mean, half = interval(hours_by_way[way])
        tail, spread = interval([outcome.slowdown for outcome in runs])
        ratio, width = interval([b / v for b, v in zip(hours_by_way["baseline"], hours_by_way[way], strict=True)])
        names = f"{part.policy}{suffix} + {mechanism}".replace("proportional", "prop.")
        print(
            f"{way:28} {names:34} {mean:6.2f} +- {half:4.2f} {ratio:9.3f} +- {width:5.3f} "
            f"{fmean(outcome.used for outcome in runs):10.0%} {tail:9.2f} +- {spread:4.2f} "
            f"{time.process_time() - start:6.1f}",
            flush=True,
        )
    product = [
        b / t * b / c
        for b, t, c in zip(hours_by_way["baseline"], hours_by_way["types only"], hours_by_way["CPUs only"], strict=True)
    ]
    edge = [a / u for a, u in zip(hours_by_way["both, apart"], hours_by_way["unified"], strict=True)]
    for what, values in (("product of the single gains", product), ("unified against apart", edge)):
        ratio, width = interval(values)
        print(f"{what:28} {'':34} {'':14} {ratio:9.3f} +- {width:5.3f}")
    return hours_by_way


class Times(NamedTuple):
    """Completion times of one run, hours."""

    mean: float
    p99: float


def timed(policy: str, load: float, vision: float, seed: int) -> Times:
    """One policy under `tune` on the jobs of one seed."""
    part = PARTS["stream"]
    summary = rota.simulate(
        jobs=jobs_of(part, load, vision, seed), cluster=CLUSTER, policy=policy, mechanism="tune",
        profiles="pipeline", seed=seed, measure=part.measure,
    ).summary  # fmt: skip
    return Times(float(summary["mean_jct_s"]) / 3600, float(summary["p99_jct_s"]) / 3600)


def compare_jct(load: float, vision: float, seeds: int) -> dict[str, list[Times]]:
    """Policies for the least mean JCT against the others, on the same jobs."""
    print(f"\nmean JCT at {load:g} per hour; {vision:g} % vision; {seeds} seeds")
    print(f"{'policy + tune':30} {'mean, h':>14} {'p99, h':>14}   time of the others / its own")
    runs_by_policy = {}
    for policy in (*RIVALS, *LEAST_JCT):
        runs = [timed(policy, load, vision, seed) for seed in range(1, seeds + 1)]
        runs_by_policy[policy] = runs
        mean, half = interval([times.mean for times in runs])
        tail, spread = interval([times.p99 for times in runs])
        print(f"{policy:30} {mean:6.3f} +- {half:5.3f} {tail:6.2f} +- {spread:4.2f}", end="  ")
        for other in list(runs_by_policy)[:-1] if policy in LEAST_JCT else []:
            ratio, width = interval([o.mean / own.mean for o, own in zip(runs_by_policy[other], runs, strict=True)])
            print(f"{ratio:6.3f} +- {width:5.3f}", end=" ")
        print(flush=True)
    return runs_by_policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(STUDENT), help="seeds 1 to N (default 5)")
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "jct"], default=[*PARTS, "jct"])
    parser.add_argument("--vision", nargs="+", type=float, help="percent of vision jobs")
    parser.add_argument("--load", nargs="+", type=float, help="jobs per hour of the stream")
    parser.add_argument("--json", metavar="FILE", help="write all numbers, hours by seed")
    asked = parser.parse_args()
    numbers_by_name: dict[str, object] = {}
    for name in asked.parts:
        for load, vision in _cases(name, asked.load, asked.vision):
            key = name if load is None else f"{name} {load:g} per hour"
            if name == "jct":
                numbers = compare_jct(load, vision, asked.seeds)
            else:
                numbers = study(PARTS[name], load, vision, asked.seeds)
            numbers_by_name[f"{key}, {vision:g} % vision"] = numbers
    if asked.json:
        files.write_text(asked.json, json.dumps(numbers_by_name, indent=1) + "\n")


def _cases(part: str, loads: list[float] | None, visions: list[float] | None) -> list[tuple[float | None, float]]:
    """Loads and mixes of a part; those of the page unless the user says which."""
    if part == "jct" and loads is None and visions is None:
        return list(CELLS)
    own = [None] if part == "batch" else loads or [14.0, 18.0, 22.0]
    return [(load, vision) for load in own for vision in visions or [20.0, 60.0]]


if __name__ == "__main__":
    main()
