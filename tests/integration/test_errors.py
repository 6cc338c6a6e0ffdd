"""Bad input and full disks: exit code 2, one line that names the value, nothing written half."""

import json
import os
import shutil
import subprocess

import pytest

from builders import command

WORKLOAD = ("--workload", "gavel-continuous", "--set", "interarrival_s=3000", "--set", "jobs=30")
RUN = (*WORKLOAD, "--cluster", "v100=4,p100=4,k80=4", "--policy", "gandiva")
LINE = "{profile}\tcmd\tdir\t--n\t0\t{steps}\t{gpus}\t1\t-1\t{at}\n"


def trace_line(profile="A3C", steps=1000, gpus=1, at=0):
    return LINE.format(profile=profile, steps=steps, gpus=gpus, at=at)


def assert_refused(done, *says):
    """Exit code 2, and one line (a second one may point to the help)."""
    lines = done.stderr.splitlines()
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert lines[0].startswith("rota: error: ")
    assert [line for line in lines[1:] if not line.startswith("See `rota")] == []
    for text in says:
        assert text in done.stderr


def simulate(folder, *arguments, **options):
    return command("simulate", *arguments, cwd=folder, **options)


# Names


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("--policy", "max-min-fairnes-perf"), "did you mean 'max-min-fairness-perf'"),
        (("--policy", "max_min_fairnes"), "did you mean 'max-min-fairness'"),
        (("--cluster", "v100=4,k8=4"), "did you mean 'k80'"),
        (("--mechanism", "propotional"), "did you mean 'proportional'"),
        (("--rules", "gavel-artefact"), "did you mean 'gavel-artifact'"),
        (("--profiles", "gavell"), "did you mean 'gavel'"),
        (("--set", "multi_gpus=true"), "did you mean 'multi_gpu'"),
        (("--set", "jobs=many"), "jobs"),
        (("--set-policy", "sede=1"), "did you mean 'seed'"),
        (("--set-mechanism", "stride=1"), "did you mean 'consolidate'"),
        (("--set-rules", "restart=1"), "restart_s"),
        (("--set-rules", "round_s=soon"), "round_s"),
        (("--set-rules", "round_s=0"), "0"),
        (("--measure", "5"), "A:B"),
        (("--measure", "7:7"), "empty"),
        (("--round", "-1"), "positive"),
        (("--until", "nan"), "positive"),
        (("--round", "5m"), "'5m' is not a number; give seconds, without a unit"),
        (("--seed", "x"), "'--seed': 'x' is not a whole number"),
    ],
)
def test_a_wrong_name_or_value_is_named_with_a_way_out(tmp_path, change, says):
    given = list(RUN)
    if change[0] in ("--policy", "--cluster"):
        given[given.index(change[0]) + 1] = change[1]
    elif change[1].startswith("jobs="):
        given[given.index("jobs=30")] = change[1]
    else:
        given += change

    done = simulate(tmp_path, *given, "--events", "run.jsonl", "--jobs-csv", "jobs.csv")

    assert_refused(done, says)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        ("--set-policy", "name=x"),
        ("--set-rules", "round_s=nan"),
        ("--set-rules", "restart_s=-100"),
        ("--set-rules", "rounds=squared"),
        ("--set-rules", "type_order=v1000"),
    ],
)
def test_nonsense_in_parameters_is_refused_too(tmp_path, change):
    assert_refused(simulate(tmp_path, *RUN, *change), change[1].split("=")[0])


def test_a_time_scale_that_is_not_positive_is_not_called_seconds(tmp_path):
    done = command("up", "--server", "v100=4", "--emulate", "--time-scale", "0", cwd=tmp_path)

    assert_refused(done, "must be a positive number\n")


def test_an_unknown_workload_offers_the_nearest(tmp_path):
    done = simulate(tmp_path, "--workload", "gavel-continous", "--cluster", "v100=4", "--policy", "fifo")

    assert_refused(done, "did you mean 'gavel-continuous'")


def test_an_unknown_trace_format_offers_the_nearest(tmp_path):
    (tmp_path / "a.trace").write_text(trace_line())

    done = simulate(tmp_path, "--trace", "a.trace", "--trace-format", "gavl", "--cluster", "v100=4", "--policy", "fifo")

    assert_refused(done, "did you mean 'gavel'")


def test_a_workload_without_end_needs_an_end(tmp_path):
    endless = (
        "--workload",
        "gavel-continuous",
        "--set",
        "interarrival_s=3000",
        "--cluster",
        "v100=4",
        "--policy",
        "fifo",
    )

    assert_refused(simulate(tmp_path, *endless), "never ends", "measure")


def test_a_policy_for_single_gpu_jobs_refuses_gangs_by_name(tmp_path):
    (tmp_path / "a.trace").write_text(trace_line() + trace_line("ResNet-18 (batch size 64)", gpus=2, at=5))

    done = simulate(
        *(tmp_path, "--trace", "a.trace", "--cluster", "v100=4", "--policy", "allox"),
        *("--events", "run.jsonl", "--jobs-csv", "jobs.csv"),
    )

    assert_refused(done, "job 1 asks for 2 GPUs")
    assert [p.name for p in tmp_path.iterdir()] == ["a.trace"]


