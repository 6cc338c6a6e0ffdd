"""Cost grows with what happens, not with the length of the queue that was."""

import json

import pytest

from builders import command

LOAD = [
    *("--workload", "gavel-continuous", "--set", "interarrival_s=400"),
    *("--cluster", "v100=64,p100=64,k80=64", "--policy", "max-min-fairness-perf"),
]


def measured(jobs):
    done = command("simulate", *LOAD, "--set", f"jobs={jobs}", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_four_times_as_long_costs_about_four_times_as_much():
    short, long = measured(750), measured(3000)

    assert long["jobs_finished"] == 3000
    per_job = [run["cpu_s"] / run["jobs_finished"] for run in (short, long)]
    assert per_job[1] < 2.5 * per_job[0]
    assert long["peak_rss_mb"] < 300


@pytest.mark.parametrize("gpus", [2000])
def test_a_large_cluster_does_not_make_a_small_queue_expensive(gpus):
    done = command(
        *("simulate", "--workload", "gavel-static", "--set", "jobs=200", "--cluster", f"v100={gpus},k80={gpus}"),
        *("--policy", "max-min-fairness-perf", "--json"),
    )

    summary = json.loads(done.stdout)

    assert summary["jobs_finished"] == 200
    assert summary["cpu_s"] < 10
