"""The store: one file that survives what happens to the processes around it."""

import platform
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from rota.core.errors import ConfigError, OutputError
from rota.experiments.blobs import pack, unpack
from rota.experiments.execution import RunOutcome
from rota.experiments.results import columns, rows, write_csv
from rota.experiments.store import ResultStore


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def an_outcome(status="ok", **more):
    return RunOutcome(
        status=status, metrics={"mean_jct_s": 3.5, "worst": float("inf")}, started=1.0, wall_s=0.5, **more
    )


def test_a_result_comes_back_as_it_was(path):
    with ResultStore(path) as store:
        store.write("ab12", {"policy": "fifo"}, an_outcome(jobs=b"x"))

    with ResultStore(path, create=False) as store:
        run = store.result("ab")
        assert (run.status, run.config, run.metrics) == ("ok", {"policy": "fifo"}, {"mean_jct_s": 3.5, "worst": None})
        assert store.jobs("ab12") == b"x"
        assert store.result("cd") is None


def test_a_new_result_replaces_a_failed_one(path):
    with ResultStore(path) as store:
        store.write("k", {}, an_outcome("failed", error="boom"))
        store.write("k", {}, an_outcome("ok", jobs=b"y"))

        assert store.status("k") == "ok"
        assert store.result("k").error is None


def test_a_point_that_has_another_key_now_points_to_the_new_run(path):
    with ResultStore(path) as store:
        store.record_sweep("s", {})
        store.add_members("s", [({"seed": 0}, "old"), ({"seed": 1}, "other")])
        store.add_members("s", [({"seed": 0}, "new"), ({"seed": 2}, "third")])
        store.write("new", {}, an_outcome())

        assert [(r.point["seed"], r.key, r.status) for r in store.runs(sweep="s")] == [
            (0, "new", "ok"), (1, "other", None), (2, "third", None),
        ]  # fmt: skip
        assert store.sweeps()[0].points == 3
        assert store.sweeps()[0].done == 1


def test_completion_times_survive_packing():
    jobs = {
        "job_id": np.arange(5),
        "arrival_s": np.arange(5.0),
        "finish_s": np.array([1.0, np.nan, 3.5, 4.0, 9.0]),
        "gpus": np.ones(5, dtype=np.int64),
    }

    found = unpack(pack(jobs, (1, 4)))

    assert found["job_id"].tolist() == [1, 2, 3]
    assert np.isnan(found["jct_s"][0])
    assert found["jct_s"][1:].tolist() == [1.5, 1.0]


def test_a_run_is_claimed_by_one_process_and_free_again_when_that_is_gone(path):
    script = (
        "import sys; from rota.experiments.store import ResultStore\n"
        "store = ResultStore(sys.argv[1]); print(store.claim('k'), flush=True); sys.stdin.read()"
    )
    with ResultStore(path) as store:
        other = subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout.readline() == "True\n"

        assert not store.claim("k")
        assert store.claimed("k")
        other.kill()
        other.communicate()
        assert not store.claimed("k")
        assert store.claim("k")


def test_a_claim_from_another_machine_ends_with_its_time(path):
    with ResultStore(path) as store:
        store.claim("k")
        store._db.execute("UPDATE claims SET host = 'elsewhere'")
        assert not store.claim("k")
        store._db.execute("UPDATE claims SET until = 0")
        assert store.claim("k")


def test_claims_of_this_process_are_given_up_in_the_end(path):
    with ResultStore(path) as store:
        store.claim("k")
    with ResultStore(path) as store:
        assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (0,)


def test_files_that_are_no_store_are_refused(tmp_path):
    text, other, newer = (tmp_path / n for n in ("text.db", "other.db", "newer.db"))
    text.write_text("this is not a database, and long enough to tell" * 50)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE x (y)")
    db.close()
    with ResultStore(newer) as store:
        store._db.execute("UPDATE meta SET value = '99'")

    for path, says in ((text, "not a store"), (other, "not a store"), (newer, "schema 99")):
        with pytest.raises(ConfigError, match=says):
            ResultStore(path)
    with pytest.raises(ConfigError, match="there is no store"):
        ResultStore(tmp_path / "none.db", create=False)
    with pytest.raises(OutputError, match="does not exist"):
        ResultStore(tmp_path / "none" / "x.db")


def test_a_full_disk_is_said_and_what_was_written_stays(path):
    script = (
        "import os, resource, sys\n"
        "from rota.core.errors import OutputError\n"
        "from rota.experiments.execution import RunOutcome\n"
        "from rota.experiments.store import ResultStore\n"
        "store = ResultStore(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "try:\n"
        "    for i in range(1000):\n"
        "        store.write(f'{i:08x}', {}, RunOutcome(status='ok', jobs=os.urandom(5000)))\n"
        "        print(i, flush=True)\n"
        "except OutputError as error:\n"
        "    print(error, file=sys.stderr)\n"
    )

    done = subprocess.run([sys.executable, "-c", script, path], check=False, capture_output=True, text=True)

    assert "the disk is full or the file may not grow" in done.stderr
    written = len(done.stdout.splitlines())
    assert 0 < written < 1000
    with ResultStore(path) as store:
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert len(list(store.runs())) == written
        store.write("further", {}, an_outcome())


def test_the_table_of_a_store_can_be_written_as_csv(path, tmp_path):
    with ResultStore(path) as store:
        store.record_sweep("s", {})
        store.add_members("s", [({"policy": "fifo"}, "a"), ({"policy": "las"}, "b")])
        store.write("a", {}, an_outcome())
        count = write_csv(tmp_path / "out.csv", store.runs(sweep="s"))
        runs = list(store.runs(sweep="s"))

    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert count == 2
    assert lines[0].startswith("key,policy,status,unstable,mean_jct_s")
    assert lines[1].startswith("a,fifo,ok,False,3.5")
    assert lines[2].startswith("b,las,,")
    assert columns(runs)[-1] == "version"
    assert rows(runs)[0]["host"] == platform.node()
