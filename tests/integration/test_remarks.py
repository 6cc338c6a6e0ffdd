"""What a result says beside its numbers: idle GPUs under greedy, the gap of optimal."""

import subprocess
import sys

import pytest

from builders import summary_of

CROWD = [
    *("--workload", "philly-derived", "--set", "jobs_per_hour=4", "--set", "jobs=60", "--set", "split=50,40,10"),
    *("--cluster", "synergy-32", "--policy", "srtf", "--rules", "synergy-artifact"),
]


def test_greedy_says_that_gpus_were_idle_while_jobs_waited(tmp_path):
    live = summary_of("simulate", *CROWD, "--mechanism", "greedy", "--events", "run.jsonl.gz", cwd=tmp_path)
    again = summary_of("replay", "run.jsonl.gz", cwd=tmp_path)

    (note,) = live["notes"]
    assert note.startswith("greedy left ")
    assert "waited longest" in note
    assert again["notes"] == live["notes"]


def test_mechanisms_that_use_every_gpu_say_nothing_about_waiting(tmp_path):
    assert summary_of("simulate", *CROWD, "--mechanism", "tune", cwd=tmp_path)["notes"] == []


def test_optimal_tells_its_gap(tmp_path):
    (note,) = summary_of("simulate", *CROWD, "--mechanism", "optimal", cwd=tmp_path)["notes"]

    assert note.startswith("optimal: mean gap ")


@pytest.mark.parametrize("mechanism", ["greedy", "optimal", "tune"])
def test_a_resumed_run_ends_as_if_it_had_never_stopped(tmp_path, mechanism):
    given = [*CROWD, "--mechanism", mechanism]
    whole = summary_of("simulate", *given, cwd=tmp_path)
    summary_of("simulate", *given, "--checkpoint", "c", "--checkpoint-every", 40000, cwd=tmp_path)

    assert summary_of("simulate", *given, "--resume", "c", cwd=tmp_path) == whole


@pytest.mark.parametrize(("policy", "cluster", "says"), [
    ("srtf", "v100=2,k80=2", True), ("srtf-perf", "v100=2,k80=2", False), ("srtf", "v100=2", False),
])  # fmt: skip
def test_a_ranking_that_sees_no_types_says_so_where_there_are_several(policy, cluster, says):
    run = ["simulate", "--workload", "gavel-static", "--set", "jobs=3", "--cluster", cluster, "--policy", policy]
    done = subprocess.run([sys.executable, "-m", "rota.cli", *run], capture_output=True, text=True, check=True)

    assert ("srtf-perf chooses the type" in done.stderr) == says
