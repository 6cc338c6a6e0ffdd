"""`rota bench`: how fast single parts are."""

from __future__ import annotations

import time
from typing import Any

import click

from rota.cli import names
from rota.cli.options import completes, echo_json, json_option

REPEATS = 3


@click.group("bench")
def command() -> None:
    """Measure the speed of parts of Rota."""


@command.command("solve", epilog="Example: rota bench solve --policy max-min-fairness-perf --jobs 2048 --json")
@click.option(
    "--policy", required=True, metavar="NAME", shell_complete=completes(names.policies), help="Policy to solve."
)
@click.option("--jobs", type=click.IntRange(min=1), default=2048, show_default=True, help="Active jobs.")
@click.option("--multi-gpu", is_flag=True, help="Some jobs want 2, 4 or 8 GPUs.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which mix of jobs.")
@json_option
def solve(*, policy: str, jobs: int, multi_gpu: bool, seed: int, as_json: bool) -> None:
    """CPU seconds of one solve, model building included: the best of three."""
    from rota import api  # numpy only when needed

    chosen, view = api.solve_view(policy, jobs, multi_gpu=multi_gpu, seed=seed)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        allocation = chosen.allocate(view)
        times.append(time.process_time() - start)
    report = allocation.report
    result = {
        "policy": policy,
        "jobs": jobs,
        "multi_gpu": multi_gpu,
        "cpu_s": min(times),
        "all_cpu_s": times,
        "status": report.status,
        "objective": report.objective,
    }
    if as_json:
        echo_json(result)
        return
    from rota.cli.tables import show_pairs

    rows = [("CPU, best of three", f"{1000 * min(times):.2f} ms"), ("Status", report.status)]
    show_pairs(f"{policy}, {jobs:,} jobs", [*rows, ("Objective", f"{report.objective:g}")])


@command.command("place", epilog="Example: rota bench place --mechanism optimal --jobs 512 --json")
@click.option(
    "--mechanism",
    default="optimal",
    show_default=True,
    metavar="NAME",
    shell_complete=completes(names.mechanisms),
    help="Mechanism to measure.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=512, show_default=True, help="Jobs of Synergy's mix.")
@click.option("--cluster", default="philly-512", show_default=True, metavar="NAME", help="Where they run.")
@click.option("--rules", default="default", show_default=True, metavar="NAME", help="Rules of the run.")
@click.option("--multi-gpu", is_flag=True, help="GPU counts of the Philly log.")
@click.option("--seed", type=int, default=42, show_default=True, help="Which jobs.")
@json_option
def place(*, mechanism: str, jobs: int, cluster: str, rules: str, multi_gpu: bool, seed: int, as_json: bool) -> None:
    """CPU seconds of one round from nothing, the best of three, and what it loses against the bound if there is one."""
    from rota import api  # numpy only when needed
    from rota.core.rules import preset
    from rota.mechanisms.registry import build

    times = []
    for _ in range(REPEATS):
        view, order = api.place_view(jobs, cluster=cluster, multi_gpu=multi_gpu, seed=seed, rules=rules)
        composed = build(mechanism, preset(rules), 0)
        start = time.process_time()
        placement = composed.place(view, order)
        times.append(time.process_time() - start)
    speed = placement.speed
    result: dict[str, Any] = {
        "mechanism": mechanism,
        "jobs": jobs,
        "multi_gpu": multi_gpu,
        "running": len(placement),
        "cpu_s": min(times),
        "all_cpu_s": times,
        "total_speed": float(len(placement) if speed is None else speed.sum()),
        "gap": composed.last_gap,
        "notes": composed.remarks(),
    }
    if as_json:
        echo_json(result)
        return
    from rota.cli.tables import show_pairs

    rows = [("CPU, best of three", f"{1000 * min(times):.2f} ms"), ("Running", f"{len(placement):,}")]
    gap = [] if result["gap"] is None else [("Below the bound", f"{100 * result['gap']:.3f} %")]
    show_pairs(f"{mechanism}, {jobs:,} jobs", [*rows, ("Total speed", f"{result['total_speed']:.2f}"), *gap])
