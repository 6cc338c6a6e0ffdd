"""A log read back gives the numbers of the run."""

import json

import pytest

from builders import command, comparable, summary_of

WORKLOAD = [
    *("--workload", "gavel-continuous", "--set", "interarrival_s=9000", "--set", "multi_gpu=true"),
    *("--set", "slos=true", "--cluster", "v100=8/4,p100=8/4,k80=8/4", "--measure", "5:20", "--seed", "3"),
]


@pytest.mark.parametrize("mechanism", ["proportional", "strided", "ideal"])
@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        ("max-min-fairness-perf", "default"),
        ("gandiva", "default"),
        ("gandiva", "gavel-artifact"),
        ("fifo", "default"),
        ("max-sum-throughput-normalized-by-cost-perf-slos", "default"),
    ],
)
def test_replay_gives_the_summary_of_the_run(tmp_path, policy, rules, mechanism):
    given = ("--policy", policy, "--rules", rules, "--mechanism", mechanism)
    live = summary_of("simulate", *WORKLOAD, *given, "--events", "run.jsonl.gz", "--jobs-csv", "live.csv", cwd=tmp_path)

    again = summary_of("replay", "run.jsonl.gz", "--jobs-csv", "again.csv", cwd=tmp_path)

    assert again == live
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "live.csv").read_bytes()
    assert live["jobs_measured"] == 15


def test_a_run_that_was_stopped_early_replays_too(tmp_path):
    given = ("--policy", "isolated", "--until", "20000")
    live = summary_of("simulate", *WORKLOAD, *given, "--events", "run.jsonl", cwd=tmp_path)

    assert summary_of("replay", "run.jsonl", cwd=tmp_path) == live


def test_refused_jobs_are_told_again(tmp_path):
    workload = ("--workload", "gavel-static", "--set", "jobs=30", "--set", "multi_gpu=true", "--cluster", "v100=4")
    live = command("simulate", *workload, "--policy", "fifo", "--events", "run.jsonl", "--json", cwd=tmp_path)

    again = command("replay", "run.jsonl", "--json", cwd=tmp_path)

    assert "did not run to the end" in live.stderr
    assert again.stderr == live.stderr
    assert comparable(json.loads(again.stdout)) == comparable(json.loads(live.stdout))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "the log is empty"),
        ("hello\n", "run.jsonl:1"),
        ('{"event":"RunEnded","at":1,"reason":"x"}\n', "does not begin with RunStarted"),
        ('{"event":"RunStarted","at":0,"config":{}}\n', "run.jsonl:1: the log does not say on which cluster"),
    ],
)
def test_a_log_that_cannot_be_read_is_one_line(tmp_path, content, says):
    (tmp_path / "run.jsonl").write_text(content)

    done = command("replay", "run.jsonl", "--json", cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("rota: error: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_a_log_that_is_not_there_is_one_line(tmp_path):
    done = command("replay", "nowhere.jsonl", cwd=tmp_path)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nowhere.jsonl" in done.stderr
