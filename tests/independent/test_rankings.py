"""Rankings against a simulator of our own (simulator.py): every completion time of random instances."""

import random
from dataclasses import replace

import pytest
from instances import as_table, as_text, catalogue, random_jobs, rates_of
from simulator import completion_times

import rota

ONE_TYPE = {"v": 3}
THREE_TYPES = {"a": 1, "b": 2, "c": 1}
TWO_TYPES = {"slow": 3, "fast": 3}
SLACK_S = 1e-6

pytestmark = pytest.mark.parametrize("at_once", [True, False], ids=["at once", "rounds only"])


def disagreements(tmp_path, policy, jobs, capacity, restart_s, at_once):
    """(job, ours, Rota's) where completion times differ."""
    result = rota.simulate(
        jobs=as_table(jobs),
        cluster=as_text(capacity),
        policy=policy,
        profiles=catalogue(tmp_path / "rates.csv", rates_of(jobs)),
        rule_settings={"restart_s": restart_s, "at_once": at_once},
    )
    theirs = result.jobs["jct_s"].tolist()
    ours = completion_times(jobs, capacity, policy.removesuffix("-perf"), restart_s, at_once=at_once)
    return [(job, a, b) for job, (a, b) in enumerate(zip(ours, theirs, strict=True)) if not abs(a - b) < SLACK_S]


@pytest.mark.parametrize("restart_s", [0.0, 45.0])
@pytest.mark.parametrize("policy", ["fifo", "srtf", "srsf", "las"])
def test_one_type_with_gangs(tmp_path, policy, restart_s, at_once):
    for seed in range(5):
        jobs = random_jobs(random.Random(seed), ONE_TYPE, count=9, sizes=[1, 1, 2, 3])

        assert disagreements(tmp_path, policy, jobs, ONE_TYPE, restart_s, at_once) == [], f"seed {seed}"


@pytest.mark.parametrize("restart_s", [0.0, 45.0])
@pytest.mark.parametrize("policy", ["srtf-perf", "las-perf"])
@pytest.mark.parametrize("capacity", [THREE_TYPES, TWO_TYPES], ids=["three types", "two types"])
def test_several_types(tmp_path, policy, capacity, restart_s, at_once):
    for seed in range(5):
        jobs = random_jobs(random.Random(seed), capacity, count=9, sizes=[1])

        assert disagreements(tmp_path, policy, jobs, capacity, restart_s, at_once) == [], f"seed {seed}"


@pytest.mark.parametrize("restart_s", [0.0, 45.0])
@pytest.mark.parametrize("policy", ["srtf-perf", "las-perf"])
@pytest.mark.parametrize("capacity", [THREE_TYPES, TWO_TYPES], ids=["three types", "two types"])
def test_several_types_that_not_every_job_can_use(tmp_path, policy, capacity, restart_s, at_once):
    for seed in range(5):
        jobs = random_jobs(random.Random(seed), capacity, count=9, sizes=[1], hole=0.5)

        assert disagreements(tmp_path, policy, jobs, capacity, restart_s, at_once) == [], f"seed {seed}"


@pytest.mark.parametrize("policy", ["srtf-perf", "las-perf"])
def test_several_types_with_gangs_of_one_size(tmp_path, policy, at_once):
    capacity = {name: 2 * gpus for name, gpus in THREE_TYPES.items()}
    for seed in range(4):
        jobs = random_jobs(random.Random(seed), capacity, count=9, sizes=[2], hole=0.3 * (seed % 2))

        assert disagreements(tmp_path, policy, jobs, capacity, 0.0, at_once) == [], f"seed {seed}"


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las"])
def test_rankings_that_do_not_look_at_types_do_on_equal_types_what_they_do_on_one(tmp_path, policy, at_once):
    """On which type a job runs is drawn; where all are alike that cannot be seen."""
    for seed in range(5):
        jobs = random_jobs(random.Random(seed), ONE_TYPE, count=9, sizes=[1])
        alike = [replace(job, rate=dict.fromkeys(THREE_TYPES, job.rate["v"])) for job in jobs]
        result = rota.simulate(
            jobs=as_table(alike),
            cluster=as_text(THREE_TYPES),
            policy=policy,
            profiles=catalogue(tmp_path / "rates.csv", rates_of(alike)),
            rule_settings={"at_once": at_once},
        )

        ours = completion_times(jobs, {"v": sum(THREE_TYPES.values())}, policy, at_once=at_once)

        assert result.jobs["jct_s"].tolist() == pytest.approx(ours, abs=SLACK_S), f"seed {seed}"
