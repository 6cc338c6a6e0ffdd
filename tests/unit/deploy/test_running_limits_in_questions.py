"""`max_running` of tenants holds back the same jobs in a deployment, in questions about it and in a simulation."""

import csv

import pytest
from harness import ROUND_S
from questions_harness import PROFILE, AskedHarness

from rota.cli.main import main
from rota.deploy.questions.eta import estimates
from rota.deploy.questions.futures import history_of
from rota.deploy.tenants import Tenants, TenantSettings

OWNERS = "aabaabab"
LIMITS = {"a": 1, "b": 2}
TENANTS = Tenants(named={name: TenantSettings(max_running=most) for name, most in LIMITS.items()})


def a_cluster(tenants=TENANTS, *, gpus=8, rounds=5):
    harness = AskedHarness(policy="fifo", tenants=tenants)
    harness.join("n0", gpus=gpus)
    for number, tenant in enumerate(OWNERS):
        steps = int(harness.catalogue.rate(PROFILE, 1, "v100") * ROUND_S * (rounds + number % 3))
        harness.submit(profile=PROFILE, steps=steps, tenant=tenant)
    harness.round()
    return harness


def starts_in_life(harness):
    """Engine seconds at which jobs started, once all are over."""
    while harness.registry.live:
        harness.round()
    return {number: harness.registry.jobs[number].attempts[0].started for number in range(len(OWNERS))}


def order(starts):
    return sorted(starts, key=lambda number: (round(starts[number] / ROUND_S), number))


def test_estimates_are_what_comes_where_tenants_are_at_their_limits():
    harness = a_cluster()
    waits = harness.waiting()
    found = {each.job: each.start for each in estimates(harness.fork(), history_of([]), waits, futures=0)}
    real = starts_in_life(harness)

    assert waits == [1, 3, 4, 6, 7]
    assert {number: real[number] for number in waits} == pytest.approx(found, abs=1.5 * ROUND_S)
    assert order(found) == [number for number in order(real) if number in waits]


def test_a_simulation_of_the_same_trace_starts_jobs_in_the_same_order(tmp_path):
    harness = a_cluster()
    rows = [
        f"{n},0,{PROFILE},1,{harness.registry.jobs[n].spec.steps / harness.catalogue.rate(PROFILE, 1, 'v100')},{owner}"
        for n, owner in enumerate(OWNERS)
    ]
    trace = tmp_path / "jobs.csv"
    trace.write_text("\n".join(["job_id,arrival_s,profile,gpus,duration_s,tenant", *rows]) + "\n", encoding="utf-8")
    limits = tmp_path / "tenants.toml"
    limits.write_text("".join(f"[tenants.{name}]\nmax_running = {most}\n" for name, most in LIMITS.items()))
    words = ["simulate", "--trace", str(trace), "--cluster", "v100=8", "--policy", "fifo", "--round", str(ROUND_S)]
    assert main([*words, "--tenants", str(limits), "--jobs-csv", str(tmp_path / "done.csv")]) == 0
    with (tmp_path / "done.csv").open(newline="", encoding="utf-8") as file:
        simulated = {int(row["job_id"]): float(row["start_s"]) for row in csv.DictReader(file)}

    assert order(simulated) == order(starts_in_life(harness))
