"""Sweeps in real processes, and everything that can happen to these."""

import contextlib
import importlib.util
import json
import os
import resource
import signal
import sqlite3
import time
from pathlib import Path

import pytest

import rota
from builders import command, started
from rota.core.errors import ConfigError
from rota.experiments import sweeping
from rota.experiments.pool import LocalPool
from rota.experiments.store import ResultStore
from rota.experiments.tasks import make_task

QUICK = {"workload": "gavel-continuous", "cluster": "v100=4,k80=4", "measure": (5, 15)}
FLAGS = ("--workload", "gavel-continuous", "--cluster", "v100=4,k80=4", "--store", "r.db")
BIG = ("--workload", "gavel-continuous", "--cluster", "v100=36,p100=36,k80=36", "--store", "r.db")
SLOW = (*BIG, "--measure", "0:90000")
"""Takes minutes."""


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for worker processes in /proc")


def status_of(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return dict(db.execute("SELECT key, status FROM runs"))


def metrics_of(path):
    """Everything that was computed."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT key, metrics FROM runs"))


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pids):
    """Whether the processes end within a few seconds."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not any(Path(f"/proc/{pid}").exists() and "Z" not in _state(pid) for pid in pids):
            return True
    return False


def _state(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "Z"


def swept(tmp_path, **settings):
    return rota.sweep(**{**QUICK, "store": tmp_path / "r.db", "workers": 2, **settings})


def test_nothing_is_computed_twice_and_points_can_be_added(tmp_path):
    first = swept(tmp_path, policy=["fifo", "las"], load=[0.2])
    again = swept(tmp_path, policy=["fifo", "las"], load=[0.2])
    more = swept(tmp_path, policy=["fifo", "las"], load=[0.2, 0.3], name="another sweep")

    assert (first.computed, again.computed, more.computed) == (2, 0, 2)
    assert [r.metrics for r in again.runs] == [r.metrics for r in first.runs]
    assert [r.point for r in more.runs] == [{"policy": p, "load": x} for p in ("fifo", "las") for x in (0.2, 0.3)]
    assert first.jobs(first.runs[0])["job_id"].tolist() == list(range(5, 15))


def test_a_run_of_a_sweep_is_the_run_of_simulate(tmp_path):
    run = swept(tmp_path, policy="las", set={"interarrival_s": 36000.0}, seed=3).runs[0]
    alone = rota.simulate(**QUICK, policy="las", settings={"interarrival_s": 36000.0}, seed=3)

    assert run.metrics["mean_jct_s"] == alone.summary["mean_jct_s"]
    assert run.metrics["makespan_s"] == alone.summary["makespan_s"]


def test_a_failed_run_is_kept_with_its_error_and_tried_again_unless_told(tmp_path):
    grid = {"policy": ["fifo", "las"], "load": 0.2, "set.fixed_duration_s": [100, -1]}

    broken = swept(tmp_path, **grid)
    kept = swept(tmp_path, **grid, retry=False)
    tried = swept(tmp_path, **grid)

    assert [r.status for r in broken.runs] == ["ok", "failed"] * 2
    assert "fixed_duration_s" in broken.runs[1].error
    assert kept.computed == 0
    assert tried.computed == 2


def test_an_unreadable_trace_fails_alone(tmp_path):
    good = tmp_path / "good.trace"
    good.write_text("A3C\tcmd\tdir\t--n\t0\t1000\t1\t1\t-1\t0\n")
    traces = [str(good), str(tmp_path / "missing.trace")]

    found = rota.sweep(trace=traces, cluster="v100=4", policy="fifo", store=tmp_path / "r.db", workers=1)

    assert [r.status for r in found.runs] == ["ok", "failed"]
    assert "missing.trace" in found.runs[1].error


@needs_proc
def test_the_command_line_resumes_after_kill_9_with_nothing_lost(tmp_path):
    grid = (*FLAGS, "--policies", "fifo", "--loads", "0.1,0.15", "--seeds", "0:7", "--measure", "20:60", "-j2")
    whole = command("sweep", *grid, "--store", "whole.db", "--quiet", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr

    process = started("sweep", *grid, cwd=tmp_path)
    seen = [process.stderr.readline() for _ in range(4)]
    workers = children(process.pid)
    process.kill()
    process.communicate()
    stored = status_of(tmp_path / "r.db")
    resumed = json.loads(command("sweep", *grid, "--json", "--quiet", cwd=tmp_path).stdout)

    assert len(workers) == 2
    assert gone(workers)
    assert len(stored) >= len(seen)
    assert resumed["computed"] == 16 - len(stored)
    assert metrics_of(tmp_path / "r.db") == metrics_of(tmp_path / "whole.db")


@needs_proc
def test_ctrl_c_stops_within_a_second_and_says_how_to_go_on(tmp_path):
    quick = command("sweep", *BIG, "--policies", "fifo", "--loads", "1", "--measure", "1:5", cwd=tmp_path)
    assert quick.returncode == 0, quick.stderr
    process = started("sweep", *SLOW, "--policies", "fifo", "--loads", "1:3", "--name", "s", "-j", "1", cwd=tmp_path)
    while not (tmp_path / "r.db").exists() or not children(process.pid):
        assert process.poll() is None

    at = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)

    assert process.returncode == 130, err
    assert time.monotonic() - at < 3  # one, and some room for a busy machine
    assert "run the same command again" in err
    assert "Traceback" not in err
    assert len(status_of(tmp_path / "r.db")) == 1


def test_a_worker_that_is_killed_is_replaced_and_its_run_made_again(tmp_path):
    pool = LocalPool(2)
    spec = sweeping.make_spec(None, {**QUICK, "policy": "las", "load": 0.2, "seed": range(4), "measure": (20, 80)})
    killed = []

    def kill(report):
        if report.done == 1:
            killed.extend(pool.pids())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    with ResultStore(tmp_path / "r.db") as store:
        found = sweeping.carry_out(spec, sweeping.plan(spec), store, pool, progress=kill)

    assert len(killed) == 2
    assert [r.status for r in found.runs] == ["ok"] * 4


def test_a_run_that_kills_every_worker_is_failed_and_the_rest_goes_on(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "deadly.py").write_text(
        "import os, signal\n"
        "class Deadly:\n"
        "    '''Kills the process.'''\n"
        "    def allocate(self, view):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    info = folder / "deadly-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[rota.policies]\ndeadly = deadly:Deadly\n")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")

    done = command("sweep", *FLAGS, "--policies", "fifo,deadly,las", "--loads", "0.2", "--measure", "5:9", cwd=tmp_path)

    assert done.returncode == 1
    assert "was killed by signal 9 during the run; tried 2 times" in done.stderr
    assert sorted(status_of(tmp_path / "r.db").values()) == ["failed", "ok", "ok"]


def test_a_run_that_takes_too_long_is_stopped_and_the_rest_goes_on(tmp_path):
    grid = ("--policies", "fifo", "--vary", "measure=0:90000;0:2", "--loads", "2", "-j", "1", "--timeout", "1.5")

    done = command("sweep", *BIG, *grid, "--overload", "off", cwd=tmp_path)

    assert done.returncode == 1
    assert "stopped after 1.5 s" in done.stderr
    assert sorted(status_of(tmp_path / "r.db").values()) == ["ok", "timeout"]


def test_two_sweeps_on_one_store_share_the_work(tmp_path):
    grid = (*FLAGS, "--policies", "fifo,las", "--loads", "0.1,0.2", "--seeds", "0:2", "--measure", "20:60", "-j", "1")

    both = [started("sweep", *grid, "--name", name, "--json", cwd=tmp_path) for name in ("a", "b")]
    outputs = [process.communicate(timeout=120) for process in both]
    found = [json.loads(out) for out, _ in outputs]

    assert [process.returncode for process in both] == [0, 0]
    assert sum(f["computed"] for f in found) == 12
    assert all(run["status"] == "ok" for f in found for run in f["runs"])
    assert len(status_of(tmp_path / "r.db")) == 12


def test_a_full_disk_is_said_and_the_store_goes_on_when_there_is_room(tmp_path):
    grid = (*FLAGS, "--policies", "fifo", "--loads", "0.2", "--seeds", "0:29", "--measure", "0:400", "-j1", "--quiet")

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))

    full = command("sweep", *grid, cwd=tmp_path, preexec_fn=little_room)
    before = status_of(tmp_path / "r.db")
    resumed = command("sweep", *grid, "--limit", len(before) + 1, "--json", cwd=tmp_path)

    assert full.returncode == 2, full.stderr
    assert "the disk is full" in full.stderr
    assert "Traceback" not in full.stderr
    assert 0 < len(before) < 30
    assert json.loads(resumed.stdout)["computed"] == 1


