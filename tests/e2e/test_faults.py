"""Single faults, each with real processes: what is ended, what goes on, and what is said about it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from faults import Site, results, until
from live import alive


@pytest.fixture
def site(tmp_path):
    with Site(tmp_path) as found:
        yield found


def python(text):
    return [sys.executable, "-c", text]


def test_folders_may_be_given_from_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Site(tmp_path, checkpoints="saved") as site:
        site.agent("n0", folder="memory", cwd=tmp_path)
        (job,) = site.done(site.submit(steps=5, max_restarts=0))

        assert (job.phase, job.reason) == ("finished", "")
        assert (tmp_path / "saved" / "0" / "1" / "step-000005").is_dir()


def test_a_job_that_hangs_is_ended_and_called_hung(site):
    site.agent("n0")
    hangs = "import rota.client, time\nlease = rota.client.lease()\nwith lease:\n  lease.next(); time.sleep(1000)"

    (job,) = site.done(site.submit(argv=python(hangs), steps=10, hung_after_s=1.5, max_restarts=0), seconds=60)

    assert job.phase == "failed"
    assert "hung: no step for 1.5 s" in job.reason
    (ended,) = site.events("AttemptEnded")
    assert ended["outcome"] == "hung"
    until(lambda: site.busy() == {"n0": 0} and site.tasks() == [])


def test_a_job_that_ends_well_on_term_was_stopped_and_is_not_finished(site):
    site.agent("n0")
    site.agent("n1")
    polite = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntime.sleep(1000)"
    number = site.submit(argv=python(polite))
    until(lambda: site.tasks(number), what="a process")
    (part,) = site.job(number).parts
    time.sleep(1.0)

    site.client.drain(part.node)
    until(lambda: site.job(number).epoch == 2 or site.job(number).phase == "finished", 30, "a move")

    assert site.job(number).phase != "finished"
    assert site.events("AttemptEnded")[0]["outcome"] == "stopped"


def test_a_full_disk_is_named_and_the_last_checkpoint_stays_good(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    disk = tmp_path / "checkpoints"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False, capture_output=True)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")
    grows = """