# Traces and profiles


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (trace_line() + "A3C\tcmd\tdir\t--n\n", ["bad.trace:2", "4"]),
        (trace_line() + trace_line(at=-5), ["bad.trace:2", "arrival", "-5"]),
        (trace_line(steps=-7), ["bad.trace:1", "-7"]),
        (trace_line(steps=0), ["bad.trace:1"]),
        (trace_line(gpus=0), ["bad.trace:1"]),
        (trace_line(at="nan"), ["bad.trace:1"]),
        (trace_line(steps="inf"), ["bad.trace:1"]),
        (trace_line(at="noon"), ["bad.trace:1", "noon"]),
        (trace_line(profile="A4C"), ["A4C", "A3C"]),
        ("", ["bad.trace", "no jobs"]),
        ("\n\n", ["bad.trace"]),
        ("\x00\x01\x02", ["bad.trace"]),
    ],
)
def test_a_line_of_a_trace_that_cannot_be_used_is_named(tmp_path, text, says):
    (tmp_path / "bad.trace").write_text(text)

    done = simulate(
        *(tmp_path, "--trace", "bad.trace", "--cluster", "v100=4", "--policy", "fifo"),
        *("--events", "run.jsonl", "--jobs-csv", "jobs.csv"),
    )

    assert_refused(done, *says)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.trace"]


def test_a_trace_that_is_not_there_is_named(tmp_path):
    assert_refused(simulate(tmp_path, "--trace", "none.trace", "--cluster", "v100=4", "--policy", "fifo"), "none.trace")


@pytest.mark.parametrize("rate", ["nan", "-1", "inf", "fast", ""])
def test_a_rate_that_is_no_number_is_named_with_its_line(tmp_path, rate):
    (tmp_path / "mine.csv").write_text(f"profile,gpus,type,rate\nA3C,1,v100,1.5\nA3C,1,k80,{rate}\n")

    done = simulate(tmp_path, *RUN, "--profiles", "mine.csv", "--events", "run.jsonl")

    assert_refused(done, "mine.csv", "3")
    assert [p.name for p in tmp_path.iterdir()] == ["mine.csv"]


# Jobs that cannot run


@pytest.mark.parametrize("policy", ["fifo", "fifo-perf", "gandiva", "max-min-fairness-perf", "max-min-fairness-packed"])
@pytest.mark.parametrize("rules", ["default", "gavel-artifact"])
def test_jobs_that_can_never_run_are_named_and_the_rest_runs(tmp_path, policy, rules):
    lines = [
        trace_line(at=0),
        trace_line("ResNet-18 (batch size 64)", gpus=8, at=1),
        trace_line("ResNet-50 (batch size 128)", gpus=2, at=2),
        trace_line("ResNet-50 (batch size 128)", gpus=1, at=3),
        trace_line("LM (batch size 20)", at=4),
    ]
    (tmp_path / "a.trace").write_text("".join(lines))

    done = simulate(
        tmp_path, "--trace", "a.trace", "--cluster", "k80=4", "--policy", policy, "--rules", rules, "--json"
    )

    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["jobs_finished"], summary["jobs_rejected"]) == (3, 2)
    first, second = done.stderr.splitlines()
    assert "(1): asks for 8 GPUs of one type; the cluster has k80=4" in first
    assert "(2): profile 'ResNet-50 (batch size 128)' with 2 GPUs has no measured speed" in second


def test_a_trace_of_which_nothing_can_run_is_no_crash(tmp_path):
    (tmp_path / "a.trace").write_text(trace_line("ResNet-50 (batch size 128)", gpus=2))

    done = simulate(tmp_path, "--trace", "a.trace", "--cluster", "k80=4", "--policy", "fifo", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mean_jct_s"] is None


# Places to write to


@pytest.mark.parametrize("flag", ["--events", "--jobs-csv", "--checkpoint"])
@pytest.mark.parametrize("place", ["nowhere/file", "a-folder", "/proc/file", "/dev/null/file"])
def test_a_place_where_nothing_can_be_written_is_refused_before_the_run(tmp_path, flag, place):
    (tmp_path / "a-folder").mkdir()

    assert_refused(simulate(tmp_path, *RUN, flag, place), place.split("/")[-1])
    assert [p.name for p in tmp_path.iterdir()] == ["a-folder"]


@pytest.mark.parametrize("flags", [("--events", "--jobs-csv"), ("--checkpoint", "--events")])
def test_two_outputs_cannot_be_one_file(tmp_path, flags):
    assert_refused(simulate(tmp_path, *RUN, flags[0], "x", flags[1], "./x"), "same file")


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed")
@pytest.mark.parametrize("flag", ["--events", "--checkpoint", "--jobs-csv"])
def test_a_file_that_may_not_grow_leaves_nothing_half_written(tmp_path, flag):
    (tmp_path / "out").write_text("from before")
    every = ("--checkpoint-every", "10000") if flag == "--checkpoint" else ()
    jobs = ("--set", "jobs=300") if flag == "--jobs-csv" else ("--set", "jobs=30")
    given = ("--workload", "gavel-static", *jobs, "--cluster", "v100=40,k80=40", "--policy", "fifo-perf")

    done = simulate(tmp_path, *given, flag, "out", *every, before=("prlimit", "--fsize=4096"))

    assert_refused(done, "out")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "from before"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize("flag", ["--events", "--checkpoint", "--jobs-csv"])
def test_a_disk_that_fills_up_leaves_nothing_half_written(tmp_path, flag):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", tmp_path], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    every = ("--checkpoint-every", "10000") if flag == "--checkpoint" else ()
    given = ("--workload", "gavel-static", "--set", "jobs=300", "--cluster", "v100=40,k80=40", "--policy", "fifo-perf")
    try:
        done = command("simulate", *given, flag, tmp_path / "out", *every)
        left = list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", tmp_path], check=True)

    assert_refused(done, "out")
    assert left == []
