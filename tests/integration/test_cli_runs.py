"""The real command line, in a process of its own, on small workloads."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROTA = [sys.executable, "-m", "rota.cli"]
KEYS = [
    "mean_jct_s",
    "p50_jct_s",
    "p90_jct_s",
    "p99_jct_s",
    "p999_jct_s",
    "makespan_s",
    "utilization",
    "jobs_measured",
    "jobs_finished",
    "rounds",
    "solves",
    "cpu_s",
    "wall_s",
    "peak_rss_mb",
]
SMALL = [
    *("--workload", "gavel-continuous", "--set", "interarrival_s=3000", "--set", "jobs=30"),
    *("--cluster", "v100=4,p100=4,k80=4", "--seed", "1"),
]
TIMES = {"cpu_s", "wall_s", "peak_rss_mb"}


def rota(*arguments, cwd=None, **kwargs):
    return subprocess.run([*ROTA, *map(str, arguments)], check=False, capture_output=True, text=True, cwd=cwd, **kwargs)


def run_json(*arguments, cwd=None):
    done = rota("simulate", *arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    return json.loads(done.stdout)


def comparable(summary):
    return {k: v for k, v in summary.items() if k not in TIMES}


@pytest.mark.parametrize("rules", ["default", "gavel-artifact"])
@pytest.mark.parametrize("policy", ["fifo", "fifo-perf", "allox", "max_min_fairness_perf", "gandiva"])
def test_a_run_has_all_promised_numbers(policy, rules):
    summary = run_json(*SMALL, "--policy", policy, "--rules", rules)

    assert [k for k in KEYS if k not in summary] == []
    assert summary["jobs_measured"] == summary["jobs_finished"] == 30
    assert 0 < summary["p50_jct_s"] <= summary["p99_jct_s"] <= summary["makespan_s"]
    assert 0 < summary["utilization"] <= 1


def test_measured_jobs_end_an_endless_stream():
    summary = run_json(
        *("--workload", "gavel-continuous", "--set", "interarrival_s=3000", "--cluster", "v100=8,k80=8"),
        *("--policy", "fifo-perf", "--measure", "10:20"),
    )

    assert summary["jobs_measured"] == 10
    assert summary["jobs_finished"] >= 10


def test_until_stops_the_clock():
    summary = run_json(*SMALL, "--policy", "fifo", "--until", "20000")

    assert summary["makespan_s"] == pytest.approx(20000, rel=0.05)
    assert summary["jobs_finished"] < 30


def test_files_agree_with_the_summary_and_replay_gives_it_again(tmp_path):
    live = run_json(
        *SMALL, "--policy", "max-min-fairness-perf", "--jobs-csv", "jobs.csv", "--events", "run.jsonl.gz", cwd=tmp_path
    )

    rows = list(csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines()))
    assert list(rows[0])[:4] == ["job_id", "arrival_s", "finish_s", "jct_s"]
    jct = [float(r["jct_s"]) for r in rows]
    assert sum(jct) / len(jct) == pytest.approx(live["mean_jct_s"], rel=1e-12)
    done = rota("replay", "run.jsonl.gz", "--json", "--jobs-csv", "again.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert {k: again.get(k) for k in comparable(live)} == comparable(live)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "jobs.csv").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.csv", "jobs.csv", "run.jsonl.gz"]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run_json(
            *SMALL, "--policy", "gandiva", "--until", 60000, "--seed", seed, "--events", f"{name}.jsonl", cwd=tmp_path
        )

    first, same, other = ((tmp_path / f"{n}.jsonl").read_bytes() for n in "abc")
    assert first == same
    assert first != other


def test_a_compressed_trace_is_read_as_it_is(tmp_path):
    done = rota(
        *("trace", "generate", "gavel-continuous", "some.trace", "--jobs", "15", "--set", "interarrival_s=500"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "some.trace.gz").write_bytes(gzip.compress((tmp_path / "some.trace").read_bytes()))

    plain, packed = (
        run_json("--trace", name, "--cluster", "v100=4,k80=4", "--policy", "fifo-perf", cwd=tmp_path)
        for name in ("some.trace", "some.trace.gz")
    )

    assert plain["jobs_finished"] == 15
    assert plain["mean_jct_s"] == packed["mean_jct_s"]


def test_a_cluster_may_come_from_a_file(tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\n[[server]]\ntype = "v100"\ncount = 2\ngpus = 4\n')

    summary = run_json(
        *("--workload", "gavel-static", "--set", "jobs=5", "--cluster", "mine.toml", "--policy", "fifo"), cwd=tmp_path
    )

    assert summary["jobs_finished"] == 5


def test_single_fields_of_the_rules_can_be_set():
    quick, slow = (run_json(*SMALL, "--policy", "fifo", "--set-rules", f"restart_s={s}") for s in (0, 120))

    assert quick["mean_jct_s"] < slow["mean_jct_s"]


def test_a_run_can_go_on_from_a_checkpoint(tmp_path):
    whole = run_json(*SMALL, "--policy", "max-min-fairness-perf")
    run_json(
        *SMALL, "--policy", "max-min-fairness-perf", "--checkpoint", "c", "--checkpoint-every", "40000", cwd=tmp_path
    )

    resumed = run_json(*SMALL, "--policy", "max-min-fairness-perf", "--resume", "c", cwd=tmp_path)

    assert (tmp_path / "c").exists()
    assert resumed["mean_jct_s"] == pytest.approx(whole["mean_jct_s"], rel=1e-12)
    assert resumed["jobs_finished"] == 30


def test_bench_solve_tells_cpu_seconds():
    done = rota("bench", "solve", "--policy", "max-min-fairness-perf", "--jobs", "64", "--multi-gpu", "--json")

    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["cpu_s"] < 5


def test_bench_place_tells_cpu_seconds_and_the_gap():
    done = rota("bench", "place", "--cluster", "synergy-32", "--jobs", "32", "--multi-gpu", "--json")

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert 0 < answer["cpu_s"] < 5
    assert 0 <= answer["gap"] < 0.05
    assert answer["running"] > 1


BAD_TRACES = {
    "columns": "a\tb\tc\n",
    "negative": "A3C\tcmd\tdir\t--n\t0\t100\t1\t1\t-1\t-5\n",
    "empty": "",
    "unknown model": "NoSuchModel\tcmd\tdir\t--n\t0\t100\t1\t1\t-1\t0\n",
}


@pytest.mark.parametrize("problem", BAD_TRACES)
def test_a_bad_trace_is_one_message_and_nothing_is_written(tmp_path, problem):
    (tmp_path / "bad.trace").write_text(BAD_TRACES[problem])

    done = rota(
        *("simulate", "--trace", "bad.trace", "--cluster", "v100=4", "--policy", "fifo"),
        *("--jobs-csv", "out.csv", "--events", "run.jsonl"),
        cwd=tmp_path,
    )

    assert done.returncode == 2
    assert done.stderr.startswith("rota: error: ")
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["bad.trace"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policy", "fifo-pref", "--cluster", "v100=4"], "did you mean 'fifo-perf'"),
        (["--policy", "fifo", "--cluster", "v1000=4"], "did you mean 'v100'"),
        (["--policy", "fifo", "--cluster", "v100=4", "--rules", "gavel"], "did you mean 'gavel-artifact'"),
        (["--policy", "fifo", "--cluster", "v100=four"], "v100=four"),
        (["--policy", "fifo", "--cluster", "v100=0"], "no GPU"),
        (["--policy", "fifo", "--cluster", "v100=4", "--mechanism", "stridet"], "did you mean 'strided'"),
        (["--policy", "allox", "--cluster", "v100=4", "--set-policy", "alfa=1"], "did you mean 'alpha'"),
        (["--policy", "fifo", "--cluster", "v100=4", "--set-rules", "restarts=1"], "restart_s"),
        (["--policy", "fifo", "--cluster", "v100=4", "--set-rules", "restart_s=soon"], "restart_s"),
        (["--policy", "fifo", "--cluster", "v100=4", "--set", "interarival_s=1"], "interarrival_s"),
        (["--policy", "fifo", "--cluster", "v100=4", "--profiles", "gavl"], "did you mean 'gavel'"),
        (["--policy", "fifo", "--cluster", "none.toml"], "none.toml"),
    ],
)
def test_bad_options_name_the_value_and_the_way_out(arguments, says):
    done = rota(
        "simulate", "--workload", "gavel-continuous", "--set", "jobs=5", "--set", "interarrival_s=10", *arguments
    )

    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("rota: error: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_that_can_never_fit_is_named_and_the_rest_runs(tmp_path):
    line = "ResNet-18 (batch size 16)\tcmd\tdir\t--n\t0\t1000\t{gpus}\t1\t-1\t{at}\n"
    (tmp_path / "mixed.trace").write_text("".join(line.format(gpus=g, at=i) for i, g in enumerate((1, 8, 2))))

    done = rota("simulate", "--trace", "mixed.trace", "--cluster", "v100=4", "--policy", "fifo", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["jobs_finished"], summary["jobs_rejected"]) == (2, 1)
    assert "8 GPUs" in done.stderr
    assert "note" in done.stderr


def test_ctrl_c_summarises_what_was_done(tmp_path):
    command = [
        *ROTA,
        *("simulate", "--workload", "gavel-continuous", "--set", "interarrival_s=600", "--cluster", "v100=32,k80=32"),
        *("--policy", "max-min-fairness-perf", "--measure", "0:1000000", "--json", "--jobs-csv", "jobs.csv"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

    assert process.returncode == 130, err
    summary = json.loads(out)
    assert summary["interrupted"] is True
    assert summary["jobs_submitted"] > 0
    assert (tmp_path / "jobs.csv").exists()


def test_a_reader_that_goes_away_is_no_error():
    script = f"{' '.join(ROTA)} policies | true"

    done = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True)

    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("flag", ["--jobs-csv", "--events"])
def test_a_full_disk_is_a_clear_message(flag):
    done = rota("simulate", *SMALL, "--policy", "fifo", flag, "/dev/full")

    assert done.returncode == 2, done.stderr
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_disk_that_fills_up_leaves_no_half_file(tmp_path):
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], check=False, capture_output=True
    ).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        done = rota("simulate", *SMALL, "--policy", "gandiva", "--events", tmp_path / "run.jsonl")
        left = list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", tmp_path], check=True)

    assert done.returncode == 2, done.stderr
    assert "the disk is full" in done.stderr
    assert left == []


def test_the_demo_writes_a_report(tmp_path):
    done = rota("demo", "--jobs", "20", "--out", "report", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "max-min-fairness-perf" in done.stdout
    assert "srtf, tune" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert [p.name for p in (tmp_path / "report").iterdir()] == ["report.html"]
    assert (tmp_path / "report" / "report.html").read_text().startswith("<!doctype html>")
