"""The state file of a real scheduler: damaged, repaired, started again; and a folder of checkpoints with two owners."""

import json
import sqlite3
import subprocess

import pytest

from live import FAST, ROTA, Live, environment, until


@pytest.fixture
def live(tmp_path):
    cluster = Live(tmp_path)
    yield cluster
    if cluster.process is not None and cluster.process.poll() is None:
        cluster.down()


def rota(folder, *words, timeout=60):
    return subprocess.run(
        [*ROTA, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=folder,
        env=environment(folder),
    )


def test_a_cluster_comes_up_again_on_a_file_that_was_damaged_and_repaired(live):
    live.up("--server", "v100=2", *FAST, "--keep-rounds", "1h", "--keep-events", "2d")
    done = live.finished()
    long = live.submit(steps=10_000_000)
    until(lambda: live.phase(long) == "running")
    live.down()
    state = live.folder / ".rota" / "state.db"
    with sqlite3.connect(state) as db:
        body, number = db.execute("SELECT body, seq FROM events WHERE kind = 'Planned' ORDER BY seq").fetchone()
    content = bytearray(state.read_bytes())
    content[content.index(body.encode()) + 20] ^= 1
    state.write_bytes(content)

    refused = rota(live.folder, "up")
    checked = rota(live.folder, "journal", "check", state, "--json")
    repaired = rota(live.folder, "journal", "repair", state)

    assert refused.returncode != 0
    assert "rota journal repair" in refused.stderr
    assert checked.returncode == 1
    assert json.loads(checked.stdout)["bad_events"][0]["number"] == number
    assert repaired.returncode == 0, repaired.stderr
    live.up()
    assert live.phase(done) == "finished"
    until(lambda: live.phase(long) == "running", seconds=60)
    assert json.loads(rota(live.folder, "journal", "check", state, "--json").stdout)["healthy"]
    assert live.submit(steps=10) == long + 1


def test_a_second_state_file_is_refused_the_checkpoints_of_the_first(live):
    live.up("--server", "v100=2", *FAST)
    job = live.finished(steps=100)
    live.down()
    folder = live.folder / ".rota" / "checkpoints"
    before = sorted(folder.rglob("*"))

    serve = ("serve", "--state", "other.db", "--insecure", "--listen", "127.0.0.1:0", "--checkpoints", str(folder))
    refused = rota(live.folder, *serve)

    assert refused.returncode == 2
    assert "belong to another state file" in refused.stderr
    assert "--claim-checkpoints" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert sorted(folder.rglob("*")) == before
    assert (folder / str(job)).is_dir()


def test_events_say_from_where_on_they_are_there(live):
    live.up("--server", "v100=2", *FAST, "--keep-size", "1MB", "--keep-rounds", "0", "--keep-events", "0")
    live.finished()

    said = live.run("events")

    assert "accepted" in said  # there are no two snapshots yet, so nothing has gone
