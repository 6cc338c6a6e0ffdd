"""`max_running` of tenants holds back the same jobs in a deployment, in questions about it and in a simulation."""

import csv

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


def estimated(harness):
    """Rounds from now in which jobs that wait start."""
    found = estimates(harness.fork(), history_of([]), harness.waiting(), futures=0)
    return {each.job: round((each.start - harness.clock.now()) / ROUND_S) for each in found}


def test_jobs_beyond_the_limit_of_their_tenant_start_when_others_of_it_end():
    harness = a_cluster()

    assert harness.waiting() == [1, 3, 4, 6, 7]  # those that run: 0 of tenant a, 2 and 5 of tenant b
    assert estimated(harness) == {1: 5, 3: 11, 4: 16, 6: 22, 7: 7}


def test_other_limits_give_another_future_of_the_same_moment():
    harness = a_cluster()
    harness.tenants = Tenants(named={"a": TenantSettings(max_running=2), "b": TenantSettings(max_running=2)})

    assert estimated(harness) == {1: 0, 3: 5, 4: 6, 6: 10, 7: 7}


def test_a_simulation_of_the_same_trace_starts_jobs_in_the_same_rounds(tmp_path):
    harness = a_cluster()
    rate = harness.catalogue.rate(PROFILE, 1, "v100")
    rows = [f"{n},0,{PROFILE},1,{harness.registry.jobs[n].spec.steps / rate},{o}" for n, o in enumerate(OWNERS)]
    trace = tmp_path / "jobs.csv"
    trace.write_text("\n".join(["job_id,arrival_s,profile,gpus,duration_s,tenant", *rows]) + "\n", encoding="utf-8")
    limits = tmp_path / "tenants.toml"
    limits.write_text("".join(f"[tenants.{name}]\nmax_running = {most}\n" for name, most in LIMITS.items()))
    words = ["simulate", "--trace", str(trace), "--cluster", "v100=8", "--policy", "fifo", "--round", str(ROUND_S)]
    assert main([*words, "--tenants", str(limits), "--jobs-csv", str(tmp_path / "done.csv")]) == 0
    with (tmp_path / "done.csv").open(newline="", encoding="utf-8") as file:
        ends = [float(row["finish_s"]) for row in csv.DictReader(file)]
    starts = {number: round(end / ROUND_S) - 5 - number % 3 for number, end in enumerate(ends)}

    assert {number: starts[number] for number in harness.waiting()} == estimated(harness)
