"""A run that goes on from a checkpoint ends as if it had never stopped."""

import signal

import pytest

from builders import command, started, summary_of, wait_for

WORKLOAD = [
    *("--workload", "gavel-continuous", "--set", "interarrival_s=1500", "--set", "jobs=30", "--set", "multi_gpu=true"),
    *("--cluster", "v100=4/2,p100=4/2,k80=8/4", "--seed", "5"),
]
LONG = [
    *("--workload", "gavel-continuous", "--set", "interarrival_s=600", "--set", "jobs=2500"),
    *("--cluster", "v100=24,p100=24,k80=24", "--policy", "isolated", "--rules", "gavel-artifact"),
]


@pytest.mark.parametrize("rules", ["default", "gavel-artifact"])
@pytest.mark.parametrize(
    "policy",
    ["gandiva", "max-min-fairness-perf", "max-min-fairness-packed", "finish-time-fairness-perf", "isolated", "fifo"],
)
def test_resuming_gives_the_result_of_the_uninterrupted_run(tmp_path, policy, rules):
    given = [*WORKLOAD, "--policy", policy, "--rules", rules]
    whole = summary_of("simulate", *given, "--jobs-csv", "whole.csv", cwd=tmp_path)
    saving = ("--checkpoint", "c", "--checkpoint-every", whole["makespan_s"] / 2.5)
    watched = summary_of("simulate", *given, *saving, cwd=tmp_path)

    resumed = summary_of("simulate", *given, "--resume", "c", "--jobs-csv", "resumed.csv", cwd=tmp_path)

    assert watched == whole
    assert resumed == whole
    assert (tmp_path / "resumed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize("mechanism", ["ideal", "strided"])
def test_any_mechanism_can_be_resumed(tmp_path, mechanism):
    given = [*WORKLOAD, "--policy", "max-min-fairness-perf", "--mechanism", mechanism]
    whole = summary_of("simulate", *given, cwd=tmp_path)
    summary_of("simulate", *given, "--checkpoint", "c", "--checkpoint-every", 30000, cwd=tmp_path)

    assert summary_of("simulate", *given, "--resume", "c", cwd=tmp_path) == whole


def test_a_trace_can_be_resumed(tmp_path):
    command(
        "trace", "generate", "gavel-continuous", "t.trace", "--jobs", "20", "--set", "interarrival_s=900", cwd=tmp_path
    )
    given = ["--trace", "t.trace", "--cluster", "v100=2,k80=2", "--policy", "gandiva"]
    whole = summary_of("simulate", *given, cwd=tmp_path)
    summary_of("simulate", *given, "--checkpoint", "c", "--checkpoint-every", 20000, cwd=tmp_path)

    assert summary_of("simulate", *given, "--resume", "c", cwd=tmp_path) == whole


def test_a_run_that_is_killed_goes_on_from_its_last_checkpoint(tmp_path):
    whole = summary_of("simulate", *LONG, cwd=tmp_path)
    saving = ("--checkpoint", "c", "--checkpoint-every", 20000, "--events", "half.jsonl")
    process = started("simulate", *LONG, *saving, cwd=tmp_path)
    wait_for(tmp_path / "c", process, times=2)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    resumed = summary_of("simulate", *LONG, "--resume", "c", cwd=tmp_path)

    assert process.returncode == -signal.SIGKILL
    assert resumed == whole
    assert not (tmp_path / "half.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("--seed", "6"), "seed was 5, now 6"),
        (("--policy", "fifo"), "policy was 'isolated', now 'fifo'"),
        (("--cluster", "v100=4"), "cluster"),
        (("--round", "60"), "rules"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_in_one_line(tmp_path, change, says):
    given = [*WORKLOAD, "--policy", "isolated"]
    summary_of("simulate", *given, "--checkpoint", "c", "--checkpoint-every", 30000, cwd=tmp_path)

    done = command("simulate", *given, *change, "--resume", "c", cwd=tmp_path)

    assert done.returncode == 2
    assert "belongs to another run" in done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_an_event_log_cannot_begin_in_the_middle(tmp_path):
    done = command("simulate", *WORKLOAD, "--policy", "fifo", "--resume", "c", "--events", "run.jsonl", cwd=tmp_path)

    assert done.returncode == 2
    assert "cannot begin in the middle" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("until", [360, 499, 500, 501, 720])
@pytest.mark.parametrize("policy", ["srtf", "las", "max-min-fairness-strategy-proof"])
def test_a_cut_in_the_second_of_an_arrival_changes_nothing(tmp_path, policy, until):
    (tmp_path / "t.csv").write_text("arrival_s,gpus,duration_s\n0,1,2000\n500,4,300\n")
    given = ["--trace", "t.csv", "--cluster", "v100=4/4", "--policy", policy]
    whole = summary_of("simulate", *given, "--jobs-csv", "whole.csv", cwd=tmp_path)
    summary_of("simulate", *given, "--until", until, "--checkpoint", "c", cwd=tmp_path)

    resumed = summary_of("simulate", *given, "--resume", "c", "--jobs-csv", "resumed.csv", cwd=tmp_path)

    assert resumed["mean_jct_s"] == whole["mean_jct_s"]
    assert (tmp_path / "resumed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_time_that_is_up_while_nobody_can_run_puts_off_no_decision(tmp_path):
    (tmp_path / "t.csv").write_text("arrival_s,gpus,duration_s,tenant\n0,1,100,a\n0,2,600,b\n0,1,600,b\n")
    (tmp_path / "tenants.toml").write_text("[tenants.b]\nquota = 1\nborrow = 0\nmax_running = 1\n")
    given = ["--trace", "t.csv", "--cluster", "v100=2", "--policy", "max-min-fairness", "--tenants", "tenants.toml"]
    whole = summary_of("simulate", *given, "--jobs-csv", "whole.csv", cwd=tmp_path)
    cut = summary_of("simulate", *given, "--until", 300, "--checkpoint", "c", cwd=tmp_path)

    resumed = summary_of("simulate", *given, "--resume", "c", "--jobs-csv", "resumed.csv", cwd=tmp_path)

    assert (whole["jobs_dropped"], cut["jobs_dropped"]) == (1, 1)
    assert resumed["mean_jct_s"] == pytest.approx(whole["mean_jct_s"]) == pytest.approx((100 + 700) / 2)
