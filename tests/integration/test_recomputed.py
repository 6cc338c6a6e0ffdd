"""Every number of `--json` agrees with the one worked out again from `--jobs-csv` and `--events`."""

import math

import pytest

import rota
from recomputation import recomputed
from rota.analysis.jobs_csv import write_jobs_csv
from rota.workloads import materialise, workload

WORKLOAD = {"workload": "gavel-continuous", "settings": {"interarrival_s": 700.0, "jobs": 16, "multi_gpu": True}}
CLUSTER = "v100=4/2,p100=4/2,k80=4/4"
CASES = {
    "shares": {"policy": "max-min-fairness-perf"},
    "pairs": {"policy": "max-min-fairness-packed"},
    "pairs that take turns": {"policy": "gandiva"},
    "a ranking": {"policy": "srtf", "rule_settings": {"restart_s": 40.0}},
    "no rounds": {"policy": "max-min-fairness-packed", "mechanism": "ideal"},
    "until": {"policy": "max-min-fairness-packed", "until": 20_000.0},
    "rounds of the artifact": {"policy": "max-min-fairness-perf", "rules": "gavel-artifact"},
    "some are measured": {"policy": "fifo", "measure": (5, 12)},
}


def differences(ours, again, where=""):
    """Where two summaries differ, of the keys that were worked out again."""
    if isinstance(again, dict):
        return [d for key, value in again.items() for d in differences(ours[key], value, f"{where} {key}")]
    if again is None or ours is None:
        return [] if again is ours else [(where, ours, again)]
    return [] if math.isclose(ours, again, rel_tol=1e-9, abs_tol=1e-6) else [(where, ours, again)]


def assert_agrees(result, tmp_path):
    """Check all that follows from the files; the events are in run.jsonl."""
    write_jobs_csv(str(tmp_path / "jobs.csv"), result.jobs)
    said = dict(result.summary)
    said["gpu_s"] = dict(enumerate(result.jobs["gpu_s"].tolist()))
    said["price"] = dict(enumerate(result.jobs["cost"].tolist()))

    again = recomputed(tmp_path / "jobs.csv", tmp_path / "run.jsonl")

    assert differences(said, again) == []
    assert set(again["by_tenant"]) == set(said["by_tenant"])


@pytest.mark.parametrize("case", CASES)
def test_what_a_run_says_follows_from_its_jobs_and_events(tmp_path, case):
    parts = CASES[case]

    result = rota.simulate(**WORKLOAD, cluster=CLUSTER, seed=3, events=str(tmp_path / "run.jsonl"), **parts)

    assert result.summary["utilization"] <= 1 + 1e-9 or "artifact" in case
    assert_agrees(result, tmp_path)


def test_a_job_of_a_hundred_seconds_takes_a_hundred_seconds(tmp_path):
    jobs = materialise(workload("gavel-static", jobs=1, seed=1))
    speed = rota.simulate(jobs=jobs, cluster="v100=1", policy="fifo")
    part = 100.0 / speed.summary["mean_jct_s"]
    short = jobs.take([0])
    short.total_steps[:] = jobs.total_steps * part

    result = rota.simulate(jobs=short, cluster="v100=1", policy="fifo", events=str(tmp_path / "run.jsonl"))

    assert result.summary["makespan_s"] == pytest.approx(100.0)
    assert result.summary["utilization"] == pytest.approx(1.0)
    assert_agrees(result, tmp_path)