def test_overload_is_reported_as_unstable_and_the_sweep_is_no_failure(tmp_path):
    grid = (*FLAGS, "--policies", "fifo", "--loads", "0.1,6", "--measure", "3000:3100", "--seeds", "1")

    done = command("sweep", *grid, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "queue keeps growing" in done.stderr
    assert sorted(status_of(tmp_path / "r.db").values()) == ["ok", "unstable"]


def test_without_detection_an_overloaded_run_goes_on_and_is_another_run(tmp_path):
    grid = {"policy": "fifo", "load": 6, "measure": (350, 352)}

    watched = swept(tmp_path, **grid)
    free = swept(tmp_path, **grid, overload="off")
    again = swept(tmp_path, **grid)

    assert [s.runs[0].status for s in (watched, free, again)] == ["unstable", "ok", "unstable"]
    assert [s.computed for s in (watched, free, again)] == [1, 1, 0]


def test_the_load_is_raised_until_the_cluster_cannot_follow(tmp_path):
    climb = {"policy": ["fifo"], "auto_load": {"from": 0.1, "factor": 4}, "measure": (1500, 1510)}

    found = swept(tmp_path, **climb)
    again = swept(tmp_path, **climb)

    assert [r.point["load"] for r in found.runs] == [0.1, 0.4, 1.6][: len(found.runs)]
    assert len(found.runs) > 1
    assert [r.status for r in found.runs[:-1]] == ["ok"] * (len(found.runs) - 1)
    assert found.runs[-1].status == "unstable" or found.runs[-1].metrics["utilization"] >= 0.99
    assert (again.computed, len(again.runs)) == (0, len(found.runs))


def test_a_dry_run_runs_nothing(tmp_path):
    (tmp_path / "s.toml").write_text(
        "[run]\nworkload = 'gavel-continuous'\ncluster = 'v100=4'\nmeasure = '5:9'\n"
        "[axes]\npolicies = ['fifo', 'las']\nloads = {from = 1, to = 3}\n"
    )

    done = command("sweep", "s.toml", "--dry-run", "--json", cwd=tmp_path)

    assert [p["point"] for p in json.loads(done.stdout)][:2] == [{"policy": "fifo", "load": n} for n in (1, 2)]
    assert len(json.loads(done.stdout)) == 6
    assert list(tmp_path.glob("*.db")) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--policies", "fifoo", "--loads", "1", "--measure", "1:2"), "did you mean 'fifo'"),
        (("--policies", "fifo", "--loads", "1:x"), "1:x"),
        (("--policies", "fifo", "--vary", "polcy.x=1"), "unknown key in --vary"),
        (("--policies", "fifo", "--auto-step", "1"), "--auto-load"),
        (("--loads", "1"), "which policy"),
        (("none.toml",), "check the path"),
        (("--policies", "fifo", "--store", "no/r.db"), "does not exist"),
    ],
)
def test_mistakes_are_refused_in_one_line(tmp_path, arguments, says):
    done = command("sweep", *FLAGS, *arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_results_can_be_listed_shown_and_exported(tmp_path):
    swept(tmp_path, policy=["fifo", "las"], load=0.2, name="mine")
    key = next(iter(status_of(tmp_path / "r.db")))

    listed = json.loads(command("results", "list", "r.db", "--json", cwd=tmp_path).stdout)
    shown = command("results", "show", "r.db", "--sweep", "mine", cwd=tmp_path).stdout
    one = command("results", "show", "r.db", key[:10], cwd=tmp_path).stdout
    exported = command("results", "export", "r.db", "--csv", "out.csv", "--sweep", "mine", cwd=tmp_path)
    wrong = command("results", "show", "r.db", "--sweep", "mien", cwd=tmp_path)

    assert (listed[0]["name"], listed[0]["points"], listed[0]["ok"]) == ("mine", 2, 2)
    assert "fifo" in shown
    assert key in one
    assert exported.returncode == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3
    assert "did you mean 'mine'" in wrong.stderr
    assert wrong.returncode == 2


def test_results_are_a_frame_for_pandas(tmp_path):
    pytest.importorskip("pandas", reason="the extra `frame` is not installed")
    frame = swept(tmp_path, policy=["fifo", "las"], load=[0.2, 0.3]).frame()

    assert frame.pivot_table(index="load", columns="policy", values="mean_jct_s").shape == (2, 2)


@pytest.mark.skipif(importlib.util.find_spec("pandas") is not None, reason="pandas is installed")
def test_without_pandas_a_frame_says_what_to_install(tmp_path):
    with pytest.raises(ConfigError, match=r"\.\[frame\]"):
        swept(tmp_path, policy="fifo", load=0.2).frame()


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_its_executor_says_what_to_install(tmp_path):
    grid = (*FLAGS, "--policies", "fifo", "--loads", "1", "--measure", "1:2")

    done = command("sweep", *grid, "--executor", "ray", cwd=tmp_path)

    assert done.returncode == 2
    assert ".[ray]" in done.stderr


def test_a_figure_has_a_line_per_policy(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    figure = swept(tmp_path, policy=["fifo", "las"], load=[0.2, 0.3]).figure()

    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["fifo", "las"]


def test_a_sweep_costs_less_than_20_ms_of_cpu_per_run(tmp_path):
    spec = sweeping.make_spec(None, {**QUICK, "policy": "fifo", "load": 0.2, "seed": range(40), "measure": (0, 1)})
    make_task(spec.points()[0])  # imports and the digest of the code are paid once

    before = time.process_time()
    with ResultStore(tmp_path / "r.db") as store:
        found = sweeping.carry_out(spec, sweeping.plan(spec), store, LocalPool(1))
    spent = time.process_time() - before

    assert found.computed == 40
    assert spent / 40 < 0.02