import rota.client, time
def save(path): (path / "data").write_bytes(bytes(150_000 * (1 + lease.step // 5)))
def load(path): print("loaded", len((path / "data").read_bytes()), flush=True)
with rota.client.lease(save=save, load=load, every_steps=5) as lease:
    while lease.next(): time.sleep(0.02)
"""
    try:
        with Site(tmp_path) as site:
            site.agent("n0")
            env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            number = site.submit(argv=python(grows), steps=100, max_restarts=1, env=env)

            (job,) = site.done(number, seconds=60)

            assert (job.phase, job.restarts) == ("failed", 2)
            assert job.reason.startswith("disk-full: OSError: [Errno 28]")
            assert 0 < job.saved_step < 100
            assert [e["outcome"] for e in site.events("AttemptEnded")] == ["disk-full", "disk-full"]
            kept = disk / site.events("StepsSaved", job=number)[-1]["path"]
            size = 150_000 * (1 + (job.saved_step - 1) // 5)
            assert abs((kept / "data").stat().st_size - size) <= 150_000
            assert (kept / "manifest.json").is_file()
            assert b"loaded" in b"".join(site.client.logs(number))
            full = disk / "filler"
            with contextlib.suppress(OSError):
                full.write_bytes(bytes(2_000_000))
            other = site.submit(emulated=True, steps=60, max_restarts=0)
            (emulated,) = site.done(other, seconds=30)
            assert emulated.phase == "failed"
            assert emulated.reason.startswith("disk-full: cannot save: No space left on device")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_poisoned_job_is_tried_with_growing_pauses_while_others_run(site):
    site.agent("n0", "emulate:v100=2")
    poisoned = site.submit(argv=["false"], max_restarts=2)
    good = [site.submit(steps=40) for _ in range(3)]

    over = site.done(*good, seconds=60)
    (bad,) = site.done(poisoned, seconds=60)

    assert [job.phase for job in over] == ["finished"] * 3
    assert (bad.phase, bad.restarts) == ("failed", 3)
    assert "3 failed attempts" in bad.reason
    starts = [e["at"] for e in site.events("AttemptStarted", job=poisoned)]
    ends = [e["at"] for e in site.events("AttemptEnded", job=poisoned)]
    pauses = [start - end for start, end in zip(starts[1:], ends, strict=False)]
    assert len(starts) == 3
    assert 2.0 <= pauses[0] < 4.0 <= pauses[1] < 7.0


def test_an_agent_that_lost_its_folder_lost_its_tasks_and_they_go_on(site):
    site.agent("n0", "emulate:v100=3")
    plain = site.submit(argv=["sleep", "1000"])
    real, emulated = site.submit(steps=150), site.submit(steps=300, emulated=True)
    until(lambda: all(site.job(n).saved_step > 0 for n in (real, emulated)) and site.tasks(plain), what="a save")
    orphans = site.tasks(plain) + site.tasks(real)

    site.kill("n0")
    shutil.rmtree(site.folder / "n0")
    site.agent("n0", "emulate:v100=3", wait=False)
    over = site.done(real, emulated, seconds=60)

    assert [(job.phase, job.epoch, job.saved_step) for job in over] == [("finished", 2, 150), ("finished", 2, 300)]
    for number in (real, emulated, plain):
        ended = site.events("AttemptEnded", job=number)[0]
        assert (ended["epoch"], ended["outcome"]) == (1, "lost")
        assert "has a new folder and knows nothing of it" in ended["detail"]
    assert site.credited_in_order(real)[-1] == 150
    assert site.steps(real)[-1][4] == results(150)[-1]
    until(lambda: not any(alive(n) for n in orphans), 20, "the end of what nobody knows")
    site.client.cancel([plain])
    until(lambda: site.busy() == {"n0": 0} and site.tasks() == [], what="free devices")


def test_a_plain_program_ends_with_its_lease_when_its_agent_is_dead(site):
    """Nothing of Rota is inside the program, and nobody but its supervisor is left on its server."""
    site.agent("n0")
    ticks = site.folder / "ticks"
    text = f"while :; do echo $ROTA_EPOCH $(date +%s.%N) >> {ticks}; sleep 0.05; done"
    number = site.submit(argv=["sh", "-c", text])
    until(lambda: ticks.exists() and len(ticks.read_text().splitlines()) > 20, what="a start")
    first = site.tasks(number)

    site.kill("n0")
    site.agent("n1")
    until(lambda: "\n2 " in ticks.read_text(), 40, "a second attempt")

    lines = [line.split() for line in ticks.read_text().splitlines()]
    old, new = ([float(t) for epoch, t in lines if epoch == n] for n in "12")
    assert max(old) < min(new), "both attempts ran at the same time"
    assert not any(alive(n) for n in first)
    site.agent("n0")
    until(lambda: site.busy() == {"n0": 0, "n1": 1}, what="the return of the server")
    site.client.cancel([number])
    until(lambda: site.busy() == {"n0": 0, "n1": 0} and site.tasks() == [], what="free devices")


def test_a_killed_process_costs_at_most_what_was_not_saved(site):
    site.agent("n0")
    number = site.submit(steps=120, checkpoint_every_s=0.5)
    until(lambda: site.job(number).saved_step > 0, what="a save")
    time.sleep(0.7)

    os.kill(site.steps(number)[-1][3], signal.SIGKILL)
    (job,) = site.done(number, seconds=60)

    steps = site.steps(number)
    assert (job.phase, job.restarts, job.saved_step) == ("finished", 1, 120)
    again = [s[1] for s in steps if s[0] == 2]
    lost = max(s[1] for s in steps if s[0] == 1) + 1 - again[0]
    assert again == list(range(again[0], 120))
    assert 0 <= lost <= 0.5 / 0.05 + 2
    assert steps[-1][4] == results(120)[-1]


@pytest.mark.long
def test_an_agent_that_was_frozen_does_not_take_old_lists_for_new_leases(site):
    """What the scheduler wrote before the agent froze reaches it when the job runs elsewhere already."""
    site.agent("n0")
    ticks = site.folder / "ticks"
    text = f"while :; do echo $ROTA_EPOCH $(date +%s.%N) >> {ticks}; sleep 0.02; done"
    number = site.submit(argv=["sh", "-c", text])
    until(lambda: ticks.exists() and len(ticks.read_text().splitlines()) > 20, what="a start")

    site.programs["n0"].send_signal(signal.SIGSTOP)
    site.agent("n1")
    until(lambda: "\n2 " in ticks.read_text(), 40, "a second attempt")
    site.programs["n0"].send_signal(signal.SIGCONT)
    until(lambda: site.node("n0") == "up", 30, "the return of the server")

    lines = [line.split() for line in ticks.read_text().splitlines()]
    old, new = ([float(t) for epoch, t in lines if epoch == n] for n in "12")
    assert max(old) < min(new), "both attempts ran at the same time"
    site.client.cancel([number])
    until(lambda: site.busy() == {"n0": 0, "n1": 0} and site.tasks() == [], what="free devices")


def test_a_stopped_scheduler_process_is_not_missed_by_jobs(site):
    """SIGSTOP is the worst silence: connections stay open and nobody answers."""
    site.agent("n0")
    number = site.submit(steps=160)
    until(lambda: site.job(number).saved_step > 0, what="a save")

    site.programs["scheduler"].send_signal(signal.SIGSTOP)
    time.sleep(3.5)
    site.programs["scheduler"].send_signal(signal.SIGCONT)
    (job,) = site.done(number, seconds=60)

    assert (job.phase, job.epoch) == ("finished", 1)
    assert site.events("NodeLost") == []
    assert [s[1] for s in site.steps(number)] == list(range(160))
