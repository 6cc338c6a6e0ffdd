"""Runs and sweeps compared from the command line."""

import json

import numpy as np
import pytest

import rota
from builders import command

WORKLOAD = ("--workload", "gavel-continuous", "--set", "interarrival_s=9000", "--cluster", "v100=4,k80=4")


def compared(*arguments, cwd):
    done = command("compare", *arguments, "--json", cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two policies on the same jobs, each as CSV and as log, and one on other jobs."""
    found = tmp_path_factory.mktemp("runs")
    for name, policy, seed in (("fifo", "fifo", 1), ("las", "las", 1), ("other", "fifo", 2)):
        files = ("--jobs-csv", f"{name}.csv.gz", "--events", f"{name}.jsonl.gz")
        done = command(
            "simulate", *WORKLOAD, "--measure", "20:120", "--policy", policy, "--seed", seed, *files, cwd=found
        )
        assert done.returncode == 0, done.stderr
    return found


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    store = tmp_path_factory.mktemp("sweep") / "r.db"
    run = {"workload": "gavel-continuous", "cluster": "v100=4,k80=4", "measure": (5, 35)}
    return rota.sweep(**run, policy=["fifo", "las"], load=[0.1, 0.2], seed=range(3), store=store, workers=2)


def test_files_and_logs_of_the_same_runs_give_the_same_comparison(folder):
    files = compared("fifo.csv.gz", "las.csv.gz", cwd=folder)
    logs = compared("fifo.jsonl.gz", "las.jsonl.gz", cwd=folder)
    replayed = [rota.replay(folder / f"{name}.jsonl.gz").summary for name in ("fifo", "las")]

    assert {k: v for k, v in files.items() if k not in {"a_run", "b_run"}} == {
        k: v for k, v in logs.items() if k not in {"a_run", "b_run"}
    }
    assert (files["jobs"], files["only_a"], files["only_b"]) == (100, 0, 0)
    assert files["gained"] + files["lost"] + files["equal"] == 100
    for side, summary in zip(("a", "b"), replayed, strict=True):
        found = [files[side][key] for key in ("mean_s", "median_s", "p99_s")]
        assert found == pytest.approx([summary[key] for key in ("mean_jct_s", "p50_jct_s", "p99_jct_s")])
    assert files["mean"]["low"] < files["mean"]["ratio"] < files["mean"]["high"]


def test_the_table_ends_with_the_verdict(folder):
    found = compared("fifo.csv.gz", "las.csv.gz", cwd=folder)

    done = command("compare", "fifo.csv.gz", "las.csv.gz", cwd=folder)

    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == found["verdict"]
    assert "blocks of 10 consecutive jobs" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_runs_of_a_store_can_be_compared(swept):
    a, b = (next(r for r in swept.runs if r.point["policy"] == p) for p in ("fifo", "las"))

    found = compared(f"r.db:{a.key[:12]}", f"r.db:{b.key[:12]}", cwd=swept.store.parent)

    assert found["jobs"] == 30
    assert found["mean"]["ratio"] == pytest.approx(b.metrics["mean_jct_s"] / a.metrics["mean_jct_s"])


def test_two_values_of_a_sweep_are_paired_by_seed(swept):
    of = {(r.point["policy"], r.point["load"], r.point["seed"]): r.metrics["mean_jct_s"] for r in swept.runs}
    logs = np.log([[of["las", x, s] / of["fifo", x, s] for s in range(3)] for x in (0.1, 0.2)])

    found = compared("--store", "r.db", "--by", "policy", "fifo", "las", cwd=swept.store.parent)

    assert [s["point"] for s in found["settings"]] == [{"load": 0.1}, {"load": 0.2}]
    assert [s["estimate"]["ratio"] for s in found["settings"]] == pytest.approx(np.exp(logs.mean(axis=1)))
    assert found["overall"]["ratio"] == pytest.approx(np.exp(logs.mean()))
    assert (found["pairs"], found["over"], found["samples"], found["left_out"]) == (6, "seeds", 3, {})
    shown = command("compare", "--store", "r.db", "--by", "policy", "fifo", "las", cwd=swept.store.parent)
    assert shown.stdout.splitlines()[-1] == found["verdict"]


def test_bad_input_is_one_line_and_exit_code_2(folder, swept):
    store = swept.store
    (folder / "broken.csv").write_text("job_id,arrival_s,jct_s\n0,0,soon\n")
    cases = [
        (("fifo.csv.gz", "other.csv.gz"), "the workloads differ: job 1 arrives at"),
        (("fifo.csv.gz", "nowhere.csv"), "nowhere.csv"),
        (("fifo.csv.gz", "broken.csv"), "broken.csv:2, column jct_s: 'soon' is not a number"),
        (("fifo.csv.gz", store), "is a store of results"),
        (("fifo.csv.gz", f"{store}:ffffffffffffffff"), "no run of"),
        (("fifo.csv.gz", f"{store}:"), "no run of"),
        (("fifo.csv.gz", "nowhere.db:00"), "there is no store"),
        (("--store", store, "--by", "polcy", "fifo", "las"), "did you mean 'policy'?"),
        (("--store", store, "--by", "policy", "fifo", "lsa"), "did you mean 'las'?"),
        (("--store", store, "--by", "policy", "fifo", "fifo"), "give two different ones"),
        (("--store", store, "--by", "policy", "fifo", "las", "--metric", "mean_jct"), "did you mean 'mean_jct_s'?"),
        (("--store", store, "--by", "policy", "fifo", "las", "--sweep", "sweeep"), "did you mean 'sweep'?"),
    ]
    for arguments, says in cases:
        done = command("compare", *arguments, cwd=folder)

        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), (arguments, done.stderr)
        assert done.stderr.startswith("rota: error: ")
        assert says in done.stderr


def test_store_and_by_go_together(folder):
    assert "--store and --by go together" in command("compare", "--by", "policy", "fifo", "las", cwd=folder).stderr
    assert "give --store" in command("compare", "--metric", "mean_jct_s", "a.csv", "b.csv", cwd=folder).stderr
