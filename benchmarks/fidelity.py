"""One trace of 40 jobs on 8 emulated servers, LAS and SRTF, proportional and tune: emulation against simulation.

    python benchmarks/fidelity.py [--time-scale 240] [--json FILE]

Takes about six minutes. Prints the differences with their sign, and whether tune wins in both.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

import rota
from rota import clusters, workloads
from rota.core.jobs import Jobs
from rota.deploy.fidelity import compare
from rota.deploy.scheduler import Options

CLUSTER = "v100=16/2:cpus=6:memory=125:storage=500"
ROUND_S = 300.0
SHORTER = 20


def trace() -> Jobs:
    """The first 40 jobs of a Philly-derived stream, each 20 times as short, at 120 jobs per hour."""
    source = workloads.workload("philly-derived", jobs_per_hour=120, split="60,30,10", seed=42)
    jobs = source.take(3600.0).rows(0, 40)
    return dataclasses.replace(jobs, total_steps=np.maximum(1.0, np.round(jobs.total_steps / SHORTER)))


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--time-scale", type=float, default=240.0)
    asked.add_argument("--json", type=Path)
    given = asked.parse_args()
    jobs, cluster, found = trace(), clusters.load(CLUSTER), {}
    print(f"{'':20} {'mean JCT':>26} {'p95 JCT':>26} {'median ratio':>13}")
    for policy in ("las", "srtf"):
        for mechanism in ("proportional", "tune"):
            same = {"policy": policy, "mechanism": mechanism, "profiles": "synergy", "round_s": ROUND_S}
            simulated = rota.simulate(jobs=jobs, cluster=cluster, **same)
            options = Options(state="", time_scale=given.time_scale, **same)
            result = compare(jobs, simulated, cluster, options)
            by_name = {d.name: d for d in result.differences()}
            found[f"{policy} {mechanism}"] = {
                d.name: {"simulated": d.simulated, "emulated": d.emulated, "difference": d.part}
                for d in by_name.values()
            } | {"preemptions": result.preemptions, "ratios": result.ratios.tolist()}
            cells = [
                f"{d.simulated:9,.0f} {d.emulated:9,.0f} {100 * d.part:+5.1f}%"
                for d in (by_name["mean JCT"], by_name["p95 JCT"])
            ]
            print(
                f"{policy:5} {mechanism:14} {cells[0]:>26} {cells[1]:>26} {np.median(result.ratios):13.3f}", flush=True
            )
    good = True
    for policy in ("las", "srtf"):
        gains = [
            found[f"{policy} proportional"]["mean JCT"][kind] / found[f"{policy} tune"]["mean JCT"][kind]
            for kind in ("simulated", "emulated")
        ]
        print(f"{policy}: tune is {gains[0]:.3f} times as good in simulation, {gains[1]:.3f} times in emulation")
        good = good and (gains[0] > 1) == (gains[1] > 1)
    for run in found.values():
        good = good and abs(run["mean JCT"]["difference"]) <= 0.05 and abs(run["p95 JCT"]["difference"]) <= 0.10
    print("mean within 5 %, p95 within 10 %, same winner:", "yes" if good else "NO")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
